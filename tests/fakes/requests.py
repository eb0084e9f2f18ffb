"""What a strict provider demands of a request: HTTP/1.1 without oddities, and a body that its API would take.

The rules are those of the vendors' API references (OpenAI "Create chat completion" and "Create a model response", Anthropic "Create a
message") that a gateway could break: required fields, the roles and shapes of messages, tool calls and their results in pairs, names that fit, no fields of the other API.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any, Protocol

from tests.fakes.replies import Dialect


class Request(Protocol):
    """The parts of a call that are judged."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def headers(self) -> list[tuple[bytes, bytes]]: ...
    @property
    def body(self) -> bytes: ...


def dialect_of(path: str) -> Dialect | None:
    """Which API a path belongs to."""
    bare = path.partition("?")[0]
    if bare.endswith("/chat/completions"):
        return "openai_chat"
    if bare.endswith("/responses"):
        return "openai_responses"
    return "anthropic" if bare.endswith("/v1/messages") else None


def violations(call: Request) -> list[str]:
    """Everything that is wrong with a request to a path we know; values are not repeated."""
    dialect = dialect_of(call.path)
    if dialect is None:
        return []
    rules = {"openai_chat": _chat, "anthropic": _message, "openai_responses": _response}[dialect]
    headers = {name.lower().decode(): value.decode("latin-1") for name, value in call.headers}
    return [
        f"{call.method} {call.path.partition('?')[0]}: {wrong}" for wrong in (*_form(call, headers), *rules(headers, _parse(call.body)))
    ]


# -------------------------------------------------------------------------------------------------------------- HTTP


async def read(reader: asyncio.StreamReader) -> tuple[str, str, list[tuple[bytes, bytes]], bytes]:
    """Method, target, headers and body of one request (RFC 9112).

    Raises:
        ValueError: a line that a strict server refuses.
        asyncio.IncompleteReadError: the client left.
    """
    head = await reader.readuntil(b"\r\n\r\n")
    line, *fields = head[:-4].split(b"\r\n")
    match = re.fullmatch(rb"([A-Z]+) (/[!-~]*) HTTP/1\.1", line)
    if match is None:
        raise ValueError("the request line")
    headers: list[tuple[bytes, bytes]] = []
    for each in fields:
        parts = re.fullmatch(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*", each)
        if parts is None:
            raise ValueError(f"header {len(headers) + 1}")
        headers.append((parts[1], parts[2]))
    names = [name.lower() for name, _ in headers]
    if names.count(b"host") != 1:
        raise ValueError("not exactly one host")
    lengths = [value for name, value in headers if name.lower() == b"content-length"]
    codings = [value for name, value in headers if name.lower() == b"transfer-encoding"]
    if len(lengths) + len(codings) > 1:
        raise ValueError("more than one length")
    if codings:
        if codings != [b"chunked"]:
            raise ValueError("the transfer coding")
        body = await _read_chunks(reader)
    else:
        if lengths and not lengths[0].isdigit():
            raise ValueError("the content length")
        body = await reader.readexactly(int(lengths[0])) if lengths else b""
    return match[1].decode(), match[2].decode(), headers, body


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while True:
        line = re.fullmatch(rb"([0-9A-Fa-f]+)\r\n", await reader.readuntil(b"\r\n"))
        if line is None:
            raise ValueError("the size of a chunk")
        if not int(line[1], 16):
            break
        body += await reader.readexactly(int(line[1], 16))
        if await reader.readexactly(2) != b"\r\n":
            raise ValueError("the end of a chunk")
    if await reader.readexactly(2) != b"\r\n":
        raise ValueError("the last chunk")
    return body


def _form(call: Request, headers: dict[str, str]) -> Iterator[str]:
    if call.method != "POST":
        yield "the method is not POST"
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        yield "the content type is not application/json"
    names = [name.lower() for name, _ in call.headers]
    if len(set(names)) != len(names):
        yield "a header comes twice"
    if headers.get("accept-encoding", "identity") != "identity":
        yield "a compressed answer is asked for"


def _parse(body: bytes) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) != len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        return json.loads(body.decode(), object_pairs_hook=unique)
    except ValueError:
        return None


