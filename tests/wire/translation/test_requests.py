"""What callers ask in one format, as a provider of another gets it."""

import json
from typing import Any

import pytest

from tests.fakes.replies import ToolCall
from tests.fakes.upstream import Upstream
from tests.wire.features import PIXEL
from tests.wire.gateway import PROMPT, Gateway
from tests.wire.sides import CHAT, MESSAGES, RESPONSES, Side
from tests.wire.translation.callers import (
    BY_DIALECT,
    SPEAKERS,
    Caller,
    ChatCaller,
    MessagesCaller,
    ResponsesCaller,
    Speaker,
    every_caller,
    every_speaker,
    told,
    whole_and_streamed,
)
from tests.wire.translation.sides import ask

USER: dict[str, Any] = {"role": "user", "content": PROMPT}


# ---------------------------------------------------------------------------------------------------------- tools' names
LONG = "mcp__filesystem_of_the_big_building__reads_a_file_and_tells_what_is_in"  # 70 characters
TWINS = [f"{LONG}_a", f"{LONG}_b"]


def tool(side: Side, name: str, schema: Any = None) -> dict[str, Any]:
    schema = schema or {"type": "object"}
    if side is MESSAGES:
        return {"name": name, "input_schema": schema}
    if side is RESPONSES:
        return {"type": "function", "name": name, "parameters": schema, "strict": False}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def names_in(speaker: Speaker, body: Any) -> list[str]:
    return [tool.get("name") or tool["function"]["name"] for tool in body["tools"]]


@whole_and_streamed
@pytest.mark.proves("G8")
async def test_tools_whose_names_are_too_long_or_odd_get_short_ones_and_the_caller_sees_its_own(
    gateway: Gateway, upstreams: dict[str, Upstream], stream: bool
) -> None:
    names = [*TWINS, "fs.read/all"]
    caller = MessagesCaller(gateway, "home/m", tools=[tool(MESSAGES, name) for name in names])
    caller.say(PROMPT)
    sent: list[list[str]] = []
    for _ in range(2):  # the same in every turn
        upstreams["home"].does(calls_all_of_its_tools)
        said = await caller.ask(stream=stream)
        assert [call.name for call in said.calls] == names
        sent.append(names_in(BY_DIALECT["openai_chat"], upstreams["home"].calls[-1].json()))
        caller.answer(said, ["done"] * 3)
    upstreams["home"].says("done")
    said = await caller.ask(stream=stream, tool_choice={"type": "tool", "name": TWINS[1]})
    assert sent[0] == sent[1]
    assert len(set(sent[0])) == 3
    last = upstreams["home"].calls[-1].json()
    assert last["tool_choice"] == {"type": "function", "function": {"name": sent[0][1]}}
    called = [call["function"]["name"] for message in last["messages"] for call in message.get("tool_calls", [])]
    assert called == sent[0] * 2
    renamed = [loss for loss in said.losses if loss["class"] == "renamed"]
    assert [loss["path"] for loss in renamed] == ["tools.0", "tools.1", "tools.2"]
    assert {loss["severity"] for loss in renamed} == {"material"}
    with pytest.raises(Exception, match="loss_refused"):
        await caller.ask(extra_headers={"x-trunkline-strict": "1"})


async def calls_all_of_its_tools(call: Any, wire: Any) -> None:
    """A provider that calls every tool that it was told of, by the name that it was told."""
    names = [tool["function"]["name"] for tool in call.json()["tools"]]
    single = Upstream()
    single.says(tool_calls=[ToolCall(name, "{}", f"call_{number}_{len(call.json()['messages'])}") for number, name in enumerate(names)])
    await single._turns[0].script(call, wire)


@pytest.mark.proves("G8")
async def test_a_name_that_the_providers_format_takes_stays(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    """Messages takes twice as many characters as chat."""
    upstreams["anthropic"].says("hi")
    got = await ask(gateway, CHAT, model="anthropic/claude-sonnet", tools=[tool(CHAT, "a" * 64)])
    assert told(got.headers) == []
    assert names_in(BY_DIALECT["anthropic"], upstreams["anthropic"].calls[0].json()) == ["a" * 64]


# --------------------------------------------------------------------------------------------------------- tools' schemas
RECURSIVE = {
    "type": "object",
    "properties": {"node": {"$ref": "#/$defs/A"}, "kind": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "object"}], "description": "ş"}},
    "$defs": {"A": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}},
    "additionalProperties": False,
}
BARE = {
    "anyOf": [{"$ref": "#/$defs/A"}, {"type": "object"}],
    "$defs": {"A": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}},
}


