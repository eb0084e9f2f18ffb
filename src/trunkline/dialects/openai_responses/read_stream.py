"""Reading the events of a Responses stream.

Source: the API reference, "Streaming events", as the `openai` SDK types them. An `error` event comes with the words under `error`,
and `response.failed` follows it; the reference shows it flat and alone.
"""

from collections.abc import Callable
from typing import ClassVar

from trunkline.base.codec import Raw, is_null
from trunkline.dialects import EventReader, Frame
from trunkline.dialects import _errors as errors
from trunkline.dialects._free import CLOSING, OPENING, escaped, wrapped
from trunkline.dialects._openai import failure
from trunkline.dialects._splice import splice
from trunkline.dialects.openai_responses.wire import (
    SEPARATOR,
    Delta,
    Item,
    WireResponse,
    decoded,
    finish,
    lost,
    output_item,
    read_arguments,
    read_delta,
    read_error_event,
    read_fields,
    read_of_item,
    read_of_response,
    read_type,
    usage,
    with_ids,
)
from trunkline.errors import UpstreamDown, UpstreamError, UpstreamGarbled
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
from trunkline_sdk import sse

CALLS = frozenset({"function_call", "custom_tool_call"})
NEXT_PART = ReasoningDelta(SEPARATOR)


class _Item:
    """An item that is being told.

    Attributes:
        told: whether anything of its content was told piece by piece.
        part: of a thought, what is told: its summary or itself, and which part of that.
    """

    __slots__ = ("kind", "part", "told")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.told = False
        self.part: tuple[str, int] | None = None


