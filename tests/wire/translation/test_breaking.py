"""A stream that breaks or fails ends with an error in the caller's format, and no tool call is completed that was not."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.fakes import replies
from tests.fakes.replies import Dialect, Reply, ToolCall
from tests.fakes.upstream import Upstream
from tests.wire.gateway import Gateway, Got
from tests.wire.grammar.framing import events
from tests.wire.sides import CHAT, MESSAGES, Side
from tests.wire.translation.callers import BY_DIALECT, SPEAKERS, Speaker, every_speaker
from tests.wire.translation.sides import ALL, ask
from trunkline.gateway import relay

every_side = pytest.mark.parametrize("side", ALL, ids=[f"from {side}" for side in ALL])
CALL = ToolCall("read", '{"path": "/etc"}', "call_a")


def told(dialect: Dialect, reply: Reply) -> list[bytes]:
    return [*replies.events(dialect, reply)]


def within_the_call(dialect: Dialect) -> list[bytes]:
    """A stream up to the middle of a tool call's arguments."""
    stream = told(dialect, Reply("let me look", [CALL]))
    last = next(number for number, event in enumerate(stream) if b'\\"path' in event or b'{\\"pat' in event)
    return stream[: last + 1]


def failed(code: str, message: str = "it broke") -> list[dict[str, Any]]:
    """How Responses fails: by an event, and once more as a whole."""
    response = {"id": "resp_fake", "object": "response", "created_at": 1700000000, "status": "failed", "model": "m", "output": []}
    return [{"type": "response.failed", "sequence_number": 99, "response": response | {"error": {"code": code, "message": message}}}]


def kinds(got: Got) -> list[str]:
    return [event.name or event.data for event in events(got.body)]


# --------------------------------------------------------------------------------------------------------- tool calls
@every_side
@every_speaker
@pytest.mark.proves("G6", "stream.never-clean")
async def test_a_tool_call_that_breaks_off_is_never_completed(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, speaker: Speaker
) -> None:
    upstreams[speaker.fake].streams(within_the_call(speaker.dialect), cut="close")
    got = await ask(gateway, side, model=speaker.model, stream=True)
    assert side.failure(got.body)[1] == "upstream_down"
    assert completed(got.body) == []
    assert (await gateway.told())["outcome"] == "upstream_down"


def completed(stream: bytes) -> list[str]:
    """The events that would let a client run a call."""
    found = []
    open_kinds: dict[int, str] = {}
    for event in events(stream):
        if event.data == "[DONE]":
            found.append(event.data)
            continue
        data = json.loads(event.data)
        if data.get("type") == "content_block_start":
            open_kinds[data["index"]] = data["content_block"]["type"]
        if data.get("type") == "content_block_stop" and open_kinds[data["index"]] == "tool_use":
            found.append("content_block_stop")
        if data.get("type") in {"response.function_call_arguments.done", "response.completed", "message_stop"}:
            found.append(data["type"])
        if data.get("type") == "response.output_item.done" and data["item"]["type"] == "function_call":
            found.append(f"output_item.done {data['item']['status']}")
        found += [choice["finish_reason"] for choice in data.get("choices", []) if choice["finish_reason"]]
    return found


def cut_short(dialect: Dialect) -> list[bytes]:
    """A stream whose reply reached the limit of tokens in the middle of a call, as each vendor tells that."""
    begun = within_the_call(dialect)
    match dialect:
        case "openai_chat":
            frame = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1700000000, "model": "m"}
            return [*begun, replies.data(frame | {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}), b"data: [DONE]\n\n"]
        case "anthropic":
            delta = {"stop_reason": "max_tokens", "stop_sequence": None}
            return [
                *begun,
                replies.named({"type": "content_block_stop", "index": 1}),
                replies.named({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}),
                replies.named({"type": "message_stop"}),
            ]
        case _:
            whole = json.loads(told(dialect, Reply("let me look", [CALL]))[-1].partition(b"data: ")[2])["response"]
            whole |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
            whole["output"][1] |= {"status": "incomplete", "arguments": '{"pat'}
            place = {"sequence_number": 97, "item_id": "fc_call_a", "output_index": 1}
            arguments = {"type": "response.function_call_arguments.done", **place, "name": "read", "arguments": '{"pat'}
            item = {"type": "response.output_item.done", "sequence_number": 98, "output_index": 1, "item": whole["output"][1]}
            begun.append(replies.named(arguments))
            return [*begun, replies.named(item), replies.named({"type": "response.incomplete", "sequence_number": 99, "response": whole})]


