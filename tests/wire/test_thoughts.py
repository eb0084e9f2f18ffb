"""A vendor's signed thought goes through the client of any format and comes back to the byte; no other vendor ever sees it."""

import json
from itertools import permutations
from typing import Any

import pytest

from tests.wire.streams import read, request
from trunkline.dialects import Dialect
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from trunkline.model.card import UNKNOWN
from trunkline.model.event import (
    Ended,
    Event,
    Finished,
    ReasoningDelta,
    ReasoningEnded,
    Reply,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallEnded,
    ToolCallStarted,
    Used,
)
from trunkline.model.loss import Loss
from trunkline.model.part import Reasoning, Text, ToolCall
from trunkline.model.usage import Usage

DIALECTS = (ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES)
Json = dict[str, Any]

NATIVE: dict[str, list[Json]] = {
    "anthropic": [
        {"type": "thinking", "thinking": "Hm. k\u0131\u015f", "signature": "Er/+:%25=="},
        {"type": "redacted_thinking", "data": "Em:wK%3A=="},
    ],
    "openai_responses": [
        {
            "type": "reasoning",
            "id": "rs_0a1",
            "summary": [{"type": "summary_text", "text": "**A**\n\nfirst"}, {"type": "summary_text", "text": "second"}],
            "encrypted_content": "gAAAA:Bp%3AZ+/=",
        },
        {"type": "reasoning", "id": "rs_0a2", "summary": [], "encrypted_content": "gAAAABq"},
    ],
    "openai_chat": [
        {"type": "reasoning.text", "text": "Hm.", "signature": "s:%1"},
        {"type": "reasoning.encrypted", "data": "d:%2", "id": "r:%3"},
    ],
}
"""Thoughts as each vendor writes them, which is how it wants to see them again."""


def reply_of(vendor: Dialect) -> Reply:
    """The first turn of a tool loop, thoughts first."""
    native = NATIVE[vendor.name]
    call = {"name": "f", "arguments": '{"a":1}'}
    match vendor.name:
        case "anthropic":
            body: Json = {"content": [*native, {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}], "stop_reason": "tool_use"}
        case "openai_responses":
            body = {"output": [*native, {"type": "function_call", "id": "fc_1", "call_id": "c1", **call}], "status": "completed"}
        case _:
            message = {"content": None, "reasoning_details": native, "tool_calls": [{"id": "c1", "type": "function", "function": call}]}
            body = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    return vendor.read_reply(json.dumps({"id": "i1", "model": "m", **body}).encode(), "chat")


def events_of(reply: Reply) -> list[Event]:
    events: list[Event] = [Started(reply.id, reply.model, 7)]
    for number, part in enumerate(reply.content):
        match part:
            case Reasoning(text=text, signature=signature, encrypted=encrypted, origin=origin, id=thought_id):
                events += [*([ReasoningDelta(text)] if text else []), ReasoningEnded(signature, encrypted, origin, thought_id)]
            case ToolCall(id=call_id, name=name, arguments=arguments):
                events += [ToolCallStarted(number, call_id, name), ToolCallArguments(number, arguments), ToolCallEnded(number)]
            case Text(text=text):
                events.append(TextDelta(text))
            case _:
                raise AssertionError(part)
    return [*events, Finished("tool_calls"), Used(Usage()), Ended()]


def gathered(client: Dialect, stream: bytes) -> Json:
    """The whole reply as a client's SDK gathers it from a stream, as far as it matters here."""
    told = [json.loads(line[6:]) for line in stream.decode().split("\n") if line.startswith("data: {")]
    match client.name:
        case "openai_responses":
            whole: Json = told[-1]["response"]
            return whole
        case "openai_chat":
            deltas = [choice["delta"] for each in told for choice in each["choices"]]
            details = [detail for delta in deltas for detail in delta.get("reasoning_details", [])]
            function = {"name": "f", "arguments": '{"a":1}'}
            message = {
                "content": None,
                "reasoning_details": details,
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            }
            return {"choices": [{"message": message}]}
        case _:
            blocks: list[Json] = []
            for each in told:
                if each["type"] == "content_block_start":
                    blocks.append(dict(each["content_block"]))
                elif each["type"] == "content_block_delta":
                    delta = {name: text for name, text in each["delta"].items() if name in {"thinking", "signature"}}
                    blocks[-1] |= {name: blocks[-1][name] + text for name, text in delta.items()}
            return {"content": [block | ({"input": {"a": 1}} if block["type"] == "tool_use" else {}) for block in blocks]}