class ResponseReader(EventReader):
    """Reads events: a start, items that are added, told and done by their index, and one terminal event, which is last."""

    __slots__ = ("_calls", "_error", "_held", "_items", "_model", "_started", "_tell")

    def __init__(self, *, model: str, tell: Callable[[str], str] | None) -> None:
        self._model = model
        self._tell = tell
        self._started = False
        self._items: dict[int, _Item | None] = {}  # none where it is done
        self._calls = False
        self._error: UpstreamError | None = None
        self._held = b""  # the event that told of the error

    def read(self, event: sse.Event) -> Frame:
        """One event, or a comment."""
        data = event.data
        if data is None or data == b"[DONE]":  # which some servers send, as in the older format
            return Frame(event.raw, visible=False)
        name = event.name
        read = _READ.get(name)
        if read is None and not name.startswith("response."):
            name = decoded(read_type, data).type or ""
            read = _READ.get(name)
        if read is None:
            # The rest is of hosted tools, and what later versions of the format add: all that it says is that work goes on.
            return Frame(event.raw, visible=name in _REPEATS)
        if self._error is not None and name not in _TERMINAL:
            return self._failure(self._error)
        if not self._started and name not in _FIRST:
            raise UpstreamGarbled("the provider's stream has no `response.created`")
        return read(self, event, data)

    def end(self) -> Frame:
        """Nothing can stand for the terminal event: usage and the reason to end are in it."""
        if self._error is not None:
            return self._failure(self._error)
        raise UpstreamDown("the provider's stream ended before the reply did")

    def _created(self, event: sse.Event, data: bytes) -> Frame:
        if self._started:
            raise UpstreamGarbled("the provider's stream has a second `response.created`")
        return self._going(event, data)

    def _going(self, event: sse.Event, data: bytes) -> Frame:
        """Any event that says that work goes on begins the stream, if none did."""
        raw = self._raw(event, data)
        if self._started:
            return Frame(raw, visible=False)
        self._started = True
        found = decoded(read_of_response, data).response
        return Frame(raw, (Started(found.id or "", found.model or self._model, int(found.created_at or 0)),), visible=False)

    def _added(self, event: sse.Event, data: bytes) -> Frame:
        found = decoded(read_of_item, data)
        return Frame(event.raw, self._add(found.output_index, output_item(found.item)))

    def _done(self, event: sse.Event, data: bytes) -> Frame:
        found = decoded(read_of_item, data)
        self._open(found.output_index)
        return Frame(event.raw, self._finish(found.output_index, output_item(found.item)))

    def _text(self, event: sse.Event, data: bytes) -> Frame:
        delta = decoded(read_delta, data)
        self._open(delta.output_index, "message").told = True
        return Frame(event.raw, (TextDelta(delta.delta),) if delta.delta else ())

    def _refusal(self, event: sse.Event, data: bytes) -> Frame:
        delta = decoded(read_delta, data)
        self._open(delta.output_index, "message").told = True
        return Frame(event.raw, (RefusalDelta(delta.delta),) if delta.delta else ())

    def _summary(self, event: sse.Event, data: bytes) -> Frame:
        delta = decoded(read_delta, data)
        return self._thought(event, delta, "summary", delta.summary_index)

    def _content(self, event: sse.Event, data: bytes) -> Frame:
        delta = decoded(read_delta, data)
        return self._thought(event, delta, "content", delta.content_index)

    def _thought(self, event: sse.Event, delta: Delta, name: str, number: int) -> Frame:
        """A piece of a thought; where both the summary and the thought itself are told, the one that comes first counts."""
        item = self._open(delta.output_index, "reasoning")
        last = item.part
        if not delta.delta or (last is not None and last[0] != name):
            return Frame(event.raw)
        item.told, item.part = True, (name, number)
        piece = ReasoningDelta(delta.delta)
        return Frame(event.raw, (piece,) if last is None or last[1] == number else (NEXT_PART, piece))

    def _arguments(self, event: sse.Event, data: bytes) -> Frame:
        delta = decoded(read_delta, data)
        item = self._open(delta.output_index, "function_call")
        item.told = item.told or bool(delta.delta)
        return Frame(event.raw, (ToolCallArguments(delta.output_index, delta.delta),) if delta.delta else ())

    def _free_input(self, event: sse.Event, data: bytes) -> Frame:
        """A piece of a text, as a piece of the arguments that hold it."""
        delta = decoded(read_delta, data)
        item = self._open(delta.output_index, "custom_tool_call")
        if not delta.delta:
            return Frame(event.raw)
        opening, item.told = "" if item.told else OPENING, True
        return Frame(event.raw, (ToolCallArguments(delta.output_index, opening + escaped(delta.delta)),))

    def _arguments_done(self, event: sse.Event, data: bytes) -> Frame:
        found = decoded(read_arguments, data)
        item = self._open(found.output_index, "function_call")
        if item.told or not found.arguments:
            return Frame(event.raw)
        item.told = True
        return Frame(event.raw, (ToolCallArguments(found.output_index, found.arguments),))

    def _ended(self, event: sse.Event, data: bytes) -> Frame:
        """The terminal event of a response that is complete, or was stopped."""
        found = decoded(read_of_response, data).response
        if self._error is not None or not is_null(found.error):
            return self._fail(b"" if self._error else self._raw(event, data), found)
        events = self._close(complete=found.status != "incomplete")
        for index, raw in enumerate(found.output or ()):
            if index not in self._items:  # some servers tell nothing before the end
                item = output_item(raw)
                events += [*self._add(index, item), *self._finish(index, item)]
        events.append(Finished(finish(found, calls=self._calls) or "stop"))
        if found.usage:
            events.append(Used(usage(found.usage)))
        events.append(Ended())
        return Frame(self._raw(event, data), events)

    def _failed(self, event: sse.Event, data: bytes) -> Frame:
        return self._fail(self._raw(event, data), decoded(read_of_response, data).response)

    def _fail(self, raw: bytes, found: WireResponse) -> Frame:
        used = (Used(usage(found.usage)),) if found.usage else ()
        return self._failure(self._error or failure(found.error), raw, *used)

    def _failure(self, error: UpstreamError, raw: bytes = b"", *said: Event) -> Frame:
        """The end of a stream that fails, told once."""
        held, self._held, self._error = self._held, b"", None
        return Frame(held + raw, (*said, Failed(error)))

    def _told_error(self, event: sse.Event, data: bytes) -> Frame:
        """What went wrong; it is held back for the `response.failed` that ends the stream, with the usage."""
        self._error = _error(data)
        self._held += event.raw
        return Frame(b"", visible=False)

    def _raw(self, event: sse.Event, data: bytes) -> bytes:
        return event.raw if self._tell is None else _told(event, data, self._tell)

    def _add(self, index: int, item: Item) -> list[Event]:
        if index in self._items:
            raise UpstreamGarbled(f"the provider's stream adds item {index} twice")
        self._items[index] = _Item(item.type)
        if item.type not in CALLS:
            return []
        self._calls = True
        free = item.type == "custom_tool_call"
        return [ToolCallStarted(index, item.call_id or item.id or "", item.name or "", item.namespace or "", free)]

    def _finish(self, index: int, item: Item) -> list[Event]:
        """What an item says at its end: all that was not told piece by piece."""
        told = self._open(index, item.type).told
        self._items[index] = None
        events: list[Event] = []
        match item.type:
            case "message" if not told:
                for part in item.content or ():
                    if part.type == "output_text" and part.text:
                        events.append(TextDelta(part.text))
                    elif part.type == "refusal" and part.refusal:
                        events.append(RefusalDelta(part.refusal))
            case "reasoning":
                if not told and item.thought:
                    events.append(ReasoningDelta(item.thought))
                if events or told or item.encrypted_content:
                    events.append(item.ended)
            case "function_call":
                if not told and item.arguments:
                    events.append(ToolCallArguments(index, item.arguments))
                events.append(ToolCallEnded(index))
            case "custom_tool_call":
                events += [ToolCallArguments(index, CLOSING if told else wrapped(item.input or "")), ToolCallEnded(index)]
            case _:
                pass
        return events + [Lost(loss) for loss in lost(index, item)]

    def _close(self, *, complete: bool) -> list[Event]:
        """What is still open at the end of the response. Only one that was stopped may stop inside a call."""
        events: list[Event] = []
        for index, item in self._items.items():
            if item is None:
                continue
            if item.kind in CALLS:
                if complete:
                    raise UpstreamGarbled(f"the provider's stream completes inside the tool call {index}")
                events.append(ToolCallEnded(index))
            elif item.kind == "reasoning" and item.told:
                events.append(ReasoningEnded())
        return events

    def _open(self, index: int, kind: str = "") -> _Item:
        item = self._items.get(index)
        if item is None:
            raise UpstreamGarbled(f"the provider's stream goes on with item {index}, which is not open")
        if kind and item.kind != kind:
            raise UpstreamGarbled(f"the provider's stream goes on with item {index} as a {kind}, and it is a {item.kind}")
        return item

    METHODS: ClassVar[dict[str, Callable[["ResponseReader", sse.Event, bytes], Frame]]] = {
        "response.output_text.delta": _text,
        "response.function_call_arguments.delta": _arguments,
        "response.custom_tool_call_input.delta": _free_input,
        "response.reasoning_summary_text.delta": _summary,
        "response.reasoning_text.delta": _content,
        "response.refusal.delta": _refusal,
        "response.function_call_arguments.done": _arguments_done,
        "response.output_item.added": _added,
        "response.output_item.done": _done,
        "response.created": _created,
        "response.queued": _going,
        "response.in_progress": _going,
        "response.completed": _ended,
        "response.incomplete": _ended,
        "response.failed": _failed,
        "error": _told_error,
    }


