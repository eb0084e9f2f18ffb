"""Chunks of Chat Completions as tests write them."""

import json
from typing import Any

from tests.wire.streams import read
from trunkline.dialects.openai_chat import DIALECT
from trunkline.errors import UpstreamError
from trunkline.model.event import Failed, Reply
from trunkline.model.part import ToolCall

ROLE = {"role": "assistant", "content": ""}
USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}


def event(payload: Any) -> bytes:
    return b"data: " + json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def chunk(*choices: dict[str, Any], **more: Any) -> bytes:
    return event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "gpt-x", "choices": list(choices), **more})


def choice(delta: Any, finish: str | None = None, index: int = 0) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": finish}


def says(text: str) -> bytes:
    return chunk(choice({"content": text}))


FIRST = chunk(choice(ROLE))
STOP = chunk(choice({}, "stop"))


def reply_of(message: dict[str, Any], **more: Any) -> Reply:
    body = {"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], **more}
    return DIALECT.read_reply(json.dumps(body).encode(), "chat")


def failure(stream: bytes) -> UpstreamError:
    told = read(DIALECT, stream)
    (failed,) = [event for event in told.events if isinstance(event, Failed)]
    assert told.events[-1] is failed
    return failed.error


def called(call_id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)
