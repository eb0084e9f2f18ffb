"""A call on its whole way between two formats, without a socket: what the provider gets, what the caller gets, what is told as lost."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.fakes import replies
from tests.fakes.scripted import Answer, Gateway, Outlet
from tests.wire.grammar import anthropic as messages_grammar
from tests.wire.grammar import openai_chat as chat_grammar
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.errors import UpstreamDown
from trunkline.gateway.losses import LossRule
from trunkline.providers import Kind, ModelSettings
from trunkline.providers.anthropic import PROVIDER as ANTHROPIC_KIND
from trunkline.providers.compatible import PROVIDER as COMPATIBLE_KIND
from trunkline.providers.openai import PROVIDER as OPENAI_KIND
from trunkline.surfaces import Endpoint

Json = dict[str, Any]
CHAT = Endpoint("/v1/chat/completions", "chat", OPENAI_CHAT)
MESSAGES = Endpoint("/v1/messages", "chat", ANTHROPIC)
USER: Json = {"role": "user", "content": "hi"}
SCHEMA: Json = {"type": "object", "properties": {"path": {"type": "string"}}}
both_directions = pytest.mark.parametrize(
    ("kind", "endpoint"), [(ANTHROPIC_KIND, CHAT), (COMPATIBLE_KIND, MESSAGES)], ids=["chat to messages", "messages to chat"]
)
whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def gateway(kind: Kind, endpoint: Endpoint, **more: Any) -> Gateway:
    return Gateway(kind, endpoint, **more)


def speaks(gateway: Gateway, reply: replies.Reply, *, stream: bool, target: str = "a/m") -> None:
    """Let a target answer in its provider's format."""
    name = target.partition("/")[0]
    dialect = gateway.kinds.get(name, gateway.kind).speaks[0].dialect.name
    steps = list(replies.events(dialect, reply, include_usage=True)) if stream else [json.dumps(replies.whole(dialect, reply)).encode()]
    gateway.upstream.script(target, Answer(*steps))


async def ask(gateway: Gateway, headers: Mapping[str, str] | None = None, **fields: Any) -> Outlet:
    limit = {"max_tokens": 64} if gateway.endpoint is MESSAGES else {}
    body = {"model": "one", **limit, "messages": [USER], **fields}
    return await gateway.carry(
        json.dumps(body).encode(), headers=[(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    )


def tool(endpoint: Endpoint, name: str) -> Json:
    if endpoint is MESSAGES:
        return {"name": name, "input_schema": SCHEMA}
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA}}


def sent(gateway: Gateway) -> Json:
    return json.loads(gateway.upstream.bodies[-1])


def losses(outlet: Outlet) -> list[tuple[str, str, str]]:
    value = outlet.headers.get(b"x-losses")
    return [(loss["path"], loss["class"], loss["severity"]) for loss in json.loads(base64.b64decode(value))] if value else []


def error_of(outlet: Outlet) -> Json:
    return json.loads(outlet.body)["error"]


class Said:
    """A reply as a client gathers it, whole or streamed, held to the grammar of its format."""

    def __init__(self, endpoint: Endpoint, outlet: Outlet, *, stream: bool) -> None:
        assert outlet.status == 200, outlet.body
        gathered = {(MESSAGES.path, True): _stream_of_messages, (CHAT.path, True): _stream_of_chat}
        body = gathered[endpoint.path, True](outlet.body) if stream else json.loads(outlet.body)
        if endpoint is MESSAGES:
            self.message: Json = {"role": "assistant", "content": body["content"]}
            self.text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
            self.calls = [(block["id"], block["name"], block["input"]) for block in body["content"] if block["type"] == "tool_use"]
            self.finish = body["stop_reason"]
        else:
            [choice] = body["choices"]
            self.message = choice["message"]
            self.text = self.message["content"] or ""
            called = self.message.get("tool_calls") or []
            self.calls = [(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in called]
            self.finish = choice["finish_reason"]

    def results(self, endpoint: Endpoint) -> list[Json]:
        """What the tools say to each of its calls."""
        if endpoint is MESSAGES:
            return [
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "done"} for call_id, _, _ in self.calls],
                }
            ]
        return [{"role": "tool", "tool_call_id": call_id, "content": "done"} for call_id, _, _ in self.calls]


