import json

import pytest

from tests.wire.streams import cut
from trunkline.dialects import Frame, Written
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_speech import DIALECT
from trunkline.errors import BadRequest, UpstreamBusy, UpstreamDown, UpstreamGarbled, UpstreamRefused
from trunkline.model.card import UNKNOWN
from trunkline.model.event import Ended, Event, Failed, Reply, Used
from trunkline.model.usage import Usage
from trunkline_sdk import sse

BODY = b'{"input": "hello", "voice":{"id":"voice_1"} , "model":"tts","stream":true, "speed":1.10}'
DELTA = b'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n'
DONE = b'data: {"type":"speech.audio.done","usage":{"input_tokens":14,"output_tokens":101,"total_tokens":115}}\n\n'


def frames(stream: bytes | list[bytes]) -> list[Frame]:
    asked = DIALECT.read_request(BODY, "speech")
    reader, events = DIALECT.read_events(request=asked, written=Written(b""), repairs=frozenset()), sse.Events()
    return [reader.read(event) for chunk in ([stream] if isinstance(stream, bytes) else stream) for event in events.feed(chunk)]


def said(stream: bytes) -> list[Event]:
    return [event for frame in frames(stream) for event in frame.events]


def test_a_request_passes_but_for_the_models_name() -> None:
    asked = DIALECT.read_request(BODY, "speech")
    assert (asked.operation, asked.model, asked.max_output) == ("speech", "tts", None)
    assert DIALECT.forward(asked, "tts", ask_usage=True).body == BODY
    assert DIALECT.forward(asked, "a/b", ask_usage=True).body == BODY.replace(b'"tts"', b'"a/b"')


@pytest.mark.parametrize(("told", "stream"), [(None, False), ("audio", False), ("sse", True)])
def test_it_comes_in_events_where_that_is_asked_for_by_its_own_field(told: str | None, stream: bool) -> None:
    body = json.dumps({"model": "tts", "input": "x", "stream_format": told, "stream": not stream}).encode()
    assert DIALECT.read_request(body, "speech").stream is stream


def test_a_request_without_a_model_or_with_a_strange_format_is_refused() -> None:
    with pytest.raises(BadRequest, match="`model` is missing"):
        DIALECT.read_request(b'{"input":"a"}', "speech")
    with pytest.raises(BadRequest, match="`stream_format` is `7`, and must be a string"):
        DIALECT.read_request(b'{"model":"tts","stream_format":7}', "speech")


def test_sound_in_events_is_shown_at_once_and_its_usage_is_known() -> None:
    comment, delta, done = frames(b": ping\n\n" + DELTA + DONE)
    assert (comment.raw, comment.visible) == (b": ping\n\n", False)
    assert (delta.raw, delta.visible, delta.events) == (DELTA, True, ())
    assert (done.raw, done.events) == (DONE, (Used(Usage(input=14, output=101)), Ended()))


@pytest.mark.parametrize(
    "end",
    [b"data: [DONE]\n\n", b'event: speech.audio.done\ndata: {"usage":null}\n\n', b'data: {"type":"speech.audio.done"}\n\n'],
)
def test_the_end_may_be_said_in_other_ways(end: bytes) -> None:
    assert said(DELTA + end) == [Ended()]


@pytest.mark.proves("stream.any-split")
def test_it_reads_the_same_however_it_is_cut() -> None:
    whole = DELTA + b": ping\n\n" + DONE
    for at in range(1, len(whole)):
        assert frames(cut(whole, [at])) == frames(whole)


def test_a_failure_in_the_stream_is_the_error_that_it_tells() -> None:
    [failed] = said(b'data: {"error":{"code":"rate_limit_exceeded","message":"slow"}}\n\n')
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, UpstreamBusy)


@pytest.mark.parametrize("event", [b"data: {nonsense\n\n", b"data: [1]\n\n", b'data: {"usage":5}\n\n'])
def test_an_event_that_cannot_be_read_is_garbled(event: bytes) -> None:
    with pytest.raises(UpstreamGarbled):
        frames(event)


def test_a_stream_without_its_end_is_not_whole() -> None:
    reader = DIALECT.read_events(request=DIALECT.read_request(BODY, "speech"), written=Written(b""), repairs=frozenset())
    with pytest.raises(UpstreamDown, match="before the speech did"):
        reader.end()


def test_json_instead_of_sound_is_read_for_the_error_in_it() -> None:
    assert DIALECT.read_reply(b'{"audio":"AAAA"}', "speech") == Reply(id="", model="")
    with pytest.raises(UpstreamBusy):
        DIALECT.read_reply(b'{"error":{"code":"rate_limit_exceeded","message":"slow"}}', "speech")
    with pytest.raises(UpstreamGarbled):
        DIALECT.read_reply(b"<html>", "speech")


def test_nothing_is_translated() -> None:
    asked = DIALECT.read_request(BODY, "speech")
    with pytest.raises(BadRequest, match="said aloud"):
        DIALECT.write_events(asked)
    with pytest.raises(BadRequest, match="said aloud"):
        DIALECT.write_reply(Reply(id="", model="m"), "speech")
    with pytest.raises(BadRequest, match="openai_speech"):
        DIALECT.read_chat(asked)
    asked = OPENAI_CHAT.read_request(b'{"model":"m","messages":[]}', "chat")
    with pytest.raises(BadRequest, match="openai_speech"):
        DIALECT.write_chat(OPENAI_CHAT.read_chat(asked), asked, "m", UNKNOWN, same=False, ask_usage=False)


def test_errors_have_openais_shape() -> None:
    assert isinstance(DIALECT.read_error(400, b'{"error":{"message":"no"}}', None), UpstreamRefused)
    told = json.loads(DIALECT.write_error(BadRequest("no"), "rqe_a"))
    assert (told["error"]["message"], told["error"]["type"], told["request_id"]) == ("no", "invalid_request_error", "rqe_a")
    assert DIALECT.write_error_event(BadRequest("no"), "rqe_a") == b"data: " + DIALECT.write_error(BadRequest("no"), "rqe_a") + b"\n\n"
