"""The checker of chat streams passes good ones and names what is wrong with each bad one."""

import json
from typing import Any

import pytest

from tests.wire.grammar.openai_chat import check

DONE = b"data: [DONE]\n\n"
ERROR = b'data: {"error":{"message":"gone","type":"server_error","code":null}}\n\n'


def chunk(delta: Any, finish: str | None = None, index: int = 0, **over: Any) -> bytes:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    body = {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [choice]} | over
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"


def call(index: int, arguments: str, **head: Any) -> dict[str, Any]:
    name = {"name": head.pop("name")} if "name" in head else {}
    return {"tool_calls": [{"index": index, "function": {"arguments": arguments} | name} | head]}


USAGE = chunk({}, choices=[], usage={"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5})
ROLE = chunk({"role": "assistant", "content": ""})
TEXT = chunk({"content": "k\u0131\u015f 🛰"})
STOP = chunk({}, "stop")
FIRST = chunk(call(0, "", id="a", type="function", name="f"))
SECOND = chunk(call(1, "{}", id="b", type="function", name="g"))
CALLED = chunk({}, "tool_calls")


@pytest.mark.parametrize(
    "stream",
    [
        ROLE + TEXT + STOP + DONE,
        ROLE + TEXT + STOP + USAGE + DONE,
        (ROLE + TEXT + STOP + DONE).replace(b"\n", b"\r\n"),
        b": hi\n\n" + ROLE + b": ping\n\n" + STOP + b": losses\n\n" + DONE,
        chunk({"role": "assistant", "content": "all"}, "stop", usage={"prompt_tokens": 2, "completion_tokens": 0, "total_tokens": 2})
        + DONE,
        ROLE + chunk({"role": "assistant"}, index=1) + chunk({}, "length", index=1) + STOP + DONE,
        ROLE + FIRST + chunk(call(0, '{"a":')) + chunk(call(0, "1}")) + SECOND + CALLED + DONE,
        ROLE + chunk(call(0, "", id="a", type="function", name="f")) + CALLED + DONE,
        ROLE + TEXT + ERROR,
        ROLE + ERROR + DONE,
        ERROR,
    ],
)
def test_a_good_stream_passes(stream: bytes) -> None:
    chunks = check(stream)
    assert len(chunks) == stream.count(b"data: {")


@pytest.mark.parametrize(
    ("stream", "wrong"),
    [
        (b"", "empty"),
        (ROLE + STOP, "without \\[DONE\\]"),
        (ROLE + STOP + DONE[:-1], "does not end with a blank line"),
        (ROLE + TEXT + DONE, "no finish reason: \\[0\\]"),
        (DONE, "no choice"),
        (USAGE + DONE, "before a finish reason"),
        (ROLE + STOP + STOP + DONE, "goes on after"),
        (ROLE + STOP + TEXT + DONE, "goes on after"),
        (TEXT + STOP + DONE, "begin with its role"),
        (ROLE + chunk({}, "stop", index=1) + DONE, "choice 1 does not begin"),
        (ROLE + chunk({}, "end_turn") + DONE, "finishes with 'end_turn'"),
        (ROLE + STOP + DONE + DONE, "follows \\[DONE\\]"),
        (ROLE + DONE + STOP + DONE, "follows \\[DONE\\]"),
        (ROLE + STOP + USAGE + USAGE + DONE, "follows the usage"),
        (ROLE + STOP + chunk({}, choices=[]) + DONE, "neither choices nor usage"),
        (ROLE + STOP + USAGE.replace(b": 5", b": 6") + DONE, "2 \\+ 3 tokens are not 6"),
        (ROLE + STOP + USAGE.replace(b": 3", b": null") + DONE, "completion_tokens is None"),
        (ROLE + chunk({}, "stop", id="c2") + DONE, "another `id`"),
        (ROLE + chunk({}, "stop", model="n") + DONE, "another `model`"),
        (ROLE + chunk({}, "stop", created=8) + DONE, "another `created`"),
        (ROLE + chunk({}, "stop", object="chat.completion") + DONE, "is a 'chat.completion'"),
        (chunk({"role": "assistant"}, "stop", id="") + DONE, "empty `id`"),
        (b"event: chunk\n" + ROLE + STOP + DONE, "no event names"),
        (b"event: chunk\n\n" + ROLE + STOP + DONE, "has no data"),
        (ROLE + b"data: {oops\n\n" + STOP + DONE, "no JSON"),
        (ROLE + b"data: 5\n\n" + STOP + DONE, "no JSON object"),
        (ROLE.replace(b'"id": "c1"', b'"id": "c1", "id": "c1"') + STOP + DONE, "comes twice"),
        (ROLE + TEXT.replace("\u0131".encode(), b"\xef\xbf\xbd") + STOP + DONE, "U\\+FFFD"),
        (ROLE + TEXT.replace("\u0131".encode(), b"\xc4") + STOP + DONE, "not UTF-8"),
        (ROLE + b"garbage\n\n" + STOP + DONE, "no reader knows"),
        (b"\xef\xbb\xbf" + ROLE + STOP + DONE, "byte order mark"),
        (ROLE + chunk(call(0, "{}", type="function", name="f")) + CALLED + DONE, "without an id"),
        (ROLE + chunk(call(0, "{}", id="a", name="f")) + CALLED + DONE, "without its type"),
        (ROLE + chunk(call(0, "{}", id="a", type="function")) + CALLED + DONE, "without a name"),
        (ROLE + SECOND + CALLED + DONE, "tool call 1 comes after 0"),
        (ROLE + FIRST + SECOND + chunk(call(0, "{}")) + CALLED + DONE, "tool call 0 comes after 2"),
        (ROLE + FIRST + FIRST + CALLED + DONE, "id twice"),
        (ROLE + FIRST + chunk(call(0, '{"a":')) + CALLED + DONE, "no JSON"),
        (ROLE + CALLED + DONE, "has none"),
        (ERROR + ROLE + STOP + DONE, "something follows an error"),
        (ROLE + STOP + ERROR, "follows a stream that was complete"),
        (ROLE + b'data: {"error":"gone"}\n\n', "is no object"),
        (ROLE + b'data: {"error":{"type":"x"}}\n\n', "no message"),
    ],
)
def test_a_bad_stream_is_told_what_is_wrong_with_it(stream: bytes, wrong: str) -> None:
    with pytest.raises(AssertionError, match=wrong):
        check(stream)