def _stream_of_messages(stream: bytes) -> Json:
    told = messages_grammar.check(stream)
    blocks: list[Json] = []
    for event in told:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            for field, piece in event["delta"].items():
                if field in {"text", "thinking", "signature"}:
                    blocks[-1][field] += piece
                elif field == "partial_json":
                    blocks[-1]["json"] += piece
    for block in blocks:
        if text := block.pop("json"):
            block["input"] = json.loads(text)
    [end] = [event for event in told if event["type"] == "message_delta"]
    return {"content": blocks, "stop_reason": end["delta"]["stop_reason"]}


def _stream_of_chat(stream: bytes) -> Json:
    message: Json = {"role": "assistant", "content": None}
    finish = None
    calls: dict[int, Json] = {}
    for choice in (choice for chunk in chat_grammar.check(stream) for choice in chunk["choices"]):
        delta, finish = choice["delta"], choice["finish_reason"] or finish
        if delta.get("content"):
            message["content"] = (message["content"] or "") + delta["content"]
        message.setdefault("reasoning_details", []).extend(delta.get("reasoning_details", []))
        for piece in delta.get("tool_calls", []):
            call = calls.setdefault(piece["index"], {"id": piece.get("id"), "type": "function", "function": {"name": "", "arguments": ""}})
            for field, text in piece["function"].items():
                call["function"][field] += text
    if calls:
        message["tool_calls"] = list(calls.values())
    return {"choices": [{"message": message, "finish_reason": finish}]}


# --------------------------------------------------------------------------------------------------------------- replies
@whole_and_streamed
@both_directions
@pytest.mark.proves("translation.loop", "stream.grammar")
async def test_text_tools_and_usage_come_in_the_callers_format(kind: Kind, endpoint: Endpoint, *, stream: bool) -> None:
    one = gateway(kind, endpoint)
    calls = [replies.ToolCall("read", '{"path":"/k\u0131\u015f"}', "call_a"), replies.ToolCall("read", "{}", "call_b")]
    speaks(one, replies.Reply(text="let me look", tool_calls=calls), stream=stream)
    outlet = await ask(one, stream=stream, tools=[tool(endpoint, "read")])
    said = Said(endpoint, outlet, stream=stream)
    assert said.text == "let me look"
    assert said.calls == [("call_a", "read", {"path": "/k\u0131\u015f"}), ("call_b", "read", {})]
    assert said.finish == ("tool_use" if endpoint is MESSAGES else "tool_calls")
    assert outlet.headers[b"x-trunkline-attempts"] == b"a/m ok"
    [exchange] = one.told
    assert (exchange.outcome, exchange.tool_calls, exchange.sent) == ("ok", 2, len(outlet.body))
    assert exchange.usage is not None
    assert exchange.usage.input == 12


@whole_and_streamed
@both_directions
@pytest.mark.proves("translation.loop")
async def test_what_was_called_and_what_the_tools_said_arrives_in_the_second_turn(kind: Kind, endpoint: Endpoint, *, stream: bool) -> None:
    one = gateway(kind, endpoint)
    calls = [replies.ToolCall("read", '{"path":"/a"}', "call_a"), replies.ToolCall("read", '{"path":"/b"}', "call_b")]
    speaks(one, replies.Reply(tool_calls=calls), stream=stream)
    tools = [tool(endpoint, "read")]
    said = Said(endpoint, await ask(one, stream=stream, tools=tools), stream=stream)
    speaks(one, replies.Reply(text="done"), stream=stream)
    outlet = await ask(one, stream=stream, tools=tools, messages=[USER, said.message, *said.results(endpoint), USER])
    assert Said(endpoint, outlet, stream=stream).text == "done"
    _, called, *rest = sent(one)["messages"]
    if endpoint is CHAT:
        assert called["content"] == [
            {"type": "tool_use", "id": call_id, "name": "read", "input": {"path": path}}
            for call_id, path in (("call_a", "/a"), ("call_b", "/b"))
        ]
        result = [{"type": "text", "text": "done"}]
        assert rest[0]["content"] == [{"type": "tool_result", "tool_use_id": each, "content": result} for each in ("call_a", "call_b")]
    else:
        assert [(call["id"], json.loads(call["function"]["arguments"])) for call in called["tool_calls"]] == [
            ("call_a", {"path": "/a"}),
            ("call_b", {"path": "/b"}),
        ]
        assert rest[:2] == [{"role": "tool", "tool_call_id": each, "content": "done"} for each in ("call_a", "call_b")]
    assert [loss for loss in losses(outlet) if loss[2] == "material"] == []


