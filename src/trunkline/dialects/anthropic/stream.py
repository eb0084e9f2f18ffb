"""The events of Messages, read and written."""

from collections.abc import Callable
from typing import Any, ClassVar

from trunkline.base.codec import encode
from trunkline.dialects import EventReader, EventWriter, Frame
from trunkline.dialects import _errors as errors
from trunkline.dialects._carrier import UNSIGNED, pack
from trunkline.dialects._turns import Turns, must_be_cut
from trunkline.dialects.anthropic.wire import (
    FINISH_NAMES,
    NAME,
    Block,
    ErrorBody,
    decoded,
    finish,
    merged,
    read_block_delta,
    read_block_start,
    read_block_stop,
    read_error,
    read_message_delta,
    read_start,
    read_type,
    thought,
    wire_usage,
)
from trunkline.errors import UpstreamDown, UpstreamGarbled
from trunkline.model.event import (
    Ended,
    Event,
    Failed,
    Finished,
    Lost,
    ReasoningDelta,
    ReasoningEnded,
    RefusalDelta,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallEnded,
    ToolCallStarted,
    Used,
)
from trunkline.model.loss import unsupported
from trunkline.model.usage import Usage
from trunkline_sdk import sse


class MessageReader(EventReader):
    """Reads events: one start with usage, blocks balanced and in order, a stop reason, one stop."""

    __slots__ = ("_arguments", "_block", "_finished", "_kind", "_last", "_model", "_signature", "_start_missing", "_started", "_usage")

    def __init__(self, *, model: str, start_missing: bool) -> None:
        self._model = model
        self._start_missing = start_missing
        self._started = False
        self._finished = False
        self._usage = Usage()
        self._block: int | None = None
        self._kind = ""
        self._signature = ""
        self._arguments = ""  # of the open tool call, until pieces of them come
        self._last = -1

    def read(self, event: sse.Event) -> Frame:
        """One event, or a comment."""
        data = event.data
        if data is None:
            return Frame(event.raw, visible=False)
        name = event.name or decoded(read_type, data).type
        read = _READ.get(name)
        if read is None:
            return Frame(event.raw, visible=False)  # `ping`, and what later versions of the format add
        if self._started or name in {"message_start", "error"}:
            return read(self, event, data)
        before = self._missing_start()
        frame = read(self, event, data)
        return Frame(before + frame.raw, (Started("", self._model), *frame.events), frame.visible)

    def end(self) -> Frame:
        """`message_stop`, where a stop reason came and only the mark is missing."""
        if not self._finished or self._block is not None:
            raise UpstreamDown("the provider's stream ended before the reply did")
        return Frame(_event("message_stop"), (Ended(),))

    def _missing_start(self) -> bytes:
        if not self._start_missing:
            raise UpstreamGarbled("the provider's stream has no `message_start`")
        self._started = True
        return start_event(Started(id="msg_unknown", model=self._model), Usage())

    def _message_start(self, event: sse.Event, data: bytes) -> Frame:
        if self._started:
            raise UpstreamGarbled("the provider's stream has a second `message_start`")
        self._started = True
        message = decoded(read_start, data).message
        started = Started(message.id, message.model)
        if message.usage is None:
            if not self._start_missing:
                raise UpstreamGarbled("the provider's `message_start` has no usage")
            return Frame(start_event(started, Usage()), (started,), visible=False)
        self._usage = merged(self._usage, message.usage)
        return Frame(event.raw, (started, Used(self._usage)), visible=False)

    def _block_start(self, event: sse.Event, data: bytes) -> Frame:
        start = decoded(read_block_start, data)
        if self._block is not None or start.index <= self._last or self._finished:
            raise UpstreamGarbled(f"the provider's stream begins block {start.index} out of order")
        self._block = self._last = start.index
        block = start.content_block
        self._kind, self._signature = block.type, block.signature or ""
        self._arguments = block.arguments if block.type == "tool_use" else ""
        return Frame(event.raw, _begun(start.index, block))

    def _block_delta(self, event: sse.Event, data: bytes) -> Frame:
        block = decoded(read_block_delta, data)
        self._must_be_open(block.index)
        delta = block.delta
        match delta.type:
            case "text_delta":
                events: tuple[Event, ...] = (TextDelta(delta.text),) if delta.text else ()
            case "input_json_delta" if self._kind == "tool_use" and delta.partial_json:
                self._arguments = ""
                events = (ToolCallArguments(block.index, delta.partial_json),)
            case "thinking_delta":
                events = (ReasoningDelta(delta.thinking),) if delta.thinking else ()
            case "signature_delta":
                self._signature += delta.signature
                events = ()
            case "citations_delta":
                events = (Lost(unsupported(f"content.{block.index}.citations")),)
            case _:
                events = ()
        return Frame(event.raw, events)

    def _block_stop(self, event: sse.Event, data: bytes) -> Frame:
        index = decoded(read_block_stop, data).index
        self._must_be_open(index)
        self._block = None
        match self._kind:
            case "tool_use":
                # Some servers put all of the arguments into the block's start, and a call without any has no pieces.
                whole = (ToolCallArguments(index, self._arguments),) if self._arguments else ()
                return Frame(event.raw, (*whole, ToolCallEnded(index)))
            case "thinking":
                return Frame(event.raw, (thought(self._signature),))
            case _:
                return Frame(event.raw)

    def _message_delta(self, event: sse.Event, data: bytes) -> Frame:
        delta = decoded(read_message_delta, data)
        events: list[Event] = []
        if reason := finish(delta.delta.stop_reason):
            self._finished = True
            events.append(Finished(reason, delta.delta.stop_sequence))
        if delta.usage:
            self._usage = merged(self._usage, delta.usage)
            events.append(Used(self._usage))
        return Frame(event.raw, events)

    def _message_stop(self, event: sse.Event, data: bytes) -> Frame:
        del data
        if self._block is not None:
            raise UpstreamGarbled(f"the provider's stream stops inside block {self._block}")
        if not self._finished:
            raise UpstreamGarbled("the provider's stream stops without a stop reason")
        return Frame(event.raw, (Ended(),))

    def _failed(self, event: sse.Event, data: bytes) -> Frame:
        told = decoded(read_error, data).error or ErrorBody()
        return Frame(event.raw, (Failed(errors.named((told.type,), told.message or "")),))

    def _must_be_open(self, index: int) -> None:
        if index != self._block:
            raise UpstreamGarbled(f"the provider's stream goes on with block {index}, which is not open")

    METHODS: ClassVar[dict[str, Callable[["MessageReader", sse.Event, bytes], Frame]]] = {
        "content_block_delta": _block_delta,
        "content_block_start": _block_start,
        "content_block_stop": _block_stop,
        "message_start": _message_start,
        "message_delta": _message_delta,
        "message_stop": _message_stop,
        "error": _failed,
    }


