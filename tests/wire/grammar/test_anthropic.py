"""The checker of Messages streams passes good ones and names what is wrong with each bad one."""

import json
from typing import Any

import pytest

from tests.wire.grammar.anthropic import check


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | fields)}\n\n".encode()


def begin(index: int, **block: Any) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def delta(index: int, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta=fields)


def end(index: int) -> bytes:
    return event("content_block_stop", index=index)


def start(**over: Any) -> bytes:
    message: dict[str, Any] = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1}}
    return event("message_start", message={key: value for key, value in (message | over).items() if value is not ...})


def closing(reason: str | None = "end_turn", **usage: Any) -> bytes:
    return event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage or {"output_tokens": 5})


START, PING, STOP = start(), event("ping"), event("message_stop")
HELLO = delta(0, type="text_delta", text="hello")
TEXT = begin(0, type="text", text="") + HELLO + end(0)
CALL = begin(0, type="tool_use", id="t1", name="f", input={})
THOUGHT = (
    begin(0, type="thinking", thinking="", signature="")
    + delta(0, type="thinking_delta", thinking="hm")
    + delta(0, type="signature_delta", signature="c2ln")
    + end(0)
)
ERROR = event("error", error={"type": "overloaded_error", "message": "busy"})


def piece(text: str) -> bytes:
    return delta(0, type="input_json_delta", partial_json=text)


@pytest.mark.parametrize(
    "stream",
    [
        START + PING + TEXT + closing() + STOP,
        START + TEXT + PING + closing("max_tokens") + PING + STOP,
        START + closing() + STOP,
        (START + TEXT + closing() + STOP).replace(b"\n", b"\r\n"),
        b": hb\n\n" + START + b": hb\n\n" + TEXT + closing() + STOP,
        START + THOUGHT + begin(1, type="text", text="") + end(1) + closing() + STOP,
        START + begin(0, type="redacted_thinking", data="x") + end(0) + closing() + STOP,
        START + begin(0, type="web_search_tool_result", tool_use_id="t", content=[]) + end(0) + closing() + STOP,
        START + CALL + piece("") + piece('{"a":') + PING + piece("1}") + end(0) + closing("tool_use") + STOP,
        START + CALL + end(0) + closing("tool_use") + STOP,
        START + TEXT + ERROR,
        START + CALL + piece('{"path":"/e') + ERROR,
        START + CALL + piece('{"path":"/e') + end(0) + PING + closing("max_tokens") + STOP,
        ERROR,
    ],
)
def test_a_good_stream_passes(stream: bytes) -> None:
    assert len(check(stream)) == stream.count(b"data: {")


@pytest.mark.parametrize(
    ("stream", "wrong"),
    [
        (b"", "empty"),
        (START + TEXT + closing(), "ends after message_delta"),
        (START + TEXT + closing() + STOP[:-1], "does not end with a blank line"),
        (TEXT + closing() + STOP, "content_block_start comes before message_start"),
        (PING + START + TEXT + closing() + STOP, "ping comes before message_start"),
        (START + START + TEXT + closing() + STOP, "a second message_start"),
        (start(usage=...) + TEXT + closing() + STOP, "no usage"),
        (start(usage={"input_tokens": 1}) + closing() + STOP, "output_tokens is None"),
        (start(id="") + closing() + STOP, "no id"),
        (start(model=...) + closing() + STOP, "no model"),
        (start(role="user") + closing() + STOP, "begins with `role`"),
        (start(content=[{}]) + closing() + STOP, "begins with `content`"),
        (start(stop_reason="end_turn") + closing() + STOP, "begins with `stop_reason`"),
        (start(stop_sequence=...) + closing() + STOP, "no `stop_sequence`"),
        (START + begin(1, type="text", text="") + end(1) + closing() + STOP, "block 0 has the index 1"),
        (START + TEXT + TEXT + closing() + STOP, "block 1 has the index 0"),
        (START + begin(0, type="text", text="") + begin(1, type="text", text=""), "begins within block 0"),
        (START + HELLO + closing() + STOP, "outside of a block"),
        (START + TEXT + end(0) + closing() + STOP, "outside of a block"),
        (START + begin(0, type="text", text="") + delta(1, type="text_delta", text="x"), "of block 1 in block 0"),
        (START + CALL + HELLO, "a tool_use block has a 'text_delta'"),
        (START + begin(0, type="text", text="") + piece("{}"), "a text block has a 'input_json_delta'"),
        (START + begin(0, type="text", text="") + delta(0, type="text_delta"), "no `text`"),
        (START + begin(0, type="text"), "without `text`"),
        (START + begin(0, type="tool_use", name="f", input={}), "no id"),
        (START + begin(0, type="tool_use", id="t", input={}), "no name"),
        (START + begin(0, type="tool_use", id="t", name="f"), "without `input`"),
        (START + CALL + piece('{"a":') + end(0) + closing("tool_use") + STOP, "no JSON"),
        (START + CALL + piece('{"a":') + end(0) + ERROR, "no JSON"),
        (START + CALL + piece('{"a":') + end(0) + begin(1, type="text", text=""), "no JSON"),
        (START + begin(0, type="text", text="") + closing() + STOP, "within block 0"),
        (START + TEXT + STOP, "without message_delta"),
        (START + TEXT + closing() + closing() + STOP, "a second message_delta"),
        (START + closing() + TEXT + STOP, "begins after message_delta"),
        (START + TEXT + closing(None) + STOP, "stops with None"),
        (START + TEXT + closing("stop") + STOP, "stops with 'stop'"),
        (START + TEXT + closing("tool_use") + STOP, "has none"),
        (START + TEXT + closing(input_tokens=1) + STOP, "output_tokens is None"),
        (START + TEXT + closing() + STOP + STOP, "message_stop follows the end"),
        (START + TEXT + closing() + STOP + ERROR, "error follows the end"),
        (START + ERROR + TEXT + closing() + STOP, "follows the end"),
        (START + event("error", error={"type": "x"}), "no message"),
        (START + event("error", message="x"), "says nothing"),
        (START.replace(b"event: message_start", b"event: start") + closing() + STOP, "has data of type 'message_start'"),
        (START.replace(b"event: message_start\n", b"") + closing() + STOP, "the event '' has data"),
        (START + event("surprise") + closing() + STOP, "no event 'surprise'"),
        (START + b"data: [DONE]\n\n", "no JSON"),
    ],
)
def test_a_bad_stream_is_told_what_is_wrong_with_it(stream: bytes, wrong: str) -> None:
    with pytest.raises(AssertionError, match=wrong):
        check(stream)
