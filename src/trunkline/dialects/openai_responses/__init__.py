"""OpenAI Responses.

Source: the API reference of `POST /v1/responses` and of its streaming events, as the `openai` SDK types them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from trunkline.base.codec import Malformed, Raw, Wire, decode_raw, encode
from trunkline.dialects import Dialect, EventReader, EventWriter, Repair, Written, is_said
from trunkline.dialects import _fields as fields
from trunkline.dialects import _openai as openai
from trunkline.dialects._carrier import carries
from trunkline.dialects._reading import Object
from trunkline.dialects._splice import read_object, splice
from trunkline.dialects.openai_responses.read import read_chat
from trunkline.dialects.openai_responses.read_stream import KeptReader, ResponseReader
from trunkline.dialects.openai_responses.reply import read_reply, write_reply
from trunkline.dialects.openai_responses.wire import NAME, PREFIX, response, response_id, with_ids
from trunkline.dialects.openai_responses.write import Writer
from trunkline.dialects.openai_responses.write_stream import ResponseWriter
from trunkline.errors import BadRequest, TrunklineError, UpstreamError
from trunkline.model.card import Card
from trunkline.model.chat import Chat
from trunkline.model.event import Reply
from trunkline.model.loss import Loss, report
from trunkline.model.request import Operation, Request
from trunkline_sdk import sse

KEPT = ("previous_response_id", "conversation", "prompt")
"""What names something that the provider keeps."""

REFERENCES = (b'"item_reference"', b'"encrypted_content"', b'"file_id"')
"""What an input holds that only its provider can read. Inside a text its quotes would be escaped."""

CALLERS_TOOLS = frozenset({"function", "custom"})
"""The tools that the caller runs; all others are the provider's, and may have been at work."""

LAST = 2**31 - 2
"""The sequence number of an error: who writes it does not know how far the stream was, and the numbers must rise."""


class _Head(Wire, frozen=True):
    """What tells a reference to a kept item: its type, or that it has nothing but an id."""

    type: str | None = None
    role: str | None = None


class _Named(Wire, frozen=True):
    """What says what it is."""

    object: str = ""


