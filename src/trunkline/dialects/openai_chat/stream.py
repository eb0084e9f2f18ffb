"""Chunks of Chat Completions, read and written."""

from typing import Any

from trunkline.base.codec import Decoder, Raw, encode, is_null
from trunkline.dialects import EventReader, EventWriter, Frame
from trunkline.dialects._openai import failure
from trunkline.dialects._reading import Object
from trunkline.dialects._turns import Turns
from trunkline.dialects.openai_chat.wire import (
    FINISH_NAMES,
    NAME,
    Choice,
    Completion,
    Function,
    Message,
    WireCall,
    decoded,
    finish,
    usage,
    wire_usage,
)
from trunkline.errors import UpstreamDown
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
from trunkline_sdk import sse

DONE = b"data: [DONE]\n\n"


class ChunkReader(EventReader):
    """Reads chunks: every one is JSON, every choice ends with a finish reason, and `[DONE]` is last."""

    __slots__ = ("_begun", "_calls", "_finished", "_first_role", "_hide_usage", "_ids", "_open", "_plain", "_started")

    def __init__(self, *, hide_usage: bool, first_role: bool) -> None:
        self._hide_usage = hide_usage
        self._first_role = first_role
        self._started = False
        self._plain = False  # the thought that is being told is told as plain text, and its details only repeat it
        self._begun: set[int] = set()  # the choices that there are
        self._finished: set[int] = set()  # those that said nothing more after a finish reason
        self._calls: dict[tuple[int, int | str | None], int] = {}  # by choice and the wire's number, the last of each
        self._ids: list[str] = []  # of all calls
        self._open: dict[int, list[int]] = {}  # the calls of each choice that are not ended

    def read(self, event: sse.Event) -> Frame:
        """One chunk, `[DONE]`, or a comment."""
        data = event.data
        if data is None:
            return Frame(event.raw, visible=False)
        if data == b"[DONE]":
            self._must_be_finished()
            return Frame(event.raw, (Ended(),))
        chunk = decoded(data)
        if not is_null(chunk.error):
            return Frame(event.raw, (Failed(failure(chunk.error)),))
        raw = event.raw
        events: list[Event] = []
        if not self._started:
            self._started = True
            events.append(Started(chunk.id or "", chunk.model or "", int(chunk.created or 0)))
            if self._first_role:
                raw = _role_first(chunk, data) + raw
        before = len(events)
        for choice in chunk.choices or ():
            self._choice(choice, events)
        visible = len(events) > before
        if chunk.usage is not None:
            events.append(Used(usage(chunk.usage)))
            if self._hide_usage and not chunk.choices:
                raw = b""
        return Frame(raw, events, visible)

    def end(self) -> Frame:
        """`[DONE]`, where a finish reason came and only the mark is missing."""
        self._must_be_finished()
        return Frame(DONE, (Ended(),))

    def _must_be_finished(self) -> None:
        if not self._finished or self._finished != self._begun:
            raise UpstreamDown("the provider's stream ended before the reply did")

    def _choice(self, choice: Choice, events: list[Event]) -> None:
        before = len(events)
        if choice.delta is not None:
            self._delta(choice.index, choice.delta, events)
        if not is_null(choice.logprobs):
            events.append(Lost(unsupported(f"choices.{choice.index}.logprobs")))
        self._begun.add(choice.index)
        if (reason := finish(choice.finish_reason)) is not None:
            self._finished.add(choice.index)
            calls = self._open.pop(choice.index, [])
            events += map(ToolCallEnded, calls)
            # Some servers say `stop` although the model calls tools.
            events.append(Finished("tool_calls" if calls and reason == "stop" else reason))
        elif len(events) > before:
            self._finished.discard(choice.index)

    def _delta(self, choice: int, delta: Message, events: list[Event]) -> None:
        if (plain := delta.plain) is not None:
            if plain:
                events.append(TextDelta(plain))
            return
        if thought := delta.thought:
            self._plain = True
            events.append(ReasoningDelta(thought))
        for part in delta.reasoning_details or ():
            if not self._plain and (text := part.text or part.summary):
                events.append(ReasoningDelta(text))
            if part.signature or part.data:
                self._plain = False
                origin = part.origin or NAME
                events.append(ReasoningEnded(part.signature or "", part.data or "", origin, part.id or ""))
        if text := delta.text:
            events.append(TextDelta(text))
        if delta.refusal:
            events.append(RefusalDelta(delta.refusal))
        for call in delta.calls:
            self._tool_call(choice, call, events)
        events += [Lost(unsupported(f"choices.{choice}.message.{name}")) for name in delta.unread]

    def _tool_call(self, choice: int, call: WireCall, events: list[Event]) -> None:
        """A call begins or goes on. Some vendors number them badly or not at all, so that we do.

        Some give every call the number 0, and some every piece of one call another id; only a beginning has a name as well.
        """
        function = call.function or Function()
        which = (choice, call.id if call.index is None else call.index)
        number = self._calls.get(which)
        if number is None or (call.id and function.name and call.id != self._ids[number]):
            number = self._calls[which] = len(self._ids)
            self._ids.append(call.id or f"call_{number}")
            self._open.setdefault(choice, []).append(number)
            events.append(ToolCallStarted(number, self._ids[number], function.name or ""))
        if function.arguments:
            events.append(ToolCallArguments(number, function.arguments))