def next_turn(client: Dialect, whole: Json) -> bytes:
    """The second turn: what was said is handed back unread, with what the tool said."""
    match client.name:
        case "openai_responses":
            output = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
            body: Json = {"input": [{"role": "user", "content": "go"}, *whole["output"], output]}
        case "openai_chat":
            said = {"role": "assistant", **whole["choices"][0]["message"]}
            body = {"messages": [{"role": "user", "content": "go"}, said, {"role": "tool", "tool_call_id": "c1", "content": "ok"}]}
        case _:
            result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]}
            body = {
                "max_tokens": 9,
                "messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": whole["content"]}, result],
            }
    return json.dumps({"model": "m", **body}).encode()


def thoughts_in(body: bytes, vendor: Dialect) -> list[Json]:
    """The thoughts in a request that a vendor gets."""
    asked = json.loads(body)
    match vendor.name:
        case "openai_responses":
            return [item for item in asked["input"] if item.get("type") == "reasoning"]
        case "openai_chat":
            return [detail for turn in asked["messages"] for detail in turn.get("reasoning_details", [])]
        case _:
            blocks = [block for turn in asked["messages"] for block in turn["content"] if isinstance(block, dict)]
            return [block for block in blocks if "thinking" in block["type"]]


def sent(client: Dialect, vendor: Dialect, body: bytes) -> tuple[bytes, tuple[Loss, ...]]:
    asked = client.read_request(body, "chat")
    if client.same(vendor, asked):
        return vendor.forward(asked, "m", ask_usage=False).body, ()
    written = vendor.write_chat(client.read_chat(asked), asked, "m", UNKNOWN, same=client.name == vendor.name, ask_usage=False)
    return written.body, written.losses


@pytest.mark.proves("G11")
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "vendor"), list(permutations(DIALECTS, 2)), ids=lambda dialect: dialect.name)
def test_a_thought_comes_back_to_its_vendor_to_the_byte_and_to_nobody_else(client: Dialect, vendor: Dialect, streamed: bool) -> None:
    reply = reply_of(vendor)
    if streamed:
        stream = b"".join(map(client.write_events(request(client)).write, events_of(reply)))
        whole = gathered(client, stream)
    else:
        whole = json.loads(client.write_reply(reply, "chat")[0])
    body = next_turn(client, whole)
    home, losses = sent(client, vendor, body)
    assert thoughts_in(home, vendor) == NATIVE[vendor.name]
    assert not [loss for loss in losses if loss.severity == "material"]
    for other in DIALECTS:
        if other is not vendor:
            away, losses = sent(client, other, body)
            assert thoughts_in(away, other) == []
            assert b"trunkline" not in away
            assert len([loss for loss in losses if loss.detail == "another vendor's reasoning" and loss.severity == "material"]) == 2


@pytest.mark.parametrize("client", DIALECTS, ids=lambda dialect: dialect.name)
def test_a_vendors_own_thoughts_pass_through_its_own_client_untouched(client: Dialect) -> None:
    whole = json.loads(client.write_reply(reply_of(client), "chat")[0])
    body = next_turn(client, whole)
    assert client.same(client, client.read_request(body, "chat")) == (client is not OPENAI_CHAT)
    assert thoughts_in(sent(client, client, body)[0], client) == NATIVE[client.name]


@pytest.mark.parametrize("client", DIALECTS, ids=lambda dialect: dialect.name)
def test_a_thought_that_nobody_signed_is_told_and_goes_to_nobody(client: Dialect) -> None:
    reply = Reply(id="i", model="m", content=(Reasoning(text="psst"), ToolCall(id="c1", name="f", arguments="{}")), finish="tool_calls")
    body = next_turn(client, json.loads(client.write_reply(reply, "chat")[0]))
    for vendor in DIALECTS:
        if vendor is not client:
            away, losses = sent(client, vendor, body)
            assert b"psst" not in away
            assert [loss.severity for loss in losses if loss.detail == "reasoning that nobody signed"] == ["advisory"]


@pytest.mark.parametrize("client", DIALECTS, ids=lambda dialect: dialect.name)
def test_thoughts_are_read_as_they_were_written(client: Dialect) -> None:
    for vendor in DIALECTS:
        events = events_of(reply_of(vendor))
        told = read(client, b"".join(map(client.write_events(request(client)).write, events)))
        assert [part.text for part in told.reply.content if isinstance(part, Reasoning) and part.text] == [
            part.text for part in reply_of(vendor).content if isinstance(part, Reasoning) and part.text
        ]
