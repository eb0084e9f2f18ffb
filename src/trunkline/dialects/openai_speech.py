"""OpenAI Speech: forwarded, never translated. The answer is sound in the format that was asked for, which nobody here reads, or a stream of events.

Source: the API reference of `POST /v1/audio/speech` and of its stream events `speech.audio.delta` and `speech.audio.done`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from trunkline.base.codec import NULL, Decoder, Malformed, Raw, Wire, decode_raw, is_null
from trunkline.dialects import Dialect, EventReader, EventWriter, Frame, Repair, Written
from trunkline.dialects import _fields as fields
from trunkline.dialects import _openai as openai
from trunkline.dialects._splice import read_object, splice
from trunkline.errors import BadRequest, TrunklineError, UpstreamDown, UpstreamError, UpstreamGarbled
from trunkline.model.event import Ended, Failed, Reply, Used
from trunkline.model.loss import Loss
from trunkline.model.request import Operation, Request
from trunkline_sdk import sse


class _Usage(Wire, frozen=True):
    """`usage`: what is written are tokens of sound."""

    input_tokens: int | None = None
    output_tokens: int | None = None


class _Event(Wire, frozen=True):
    """One event of a stream; the sound in it stays unread."""

    type: str | None = None
    usage: _Usage | None = None
    error: Raw = NULL


_decoder = Decoder(_Event)


class SpeechReader(EventReader):
    """Reads a stream: sound in pieces, and `speech.audio.done` at the end (some servers say `[DONE]`)."""

    __slots__ = ()

    def read(self, event: sse.Event) -> Frame:
        """One event, or a comment."""
        data = event.data
        if data is None:
            return Frame(event.raw, visible=False)
        if data == b"[DONE]":
            return Frame(event.raw, (Ended(),))
        try:
            told = _decoder.decode(data)
        except Malformed as error:
            raise UpstreamGarbled(f"an event of the provider's stream cannot be read: {error}") from None
        if not is_null(told.error):
            return Frame(event.raw, (Failed(openai.failure(told.error)),))
        used = (Used(openai.buckets(told.usage.input_tokens, told.usage.output_tokens, None, None)),) if told.usage else ()
        ended = (Ended(),) if (told.type or event.name) == "speech.audio.done" else ()
        return Frame(event.raw, (*used, *ended))

    def end(self) -> Frame:
        """Sound that lacks its end sounds as if it were whole, so that it must not pass for that."""
        raise UpstreamDown("the provider's stream ended before the speech did")


@dataclass(frozen=True, slots=True)
class OpenAISpeech(Dialect):
    """Speech as OpenAI, and others, make it."""

    name: ClassVar[str] = "openai_speech"
    opaque: ClassVar[bool] = True

    def read_request(self, body: bytes, operation: Operation) -> Request:
        """Read `model` and `stream_format`."""
        top = read_object(body)
        stream = fields.read(top, "stream_format", str, "") == "sse"
        return Request(operation=operation, model=fields.model(top), stream=stream, max_output=None, body=body, fields=top)

    def forward(self, request: Request, model: str, *, ask_usage: bool) -> Written:
        """Put the provider's model name in."""
        return Written(request.body if model == request.model else splice(request.body, request.fields, {"model": model}))

    def read_reply(self, body: bytes, operation: Operation) -> Reply:
        """What a JSON object says that came instead of sound: an error, or what only its caller understands."""
        try:
            found = decode_raw(body, openai.Failure)
        except Malformed as error:
            raise UpstreamGarbled(f"the provider's reply cannot be read: {error}") from None
        if not is_null(found.error):
            raise openai.failure(found.error)
        return Reply(id="", model="")

    def write_reply(self, reply: Reply, operation: Operation) -> tuple[bytes, tuple[Loss, ...]]:
        """A neutral reply has no sound."""
        raise BadRequest("nothing can be said aloud here", hint="Ask a model whose provider makes speech.")

    def read_events(
        self, *, request: Request, written: Written, repairs: frozenset[Repair], tell: Callable[[str], str] | None = None
    ) -> EventReader:
        """A reader for sound in events."""
        return SpeechReader()

    def write_events(self, request: Request) -> EventWriter:
        """A neutral reply has no sound."""
        raise BadRequest("nothing can be said aloud here", hint="Ask a model whose provider makes speech.")

    def read_error(self, status: int, body: bytes, retry_after: float | None) -> UpstreamError:
        """Read `{"error": {"message": …}}`."""
        return openai.read_error(status, body, retry_after)

    def write_error(self, error: TrunklineError, request_id: str) -> bytes:
        """`{"error": {"message", "type", "param", "code"}}`."""
        return openai.write_error(error, request_id)

    def write_error_event(self, error: TrunklineError, request_id: str) -> bytes:
        """As the other formats of the same clients say it."""
        return sse.event(self.write_error(error, request_id))


DIALECT = OpenAISpeech()
