"""A model's answer in each dialect's grammar, whole and as the events of a stream."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Dialect = Literal["openai_chat", "anthropic", "openai_responses"]


@dataclass(frozen=True)
class ToolCall:
    """`arguments` is the JSON text, as a model writes it."""

    name: str
    arguments: str = "{}"
    id: str = "call_1"


@dataclass(frozen=True)
class Thought:
    """What a model thinks before it answers: text that is signed (Messages), or text and what only its vendor reads (Responses).

    One without text and signature is told as its vendor hides it: `redacted_thinking`, an empty summary.
    """

    text: str = ""
    signature: str = ""
    encrypted: str = ""
    id: str = "rs_fake"


@dataclass(frozen=True)
class Reply:
    """`usage` overrules the counts, in the dialect's own keys."""

    text: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    thoughts: list[Thought] = field(default_factory=list)
    model: str = "m"
    usage: Mapping[str, Any] | None = None

    def pieces(self) -> list[str]:
        """The text in words."""
        return words(self.text)

    def tokens(self) -> int:
        """What an answer of one token per word would have used."""
        return len(self.pieces()) + 2 * len(self.tool_calls)


def words(text: str) -> list[str]:
    """A text in words, each with the space before it."""
    return re.findall(r"\s*\S+\s*$|\s*\S+", text)


def data(value: Any) -> bytes:
    """An event without a name."""
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def named(value: Mapping[str, Any]) -> bytes:
    """An event that is named as its type."""
    return f"event: {value['type']}\n".encode() + data(value)


def whole(dialect: Dialect, reply: Reply) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    return {"openai_chat": _chat, "anthropic": _message, "openai_responses": _response}[dialect](reply)


def events(dialect: Dialect, reply: Reply, *, include_usage: bool = False) -> Iterator[bytes]:
    """The events of a streamed answer; `include_usage` is the request's wish in the chat dialect."""
    if dialect == "openai_chat":
        return _chat_events(reply, include_usage=include_usage)
    return _message_events(reply) if dialect == "anthropic" else _response_events(reply)


# ------------------------------------------------------------------------------------------------------- openai_chat


def _chat_usage(reply: Reply) -> Mapping[str, Any]:
    tokens = reply.tokens()
    return reply.usage or {"prompt_tokens": 12, "completion_tokens": tokens, "total_tokens": 12 + tokens}


def _chat(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.thoughts:
        message["reasoning_content"] = "".join(thought.text for thought in reply.thoughts)
        message["reasoning_details"] = [_detail(thought) for thought in reply.thoughts]
    if reply.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in reply.tool_calls
        ]
    finish = "tool_calls" if reply.tool_calls else "stop"
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 1700000000,
        "model": reply.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": _chat_usage(reply),
    }


def _chat_events(reply: Reply, *, include_usage: bool) -> Iterator[bytes]:
    frame = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1700000000, "model": reply.model}
    silent = {"usage": None} if include_usage else {}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return data(frame | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]} | silent)

    yield chunk({"role": "assistant", "content": "" if reply.text else None})
    for number, thought in enumerate(reply.thoughts):
        for piece in words(thought.text):
            yield chunk({"reasoning_content": piece})
        yield chunk({"reasoning_details": [{"index": number, **_detail(thought)}]})
    for piece in reply.pieces():
        yield chunk({"content": piece})
    for index, call in enumerate(reply.tool_calls):
        head = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        yield chunk({"tool_calls": [head]})
        for piece in _fragments(call.arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if reply.tool_calls else "stop")
    if include_usage:
        yield data(frame | {"choices": [], "usage": _chat_usage(reply)})
    yield b"data: [DONE]\n\n"


def _detail(thought: Thought) -> dict[str, Any]:
    """As routers in front of several vendors tell a thought in this dialect."""
    told = {"text": thought.text, "signature": thought.signature, "data": thought.encrypted, "id": thought.id}
    kind = "reasoning.encrypted" if thought.encrypted else "reasoning.text"
    return {"type": kind, **{name: value for name, value in told.items() if value}}


# --------------------------------------------------------------------------------------------------------- anthropic


def _message_usage(reply: Reply) -> dict[str, Any]:
    return {"input_tokens": 12, "output_tokens": reply.tokens()} | dict(reply.usage or {})