# ------------------------------------------------------------------------------------------------------- openai_chat

_FOREIGN_TO_CHAT = {"system", "stop_sequences", "anthropic_version", "input_schema"}
_CHAT_ROLES = {"developer", "system", "user", "assistant", "tool", "function"}
_CHAT_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _chat(headers: dict[str, str], body: Any) -> Iterator[str]:
    if not re.fullmatch(r"Bearer \S+", headers.get("authorization", "")):
        yield "there is no bearer token"
    if not isinstance(body, dict):
        yield "the body is no JSON object, or has a key twice"
        return
    yield from (f"`{key}` belongs to another API" for key in sorted(_FOREIGN_TO_CHAT & set(body)))
    yield from _basics(body)
    if "max_tokens" in body and "max_completion_tokens" in body:
        yield "two limits of tokens"
    if body.get("stream_options") is not None and not body.get("stream"):
        yield "`stream_options` without `stream`"
    asked: set[str] = set()
    for number, message in enumerate(body["messages"] if isinstance(body.get("messages"), list) else []):
        yield from (f"message {number}: {wrong}" for wrong in _chat_message(message, asked))
    if asked:
        yield "a tool call has no result"
    names = [tool.get("function", {}).get("name", "") for tool in body.get("tools") or [] if tool.get("type") == "function"]
    yield from _tool_names(names, _CHAT_NAME)


def _chat_message(message: Any, asked: set[str]) -> Iterator[str]:
    if not isinstance(message, dict) or message.get("role") not in _CHAT_ROLES:
        yield "the role is unknown"
        return
    role, content = message["role"], message.get("content")
    calls = message.get("tool_calls")
    if calls is not None and (role != "assistant" or not calls):
        yield "`tool_calls` where there are none"
    if asked and role != "tool":
        yield "a tool call has no result"
        asked.clear()
    if role == "tool":
        if message.get("tool_call_id") not in asked:
            yield "the result of no call"
        asked.discard(message.get("tool_call_id", ""))
    for call in calls or []:
        function = call.get("function", {})
        if (
            not call.get("id")
            or call.get("type") != "function"
            or not function.get("name")
            or not isinstance(function.get("arguments"), str)
        ):
            yield "a tool call is not whole"
        asked.add(call.get("id", ""))
    if content is None:
        if not calls and not message.get("refusal") and not message.get("function_call"):
            yield "no content"
    elif isinstance(content, list):
        if not content or any(part.get("type") == "text" and not part.get("text") for part in content):
            yield "an empty part"
    elif not isinstance(content, str):
        yield "the content is neither text nor parts"
    elif not content and role != "tool":
        yield "empty content"


# --------------------------------------------------------------------------------------------------------- anthropic

_FOREIGN_TO_MESSAGES = {
    "stream_options", "max_completion_tokens", "n", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "response_format",
    "stop", "seed", "user", "functions", "parallel_tool_calls", "logit_bias", "reasoning_effort",
}  # fmt: skip
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MARKERS = 4  # cache breakpoints of one request