class KeptReader(EventReader):
    """Reads the stream of a response that is kept: it may begin at any event, and ends with the terminal one.

    One that failed long ago is no failure now: what it says is cleaned, and told as it is.
    """

    __slots__ = ("_clean", "_tell")

    def __init__(self, tell: Callable[[str], str], clean: Callable[[bytes], bytes]) -> None:
        self._tell = tell
        self._clean = clean

    def read(self, event: sse.Event) -> Frame:
        """One event, or a comment."""
        if event.data is None:
            return Frame(event.raw)
        if event.name == "error":
            return Frame(event.raw, (Failed(_error(event.data)),))
        ended = event.name in _TERMINAL
        return Frame(_told(event, self._clean(event.data) if ended else event.data, self._tell), (Ended(),) if ended else ())

    def end(self) -> Frame:
        """Nothing can stand for the terminal event."""
        raise UpstreamDown("the provider's stream ended before the reply did")


def _error(data: bytes) -> UpstreamError:
    told = decoded(read_error_event, data)
    return errors.named((told.code,), told.message or "") if is_null(told.error) else failure(told.error)


def _told(event: sse.Event, data: bytes, tell: Callable[[str], str]) -> bytes:
    """An event that holds the response with the id that callers know; any other as it came."""
    fields = read_fields(data)
    if "response" not in fields:
        return event.raw if data == event.data else sse.event(data, event.name or None)
    told = Raw(with_ids(fields["response"], tell))
    return sse.event(splice(data, fields, {"response": told}), event.name or None)


_READ = ResponseReader.METHODS
_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_FIRST = frozenset({"response.created", "response.queued", "response.in_progress", "response.failed", "error"})
_REPEATS = frozenset(
    f"response.{thing}"
    for thing in (
        "content_part.added", "content_part.done", "output_text.done", "refusal.done", "reasoning_text.done",
        "custom_tool_call_input.done", "reasoning_summary_part.added", "reasoning_summary_part.done", "reasoning_summary_text.done",
    )
)  # fmt: skip
"""What says nothing that other events do not."""
