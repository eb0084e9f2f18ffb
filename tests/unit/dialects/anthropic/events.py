"""Events of Messages as tests write them."""

import json
from typing import Any

from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

from tests.wire.streams import read
from trunkline.dialects.anthropic import DIALECT
from trunkline.errors import UpstreamError
from trunkline.model.event import Failed

EVENTS: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)
"""What the vendor's SDK takes an event for."""


def event(name: str, **fields: Any) -> bytes:
    data = json.dumps({"type": name, **fields}, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {data}\n\n".encode()


def start(usage: Any = None, **more: Any) -> bytes:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": [], "stop_reason": None, **more}
    return event("message_start", message=message if usage is None else {**message, "usage": usage})


def block(index: int, kind: str = "text", **fields: Any) -> bytes:
    return event("content_block_start", index=index, content_block={"type": kind, **({"text": ""} if kind == "text" else {}), **fields})


def delta(index: int, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta=fields)


def says(index: int, text: str) -> bytes:
    return delta(index, type="text_delta", text=text)


def close(index: int) -> bytes:
    return event("content_block_stop", index=index)


def finish(reason: str | None = "end_turn", **usage: Any) -> bytes:
    return event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage or {"output_tokens": 5})


PING = event("ping")
START = start({"input_tokens": 9, "output_tokens": 1})
TEXT = block(0) + says(0, "Hel") + says(0, "lo") + close(0)
STOP = event("message_stop")
WHOLE = START + PING + TEXT + finish() + STOP


def failure(stream: bytes) -> UpstreamError:
    told = read(DIALECT, stream)
    (failed,) = [each for each in told.events if isinstance(each, Failed)]
    assert told.events[-1] is failed
    return failed.error
