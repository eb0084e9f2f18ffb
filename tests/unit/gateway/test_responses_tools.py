"""A client of Responses with tools that only this format has, as Codex: free-form ones, and groups; and models of other formats."""

import base64
import json
from typing import Any

import pytest

from tests.fakes import replies
from tests.fakes.scripted import Answer, Gateway, Outlet
from tests.wire.grammar import openai_responses as grammar
from trunkline.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from trunkline.providers import Kind
from trunkline.providers.anthropic import PROVIDER as ANTHROPIC_KIND
from trunkline.providers.compatible import PROVIDER as COMPATIBLE_KIND
from trunkline.surfaces import Endpoint

Json = dict[str, Any]
RESPONSES = Endpoint("/v1/responses", "chat", OPENAI_RESPONSES)
PATCH = '*** Begin Patch\n*** Add File: k\u0131\u015f.txt\n+"\U0001f6f0"\\\t\n*** End Patch\n'
TOOL: Json = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin Patch" LF'},
}
SHELL: Json = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}, "strict": False}
both_kinds = pytest.mark.parametrize("kind", [ANTHROPIC_KIND, COMPATIBLE_KIND], ids=["messages", "chat"])
whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def called(kind: Kind, *, stream: bool, arguments: str, name: str = "apply_patch") -> Answer:
    """A model's answer that calls the patch tool and then the shell."""
    dialect = kind.speaks[0].dialect.name
    calls = [replies.ToolCall(name, arguments, "call_p"), replies.ToolCall("shell", '{"command":"ls"}', "call_s")]
    reply = replies.Reply(text="well", tool_calls=calls)
    steps = list(replies.events(dialect, reply, include_usage=True)) if stream else [json.dumps(replies.whole(dialect, reply)).encode()]
    return Answer(*steps)


async def ask(one: Gateway, headers: dict[str, str] | None = None, **fields: Any) -> Outlet:
    body = {"model": "one", "input": "go", "tools": [TOOL, SHELL], "store": False, **fields}
    return await one.carry(json.dumps(body).encode(), headers=[(name.encode(), value.encode()) for name, value in (headers or {}).items()])


def searched(kind: Kind, *, stream: bool, name: str) -> Answer:
    """A model's answer that calls a tool of a group."""
    dialect = kind.speaks[0].dialect.name
    reply = replies.Reply(tool_calls=[replies.ToolCall(name, '{"input":"x"}', "call_g")])
    steps = list(replies.events(dialect, reply, include_usage=True)) if stream else [json.dumps(replies.whole(dialect, reply)).encode()]
    return Answer(*steps)


def output(outlet: Outlet, *, stream: bool) -> list[Json]:
    assert outlet.status == 200, outlet.body
    return (grammar.check(outlet.body)[-1]["response"] if stream else json.loads(outlet.body))["output"]


def sent(one: Gateway) -> Json:
    return json.loads(one.upstream.bodies[-1])


def material(outlet: Outlet) -> list[tuple[str, str]]:
    told = json.loads(base64.b64decode(outlet.headers[b"x-losses"]))
    return [(loss["path"], loss["class"]) for loss in told if loss["severity"] == "material"]


@whole_and_streamed
@both_kinds
@pytest.mark.proves("translation.free-form")
async def test_a_free_form_tool_is_a_function_for_the_model_and_free_form_for_the_client(kind: Kind, *, stream: bool) -> None:
    one = Gateway(kind, RESPONSES)
    one.upstream.script("a/m", called(kind, stream=stream, arguments=json.dumps({"input": PATCH})))
    outlet = await ask(one, stream=stream)
    message, call, shell = output(outlet, stream=stream)
    assert message["type"] == "message"
    assert call == {
        "type": "custom_tool_call",
        "id": call["id"],
        "call_id": "call_p",
        "name": "apply_patch",
        "input": PATCH,
        "status": "completed",
    }
    assert (shell["type"], json.loads(shell["arguments"])) == ("function_call", {"command": "ls"})
    asked = sent(one)["tools"][0]
    function = asked.get("function", asked)
    schema = function.get("parameters") or function["input_schema"]
    assert (function["name"], function["description"], list(schema["properties"])) == ("apply_patch", "Edits files.", ["input"])
    assert TOOL["format"]["definition"] in schema["properties"]["input"]["description"]
    assert material(outlet) == [("tools.0", "approximated")]
    refused = await ask(one, {"x-trunkline-strict": "1"})
    assert (refused.status, json.loads(refused.body)["error"]["code"]) == (422, "loss_refused")