@dataclass(frozen=True, slots=True)
class OpenAIResponses(Dialect):
    """Responses as OpenAI, and those compatible with it, speak it."""

    name: ClassVar[str] = NAME
    reply_prefix: ClassVar[str] = PREFIX
    stored_field: ClassVar[str] = "previous_response_id"

    def same(self, other: Dialect, request: Request) -> bool:
        """What carries another vendor's thought is not forwarded: this vendor refuses an encrypted content that it did not make."""
        return self == other and not carries(request.body)

    def read_request(self, body: bytes, operation: Operation) -> Request:
        """Read `model`, `stream` and `max_output_tokens`."""
        top = read_object(body)
        return Request(
            operation=operation,
            model=fields.model(top),
            stream=fields.read(top, "stream", bool, default=False),
            max_output=fields.limit(top, "max_output_tokens"),
            body=body,
            fields=top,
        )

    def forward(self, request: Request, model: str, *, ask_usage: bool) -> Written:
        """Put the provider's model name in; this format tells usage unasked."""
        return Written(request.body if model == request.model else splice(request.body, request.fields, {"model": model}))

    def translatable(self, request: Request) -> None:
        """Refuse what goes on from something that another provider keeps, or that only its own clients can fetch later."""
        for name in KEPT:
            if is_said(request, name) is not None:
                raise BadRequest(
                    f"`{name}` names what another provider keeps, and this model is not there",
                    hint="Send the whole conversation in `input`, or ask a model whose provider speaks Responses.",
                )
        if fields.read(request.fields, "background", bool, default=False):
            raise BadRequest("`background` is `true`, and only a provider that speaks Responses works in the background")
        for number, item in enumerate(_heads(is_said(request, "input"))):
            if item.type == "item_reference" or (item.type is None and item.role is None):
                raise BadRequest(
                    f"`input.{number}` names an item that another provider keeps, and this model is not there",
                    hint="Send the item itself.",
                )

    def read_chat(self, request: Request) -> Chat:
        """All of a request."""
        return read_chat(Object(dict(request.fields)))

    def write_chat(self, chat: Chat, request: Request, model: str, card: Card, *, same: bool, ask_usage: bool) -> Written:
        """The request for a provider of this dialect."""
        writer = Writer(card=card, same=same)
        body = writer.write(chat, model, stream=request.stream)
        return Written(encode(body), losses=report(writer.losses), names=writer.names)

    def keeps(self, request: Request) -> bool:
        """A response is kept unless the caller says `store: false`."""
        return fields.read(request.fields, "store", bool, default=True)

    def repeatable(self, request: Request) -> bool:
        """Not where it is to be kept, goes on from what is kept, or has the provider use tools of its own (daemon contract, F)."""
        if any(is_said(request, name) for name in KEPT) or is_said(request, "store") == Raw(b"true"):
            return False
        given, tools = is_said(request, "input"), is_said(request, "tools")
        if given is not None and any(word in bytes(given) for word in REFERENCES):
            return False
        try:
            return tools is None or all(tool.type in CALLERS_TOOLS for tool in decode_raw(tools, list[_Head]))
        except Malformed:
            return False

    def tell_ids(self, body: bytes, tell: Callable[[str], str]) -> bytes:
        """A response with the ids that callers know; a list of its items has none of them."""
        return with_ids(body, tell) if _is_response(body) else body

    def read_kept(self, tell: Callable[[str], str], clean: Callable[[bytes], bytes]) -> EventReader:
        """A reader of the events of a kept response."""
        return KeptReader(tell, clean)

    def read_reply(self, body: bytes, operation: Operation) -> Reply:
        """Read a response."""
        return read_reply(body)

    def write_reply(self, reply: Reply, operation: Operation) -> tuple[bytes, tuple[Loss, ...]]:
        """Write a response."""
        return encode(write_reply(reply)), report(reply.losses)

    def read_events(
        self, *, request: Request, written: Written, repairs: frozenset[Repair], tell: Callable[[str], str] | None = None
    ) -> EventReader:
        """A reader of Responses events."""
        return ResponseReader(model=request.model, tell=tell)

    def write_events(self, request: Request) -> EventWriter:
        """A writer of Responses events."""
        return ResponseWriter()

    def read_error(self, status: int, body: bytes, retry_after: float | None) -> UpstreamError:
        """Read `{"error": {"message": …}}`."""
        return openai.read_error(status, body, retry_after)

    def write_error(self, error: TrunklineError, request_id: str) -> bytes:
        """`{"error": {"message", "type", "param", "code"}}`."""
        return openai.write_error(error, request_id)

    def write_error_event(self, error: TrunklineError, request_id: str) -> bytes:
        """`error`, then `response.failed`, as OpenAI itself ends a stream that fails.

        The first is what the SDKs raise, and they look for a top-level `error` (openai-python `_streaming.py`, openai-node
        `core/streaming.ts`); its flat fields are those of the reference. Agents wait for a terminal event and read the code in it
        (codex `codex-api/src/sse/responses.rs`, pi): without one they take the stream for cut.
        """
        body = openai.error_body(error)
        told = {"type": "error", "sequence_number": LAST, **{name: body[name] for name in ("code", "message", "param")}, "error": body}
        failed = response(response_id(request_id), "", 0, status="failed", error={"code": _code(error), "message": error.sentence})
        return sse.event(encode(told), "error") + sse.event(
            encode({"type": "response.failed", "sequence_number": LAST + 1, "response": failed}), "response.failed"
        )


def _code(error: TrunklineError) -> str:
    """One of the codes that a response may fail with (`openai.types.responses.ResponseError`)."""
    if error.http_status == 429:
        return "rate_limit_exceeded"
    return "server_error" if error.http_status >= 500 else "invalid_prompt"


def _is_response(body: bytes) -> bool:
    """Whether a body is a response, or says that one is deleted."""
    try:
        return decode_raw(body, _Named).object.startswith("response")
    except Malformed:
        return False


def _heads(raw: Raw | None) -> list[_Head]:
    """The items of the input, as far as they tell a reference; none where it is a text, or wrong, which others tell."""
    try:
        return decode_raw(raw, list[_Head]) if raw is not None else []
    except Malformed:
        return []


DIALECT = OpenAIResponses()