def _message(headers: dict[str, str], body: Any) -> Iterator[str]:
    if not headers.get("x-api-key") and not re.fullmatch(r"Bearer \S+", headers.get("authorization", "")):
        yield "there is no key"
    if not headers.get("anthropic-version"):
        yield "there is no anthropic-version"
    if not isinstance(body, dict):
        yield "the body is no JSON object, or has a key twice"
        return
    yield from (f"`{key}` belongs to another API" for key in sorted(_FOREIGN_TO_MESSAGES & set(body)))
    yield from _basics(body)
    if type(body.get("max_tokens")) is not int or body["max_tokens"] < 1:
        yield "`max_tokens` is missing"
    if not 0 <= (body.get("temperature") or 0) <= 1:
        yield "the temperature is above 1"
    messages = body["messages"] if isinstance(body.get("messages"), list) else []
    if messages and isinstance(messages[0], dict) and messages[0].get("role") != "user":
        yield "the first message is not the user's"
    asked: set[str] = set()
    for number, message in enumerate(messages):
        yield from (f"message {number}: {wrong}" for wrong in _turn(message, asked))
    if asked:
        yield "a tool call has no result"
    if json.dumps(body).count('"cache_control": {') > _MARKERS:
        yield "more than four cache breakpoints"
    system = body.get("system")
    if isinstance(system, list):
        yield from (f"system: {wrong}" for wrong in _blocks(system))
    elif system is not None and not isinstance(system, str):
        yield "`system` is neither text nor blocks"
    tools = [tool for tool in body.get("tools") or [] if tool.get("type") in {None, "custom"}]
    yield from _tool_names([tool.get("name", "") for tool in tools], _TOOL_NAME)
    for tool in tools:
        schema = tool.get("input_schema")
        if not isinstance(schema, dict) or schema.get("type") != "object" or {"anyOf", "oneOf", "allOf"} & set(schema):
            yield "the schema of a tool is no plain object"


def _turn(message: Any, asked: set[str]) -> Iterator[str]:
    if not isinstance(message, dict) or message.get("role") not in {"user", "assistant"}:
        yield "the role is unknown"
        return
    content = message.get("content")
    if isinstance(content, str) and content:
        blocks: list[Any] = []
    elif isinstance(content, list) and content:
        blocks = content
    else:
        yield "no content"
        return
    yield from _blocks(blocks)
    results = {block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"}
    if results - asked:
        yield "the result of no call"
    if asked - results:
        yield "a tool call has no result"
    asked.clear()
    asked.update(block.get("id", "") for block in blocks if block.get("type") == "tool_use")
    if asked and message["role"] != "assistant":
        yield "a tool call of the user"


def _blocks(blocks: list[Any]) -> Iterator[str]:
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)} if text.strip():
                pass
            case {"type": "text"}:
                yield "an empty text block"
            case {"type": "thinking", "thinking": str(), "signature": str(signature)} if signature:
                pass
            case {"type": "thinking"}:
                yield "a thinking block without a signature"
            case {"type": "tool_use", "id": str(key), "name": str(), "input": dict()} if re.fullmatch(r"[a-zA-Z0-9_-]+", key):
                pass
            case {"type": "tool_use"}:
                yield "a tool call is not whole"
            case {"type": str()}:
                pass
            case _:
                yield "a block has no type"


# -------------------------------------------------------------------------------------------------- openai_responses

_FOREIGN_TO_RESPONSES = {
    "messages", "system", "max_tokens", "max_completion_tokens", "stop", "stop_sequences", "response_format", "reasoning_effort", "n", "seed",
    "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "functions", "top_k", "thinking", "verbosity", "output_config",
}  # fmt: skip
_PARTS = {
    "user": {"input_text", "input_image", "input_file", "input_audio"},
    "system": {"input_text"},
    "developer": {"input_text"},
    "assistant": {"output_text", "refusal"},
}
_LEAST_OUTPUT = 16  # tokens