_READ = MessageReader.METHODS


def _begun(index: int, block: Block) -> tuple[Event, ...]:
    """What the start of a block says; some servers put all of it there."""
    match block.type:
        case "text":
            return (TextDelta(block.text),) if block.text else ()
        case "thinking":
            return (ReasoningDelta(block.thinking),) if block.thinking else ()
        case "redacted_thinking":
            return (ReasoningEnded(encrypted=block.data, origin=NAME),)
        case "tool_use":
            return (ToolCallStarted(index, block.id, block.name),)
        case other:
            return (Lost(unsupported(f"content.{index}", f"a block of type `{other}`")),)


class MessageWriter(EventWriter):
    """Writes events: one block at a time."""

    __slots__ = ("_finish", "_index", "_kind", "_turns", "_usage")

    def __init__(self) -> None:
        self._index = -1
        self._kind = ""  # of the open block; empty when none is open
        self._turns = Turns()
        self._finish = Finished("stop")
        self._usage = Usage()

    def write(self, event: Event) -> bytes:
        """The events that say this one. The finish reason waits for the end, since usage stands beside it.

        Raises:
            UpstreamGarbled: a tool call is said to be complete and its arguments are no object.
        """
        return b"".join(map(self._write, self._turns.feed(event)))

    def _write(self, event: Event) -> bytes:
        match event:
            case TextDelta(text) | RefusalDelta(text):
                return self._into("text", {"type": "text", "text": ""}) + self._delta({"type": "text_delta", "text": text})
            case ReasoningDelta(text):
                opening = self._into("thinking", {"type": "thinking", "thinking": "", "signature": ""})
                return opening + self._delta({"type": "thinking_delta", "thinking": text})
            case ReasoningEnded():
                return self._reasoning(event)
            case ToolCallStarted(_, call_id, name):
                return self._close() + self._open("tool_use", {"type": "tool_use", "id": call_id, "name": name, "input": {}})
            case ToolCallArguments(_, json):
                return self._delta({"type": "input_json_delta", "partial_json": json})
            case ToolCallEnded():
                return self._close()
            case Started():
                return start_event(event, self._usage)
            case Finished(reason):
                if self._turns.broken:
                    must_be_cut(reason)
                self._finish = event
                return self._close()
            case Used(used):
                self._usage = used
                return b""
            case Ended():
                stop = self._finish.stop
                reason = "stop_sequence" if stop is not None else FINISH_NAMES[self._finish.reason]
                delta = {"stop_reason": reason, "stop_sequence": stop}
                return self._close() + _event("message_delta", delta=delta, usage=wire_usage(self._usage)) + _event("message_stop")
            case Lost() | Failed():
                return b""

    def _reasoning(self, end: ReasoningEnded) -> bytes:
        """What only its vendor can read is a redacted thought of this vendor; all that it did not sign has a signature of ours."""
        if end.origin == NAME and end.encrypted:
            return self._close() + self._open("redacted", {"type": "redacted_thinking", "data": end.encrypted}) + self._close()
        if not (end.signature or end.encrypted):
            return self._close() if self._kind == "thinking" else b""
        opening = self._into("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        return opening + self._close(end.signature if end.origin == NAME else pack(end))

    def _into(self, kind: str, block: dict[str, Any]) -> bytes:
        return b"" if self._kind == kind else self._close() + self._open(kind, block)

    def _open(self, kind: str, block: dict[str, Any]) -> bytes:
        self._kind = kind
        self._index += 1
        return _event("content_block_start", index=self._index, content_block=block)

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", index=self._index, delta=delta)

    def _close(self, signature: str = UNSIGNED) -> bytes:
        if not self._kind:
            return b""
        signed = self._delta({"type": "signature_delta", "signature": signature}) if self._kind == "thinking" else b""
        self._kind = ""
        return signed + _event("content_block_stop", index=self._index)


def _event(name: str, **rest: object) -> bytes:
    return sse.event(encode({"type": name, **rest}), name)


def start_event(start: Started, used: Usage) -> bytes:
    """`message_start`."""
    message: dict[str, object] = {
        "id": start.id,
        "type": "message",
        "role": "assistant",
        "model": start.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": wire_usage(used),
    }
    return _event("message_start", message=message)
