"""Writing the events of a Responses stream. Source: as `read_stream`."""

from typing import Any

from trunkline.base.codec import encode
from trunkline.dialects import EventWriter
from trunkline.dialects._free import Unwrapping, unwrapped
from trunkline.dialects._reading import is_object
from trunkline.dialects.openai_responses.wire import (
    INCOMPLETE_NAMES,
    SEPARATOR,
    call_item,
    item_id,
    message_item,
    reasoning_item,
    refusal_part,
    response,
    response_id,
    text_part,
)
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
from trunkline.model.usage import Usage
from trunkline_sdk import sse


class _Item:
    """An item that is being written.

    Attributes:
        parts: its content, or the summary of a thought, as far as it is complete.
        part: the type of the part that is open; empty when none is.
        pieces: the text of that part, or the arguments of a call.
    """

    __slots__ = ("id", "index", "part", "parts", "pieces")

    def __init__(self, index: int, at: str) -> None:
        self.index = index
        self.id = at
        self.parts: list[dict[str, Any]] = []
        self.part = ""
        self.pieces: list[str] = []


class _Call(_Item):
    """A call that is being written.

    Attributes:
        start: how it began.
        text: takes the text out of its arguments, where it is of a free-form tool.
        told: how much of that text was told, in characters.
    """

    __slots__ = ("start", "text", "told")

    def __init__(self, index: int, at: str, start: ToolCallStarted) -> None:
        super().__init__(index, at)
        self.start = start
        self.text = Unwrapping() if start.free else None
        self.told = 0


