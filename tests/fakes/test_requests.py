"""Each rule of a strict provider: a body that keeps it, and one that breaks it."""

import json
from typing import Any

import pytest

from tests.fakes.replies import Dialect
from tests.fakes.requests import violations
from tests.fakes.upstream import Call

ASK = {"role": "user", "content": "hi"}
PATHS: dict[Dialect, str] = {"openai_chat": "/v1/chat/completions", "anthropic": "/v1/messages", "openai_responses": "/v1/responses"}
KEYS = {
    "openai_chat": {"Authorization": "Bearer k"},
    "anthropic": {"x-api-key": "k", "anthropic-version": "2023-06-01"},
    "openai_responses": {"Authorization": "Bearer k"},
}
SAYS: dict[Dialect, dict[str, Any]] = {
    "openai_chat": {"messages": [ASK]},
    "anthropic": {"messages": [ASK], "max_tokens": 9},
    "openai_responses": {"input": [ASK]},
}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": ""}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}
USED = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}
FUNCTION_CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": ""}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "x", "annotations": []}],
}
MARK = {"cache_control": {"type": "ephemeral"}}


def found(dialect: Dialect, body: Any = None, *, headers: dict[str, str] | None = None, method: str = "POST", **fields: Any) -> list[str]:
    if body is None:
        body = {"model": "m"} | SAYS[dialect] | fields
        body = json.dumps({key: value for key, value in body.items() if value is not ...}).encode()
    given = {"Content-Type": "application/json"} | KEYS[dialect] | (headers or {})
    call = Call(method, PATHS[dialect], [(key.encode(), value.encode()) for key, value in given.items() if value], body)
    return [wrong.partition(": ")[2] for wrong in violations(call)]


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": value} | fields]}


@pytest.mark.parametrize(
    ("dialect", "fields"),
    [
        ("openai_chat", {}),
        ("openai_chat", {"stream": True, "stream_options": {"include_usage": True}, "max_completion_tokens": 5}),
        ("openai_chat", {"messages": [{"role": "developer", "content": "x"}, text("hi")]}),
        ("openai_chat", {"tools": [TOOL], "messages": [ASK, CALLED, RESULT, ASK]}),
        ("anthropic", {}),
        ("anthropic", {"stream": True, "system": "s", "temperature": 1, "stop_sequences": ["x"]}),
        ("anthropic", {"messages": [ASK, USE, USED], "tools": [{"name": "f", "input_schema": {"type": "object"}}]}),
        ("anthropic", {"messages": [ASK, {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "s"}]}, ASK]}),
        ("anthropic", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
        ("openai_responses", {"input": "hi", "max_output_tokens": 16, "stream": True}),
        ("openai_responses", {"instructions": "s", "input": [ASK, THOUGHT, SAID, THOUGHT | {"id": "rs_2"}, FUNCTION_CALL, OUTPUT, ASK]}),
        ("openai_responses", {"tools": [FUNCTION, {"type": "web_search"}], "input": [ASK, {"role": "assistant", "content": "x"}]}),
        ("openai_responses", {"previous_response_id": "resp_1", "input": [OUTPUT]}),
        ("openai_responses", {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}}),
    ],
)
def test_a_good_request_passes(dialect: Dialect, fields: dict[str, Any]) -> None:
    assert found(dialect, **fields) == []