class ChunkWriter(EventWriter):
    """Writes chunks of one choice.

    A thought goes out as `reasoning_content`, piece by piece, and once more whole with its signature as `reasoning_details`: that is
    what a client hands back.
    """

    __slots__ = ("_calls", "_start", "_tell_usage", "_thought", "_thoughts", "_turns", "_used")

    def __init__(self, *, tell_usage: bool) -> None:
        self._tell_usage = tell_usage
        self._start = Started(id="", model="")
        self._thought: list[str] = []
        self._thoughts = 0  # that were signed
        self._calls = 0  # that began
        self._turns = Turns()
        self._used: Used | None = None

    def write(self, event: Event) -> bytes:
        """One chunk, or `[DONE]`; more of them where something waited for the end of a call."""
        return b"".join(map(self._write, self._turns.feed(event)))

    def _write(self, event: Event) -> bytes:
        match event:
            case TextDelta(text):
                return self._chunk({"content": text})
            case ReasoningDelta(text):
                self._thought.append(text)
                return self._chunk({"reasoning_content": text})
            case ReasoningEnded():
                return self._reasoning(event)
            case RefusalDelta(text):
                return self._chunk({"refusal": text})
            case ToolCallStarted(_, call_id, name):
                self._calls += 1
                function = {"name": name, "arguments": ""}
                return self._chunk({"tool_calls": [{"index": self._calls - 1, "id": call_id, "type": "function", "function": function}]})
            case ToolCallArguments(_, json):
                return self._chunk({"tool_calls": [{"index": self._calls - 1, "function": {"arguments": json}}]})
            case Started():
                self._start = event
                return self._chunk({"role": "assistant", "content": ""})
            case Finished(reason):
                return self._chunk({}, finish_reason=FINISH_NAMES[reason])
            case Used():
                self._used = event
                return b""
            case Ended():
                told = self._object(choices=[], usage=wire_usage(self._used.usage)) if self._used and self._tell_usage else b""
                return told + DONE
            case ToolCallEnded() | Lost() | Failed():
                return b""

    def _reasoning(self, end: ReasoningEnded) -> bytes:
        text = "".join(self._thought)
        self._thought.clear()
        if not (end.signature or end.encrypted):
            return b""
        self._thoughts += 1
        # SDKs join the lists of all chunks by the numbers of their items (openai-python `lib/streaming/_deltas.py`).
        return self._chunk({"reasoning_details": [{"index": self._thoughts - 1, **reasoning_detail(text, end)}]})

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        return self._object(choices=[{"index": 0, "delta": delta, "finish_reason": finish_reason}])

    def _object(self, **rest: object) -> bytes:
        start = self._start
        return sse.event(
            encode({"id": start.id, "object": "chat.completion.chunk", "created": start.created, "model": start.model, **rest})
        )


def reasoning_detail(text: str, end: ReasoningEnded) -> dict[str, Any]:
    """A thought as a client of this format keeps it and hands it back, to the byte."""
    fields = {"text": text, "data": end.encrypted, "signature": end.signature, "id": end.id, "origin": end.origin}
    return {
        "type": "reasoning.encrypted" if end.encrypted else "reasoning.text",
        **{name: value for name, value in fields.items() if value},
    }


def tells_usage(request_options: Object | None) -> bool:
    """Whether a caller asked for the usage of its stream."""
    return request_options is not None and request_options.flag("include_usage") is True


def _role_first(chunk: Completion, data: bytes) -> bytes:
    """A chunk that says the role, where the provider's first one does not."""
    choices = chunk.choices or ()
    if any(choice.delta and choice.delta.role for choice in choices):
        return b""
    indexes = [choice.index for choice in choices] or [0]
    first = [{"index": index, "delta": {"role": "assistant", "content": ""}, "finish_reason": None} for index in indexes]
    return sse.event(encode({**_fields.decode(data), "choices": first}))


_fields = Decoder(dict[str, Raw])