@both_directions
@pytest.mark.proves("stream.never-clean", "errors.native")
async def test_a_translated_stream_that_breaks_ends_with_an_error_of_the_callers_format(kind: Kind, endpoint: Endpoint) -> None:
    one = gateway(kind, endpoint)
    dialect = kind.speaks[0].dialect.name
    begun = list(replies.events(dialect, replies.Reply(text="one two three")))[:4]
    one.upstream.script("a/m", Answer(*begun, UpstreamDown("cut")))
    outlet = await ask(one, stream=True)
    assert outlet.ended
    told = (messages_grammar if endpoint is MESSAGES else chat_grammar).check(outlet.body)
    assert b"one" in outlet.body
    assert told[-1]["error"]["code"] == "upstream_down"
    assert one.told[0].outcome == "upstream_down"


async def test_usage_in_a_translated_chat_stream_is_for_who_asks() -> None:
    for options, asked in ({}, False), ({"stream_options": {"include_usage": True}}, True):
        one = gateway(ANTHROPIC_KIND, CHAT)
        speaks(one, replies.Reply(text="hi"), stream=True)
        outlet = await ask(one, stream=True, **options)
        assert (b'"usage"' in outlet.body) == asked
        assert one.told[0].usage is not None


# -------------------------------------------------------------------------------------------------------------- thoughts
def thought_of(body: Json) -> list[Json]:
    """The thoughts in what Anthropic got."""
    blocks = [block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]]
    return [block for block in blocks if block["type"].endswith("thinking")]


THINKING: Json = {"type": "thinking", "thinking": "Hm. k\u0131\u015f", "signature": "Er/+:%25=="}
REDACTED: Json = {"type": "redacted_thinking", "data": "Em:wK%3A=="}


def thinks(*, stream: bool) -> Answer:
    """A first turn of Anthropic with two thoughts and a call."""
    blocks = [THINKING, REDACTED, {"type": "tool_use", "id": "call_a", "name": "read", "input": {}}]
    whole = replies.whole("anthropic", replies.Reply()) | {"content": blocks, "stop_reason": "tool_use"}
    if not stream:
        return Answer(json.dumps(whole).encode())
    events = [replies.named({"type": "message_start", "message": whole | {"content": [], "stop_reason": None}})]
    for index, block in enumerate(blocks):
        empty = block | ({"thinking": "", "signature": ""} if block is THINKING else {})
        events.append(replies.named({"type": "content_block_start", "index": index, "content_block": empty}))
        for field in ("thinking", "signature") if block is THINKING else ():
            delta = {"type": f"{field}_delta", field: block[field]}
            events.append(replies.named({"type": "content_block_delta", "index": index, "delta": delta}))
        events.append(replies.named({"type": "content_block_stop", "index": index}))
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": {"output_tokens": 5}}
    return Answer(*events, replies.named(end), replies.named({"type": "message_stop"}))


@whole_and_streamed
@pytest.mark.proves("G11")
async def test_a_signed_thought_goes_back_through_a_chat_client_to_its_vendor_to_the_byte_and_to_no_other(*, stream: bool) -> None:
    one = gateway(ANTHROPIC_KIND, CHAT, kinds={"b": COMPATIBLE_KIND})
    one.upstream.script("a/m", thinks(stream=stream))
    tools = [tool(CHAT, "read")]
    said = Said(CHAT, await ask(one, stream=stream, tools=tools), stream=stream)
    history = [USER, said.message, *said.results(CHAT)]

    speaks(one, replies.Reply(text="done"), stream=stream)
    outlet = await ask(one, stream=stream, tools=tools, messages=history)
    assert thought_of(sent(one)) == [THINKING, REDACTED]
    assert [loss for loss in losses(outlet) if "reasoning" in loss[0]] == []

    speaks(one, replies.Reply(text="done"), stream=stream, target="b/m")
    outlet = await ask(one, model="b/m", stream=stream, tools=tools, messages=history)
    assert "reasoning" not in json.dumps(sent(one))
    assert [loss for loss in losses(outlet) if loss[2] == "material"] == [
        (f"messages.1.reasoning_details.{number}", "dropped", "material") for number in (0, 1)
    ]
    refused = await ask(one, {"x-trunkline-strict": "1"}, model="b/m", tools=tools, messages=history)
    assert (refused.status, error_of(refused)["code"]) == (422, "loss_refused")