@pytest.mark.parametrize("side", [CHAT, RESPONSES, MESSAGES], ids=lambda side: f"from {side}")
@every_speaker
@pytest.mark.proves("G9")
async def test_the_schema_of_a_tool_arrives_as_it_was_written(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, speaker: Speaker
) -> None:
    upstreams[speaker.fake].says("hi")
    schemas = [RECURSIVE] if speaker.dialect == "anthropic" else [RECURSIVE, BARE]
    got = await ask(gateway, side, model=speaker.model, tools=[tool(side, f"f{number}", schema) for number, schema in enumerate(schemas)])
    assert got.status == 200
    sent = upstreams[speaker.fake].calls[0].json()["tools"]
    where = {"openai_chat": lambda each: each["function"]["parameters"], "anthropic": lambda each: each["input_schema"]}
    arrived = [where.get(speaker.dialect, lambda each: each["parameters"])(each) for each in sent]
    assert [json.dumps(schema) for schema in arrived] == [json.dumps(schema) for schema in schemas], "in their order too"
    assert [loss for loss in told(got.headers) if loss["path"].startswith("tools")] == []


# ---------------------------------------------------------------------------------------------------------- empty content
EMPTY: list[Any] = ["", [], None, [{"type": "text", "text": ""}]]


@pytest.mark.parametrize("empty", EMPTY, ids=["text", "list", "null", "empty part"])
@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses", "openai_chat"])
@pytest.mark.proves("G10", "losses.told")
async def test_what_is_empty_in_a_history_does_not_reach_a_provider(
    gateway: Gateway, upstreams: dict[str, Upstream], empty: Any, dialect: Any
) -> None:
    """Some clients keep turns of the assistant that say nothing. Each fake refuses empty parts, and messages without content."""
    speaker = BY_DIALECT[dialect]
    call = {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        USER,
        {"role": "assistant", "content": empty},
        USER,
        {"role": "assistant", "content": empty, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_a", "content": "done"},
    ]
    upstreams[speaker.fake].says("hi")
    limit = {"max_completion_tokens": 64} if dialect == "openai_chat" else {"max_tokens": 64}  # another name: not forwarded
    body = {"model": speaker.model, "messages": history, "tools": [tool(CHAT, "f")], **limit}
    got = await gateway.post(CHAT.path, body)
    assert got.status == 200
    sent = json.dumps(upstreams[speaker.fake].calls[0].json())
    assert sent.count('"call_a"') == 2, "the call and its result survive"
    lost = [loss["path"] for loss in told(got.headers) if loss["class"] == "dropped"]
    assert any(path.startswith("messages.1") for path in lost)
    spoken = isinstance(empty, str) or bool(empty)
    assert any(path.startswith("messages.3.content") for path in lost) == spoken, "a turn with a call is told only of what was there"


@pytest.mark.proves("G10")
async def test_an_empty_text_beside_a_call_of_messages_does_not_reach_a_provider(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    history = [
        USER,
        {"role": "assistant", "content": [{"type": "text", "text": ""}, {"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}, {"type": "text", "text": ""}]},
    ]
    for speaker in (BY_DIALECT["openai_chat"], BY_DIALECT["openai_responses"]):
        upstreams[speaker.fake].says("hi")
        got = await ask(gateway, MESSAGES, model=speaker.model, messages=history, tools=[tool(MESSAGES, "f")])
        assert got.status == 200
        lost = {loss["path"] for loss in told(got.headers)}
        assert {"messages.1.content.0", "messages.2.content.1"} <= lost


# ------------------------------------------------------------------------------------------------------------ cache marks
MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.proves("G12")
async def test_cache_marks_arrive_where_they_were(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    """Three messages with a mark, and a fourth whose content is a plain text: in chat, as routers extend it, to Messages."""
    upstreams["anthropic"].says("hi", usage={"cache_read_input_tokens": 80, "cache_creation_input_tokens": 5})
    marked = [
        {"role": role, "content": [{"type": "text", "text": f"{number}"} | MARK]}
        for number, role in enumerate(["system", "user", "assistant"])
    ]
    got = await ask(gateway, CHAT, model="anthropic/claude-sonnet", messages=[*marked, USER])
    sent = upstreams["anthropic"].calls[0].json()
    assert sent["system"] == [{"type": "text", "text": "0"} | MARK]
    assert [message["content"][0].get("cache_control") for message in sent["messages"]] == [MARK["cache_control"]] * 2 + [None]
    assert told(got.headers) == []
    assert (await gateway.told())["tokens"] == {"input": 12, "cache_read": 80, "cache_write": 5, "output": 1}


@pytest.mark.proves("G12")
async def test_cache_marks_of_messages_stay_where_the_call_is_read_and_written(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    """A tool's name that is too long for the model makes it so, in the same format."""
    upstreams["anthropic"].says("hi")
    messages = [{"role": role, "content": [{"type": "text", "text": "x"} | MARK]} for role in ["user", "assistant", "user"]]
    messages += [{"role": "assistant", "content": "a"}, USER]
    got = await ask(gateway, MESSAGES, model="anthropic/claude-short", messages=messages, tools=[tool(MESSAGES, "n" * 33)])
    sent = upstreams["anthropic"].calls[0].json()["messages"]
    marks = [isinstance(message["content"], list) and "cache_control" in message["content"][0] for message in sent]
    assert (got.status, marks) == (200, [True, True, True, False, False])


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
@pytest.mark.proves("G12", "losses.told")
async def test_cache_marks_are_told_as_lost_where_a_provider_caches_by_itself(
    gateway: Gateway, upstreams: dict[str, Upstream], dialect: Any
) -> None:
    speaker = BY_DIALECT[dialect]
    upstreams[speaker.fake].says("hi")
    messages = [{"role": role, "content": [{"type": "text", "text": "x"} | MARK]} for role in ["user", "assistant", "user"]]
    got = await ask(gateway, MESSAGES, model=speaker.model, messages=messages)
    assert b"cache_control" not in upstreams[speaker.fake].calls[0].body
    marks = [loss for loss in told(got.headers) if loss["path"].endswith("cache_control")]
    assert [(loss["path"], loss["severity"]) for loss in marks] == [
        (f"messages.{number}.content.0.cache_control", "advisory") for number in range(3)
    ]


# ------------------------------------------------------------------------------------------------------------- parameters
@pytest.mark.parametrize(
    ("side", "limit", "model", "expected"),
    [
        (CHAT, "max_tokens", "openai/gpt-mini", "max_completion_tokens"),
        (CHAT, "max_completion_tokens", "openai/gpt-mini", "max_completion_tokens"),
        (CHAT, "max_completion_tokens", "home/qwen", "max_tokens"),
        (CHAT, "max_tokens", "home/qwen", "max_tokens"),
        (CHAT, "max_completion_tokens", "anthropic/claude-sonnet", "max_tokens"),
        (CHAT, "max_tokens", "pro/o9", "max_output_tokens"),
        (RESPONSES, "max_output_tokens", "home/qwen", "max_tokens"),
        (RESPONSES, "max_output_tokens", "anthropic/claude-sonnet", "max_tokens"),
        (MESSAGES, "max_tokens", "home/qwen", "max_tokens"),
        (MESSAGES, "max_tokens", "pro/o9", "max_output_tokens"),
    ],
)
@pytest.mark.proves("G13")
async def test_the_limit_of_tokens_arrives_under_the_providers_name_for_it(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, limit: str, model: str, expected: str
) -> None:
    upstream = upstreams["openai" if model.startswith("pro") else model.partition("/")[0]]
    upstream.says("hi")
    asked = {"input": PROMPT} if side is RESPONSES else {"messages": [USER]}
    got = await gateway.post(side.path, {"model": model, limit: 64, **asked})
    sent = upstream.calls[0].json()
    assert got.status == 200
    assert {name: sent[name] for name in sent if name.startswith("max_")} == {expected: 64}
    assert told(got.headers) == []


@pytest.mark.parametrize(
    ("side", "model"), [(CHAT, "openai/o9-mini"), (MESSAGES, "openai/o9-mini"), (MESSAGES, "pro/o9"), (RESPONSES, "pro/o9")]
)
@pytest.mark.proves("G13", "losses.told")
async def test_a_parameter_that_the_model_refuses_is_left_out_and_told(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, model: str
) -> None:
    upstreams["openai"].says("hi", times=2)
    got = await ask(gateway, side, model=model, temperature=0.2)
    assert got.status == 200
    sent = upstreams["openai"].calls[0].json()
    assert "temperature" not in sent
    assert told(got.headers) == [{"path": "temperature", "class": "dropped", "severity": "material", "detail": "this model refuses it"}]
    strict = await ask(gateway, side, model=model, temperature=0.2, headers=[("x-trunkline-strict", "1")])
    assert (strict.status, side.error(strict.json())[1]) == (422, "loss_refused")
    assert len(upstreams["openai"].calls) == 1


@pytest.mark.parametrize(("side", "few"), [(CHAT, {"max_tokens": 1}), (MESSAGES, {"max_tokens": 1})])
@pytest.mark.proves("G13")
async def test_a_limit_below_what_responses_takes_is_raised_and_told(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, few: dict[str, Any]
) -> None:
    """Clients probe a model with one token, and OpenAI refuses fewer than 16."""
    upstreams["openai"].says("hi")
    got = await ask(gateway, side, model="pro/o9", **few)
    assert got.status == 200
    assert upstreams["openai"].calls[0].json()["max_output_tokens"] == 16
    assert [(loss["path"], loss["class"]) for loss in told(got.headers)] == [("max_tokens", "approximated")]


# -------------------------------------------------------------------------------------------------------- pictures, output
@every_caller
@every_speaker
@pytest.mark.proves("translation.loop")
async def test_a_picture_in_a_tools_result_arrives(
    gateway: Gateway, upstreams: dict[str, Upstream], caller_of: type[Caller], speaker: Speaker
) -> None:
    if caller_of is ChatCaller:
        return  # a tool's result holds text alone there
    upstreams[speaker.fake].says(tool_calls=[ToolCall("weather", '{"town": "x"}', "call_a")])
    upstreams[speaker.fake].says("a pixel")
    caller = caller_of(gateway, speaker.model)
    caller.over["tools"] = caller.tools()
    caller.say(PROMPT)
    caller.answer(await caller.ask(), ["look"], picture=True)
    said = await caller.ask()
    assert said.text == "a pixel"
    sent = json.dumps(upstreams[speaker.fake].calls[1].json())
    assert sent.count(PIXEL) == 1
    material = [loss for loss in said.losses if loss["severity"] == "material"]
    assert material == []


SHAPE = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"], "additionalProperties": False}
FORMS: dict[type[Caller], dict[str, Any]] = {
    ChatCaller: {"response_format": {"type": "json_schema", "json_schema": {"name": "place", "schema": SHAPE, "strict": True}}},
    ResponsesCaller: {"text": {"format": {"type": "json_schema", "name": "place", "schema": SHAPE, "strict": True}}},
    MessagesCaller: {"output_config": {"format": {"type": "json_schema", "schema": SHAPE}}},
}


@every_caller
@every_speaker
@pytest.mark.proves("translation.loop")
async def test_json_by_a_schema_is_asked_for_in_the_providers_way(
    gateway: Gateway, upstreams: dict[str, Upstream], caller_of: type[Caller], speaker: Speaker
) -> None:
    upstreams[speaker.fake].says('{"town":"Ulm"}')
    caller = caller_of(gateway, speaker.model)
    caller.say(PROMPT)
    said = await caller.ask(**FORMS[caller_of])
    assert json.loads(said.text) == {"town": "Ulm"}
    sent = upstreams[speaker.fake].calls[0].json()
    match speaker.dialect:
        case "openai_chat":
            assert sent["response_format"]["json_schema"]["schema"] == SHAPE
        case "openai_responses":
            assert sent["text"]["format"]["schema"] == SHAPE
        case _:
            assert sent["output_config"]["format"] == {"type": "json_schema", "schema": SHAPE}
    assert [loss for loss in said.losses if loss["severity"] == "material"] == []


@pytest.mark.proves("translation.loop")
async def test_system_text_stop_sequences_and_who_the_user_is_arrive(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    for speaker in SPEAKERS[::2]:
        upstreams[speaker.fake].says("hi", times=2)
    messages = [{"role": "system", "content": "be brief"}, USER]
    await ask(gateway, CHAT, model="anthropic/claude-sonnet", messages=messages, stop=["END"], user="u1", parallel_tool_calls=False)
    sent = upstreams["anthropic"].calls[0].json()
    assert (sent["system"], sent["stop_sequences"], sent["metadata"]) == (
        [{"type": "text", "text": "be brief"}],
        ["END"],
        {"user_id": "u1"},
    )
    await ask(gateway, MESSAGES, model="home/m", system="be brief", stop_sequences=["END"], metadata={"user_id": "u1"})
    sent = upstreams["home"].calls[0].json()
    assert (sent["messages"][0], sent["stop"], sent["user"]) == (messages[0], ["END"], "u1")
