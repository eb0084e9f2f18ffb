"""OpenAI Embeddings: forwarded, never translated, since the vectors of two models mean nothing to each other.

Source: the API reference of `POST /v1/embeddings`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from trunkline.base.codec import NULL, Decoder, Malformed, Raw, Wire, encode, is_null
from trunkline.dialects import Dialect, EventReader, EventWriter, Repair, Written
from trunkline.dialects import _fields as fields
from trunkline.dialects import _openai as openai
from trunkline.dialects._splice import read_object, splice
from trunkline.errors import BadRequest, TrunklineError, UpstreamError, UpstreamGarbled
from trunkline.model.event import Reply
from trunkline.model.loss import Loss
from trunkline.model.request import Operation, Request
from trunkline.model.usage import Usage
from trunkline_sdk import sse


class _Usage(Wire, frozen=True):
    """`usage`: what is read is all there is."""

    prompt_tokens: int | None = None


class _Embeddings(Wire, frozen=True):
    """The list of vectors, of which only the rest is read."""

    model: str | None = None
    usage: _Usage | None = None
    data: Raw = NULL
    error: Raw = NULL


_decoder = Decoder(_Embeddings)


@dataclass(frozen=True, slots=True)
class OpenAIEmbeddings(Dialect):
    """Embeddings as OpenAI, and many others, speak it."""

    name: ClassVar[str] = "openai_embeddings"
    reply_prefix: ClassVar[str] = "embd"

    def read_request(self, body: bytes, operation: Operation) -> Request:
        """Read `model`."""
        top = read_object(body)
        return Request(operation=operation, model=fields.model(top), stream=False, max_output=None, body=body, fields=top)

    def forward(self, request: Request, model: str, *, ask_usage: bool) -> Written:
        """Put the provider's model name in."""
        return Written(request.body if model == request.model else splice(request.body, request.fields, {"model": model}))

    def repeatable(self, request: Request) -> bool:
        """Never: thousands of texts may have been paid for (daemon contract, F)."""
        return False

    def read_reply(self, body: bytes, operation: Operation) -> Reply:
        """Read the usage."""
        try:
            found = _decoder.decode(body)
        except Malformed as error:
            raise UpstreamGarbled(f"the provider's reply cannot be read: {error}") from None
        if not is_null(found.error):
            raise openai.failure(found.error)
        if is_null(found.data):
            raise UpstreamGarbled("the provider's reply has no data")
        used = found.usage and Usage(input=found.usage.prompt_tokens or 0)
        return Reply(id="", model=found.model or "", usage=used)

    def write_reply(self, reply: Reply, operation: Operation) -> tuple[bytes, tuple[Loss, ...]]:
        """A list without vectors: a neutral reply has none."""
        read = reply.usage.input if reply.usage else 0
        used = {"prompt_tokens": read, "total_tokens": read}
        return encode({"object": "list", "data": [], "model": reply.model, "usage": used}), ()

    def read_events(
        self, *, request: Request, written: Written, repairs: frozenset[Repair], tell: Callable[[str], str] | None = None
    ) -> EventReader:
        """There are no streams of vectors."""
        raise BadRequest("embeddings do not come as a stream")

    def write_events(self, request: Request) -> EventWriter:
        """There are no streams of vectors."""
        raise BadRequest("embeddings do not come as a stream")

    def read_error(self, status: int, body: bytes, retry_after: float | None) -> UpstreamError:
        """Read `{"error": {"message": …}}`."""
        return openai.read_error(status, body, retry_after)

    def write_error(self, error: TrunklineError, request_id: str) -> bytes:
        """`{"error": {"message", "type", "param", "code"}}`."""
        return openai.write_error(error, request_id)

    def write_error_event(self, error: TrunklineError, request_id: str) -> bytes:
        """As the other format of the same clients says it."""
        return sse.event(self.write_error(error, request_id))


DIALECT = OpenAIEmbeddings()