@pytest.mark.proves("G11")
async def test_a_thought_that_nobody_signed_does_not_go_to_a_vendor_that_verifies() -> None:
    one = gateway(ANTHROPIC_KIND, CHAT)
    speaks(one, replies.Reply(text="done"), stream=False)
    outlet = await ask(one, messages=[USER, {"role": "assistant", "reasoning_content": "hm", "content": "a"}, USER])
    assert thought_of(sent(one)) == []
    assert ("messages.1.reasoning_content", "dropped", "advisory") in losses(outlet)


# --------------------------------------------------------------------------------------------------------------- requests
LONG = "f" * 64
NAMES = [f"{LONG}-read", f"{LONG}-write", "files.read/all"]


@whole_and_streamed
@both_directions
@pytest.mark.proves("G8")
async def test_names_that_a_vendor_refuses_are_short_there_and_as_before_in_the_answer(
    kind: Kind, endpoint: Endpoint, *, stream: bool
) -> None:
    one = gateway(kind, endpoint, model=ModelSettings(tool_name_limit=64))
    tools = [tool(endpoint, name) for name in NAMES]
    speaks(one, replies.Reply(text="hi"), stream=False)
    await ask(one, tools=tools)
    short = [each.get("name") or each["function"]["name"] for each in sent(one)["tools"]]
    assert len(set(short)) == 3
    assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in short)

    speaks(
        one, replies.Reply(tool_calls=[replies.ToolCall(name, "{}", f"call_{number}") for number, name in enumerate(short)]), stream=stream
    )
    outlet = await ask(one, stream=stream, tools=tools)
    said = Said(endpoint, outlet, stream=stream)
    assert [name for _, name, _ in said.calls] == NAMES
    assert [loss for loss in losses(outlet) if loss[1] == "renamed"] == [(f"tools.{number}", "renamed", "material") for number in range(3)]

    speaks(one, replies.Reply(text="done"), stream=False)
    await ask(one, tools=tools, messages=[USER, said.message, *said.results(endpoint)])
    called = sent(one)["messages"][1]
    calls = called.get("tool_calls") or [block for block in called["content"] if block["type"] == "tool_use"]
    assert [call.get("name") or call["function"]["name"] for call in calls] == short, "the same in every turn"

    refused = await ask(one, {"x-trunkline-strict": "1"}, tools=tools)
    assert (refused.status, error_of(refused)["code"]) == (422, "loss_refused")


EMPTY: Sequence[Any] = ("", [], None, [{"type": "text", "text": ""}])


@pytest.mark.proves("G10")
@pytest.mark.parametrize("content", EMPTY, ids=["text", "list", "null", "part"])
@both_directions
async def test_what_is_empty_in_a_history_reaches_nobody_and_each_drop_is_told(kind: Kind, endpoint: Endpoint, content: Any) -> None:
    one = gateway(kind, endpoint)
    speaks(one, replies.Reply(text="done"), stream=False)
    outlet = await ask(one, messages=[USER, {"role": "assistant", "content": content}, {"role": "user", "content": "so?"}])
    assert [message["role"] for message in sent(one)["messages"]] == ["user", "user"]
    assert [loss for loss in losses(outlet) if loss[:2] == ("messages.1", "dropped")]


@pytest.mark.proves("G10")
@pytest.mark.parametrize("content", EMPTY, ids=["text", "list", "null", "part"])
async def test_a_turn_with_calls_alone_survives_its_empty_content(content: Any) -> None:
    one = gateway(ANTHROPIC_KIND, CHAT)
    speaks(one, replies.Reply(text="done"), stream=False)
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": ""}}
    turn = {"role": "assistant", "content": content, "tool_calls": [call]}
    await ask(one, tools=[tool(CHAT, "read")], messages=[USER, turn, {"role": "tool", "tool_call_id": "c", "content": content}])
    _, called, result = sent(one)["messages"]
    assert called == {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "read", "input": {}}]}
    assert result == {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}


