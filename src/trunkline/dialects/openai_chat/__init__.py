"""OpenAI Chat Completions.

Source: the API reference of `POST /v1/chat/completions` and its chunk object. `[DONE]` ends a stream; with
`stream_options.include_usage` a last chunk has no choices and the usage; an error inside a stream is a chunk with `error`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from trunkline.base.codec import Raw, encode, is_null
from trunkline.dialects import Dialect, EventReader, EventWriter, Repair, Written, is_said
from trunkline.dialects import _fields as fields
from trunkline.dialects import _openai as openai
from trunkline.dialects._reading import Object
from trunkline.dialects._splice import read_object, splice
from trunkline.dialects.openai_chat.read import read_chat
from trunkline.dialects.openai_chat.stream import ChunkReader, ChunkWriter, reasoning_detail, tells_usage
from trunkline.dialects.openai_chat.wire import (
    FINISH_NAMES,
    NAME,
    Completion,
    Message,
    decoded,
    finish,
    usage,
    wire_usage,
)
from trunkline.dialects.openai_chat.write import Writer
from trunkline.errors import TrunklineError, UpstreamError, UpstreamGarbled
from trunkline.model.card import Card
from trunkline.model.chat import Chat
from trunkline.model.event import ReasoningEnded, Reply
from trunkline.model.loss import Loss, report, unsupported
from trunkline.model.part import Part, Reasoning, Refusal, Text, ToolCall
from trunkline.model.request import Operation, Request
from trunkline_sdk import sse

LIMITS = ("max_completion_tokens", "max_tokens")


@dataclass(frozen=True, slots=True)
class OpenAIChat(Dialect):
    """Chat Completions as OpenAI, and many others, speak it.

    Attributes:
        limit_field: what the output limit is called.
    """

    name: ClassVar[str] = NAME
    reply_prefix: ClassVar[str] = "chatcmpl"
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    def same(self, other: Dialect, request: Request) -> bool:
        """Relatives differ only in the name of the output limit, so what has none under another name is forwarded.

        That holds for the same dialect too: clients say either name to anybody. What holds thoughts that came from elsewhere is not
        forwarded: their vendor alone can do anything with them.
        """
        if not isinstance(other, OpenAIChat) or _holds_foreign_thoughts(request.body):
            return False
        return not any(is_said(request, name) for name in LIMITS if name != other.limit_field)

    def read_request(self, body: bytes, operation: Operation) -> Request:
        """Read `model`, `stream` and the output limit."""
        top = read_object(body)
        return Request(
            operation=operation,
            model=fields.model(top),
            stream=fields.read(top, "stream", bool, default=False),
            max_output=fields.limit(top, *LIMITS),
            body=body,
            fields=top,
        )

    def forward(self, request: Request, model: str, *, ask_usage: bool) -> Written:
        """Put the provider's model name in, and ask for the usage of a stream."""
        changes: dict[str, object] = {}
        if model != request.model:
            changes["model"] = model
        ask_usage = ask_usage and request.stream and not self._asks_usage(request)
        if ask_usage:
            changes["stream_options"] = _with_usage(is_said(request, "stream_options"))
        return Written(splice(request.body, request.fields, changes) if changes else request.body, usage_added=ask_usage)

    def read_chat(self, request: Request) -> Chat:
        """All of a request."""
        return read_chat(Object(dict(request.fields)))

    def write_chat(self, chat: Chat, request: Request, model: str, card: Card, *, same: bool, ask_usage: bool) -> Written:
        """The request for a provider of this dialect."""
        writer = Writer(limit_field=card.limit_field or self.limit_field, card=card, same=same)
        asked = same and self._asks_usage(request)
        body = writer.write(chat, model, stream=request.stream, ask_usage=ask_usage or asked)
        hidden = same and request.stream and ask_usage and not asked
        return Written(encode(body), usage_added=hidden, losses=report(writer.losses), names=writer.names)

    def read_reply(self, body: bytes, operation: Operation) -> Reply:
        """Read a chat completion."""
        completion = decoded(body)
        if not is_null(completion.error):
            raise openai.failure(completion.error)
        choice = next((choice for choice in completion.choices or () if choice.message), None)
        if choice is None or choice.message is None:
            raise UpstreamGarbled("the provider's reply has no message")
        content = tuple(_read_message(choice.message))
        reason = finish(choice.finish_reason)
        calls = any(isinstance(part, ToolCall) for part in content)
        return Reply(
            id=completion.id or "",
            model=completion.model or "",
            created=int(completion.created or 0),
            content=content,
            finish="tool_calls" if calls and reason == "stop" else reason,
            usage=usage(completion.usage) if completion.usage else None,
            losses=tuple(_lost(completion, choice.message)),
        )

    def write_reply(self, reply: Reply, operation: Operation) -> tuple[bytes, tuple[Loss, ...]]:
        """Write a chat completion."""
        choice = {"index": 0, "message": _message(reply), "logprobs": None, "finish_reason": FINISH_NAMES[reply.finish or "stop"]}
        body: dict[str, object] = {
            "id": reply.id,
            "object": "chat.completion",
            "created": reply.created,
            "model": reply.model,
            "choices": [choice],
        }
        if reply.usage:
            body["usage"] = wire_usage(reply.usage)
        return encode(body), report(reply.losses)

    def read_events(
        self, *, request: Request, written: Written, repairs: frozenset[Repair], tell: Callable[[str], str] | None = None
    ) -> EventReader:
        """A reader of chunks."""
        return ChunkReader(hide_usage=written.usage_added, first_role="first_role" in repairs)

    def write_events(self, request: Request) -> EventWriter:
        """A writer of chunks."""
        return ChunkWriter(tell_usage=self._asks_usage(request))

    def read_error(self, status: int, body: bytes, retry_after: float | None) -> UpstreamError:
        """Read `{"error": {"message": …}}`, or whatever stands there instead."""
        return openai.read_error(status, body, retry_after)

    def write_error(self, error: TrunklineError, request_id: str) -> bytes:
        """`{"error": {"message", "type", "param", "code"}}`."""
        return openai.write_error(error, request_id)

    def write_error_event(self, error: TrunklineError, request_id: str) -> bytes:
        """A chunk with `error`; the SDKs raise it."""
        return sse.event(self.write_error(error, request_id))

    def _asks_usage(self, request: Request) -> bool:
        options = is_said(request, "stream_options")
        return tells_usage(None if options is None else Object.of(options, "stream_options"))