@whole_and_streamed
@both_kinds
@pytest.mark.proves("translation.free-form")
async def test_a_free_form_call_and_its_result_go_back_to_the_model_as_the_function_that_it_knows(kind: Kind, *, stream: bool) -> None:
    one = Gateway(kind, RESPONSES)
    one.upstream.script("a/m", called(kind, stream=stream, arguments=json.dumps({"input": PATCH})))
    items = output(await ask(one, stream=stream), stream=stream)
    results = [
        {"type": "custom_tool_call_output", "call_id": "call_p", "output": "patched"},
        {"type": "function_call_output", "call_id": "call_s", "output": "a.txt"},
    ]
    one.upstream.script("a/m", called(kind, stream=False, arguments="{}"))
    outlet = await ask(
        one, input=[{"role": "user", "content": "go"}, *items, *results], tool_choice={"type": "custom", "name": "apply_patch"}
    )
    body = sent(one)
    if kind is ANTHROPIC_KIND:
        uses = [block for block in body["messages"][1]["content"] if block["type"] == "tool_use"]
        assert [(use["id"], use["name"], use["input"]) for use in uses] == [
            ("call_p", "apply_patch", {"input": PATCH}),
            ("call_s", "shell", {"command": "ls"}),
        ]
        assert [block["tool_use_id"] for block in body["messages"][2]["content"]] == ["call_p", "call_s"]
        assert body["tool_choice"] == {"type": "tool", "name": "apply_patch"}
    else:
        calls = body["messages"][1]["tool_calls"]
        assert [(call["id"], json.loads(call["function"]["arguments"])) for call in calls] == [
            ("call_p", {"input": PATCH}),
            ("call_s", {"command": "ls"}),
        ]
        assert [(turn["tool_call_id"], turn["content"]) for turn in body["messages"][2:]] == [("call_p", "patched"), ("call_s", "a.txt")]
        assert body["tool_choice"] == {"type": "function", "function": {"name": "apply_patch"}}
    assert material(outlet) == [("tools.0", "approximated")]
    assert output(outlet, stream=False)[1]["input"] == ""


@whole_and_streamed
@both_kinds
async def test_a_model_that_does_not_heed_the_schema_is_heard_by_the_tool(kind: Kind, *, stream: bool) -> None:
    one = Gateway(kind, RESPONSES)
    one.upstream.script("a/m", called(kind, stream=stream, arguments='{"patch":"x"}'))
    assert json.loads(output(await ask(one, stream=stream), stream=stream)[1]["input"]) == {"patch": "x"}


@both_kinds
async def test_a_free_form_tool_keeps_its_name_where_its_function_needs_another(kind: Kind) -> None:
    one = Gateway(kind, RESPONSES)
    name = "apply.patch/all"
    one.upstream.script("a/m", called(kind, stream=False, arguments="{}"))
    tools = [{**TOOL, "name": name}]
    await ask(one, tools=tools)
    asked = sent(one)["tools"][0]
    short = asked.get("function", asked)["name"]
    assert short != name
    one.upstream.script("a/m", called(kind, stream=False, arguments=json.dumps({"input": "x"}), name=short))
    call = output(await ask(one, tools=tools), stream=False)[1]
    assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", name, "x")