@pytest.mark.proves("G12")
async def test_cache_marks_arrive_where_they_stood() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    one = gateway(ANTHROPIC_KIND, CHAT)
    speaks(one, replies.Reply(text="done"), stream=False)
    outlet = await ask(
        one,
        messages=[
            {"role": "system", "content": [{"type": "text", "text": "a", **mark}]},
            {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c", **mark}]},
            {"role": "assistant", "content": "d", **mark},
            {"role": "user", "content": "e"},
        ],
    )
    body = sent(one)
    assert body["system"] == [{"type": "text", "text": "a", **mark}]
    assert [message["content"] for message in body["messages"]] == [
        [{"type": "text", "text": "b"}, {"type": "text", "text": "c", **mark}],
        [{"type": "text", "text": "d", **mark}],
        [{"type": "text", "text": "e"}],
    ]
    assert [loss for loss in losses(outlet) if "cache_control" in loss[0]] == []


@pytest.mark.proves("G12")
@pytest.mark.parametrize(("kind", "endpoint"), [(ANTHROPIC_KIND, MESSAGES), (COMPATIBLE_KIND, CHAT)], ids=["messages", "chat"])
async def test_cache_marks_stay_where_a_trait_has_a_call_of_the_same_format_rewritten(kind: Kind, endpoint: Endpoint) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    one = gateway(kind, endpoint, model=ModelSettings(forbidden=["temperature"]))
    messages: list[Json] = [
        {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c", **mark}]},
        {"role": "assistant", "content": [{"type": "text", "text": "d", **mark}, {"type": "text", "text": "e"}]},
        {"role": "user", "content": [{"type": "text", "text": "f", **mark}, {"type": "text", "text": "g"}]},
    ]
    speaks(one, replies.Reply(text="done"), stream=False)
    outlet = await ask(one, temperature=0.2, messages=messages)
    assert sent(one)["messages"] == messages
    assert losses(outlet) == [("temperature", "dropped", "material")]


@pytest.mark.proves("G13")
@pytest.mark.parametrize(
    ("kind", "given", "right"),
    [
        (OPENAI_KIND, "max_tokens", "max_completion_tokens"),
        (COMPATIBLE_KIND, "max_completion_tokens", "max_tokens"),
        (ANTHROPIC_KIND, "max_completion_tokens", "max_tokens"),
    ],
    ids=["openai", "compatible", "anthropic"],
)
async def test_a_limit_arrives_under_its_right_name_and_what_the_model_refuses_is_told(kind: Kind, given: str, right: str) -> None:
    one = gateway(kind, CHAT, model=ModelSettings(forbidden=["temperature"]))
    speaks(one, replies.Reply(text="done"), stream=False)
    outlet = await ask(one, **{given: 64}, temperature=0.2)
    body = sent(one)
    assert {name for name in body if "max" in name} == {right}
    assert body[right] == 64
    assert "temperature" not in body
    assert losses(outlet) == [("temperature", "dropped", "material")]
    assert json.loads(outlet.body)["choices"][0]["message"]["content"] == "done"
    assert one.told[0].losses[0].path == "temperature"

    refused = await ask(one, {"x-trunkline-strict": "1"}, **{given: 64}, temperature=0.2)
    assert (refused.status, error_of(refused)["code"]) == (422, "loss_refused")
    assert "`temperature`" in error_of(refused)["message"]
    assert refused.headers[b"x-trunkline-attempts"] == b"a/m loss_refused"
    assert len(one.upstream.bodies) == 1, "nothing was sent"


# ----------------------------------------------------------------------------------------------------------------- losses
HOSTED: Json = {"type": "web_search_20250305", "name": "web_search"}


@pytest.mark.proves("losses.rules", "failover")
async def test_a_target_of_the_callers_format_takes_over_from_one_that_would_lose_a_tool() -> None:
    one = gateway(COMPATIBLE_KIND, MESSAGES, kinds={"b": ANTHROPIC_KIND})
    speaks(one, replies.Reply(text="done"), stream=False, target="b/m")
    outlet = await ask(one, model="fast", tools=[HOSTED])
    assert outlet.status == 200
    assert outlet.headers[b"x-trunkline-attempts"] == b"a/m loss_refused, b/m ok"
    assert losses(outlet) == []
    assert one.health._states == {}


@pytest.mark.proves("losses.rules")
async def test_without_such_a_target_the_call_is_refused_and_a_route_may_allow_it() -> None:
    one = gateway(COMPATIBLE_KIND, MESSAGES)
    outlet = await ask(one, model="fast", tools=[HOSTED])
    assert (outlet.status, error_of(outlet)["code"]) == (422, "loss_refused")
    assert "`tools.0`" in error_of(outlet)["message"]
    assert outlet.headers[b"x-trunkline-attempts"] == b"a/m loss_refused, b/m loss_refused"
    assert one.told[0].outcome == "loss_refused"

    allowing = gateway(COMPATIBLE_KIND, MESSAGES, losses=[LossRule(action="allow", path="tools.*")])
    speaks(allowing, replies.Reply(text="done"), stream=False)
    outlet = await ask(allowing, tools=[HOSTED])
    assert outlet.status == 200
    assert losses(outlet) == [("tools.0", "unsupported", "material")]

    strict = await ask(allowing, {"x-trunkline-strict": "1"}, tools=[HOSTED])
    assert strict.status == 422


@pytest.mark.proves("losses.rules")
async def test_a_route_may_be_stricter_than_all_others() -> None:
    one = gateway(ANTHROPIC_KIND, CHAT, losses=[LossRule(action="reject", path="seed")])
    outlet = await ask(one, seed=7)
    assert outlet.status == 422
    speaks(one, replies.Reply(text="done"), stream=False)
    assert (await ask(one, model="a/m", seed=7)).status == 200, "the rule is the route's"


@pytest.mark.parametrize("value", ["0", "true", ""])
async def test_strict_is_1_and_nothing_else(value: str) -> None:
    one = gateway(ANTHROPIC_KIND, CHAT)
    speaks(one, replies.Reply(text="done"), stream=False)
    assert (await ask(one, {"x-trunkline-strict": value}, seed=7)).status == 200


@pytest.mark.proves("losses.told", "stream.grammar")
async def test_what_a_stream_loses_is_told_inside_it_to_who_asks_and_in_the_log() -> None:
    for wanted in ({}, {"x-trunkline-losses": "stream"}):
        one = gateway(COMPATIBLE_KIND, MESSAGES)
        events = list(replies.events("openai_chat", replies.Reply(text="hi")))
        events[1] = events[1].replace(b'"logprobs":null', b'"logprobs":{"content":[]}')
        one.upstream.script("a/m", Answer(*events))
        outlet = await ask(one, wanted, stream=True)
        messages_grammar.check(outlet.body)
        assert (b"\n: trunkline.losses [" in outlet.body) == bool(wanted)
        assert [loss.path for loss in one.told[0].losses] == ["choices.0.logprobs"]
        assert b"x-losses" not in outlet.headers, "it was not known when the headers went out"


@pytest.mark.proves("losses.told")
async def test_what_a_whole_reply_loses_is_in_the_log_beside_what_the_request_lost() -> None:
    one = gateway(ANTHROPIC_KIND, CHAT)
    whole = replies.whole("anthropic", replies.Reply(text="hi"))
    whole["content"].append({"type": "hologram"})
    one.upstream.script("a/m", Answer(json.dumps(whole).encode()))
    outlet = await ask(one, max_tokens=5, seed=7)
    assert losses(outlet) == [("seed", "dropped", "material")]
    assert [loss.path for loss in one.told[0].losses] == ["content.1", "seed"]


# ---------------------------------------------------------------------------------------------------------------- counting
async def test_the_attempts_are_told_with_an_answer_and_with_an_error() -> None:
    one = gateway(COMPATIBLE_KIND, MESSAGES, kinds={"b": ANTHROPIC_KIND})
    one.upstream.script("a/m", UpstreamDown("x"))
    speaks(one, replies.Reply(text="done"), stream=False, target="b/m")
    assert (await ask(one, model="fast")).headers[b"x-trunkline-attempts"] == b"a/m upstream_down, b/m ok"
    one.upstream.script("b/m", UpstreamDown("x"))
    call = ask(one, model="many")
    for name in "cde":
        one.upstream.script(f"{name}/m", UpstreamDown("x"))
    assert (await call).headers[b"x-trunkline-attempts"] == b", ".join(f"{name}/m upstream_down".encode() for name in "abcd")