def _message(reply: Reply) -> dict[str, Any]:
    text = [{"type": "text", "text": reply.text}] if reply.text else []
    calls = [{"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)} for call in reply.tool_calls]
    return {
        "id": "msg_fake",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [_thinking(thought) for thought in reply.thoughts] + text + calls,
        "stop_reason": "tool_use" if reply.tool_calls else "end_turn",
        "stop_sequence": None,
        "usage": _message_usage(reply),
    }


def _message_events(reply: Reply) -> Iterator[bytes]:
    usage = _message_usage(reply)
    start = _message(reply) | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    yield named({"type": "message_start", "message": start})
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for thought in reply.thoughts:
        block = _thinking(thought)
        if block["type"] == "redacted_thinking":
            blocks.append((block, []))
            continue
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in words(thought.text)]
        signing = {"type": "signature_delta", "signature": thought.signature}
        blocks.append((block | {"thinking": "", "signature": ""}, [*deltas, signing]))
    if reply.text:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in reply.pieces()]))
    for call in reply.tool_calls:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *_fragments(call.arguments)]]
        blocks.append(({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, deltas))
    for index, (block, deltas) in enumerate(blocks):
        yield named({"type": "content_block_start", "index": index, "content_block": block})
        if not index:
            yield named({"type": "ping"})
        for delta in deltas:
            yield named({"type": "content_block_delta", "index": index, "delta": delta})
        yield named({"type": "content_block_stop", "index": index})
    reason = "tool_use" if reply.tool_calls else "end_turn"
    yield named({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage})
    yield named({"type": "message_stop"})


def _thinking(thought: Thought) -> dict[str, Any]:
    if thought.signature:
        return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}
    return {"type": "redacted_thinking", "data": thought.encrypted}


# -------------------------------------------------------------------------------------------------- openai_responses


def _response_usage(reply: Reply) -> Mapping[str, Any]:
    tokens = reply.tokens()
    return reply.usage or {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 12 + tokens,
    }


def _response(reply: Reply) -> dict[str, Any]:
    return _response_object(reply, "completed", [whole for _, whole in _items(reply)]) | {"usage": _response_usage(reply)}


def _response_object(reply: Reply, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "resp_fake",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": reply.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "user": None,
    }


def _items(reply: Reply) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each item as it is added, and as it is done."""
    for thought in reply.thoughts:
        item: dict[str, Any] = {"id": thought.id, "type": "reasoning", "summary": []}
        if thought.encrypted:
            item["encrypted_content"] = f"{thought.encrypted[:4]}partial"  # at its start another one is told than at its end
        done = item | {"summary": [{"type": "summary_text", "text": thought.text}] if thought.text else []}
        yield item, done | ({"encrypted_content": thought.encrypted} if thought.encrypted else {})
    if reply.text:
        item = {"id": "msg_fake", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        yield item, item | {"status": "completed", "content": [part]}
    for call in reply.tool_calls:
        item = {
            "id": f"fc_{call.id}",
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": "",
            "status": "in_progress",
        }
        yield item, item | {"status": "completed", "arguments": call.arguments}


def _response_events(reply: Reply) -> Iterator[bytes]:
    number = -1

    def told(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        return named({"type": f"response.{kind}", "sequence_number": number, **fields})

    yield told("created", response=_response_object(reply, "in_progress", []))
    yield told("in_progress", response=_response_object(reply, "in_progress", []))
    for index, (item, done) in enumerate(_items(reply)):
        place = {"item_id": item["id"], "output_index": index}
        yield told("output_item.added", output_index=index, item=item)
        match item["type"]:
            case "reasoning":
                for at, part in enumerate(done["summary"]):
                    where = place | {"summary_index": at}
                    yield told("reasoning_summary_part.added", **where, part=part | {"text": ""})
                    for piece in words(part["text"]):
                        yield told("reasoning_summary_text.delta", **where, delta=piece)
                    yield told("reasoning_summary_text.done", **where, text=part["text"])
                    yield told("reasoning_summary_part.done", **where, part=part)
            case "message":
                where = place | {"content_index": 0}
                part = done["content"][0]
                yield told("content_part.added", **where, part=part | {"text": ""})
                for piece in words(part["text"]):
                    yield told("output_text.delta", **where, delta=piece, logprobs=[])
                yield told("output_text.done", **where, text=part["text"], logprobs=[])
                yield told("content_part.done", **where, part=part)
            case _:
                for piece in _fragments(done["arguments"]):
                    yield told("function_call_arguments.delta", **place, delta=piece)
                yield told("function_call_arguments.done", **place, arguments=done["arguments"], name=item["name"])
        yield told("output_item.done", output_index=index, item=done)
    yield told("completed", response=_response(reply))


def _fragments(arguments: str) -> list[str]:
    """As models cut them: within words and names."""
    return [arguments[start : start + 5] for start in range(0, len(arguments), 5)]