@every_side
@every_speaker
@pytest.mark.proves("G6", "stream.grammar")
async def test_a_tool_call_that_the_limit_of_tokens_cuts_is_not_told_as_complete(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, speaker: Speaker
) -> None:
    upstreams[speaker.fake].streams(cut_short(speaker.dialect))
    got = await ask(gateway, side, model=speaker.model, stream=True)
    expected = {
        "openai_chat": ["length", "[DONE]"],
        "anthropic": ["content_block_stop", "message_stop"],
        "openai_responses": ["output_item.done incomplete"],
    }[side.dialect]
    found = [each for each in completed(got.body) if each != "response.function_call_arguments.done"]
    assert found == expected
    if side is MESSAGES:
        assert side.grammar(got.body)[-2]["delta"]["stop_reason"] == "max_tokens"
    assert (await gateway.told())["outcome"] == "ok"


@pytest.mark.proves("G6")
async def test_a_whole_reply_that_is_cut_within_a_call_leaves_the_call_out_where_it_cannot_be_told(
    gateway: Gateway, upstreams: dict[str, Upstream]
) -> None:
    body = replies.whole("openai_chat", Reply("let me look", [ToolCall("read", '{"pat', "call_a")]))
    body["choices"][0]["finish_reason"] = "length"
    upstreams["home"].answers(200, body)
    got = await ask(gateway, MESSAGES, model="home/m")
    message = got.json()
    assert message["stop_reason"] == "max_tokens"
    assert message["content"] == [{"type": "text", "text": "let me look"}]
    assert (await gateway.told())["losses"] == ["content.1 material dropped"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.proves("G6", "failover")
async def test_arguments_that_are_no_json_are_an_error_where_they_cannot_be_told(
    gateway: Gateway, upstreams: dict[str, Upstream], stream: bool
) -> None:
    upstreams["home"].says(tool_calls=[ToolCall("read", '{"path": /etc}', "call_a")])
    got = await ask(gateway, MESSAGES, model="home/m", stream=stream)
    line = await gateway.told()
    assert line["outcome"] == "upstream_garbled"
    if stream:
        assert MESSAGES.failure(got.body)[1] == "upstream_garbled"
        assert completed(got.body) == []
    else:
        assert (got.status, got.json()["error"]["code"]) == (502, "upstream_garbled")


@pytest.mark.parametrize("side", [CHAT, MESSAGES], ids=str)
@pytest.mark.proves("G7", "stream.grammar")
async def test_calls_that_are_told_at_once_keep_their_ids_and_each_ones_arguments(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    """A thought is item 0; the arguments of the calls, items 1 and 2, come in turns."""
    upstreams["openai"].streams(interleaved())
    got = await ask(gateway, side, model="pro/o9", stream=True)
    calls: dict[int, dict[str, str]] = {}
    for data in side.grammar(got.body):
        if side is MESSAGES and data["type"] == "content_block_start" and data["content_block"]["type"] == "tool_use":
            calls[data["index"]] = {"id": data["content_block"]["id"], "name": data["content_block"]["name"], "arguments": ""}
        elif side is MESSAGES and data.get("delta", {}).get("type") == "input_json_delta":
            calls[data["index"]]["arguments"] += data["delta"]["partial_json"]
        for choice in data.get("choices", []):
            for call in choice["delta"].get("tool_calls", []):
                known = calls.setdefault(call["index"], {"id": call.get("id"), "name": call["function"].get("name"), "arguments": ""})
                known["arguments"] += call["function"]["arguments"]
    assert sorted(calls) == ([0, 1] if side is CHAT else [1, 2])
    assert [(call["id"], call["name"], json.loads(call["arguments"])) for call in calls.values()] == [
        ("call_a", "read", {"path": "/a"}),
        ("call_b", "read", {"path": "/b"}),
    ]
    assert (await gateway.told())["tool_calls"] == 2


def interleaved() -> list[bytes]:
    reply = Reply(tool_calls=[ToolCall("read", '{"path": "/a"}', "call_a"), ToolCall("read", '{"path": "/b"}', "call_b")])
    reply = Reply(tool_calls=reply.tool_calls, thoughts=[replies.Thought("hm", encrypted="ZW5j")])
    stream = told("openai_responses", reply)

    def of(event: bytes) -> Any:
        return json.loads(event.partition(b"data: ")[2])

    head = [event for event in stream[:-1] if of(event).get("output_index", 0) == 0]
    one, two = ([event for event in stream[:-1] if of(event).get("output_index") == index] for index in (1, 2))
    mixed = [event for pair in zip(one, two, strict=True) for event in pair]
    return [replies.named(of(event) | {"sequence_number": number}) for number, event in enumerate([*head, *mixed, stream[-1]])]


# ------------------------------------------------------------------------------------------------------------- failures
KINDS: Sequence[tuple[str, str, str]] = [
    ("rate_limit_exceeded", "rate_limit_error", "upstream_busy"),
    ("server_error", "api_error", "upstream_down"),
    ("invalid_prompt", "invalid_request_error", "upstream_refused"),
    ("invalid_image_url", "invalid_request_error", "upstream_refused"),
]


@pytest.mark.proves("G5", "stream.never-clean", "errors.native")
async def test_a_rate_limit_inside_a_responses_stream_is_one_to_a_messages_client(
    gateway: Gateway, upstreams: dict[str, Upstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its beginning was shown because the provider was slow; then it failed before it said anything."""
    monkeypatch.setattr(relay, "HOLD_SECONDS", 0)
    gate = asyncio.Event()
    upstreams["openai"].streams([told("openai_responses", Reply("hi"))[0], gate, *failed("rate_limit_exceeded", "slow down")])
    upstreams["anthropic"].says("hello")
    response = await gateway.begin(MESSAGES, model="either")
    gate.set()
    got = Got(response.status, {}, await response.read())
    names = kinds(got)
    assert names[0] == "message_start"
    assert names[-1] == "error"
    assert {"message_delta", "message_stop"}.isdisjoint(names)
    assert b"end_turn" not in got.body
    kind, code, message = MESSAGES.failure(got.body)
    assert (kind, code) == ("rate_limit_error", "upstream_busy")
    assert "slow down" in message
    line = await gateway.told()
    assert (line["outcome"], line["status"]) == ("upstream_busy", 200)
    again = await ask(gateway, MESSAGES, model="either")
    assert again.json()["content"][0]["text"] == "hello"
    assert len(upstreams["openai"].calls) == 1, "the busy one is left alone"


@every_side
@pytest.mark.parametrize(("name", "kind", "code"), KINDS, ids=[kind[0] for kind in KINDS])
@pytest.mark.proves("G5", "stream.never-clean", "errors.native")
async def test_a_response_that_fails_after_its_first_words_is_an_error_event(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, name: str, kind: str, code: str
) -> None:
    begun = told("openai_responses", Reply("one two three"))[:6]
    upstreams["openai"].streams([*begun, *failed(name)])
    got = await ask(gateway, side, model="pro/o9", stream=True)
    assert side.said(got.body) == "one two"
    assert completed(got.body) == []
    if side is MESSAGES:
        assert side.failure(got.body)[:2] == (kind, code)
    elif side is CHAT:
        assert side.failure(got.body)[1] == code
    assert (await gateway.told())["outcome"] == code


@every_side
@pytest.mark.proves("G5", "failover")
async def test_a_response_that_fails_before_its_first_words_is_an_answer_and_the_next_target_may_take_over(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    begun = told("openai_responses", Reply("one"))[:2]
    upstreams["openai"].streams([*begun, *failed("rate_limit_exceeded", "slow down")])
    got = await ask(gateway, side, model="pro/o9", stream=True)
    assert got.status == 429
    assert side.error(got.json())[0] in {"rate_limit_error", "requests"}
    upstreams["openai"].streams([*begun, *failed("rate_limit_exceeded")])
    upstreams["anthropic"].says("here I am")
    gateway.clock.advance(10)
    got = await ask(gateway, side, model="either", stream=True)
    assert side.said(got.body) == "here I am"
    assert got.headers["x-trunkline-attempts"] == "pro/o9 upstream_busy, anthropic/claude-sonnet ok"


@every_side
@every_speaker
@pytest.mark.proves("stream.never-clean", "stream.grammar")
async def test_a_stream_that_breaks_within_its_text_is_an_error_event(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, speaker: Speaker
) -> None:
    upstreams[speaker.fake].says("one two three four five six", cut="reset")
    got = await ask(gateway, side, model=speaker.model, stream=True)
    assert side.said(got.body).startswith("one")
    assert side.failure(got.body)[1] == "upstream_down"
    assert completed(got.body) == []
    assert (await gateway.told())["outcome"] == "upstream_down"


@every_side
@pytest.mark.proves("stream.never-clean", "errors.native")
async def test_what_another_vendor_says_of_our_credential_is_not_for_the_caller(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    speaker = BY_DIALECT["anthropic"] if side is not MESSAGES else SPEAKERS[0]
    upstreams[speaker.fake].answers(401, {"error": {"type": "authentication_error", "message": "the key of acme corp"}})
    got = await ask(gateway, side, model=speaker.model)
    assert (got.status, side.error(got.json())[1]) == (502, "upstream_denied")
    assert b"acme" not in got.body


@every_side
@pytest.mark.proves("errors.native")
async def test_what_another_vendor_says_of_the_request_is_told_in_the_callers_format(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    speaker = BY_DIALECT["anthropic"] if side is not MESSAGES else SPEAKERS[0]
    upstreams[speaker.fake].answers(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "too long"}})
    got = await ask(gateway, side, model=speaker.model)
    kind, code, message = side.error(got.json())
    assert (got.status, kind, code) == (400, "invalid_request_error", "upstream_refused")
    assert "too long" in message