@pytest.mark.proves("G6", "translation.free-form")
async def test_of_a_free_form_call_that_is_cut_nothing_can_be_run() -> None:
    one = Gateway(COMPATIBLE_KIND, RESPONSES)
    call = replies.ToolCall("apply_patch", json.dumps({"input": PATCH}), "call_p")
    *begun, last, usage, done = replies.events("openai_chat", replies.Reply(tool_calls=[call]), include_usage=True)
    cut = next(number for number, event in enumerate(begun) if b"Begin" in event)
    one.upstream.script("a/m", Answer(*begun[: cut + 1], last.replace(b'"tool_calls"', b'"length"'), usage, done))
    outlet = await ask(one, stream=True)
    told = grammar.check(outlet.body)
    assert any(event["type"] == "response.custom_tool_call_input.delta" for event in told), "what came of it is shown"
    assert not any(event["type"] == "response.custom_tool_call_input.done" for event in told)
    assert told[-1]["type"] == "response.incomplete"
    assert [(item["status"], item["input"]) for item in told[-1]["response"]["output"] if item["type"] == "custom_tool_call"] == [
        ("incomplete", "")
    ]
    whole = replies.whole("openai_chat", replies.Reply(tool_calls=[replies.ToolCall("apply_patch", '{"input":"*** Beg', "call_p")]))
    whole["choices"][0]["finish_reason"] = "length"
    one.upstream.script("a/m", Answer(json.dumps(whole).encode()))
    [item] = output(await ask(one), stream=False)
    assert (item["status"], item["input"]) == ("incomplete", "")


# ------------------------------------------------------------------------------------------------------- groups of tools
def group(name: str) -> Json:
    search: Json = {"type": "function", "name": "search", "parameters": {"type": "object", "properties": {}}, "strict": False}
    return {"type": "namespace", "name": name, "description": "Finds.", "tools": [search, {"type": "custom", "name": "note"}]}


@whole_and_streamed
@both_kinds
@pytest.mark.parametrize("tool", ["search", "note"])
@pytest.mark.parametrize("name", ["mcp__docs__", "mcp__docs", "sky", "g" * 140], ids=lambda name: name[:12])
@pytest.mark.proves("translation.groups")
async def test_tools_of_a_group_are_functions_for_the_model_and_in_their_group_for_the_client(
    kind: Kind, name: str, tool: str, *, stream: bool
) -> None:
    one = Gateway(kind, RESPONSES)
    number = ["search", "note"].index(tool)
    one.upstream.script("a/m", searched(kind, stream=False, name="none"))
    outlet = await ask(one, tools=[group(name)])
    flat = [each.get("function", each)["name"] for each in sent(one)["tools"]]
    if len(name) < 100:
        assert flat == [f"{name.removesuffix('__')}__search", f"{name.removesuffix('__')}__note"]
    assert ("tools.0", "renamed") in material(outlet)
    assert ("tools.0.description", "dropped") in material(outlet)

    one.upstream.script("a/m", searched(kind, stream=stream, name=flat[number]))
    [call] = output(await ask(one, tools=[group(name)], stream=stream), stream=stream)
    assert (call["namespace"], call["name"]) == (name, tool)
    assert call.get("input") == ("x" if tool == "note" else None)

    one.upstream.script("a/m", searched(kind, stream=False, name="none"))
    done = {"type": f"{call['type']}_output", "call_id": "call_g", "output": "found"}
    await ask(one, tools=[group(name)], input=[{"role": "user", "content": "go"}, call, done])
    turn = sent(one)["messages"][1]
    [back] = (
        [block["name"] for block in turn["content"]]
        if kind is ANTHROPIC_KIND
        else [each["function"]["name"] for each in turn["tool_calls"]]
    )
    assert back == flat[number]


async def test_a_tool_that_the_vendor_runs_is_refused_in_a_group_too() -> None:
    one = Gateway(COMPATIBLE_KIND, RESPONSES)
    refused = await ask(one, tools=[{"type": "namespace", "name": "g", "tools": [{"type": "web_search"}]}])
    assert (refused.status, json.loads(refused.body)["error"]["code"]) == (422, "loss_refused")
    assert b"tools.0.tools.0" in refused.body
