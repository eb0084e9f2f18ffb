"""Anthropic Messages.

Source: the API reference of `POST /v1/messages`, its streaming page (event names, order of blocks, `ping`, `error`) and
`POST /v1/messages/count_tokens`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from trunkline.base.codec import Malformed, Raw, encode, is_null
from trunkline.dialects import Dialect, EventReader, EventWriter, Repair, Written
from trunkline.dialects import _errors as errors
from trunkline.dialects import _fields as fields
from trunkline.dialects._carrier import carries, pack
from trunkline.dialects._reading import Object, is_object
from trunkline.dialects._splice import read_object, splice
from trunkline.dialects._turns import must_be_cut
from trunkline.dialects.anthropic.read import read_chat
from trunkline.dialects.anthropic.stream import MessageReader, MessageWriter
from trunkline.dialects.anthropic.wire import (
    FINISH_NAMES,
    NAME,
    Block,
    decoded,
    finish,
    merged,
    read_error,
    read_message,
    thought,
    wire_usage,
)
from trunkline.dialects.anthropic.write import Writer
from trunkline.errors import BadRequest, TrunklineError, UpstreamError, UpstreamGarbled
from trunkline.model.card import Card
from trunkline.model.chat import Chat
from trunkline.model.event import Reply
from trunkline.model.loss import Loss, dropped, report, unsupported
from trunkline.model.part import Part, Reasoning, Refusal, Text, ToolCall
from trunkline.model.request import Operation, Request
from trunkline.model.usage import Usage
from trunkline_sdk import sse

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class Anthropic(Dialect):
    """Messages as Anthropic, and those compatible with it, speak it."""

    name: ClassVar[str] = NAME
    reply_prefix: ClassVar[str] = "msg"
    keep_alive: ClassVar[bytes] = b'event: ping\ndata: {"type": "ping"}\n\n'

    def same(self, other: Dialect, request: Request) -> bool:
        """What carries a thought of another vendor, or one that nobody signed, is not forwarded: this vendor verifies signatures."""
        return self == other and not carries(request.body)

    def read_request(self, body: bytes, operation: Operation) -> Request:
        """Read `model`, `stream` and `max_tokens`."""
        top = read_object(body)
        request = Request(
            operation=operation,
            model=fields.model(top),
            stream=operation == "chat" and fields.read(top, "stream", bool, default=False),
            max_output=fields.limit(top, "max_tokens"),
            body=body,
            fields=top,
        )
        if operation == "chat" and request.max_output is None:
            raise BadRequest("`max_tokens` is missing", hint="The Messages format requires it; 4096 is a common choice.")
        return request

    def forward(self, request: Request, model: str, *, ask_usage: bool) -> Written:
        """Put the provider's model name in; this format tells usage unasked."""
        return Written(request.body if model == request.model else splice(request.body, request.fields, {"model": model}))

    def read_chat(self, request: Request) -> Chat:
        """All of a request."""
        return read_chat(Object(dict(request.fields)))

    def write_chat(self, chat: Chat, request: Request, model: str, card: Card, *, same: bool, ask_usage: bool) -> Written:
        """The request for a provider of this dialect."""
        writer = Writer(card=card, same=same)
        body = writer.write(chat, model, stream=request.stream)
        return Written(encode(body), losses=report(writer.losses), names=writer.names)

    def read_reply(self, body: bytes, operation: Operation) -> Reply:
        """Read a message, or the answer of `count_tokens`."""
        message = decoded(read_message, body)
        if operation == "count_tokens":
            if message.input_tokens is None:
                raise UpstreamGarbled("the provider's token count has no `input_tokens`")
            return Reply(id="", model="")  # counting uses nothing
        if message.content is None:
            raise UpstreamGarbled("the provider's reply has no content")
        known = [(number, block, _part(block)) for number, block in enumerate(message.content)]
        losses = [unsupported(f"content.{number}", f"a block of type `{block.type}`") for number, block, part in known if part is None]
        losses += [unsupported(f"content.{number}.citations") for number, block, _ in known if _says(block.citations)]
        return Reply(
            id=message.id,
            model=message.model,
            content=tuple(part for _, _, part in known if part is not None),
            finish=finish(message.stop_reason),
            stop=message.stop_sequence,
            usage=merged(Usage(), message.usage) if message.usage else None,
            losses=tuple(losses),
        )

    def write_reply(self, reply: Reply, operation: Operation) -> tuple[bytes, tuple[Loss, ...]]:
        """Write a message, or the answer of `count_tokens`.

        Raises:
            UpstreamGarbled: a tool call is said to be complete and its arguments are no object.
        """
        used = reply.usage or Usage()
        if operation == "count_tokens":
            return encode({"input_tokens": used.input}), ()
        cut = [number for number, part in enumerate(reply.content) if isinstance(part, ToolCall) and not is_object(_arguments(part))]
        if cut:
            must_be_cut(reply.finish)
        losses = [dropped(f"content.{number}", "a tool call that is not complete", material=True) for number in cut]
        whole = [part for number, part in enumerate(reply.content) if number not in cut]
        body = {
            "id": reply.id,
            "type": "message",
            "role": "assistant",
            "model": reply.model,
            "content": [block for part in whole if (block := _block(part)) is not None],
            "stop_reason": "stop_sequence" if reply.stop is not None else FINISH_NAMES[reply.finish or "stop"],
            "stop_sequence": reply.stop,
            "usage": wire_usage(used),
        }
        return encode(body), report([*reply.losses, *losses])

    def read_events(
        self, *, request: Request, written: Written, repairs: frozenset[Repair], tell: Callable[[str], str] | None = None
    ) -> EventReader:
        """A reader of Messages events."""
        return MessageReader(model=request.model, start_missing="message_start" in repairs)

    def write_events(self, request: Request) -> EventWriter:
        """A writer of Messages events."""
        return MessageWriter()

    def read_error(self, status: int, body: bytes, retry_after: float | None) -> UpstreamError:
        """Read `{"type": "error", "error": {"type", "message"}}`."""
        try:
            told = read_error(body).error
        except Malformed:
            told = None
        return errors.judged(status, (told and told.message) or "", body, retry_after)

    def write_error(self, error: TrunklineError, request_id: str) -> bytes:
        """`{"type": "error", "error": {"type", "message"}, "request_id"}`, with our code beside the type."""
        kind = ERROR_TYPES.get(error.http_status, "invalid_request_error" if error.http_status < 500 else "api_error")
        return encode(
            {
                "type": "error",
                "error": {"type": kind, "message": error.sentence, "code": error.code},
                "request_id": request_id,
            }
        )

    def write_error_event(self, error: TrunklineError, request_id: str) -> bytes:
        """`event: error`; the SDKs raise it."""
        return sse.event(self.write_error(error, request_id), "error")