class ResponseWriter(EventWriter):
    """Writes events: every item from its start to its end, and the whole response once more in the terminal event.

    Calls may be open at once, as the format allows; of messages and thoughts one is.
    """

    __slots__ = ("_calls", "_finish", "_id", "_item", "_items", "_output", "_sequence", "_start", "_usage")

    def __init__(self) -> None:
        self._start = Started(id="", model="")
        self._id = ""
        self._sequence = 0
        self._items = 0  # how many began
        self._item: _Item | None = None  # the message or thought that is open
        self._calls: dict[int, _Call] = {}
        self._output: dict[int, dict[str, Any]] = {}
        self._finish = Finished("stop")
        self._usage: Usage | None = None

    def write(self, event: Event) -> bytes:
        """The events that say this one. What ends the response waits for the end, since usage stands in it."""
        match event:
            case TextDelta(text):
                return self._say("output_text", text)
            case ToolCallArguments(index, json):
                call = self._calls[index]
                call.pieces.append(json)
                if call.text is not None:
                    return self._free_input(call, call.text.feed(json))
                return self._event("response.function_call_arguments.delta", item_id=call.id, output_index=call.index, delta=json)
            case ReasoningDelta(text):
                return self._think(text)
            case RefusalDelta(text):
                return self._say("refusal", text)
            case ReasoningEnded():
                return self._end_thought(event)
            case ToolCallStarted():
                return self._close() + self._call(event)
            case ToolCallEnded(index):
                return self._end_call(index, "completed") if self._is_whole(index) else b""
            case Started():
                return self._begin(event)
            case Finished(reason):
                self._finish = event
                return self._close("incomplete" if reason == "length" else "completed")
            case Used(used):
                self._usage = used
                return b""
            case Ended():
                return self._close() + b"".join(self._end_call(index, "incomplete") for index in list(self._calls)) + self._end()
            case Lost() | Failed():
                return b""

    # ------------------------------------------------------------------------------------------------- the response
    def _begin(self, start: Started) -> bytes:
        self._start = start
        self._id = response_id(start.id)
        begun = self._response("in_progress")
        return self._event("response.created", response=begun) + self._event("response.in_progress", response=begun)

    def _end(self) -> bytes:
        status = "incomplete" if self._finish.reason in INCOMPLETE_NAMES else "completed"
        return self._event(f"response.{status}", response=self._response(status))

    def _response(self, status: str) -> dict[str, Any]:
        return response(
            self._id,
            self._start.model,
            self._start.created,
            status=status,
            output=[self._output[index] for index in sorted(self._output)],
            used=self._usage,
            reason=self._finish.reason,
        )

    # ------------------------------------------------------------------------------------------ messages and thoughts
    def _say(self, kind: str, text: str) -> bytes:
        item, out = self._item, b""
        if item is None or item.part not in {"output_text", "refusal"}:
            out = self._close()
            item = self._item = _Item(*self._next("msg"))
            out += self._added(item, message_item(item.id, [], "in_progress"))
        if item.part != kind:
            out += self._end_part(item)
            item.part = kind
            part = text_part("") if kind == "output_text" else refusal_part("")
            out += self._event("response.content_part.added", **_place(item, "content_index"), part=part)
        item.pieces.append(text)
        said: dict[str, Any] = {"delta": text, "logprobs": []} if kind == "output_text" else {"delta": text}
        return out + self._event(f"response.{kind}.delta", **_place(item, "content_index"), **said)

    def _think(self, text: str) -> bytes:
        item, out = self._item, b""
        if item is None or item.part in {"output_text", "refusal"}:
            out = self._close() + self._thought()
            item = self._item
        assert item is not None
        if text == SEPARATOR:
            return out + self._end_part(item)
        if not item.part:
            item.part = "summary_text"
            part = {"type": "summary_text", "text": ""}
            out += self._event("response.reasoning_summary_part.added", **_place(item, "summary_index"), part=part)
        item.pieces.append(text)
        return out + self._event("response.reasoning_summary_text.delta", **_place(item, "summary_index"), delta=text)

    def _end_thought(self, end: ReasoningEnded) -> bytes:
        item, out = self._item, b""
        if item is None or item.part in {"output_text", "refusal"}:
            if not (end.signature or end.encrypted):
                return b""
            out = self._close() + self._thought()
        return out + self._close(thought=end)

    def _thought(self) -> bytes:
        item = self._item = _Item(*self._next("rs"))
        return self._added(item, reasoning_item(item.id, [], None))

    def _end_part(self, item: _Item) -> bytes:
        text = "".join(item.pieces)
        kind, item.part, item.pieces = item.part, "", []
        match kind:
            case "output_text":
                place = _place(item, "content_index")
                part = text_part(text)
                told = self._event("response.output_text.done", **place, text=text, logprobs=[])
                told += self._event("response.content_part.done", **place, part=part)
            case "refusal":
                place = _place(item, "content_index")
                part = refusal_part(text)
                told = self._event("response.refusal.done", **place, refusal=text)
                told += self._event("response.content_part.done", **place, part=part)
            case "summary_text":
                place = _place(item, "summary_index")
                part = {"type": "summary_text", "text": text}
                told = self._event("response.reasoning_summary_text.done", **place, text=text)
                told += self._event("response.reasoning_summary_part.done", **place, part=part)
            case _:
                return b""
        item.parts.append(part)
        return told

    def _close(self, status: str = "completed", thought: ReasoningEnded | None = None) -> bytes:
        """End the message or thought that is open."""
        item = self._item
        if item is None:
            return b""
        message = item.part in {"output_text", "refusal"}
        out = self._end_part(item)
        self._item = None
        if message:
            return out + self._done(item, message_item(item.id, item.parts, status))
        return out + self._done(item, reasoning_item(item.id, item.parts, thought or ReasoningEnded()))

    # ---------------------------------------------------------------------------------------------------------- calls
    def _call(self, start: ToolCallStarted) -> bytes:
        index, at = self._next("ctc" if start.free else "fc")
        call = self._calls[start.index] = _Call(index, at, start)
        return self._added(call, call_item(call.id, start, "", "in_progress"))

    def _free_input(self, call: _Call, text: str) -> bytes:
        if not text:
            return b""
        call.told += len(text)
        return self._event("response.custom_tool_call_input.delta", item_id=call.id, output_index=call.index, delta=text)

    def _is_whole(self, index: int) -> bool:
        """Whether a call's arguments are an object; else it ends with the response, as incomplete."""
        return is_object("".join(self._calls[index].pieces) or "{}")

    def _end_call(self, index: int, status: str) -> bytes:
        call = self._calls.pop(index)
        arguments = "".join(call.pieces) or "{}"
        if call.text is not None:
            out = self._end_free_input(call, unwrapped(arguments))
        else:
            place = {"item_id": call.id, "output_index": call.index}
            out = self._event("response.function_call_arguments.done", **place, name=call.start.name, arguments=arguments)
        return out + self._done(call, call_item(call.id, call.start, arguments, status))

    def _end_free_input(self, call: _Call, text: str | None) -> bytes:
        if text is None:
            return b""
        out = self._free_input(call, text[call.told :])
        return out + self._event("response.custom_tool_call_input.done", item_id=call.id, output_index=call.index, input=text)

    # ---------------------------------------------------------------------------------------------------------- events
    def _next(self, prefix: str) -> tuple[int, str]:
        """The place and the id of the item that begins."""
        index = self._items
        self._items += 1
        return index, item_id(prefix, self._id, index)

    def _added(self, item: _Item, told: dict[str, Any]) -> bytes:
        return self._event("response.output_item.added", output_index=item.index, item=told)

    def _done(self, item: _Item, told: dict[str, Any]) -> bytes:
        self._output[item.index] = told
        return self._event("response.output_item.done", output_index=item.index, item=told)

    def _event(self, kind: str, /, **fields: Any) -> bytes:
        number = self._sequence
        self._sequence += 1
        return sse.event(encode({"type": kind, "sequence_number": number, **fields}), kind)


def _place(item: _Item, of: str) -> dict[str, Any]:
    """Where the part that is open stands."""
    return {"item_id": item.id, "output_index": item.index, of: len(item.parts)}