def _holds_foreign_thoughts(body: bytes) -> bool:
    return b'"reasoning_details"' in body and b'"origin"' in body


def _with_usage(raw: Raw | None) -> Raw:
    """`stream_options` with `include_usage`; what else stands there stays as it is."""
    body = b"{}" if raw is None else bytes(raw)
    return Raw(splice(body, read_object(body), {"include_usage": True}))


def _read_message(message: Message) -> list[Part]:
    parts: list[Part] = []
    for detail in message.reasoning_details or ():
        text = detail.text or detail.summary or ""
        parts.append(
            Reasoning(
                text=text,
                signature=detail.signature or "",
                encrypted=detail.data or "",
                origin=detail.origin or (NAME if detail.signature or detail.data else ""),
                id=detail.id or "",
            )
        )
    if not parts and (thought := message.thought):
        parts.append(Reasoning(text=thought))
    if text := message.text:
        parts.append(Text(text=text))
    if message.refusal:
        parts.append(Refusal(text=message.refusal))
    for number, call in enumerate(message.calls):
        if call.function:
            parts.append(ToolCall(id=call.id or f"call_{number}", name=call.function.name or "", arguments=call.function.arguments or "{}"))
    return parts


def _lost(completion: Completion, message: Message) -> list[Loss]:
    """What a reply says that the neutral model has no word for."""
    choices = completion.choices or []
    losses = [unsupported(f"choices.0.message.{name}") for name in message.unread]
    losses += [unsupported("choices.0.logprobs")] if not is_null(choices[0].logprobs) else []
    return losses + [unsupported(f"choices.{choice.index}", "only the first choice is carried") for choice in choices[1:]]


def _message(reply: Reply) -> dict[str, Any]:
    texts = [part.text for part in reply.content if isinstance(part, Text)]
    refusals = [part.text for part in reply.content if isinstance(part, Refusal)]
    thoughts = [part for part in reply.content if isinstance(part, Reasoning)]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) if texts else None, "refusal": "".join(refusals) or None}
    if any(thought.text for thought in thoughts):
        message["reasoning_content"] = "".join(thought.text for thought in thoughts)
    kept = [
        reasoning_detail(thought.text, ReasoningEnded(thought.signature, thought.encrypted, thought.origin, thought.id))
        for thought in thoughts
        if thought.signature or thought.encrypted
    ]
    if kept:
        message["reasoning_details"] = kept
    if reply.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in reply.tool_calls
        ]
    return message


DIALECT = OpenAIChat()
