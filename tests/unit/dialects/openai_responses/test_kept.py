"""The stream of a response that is kept passes as it comes, with the ids that callers know."""

import pytest

from trunkline.dialects import EventReader
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_responses import DIALECT
from trunkline.errors import BadRequest, UpstreamDown, UpstreamGarbled
from trunkline.model.event import Ended
from trunkline_sdk import sse

DELTA = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"x"}\n\n'
DONE = b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"a", "previous_response_id":"b","n":1.0}}\n\n'


def reader() -> EventReader:
    return DIALECT.read_kept(lambda found: f"resp_x~{found}", lambda data: data.replace(b"sk-x", b"***"))


def read(reader: EventReader, stream: bytes) -> tuple[bytes, list[object]]:
    frames = [reader.read(event) for event in sse.Events().feed(stream)]
    return b"".join(frame.raw for frame in frames), [event for frame in frames for event in frame.events]


@pytest.mark.proves("stored")
def test_it_may_begin_anywhere_and_ends_with_the_terminal_event() -> None:
    raw, events = read(reader(), b": hb\n\n" + DELTA + DONE)
    told = DONE.replace(b'"a"', b'"resp_x~a"').replace(b'"b"', b'"resp_x~b"')
    assert raw == b": hb\n\n" + DELTA + told
    assert events == [Ended()]


@pytest.mark.parametrize("body", [b'{"response":{"id":"a","error":{"message":"no sk-x"}}}', b'{"error":{"message":"no sk-x"}}'])
@pytest.mark.proves("stored", "G19")
def test_one_that_failed_long_ago_is_told_as_it_is_and_cleaned(body: bytes) -> None:
    raw, events = read(reader(), b"event: response.failed\ndata: " + body + b"\n\n")
    assert raw == b"event: response.failed\ndata: " + body.replace(b'"a"', b'"resp_x~a"').replace(b"sk-x", b"***") + b"\n\n"
    assert events == [Ended()]


@pytest.mark.proves("stored", "stream.never-clean")
def test_one_that_ends_before_that_is_cut() -> None:
    watching = reader()
    read(watching, DELTA)
    with pytest.raises(UpstreamDown):
        watching.end()


def test_what_is_no_json_is_garbled() -> None:
    with pytest.raises(UpstreamGarbled):
        read(reader(), b"data: <html>\n\n")


def test_nothing_else_is_kept_as_a_stream() -> None:
    with pytest.raises(BadRequest, match="`anthropic`"):
        ANTHROPIC.read_kept(str, bytes)