def _response(headers: dict[str, str], body: Any) -> Iterator[str]:
    if not re.fullmatch(r"Bearer \S+", headers.get("authorization", "")):
        yield "there is no bearer token"
    if not isinstance(body, dict):
        yield "the body is no JSON object, or has a key twice"
        return
    yield from (f"`{key}` belongs to another API" for key in sorted(_FOREIGN_TO_RESPONSES & set(body)))
    yield from _head(body)
    if "max_output_tokens" in body and (type(body["max_output_tokens"]) is not int or body["max_output_tokens"] < _LEAST_OUTPUT):
        yield "the limit of tokens is too low"
    given = body.get("input")
    if isinstance(given, str):
        if not given:
            yield "the input is empty"
    elif not isinstance(given, list) or not (given or body.get("previous_response_id") or body.get("prompt")):
        yield "there is no input"
    else:
        yield from _input(given, goes_on=bool(body.get("previous_response_id")))
    tools = [tool for tool in body.get("tools") or [] if tool.get("type") == "function"]
    yield from _tool_names([tool.get("name", "") for tool in tools], _CHAT_NAME)
    for tool in tools:
        if not isinstance(tool.get("parameters"), dict) or "strict" not in tool or "function" in tool:
            yield "a tool is not whole"
    form = (body.get("text") or {}).get("format") or {}
    if form.get("type") == "json_schema" and not (re.fullmatch(_CHAT_NAME, form.get("name", "")) and isinstance(form.get("schema"), dict)):
        yield "the schema of the output is not whole"


def _input(items: list[Any], *, goes_on: bool) -> Iterator[str]:
    asked: set[str] = set()
    ids: list[str] = []
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            yield f"item {number}: it is no object"
            continue
        ids += [item["id"]] if "id" in item else []
        kind = item.get("type", "message")
        if kind == "reasoning" and number + 1 == len(items):
            yield f"item {number}: a thought without what follows it"
        yield from (f"item {number}: {wrong}" for wrong in _item(item, kind, asked, goes_on=goes_on))
    if asked:
        yield "a tool call has no result"
    if len(set(ids)) != len(ids):
        yield "two items have one id"


def _item(item: dict[str, Any], kind: str, asked: set[str], *, goes_on: bool) -> Iterator[str]:
    if len(item.get("id", "")) > 64:
        yield "its id is too long"
    match kind:
        case "message":
            yield from _said(item)
        case "function_call":
            if not item.get("call_id") or not item.get("name") or not isinstance(item.get("arguments"), str):
                yield "a tool call is not whole"
            if not str(item.get("id", "fc")).startswith("fc"):
                yield "the id of no call"
            asked.add(item.get("call_id", ""))
        case "function_call_output":
            if item.get("call_id") not in asked and not goes_on:
                yield "the result of no call"
            if not isinstance(item.get("output"), str | list):
                yield "a result without output"
            asked.discard(item.get("call_id", ""))
        case "reasoning":
            if not str(item.get("id", "rs")).startswith("rs"):
                yield "the id of no thought"
            if not isinstance(item.get("summary"), list):
                yield "a thought without a summary"
            if str(item.get("encrypted_content", "")).startswith("trunkline:"):
                yield "a thought that is another's"
        case "item_reference":
            pass
        case _:
            yield "it is of no known type"


def _said(item: dict[str, Any]) -> Iterator[str]:
    role, content = item.get("role"), item.get("content")
    if role not in _PARTS:
        yield "the role is unknown"
    elif isinstance(content, list):
        if not content:
            yield "no content"
        for part in content:
            if not isinstance(part, dict) or part.get("type") not in _PARTS[role]:
                yield "a part of a type that its role does not have"
            elif part["type"] in {"input_text", "output_text"} and not part.get("text"):
                yield "an empty part"
            elif part["type"] == "output_text" and "annotations" not in part:
                yield "a text of a reply without its annotations"
        if role == "assistant" and not str(item.get("id", "")).startswith("msg"):
            yield "the id of no message"
    elif not isinstance(content, str) or not content:
        yield "no content"


# --------------------------------------------------------------------------------------------------------------- all


def _basics(body: dict[str, Any]) -> Iterator[str]:
    yield from _head(body)
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        yield "there are no messages"


def _head(body: dict[str, Any]) -> Iterator[str]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "there is no model"
    if type(body.get("stream", False)) is not bool:
        yield "`stream` is no boolean"


def _tool_names(names: list[str], allowed: re.Pattern[str]) -> Iterator[str]:
    if len(set(names)) != len(names):
        yield "two tools have one name"
    if not all(isinstance(name, str) and allowed.fullmatch(name) for name in names):
        yield "the name of a tool"