def _says(raw: Raw) -> bool:
    return not is_null(raw) and bytes(raw) != b"[]"


def _part(block: Block) -> Part | None:
    match block.type:
        case "text":
            return Text(text=block.text or "")
        case "thinking":
            end = thought(block.signature or "")
            return Reasoning(text=block.thinking or "", signature=end.signature, origin=end.origin)
        case "redacted_thinking":
            return Reasoning(encrypted=block.data, origin=NAME)
        case "tool_use":
            return ToolCall(id=block.id, name=block.name, arguments=block.arguments)
        case _:
            return None


def _block(part: Part) -> dict[str, Any] | None:
    match part:
        case Text(text=text) | Refusal(text=text):
            return {"type": "text", "text": text} if text else None
        case Reasoning(text=text, signature=signature, encrypted=encrypted, origin=origin):
            if origin == NAME and encrypted:
                return {"type": "redacted_thinking", "data": encrypted}
            return {"type": "thinking", "thinking": text, "signature": signature if origin == NAME else pack(part)}
        case ToolCall(id=call_id, name=name):
            return {"type": "tool_use", "id": call_id, "name": name, "input": Raw(_arguments(part).encode())}
        case _:
            return None


def _arguments(call: ToolCall) -> str:
    return call.arguments.strip() or "{}"


DIALECT = Anthropic()
