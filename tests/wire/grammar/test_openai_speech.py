"""The checker of streams of speech passes good ones and names what is wrong with each bad one."""

import pytest

from tests.wire.grammar.openai_speech import check

DELTA = b'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n'
DONE = b'data: {"type":"speech.audio.done","usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}\n\n'
ERROR = b'data: {"error":{"message":"gone","type":"server_error","code":null}}\n\n'


@pytest.mark.parametrize("stream", [DELTA + DONE, DELTA + b": ping\n\n" + DELTA + DONE, DELTA + ERROR, DONE, ERROR])
def test_good_streams_pass(stream: bytes) -> None:
    assert len(check(stream)) == stream.count(b"data:")


@pytest.mark.parametrize(
    ("stream", "wrong"),
    [
        (DELTA, "the end is missing"),
        (DELTA + DONE + DELTA, "no sound, and not the end"),
        (b'data: {"type":"speech.audio.delta"}\n\n' + DONE, "audio"),
        (DELTA + DONE[:-2], "blank line"),
    ],
)
def test_bad_streams_are_named(stream: bytes, wrong: str) -> None:
    with pytest.raises((AssertionError, KeyError), match=wrong):
        check(stream)