@pytest.mark.parametrize(
    ("dialect", "fields", "wrong"),
    [
        ("openai_chat", {"headers": {"Authorization": ""}}, "there is no bearer token"),
        ("openai_chat", {"headers": {"Authorization": "Bearer "}}, "there is no bearer token"),
        ("openai_chat", {"headers": {"Content-Type": "text/plain"}}, "the content type is not application/json"),
        ("openai_chat", {"headers": {"authorization": "Bearer j"}}, "a header comes twice"),
        ("openai_chat", {"headers": {"Accept-Encoding": "gzip"}}, "a compressed answer is asked for"),
        ("openai_chat", {"method": "PUT"}, "the method is not POST"),
        ("openai_chat", {"body": b"{"}, "the body is no JSON object, or has a key twice"),
        ("openai_chat", {"body": b'{"model":"m","model":"n"}'}, "the body is no JSON object, or has a key twice"),
        ("openai_chat", {"model": ...}, "there is no model"),
        ("openai_chat", {"messages": []}, "there are no messages"),
        ("openai_chat", {"stream": "yes"}, "`stream` is no boolean"),
        ("openai_chat", {"system": "s"}, "`system` belongs to another API"),
        ("openai_chat", {"max_tokens": 1, "max_completion_tokens": 1}, "two limits of tokens"),
        ("openai_chat", {"stream_options": {"include_usage": True}}, "`stream_options` without `stream`"),
        ("openai_chat", {"messages": [{"role": "robot", "content": "x"}]}, "message 0: the role is unknown"),
        ("openai_chat", {"messages": [{"role": "assistant", "content": ""}]}, "message 0: empty content"),
        ("openai_chat", {"messages": [{"role": "assistant", "content": None}]}, "message 0: no content"),
        ("openai_chat", {"messages": [{"role": "assistant", "content": []}]}, "message 0: an empty part"),
        ("openai_chat", {"messages": [text("")]}, "message 0: an empty part"),
        ("openai_chat", {"messages": [{"role": "user", "content": 5}]}, "message 0: the content is neither text nor parts"),
        ("openai_chat", {"messages": [ASK | {"tool_calls": [CALL]}, RESULT]}, "message 0: `tool_calls` where there are none"),
        (
            "openai_chat",
            {"messages": [CALLED | {"tool_calls": [CALL | {"id": ""}]}, RESULT | {"tool_call_id": ""}]},
            "message 0: a tool call is not whole",
        ),
        ("openai_chat", {"messages": [RESULT]}, "message 0: the result of no call"),
        ("openai_chat", {"messages": [CALLED, ASK]}, "message 1: a tool call has no result"),
        ("openai_chat", {"messages": [CALLED]}, "a tool call has no result"),
        ("openai_chat", {"tools": [TOOL, TOOL]}, "two tools have one name"),
        ("openai_chat", {"tools": [{"type": "function", "function": {"name": "f.g"}}]}, "the name of a tool"),
        ("openai_chat", {"tools": [{"type": "function", "function": {"name": "f" * 65}}]}, "the name of a tool"),
        ("anthropic", {"headers": {"x-api-key": ""}}, "there is no key"),
        ("anthropic", {"headers": {"anthropic-version": ""}}, "there is no anthropic-version"),
        ("anthropic", {"body": b"[]"}, "the body is no JSON object, or has a key twice"),
        ("anthropic", {"max_tokens": ...}, "`max_tokens` is missing"),
        ("anthropic", {"temperature": 1.5}, "the temperature is above 1"),
        ("anthropic", {"stop": ["x"]}, "`stop` belongs to another API"),
        ("anthropic", {"messages": [{"role": "system", "content": "x"}]}, "message 0: the role is unknown"),
        ("anthropic", {"messages": [{"role": "assistant", "content": "x"}]}, "the first message is not the user's"),
        ("anthropic", {"messages": [{"role": "user", "content": ""}]}, "message 0: no content"),
        ("anthropic", {"messages": [{"role": "user", "content": []}]}, "message 0: no content"),
        ("anthropic", {"messages": [text(" ")]}, "message 0: an empty text block"),
        ("anthropic", {"messages": [{"role": "user", "content": [{}]}]}, "message 0: a block has no type"),
        (
            "anthropic",
            {"messages": [ASK, {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}]},
            "message 1: a thinking block without a signature",
        ),
        (
            "anthropic",
            {"messages": [ASK, {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}, USED]},
            "message 1: a tool call is not whole",
        ),
        ("anthropic", {"messages": [USE | {"role": "user"}, USED]}, "message 0: a tool call of the user"),
        ("anthropic", {"messages": [USED]}, "message 0: the result of no call"),
        ("anthropic", {"messages": [ASK, USE, ASK]}, "message 2: a tool call has no result"),
        ("anthropic", {"messages": [ASK, USE]}, "a tool call has no result"),
        ("anthropic", {"messages": [text("x", **MARK)] * 5}, "more than four cache breakpoints"),
        ("anthropic", {"system": [{"type": "text", "text": ""}]}, "system: an empty text block"),
        ("anthropic", {"system": 5}, "`system` is neither text nor blocks"),
        ("anthropic", {"tools": [{"name": "a b", "input_schema": {"type": "object"}}]}, "the name of a tool"),
        ("anthropic", {"tools": [{"name": "f", "input_schema": {"anyOf": []}}]}, "the schema of a tool is no plain object"),
        ("openai_responses", {"headers": {"Authorization": ""}}, "there is no bearer token"),
        ("openai_responses", {"body": b"[]"}, "the body is no JSON object, or has a key twice"),
        ("openai_responses", {"model": ...}, "there is no model"),
        ("openai_responses", {"messages": [ASK]}, "`messages` belongs to another API"),
        ("openai_responses", {"max_output_tokens": 15}, "the limit of tokens is too low"),
        ("openai_responses", {"input": ...}, "there is no input"),
        ("openai_responses", {"input": []}, "there is no input"),
        ("openai_responses", {"input": ""}, "the input is empty"),
        ("openai_responses", {"input": ["hi"]}, "item 0: it is no object"),
        ("openai_responses", {"input": [{"type": "robot"}]}, "item 0: it is of no known type"),
        ("openai_responses", {"input": [{"role": "robot", "content": "x"}]}, "item 0: the role is unknown"),
        ("openai_responses", {"input": [{"role": "user", "content": ""}]}, "item 0: no content"),
        ("openai_responses", {"input": [{"role": "user", "content": []}]}, "item 0: no content"),
        ("openai_responses", {"input": [text("hi")]}, "item 0: a part of a type that its role does not have"),
        ("openai_responses", {"input": [{"role": "user", "content": [{"type": "input_text", "text": ""}]}]}, "item 0: an empty part"),
        ("openai_responses", {"input": [SAID | {"id": ""}]}, "item 0: the id of no message"),
        (
            "openai_responses",
            {"input": [SAID | {"content": [{"type": "output_text", "text": "x"}]}]},
            "item 0: a text of a reply without its annotations",
        ),
        ("openai_responses", {"input": [SAID | {"id": f"msg_{'x' * 64}"}]}, "item 0: its id is too long"),
        ("openai_responses", {"input": [SAID, SAID]}, "two items have one id"),
        ("openai_responses", {"input": [ASK, FUNCTION_CALL]}, "a tool call has no result"),
        ("openai_responses", {"input": [FUNCTION_CALL | {"name": ""}, OUTPUT]}, "item 0: a tool call is not whole"),
        ("openai_responses", {"input": [FUNCTION_CALL | {"id": "call_1"}, OUTPUT]}, "item 0: the id of no call"),
        ("openai_responses", {"input": [OUTPUT]}, "item 0: the result of no call"),
        ("openai_responses", {"input": [FUNCTION_CALL, OUTPUT | {"output": None}]}, "item 1: a result without output"),
        ("openai_responses", {"input": [ASK, THOUGHT]}, "item 1: a thought without what follows it"),
        ("openai_responses", {"input": [THOUGHT | {"id": "msg_1"}, ASK]}, "item 0: the id of no thought"),
        ("openai_responses", {"input": [{"type": "reasoning"}, ASK]}, "item 0: a thought without a summary"),
        ("openai_responses", {"input": [THOUGHT | {"encrypted_content": "trunkline:a:::b"}, ASK]}, "item 0: a thought that is another's"),
        ("openai_responses", {"tools": [FUNCTION, FUNCTION]}, "two tools have one name"),
        ("openai_responses", {"tools": [FUNCTION | {"name": "f.g"}]}, "the name of a tool"),
        ("openai_responses", {"tools": [TOOL]}, "a tool is not whole"),
        ("openai_responses", {"text": {"format": {"type": "json_schema", "schema": {}}}}, "the schema of the output is not whole"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong_with_it(dialect: Dialect, fields: dict[str, Any], wrong: str) -> None:
    assert wrong in found(dialect, **fields)


def test_a_path_of_no_dialect_has_no_rules() -> None:
    assert violations(Call("GET", "/v1/models", [], b"")) == []
