"""Tool calls one after the other, for formats and clients that read one at a time."""

from trunkline.dialects._reading import is_object
from trunkline.errors import UpstreamGarbled
from trunkline.model.event import Ended, Event, Finished, FinishReason, ToolCallArguments, ToolCallEnded, ToolCallStarted


class Turns:
    """Orders events so that one tool call is open at a time.

    What comes beside an open call waits until it is complete: until its end is told, or its arguments are a whole object, to which
    nothing can be added. A call whose arguments are none when it ends is never told as complete.

    Attributes:
        broken: there was such a call.
    """

    __slots__ = ("_call", "_ended", "_pieces", "_waiting", "broken")

    def __init__(self) -> None:
        self._call: int | None = None
        self._pieces: list[str] = []  # of the open call's arguments
        self._ended: set[int] = set()  # the calls that were complete before their end was told
        self._waiting: list[Event] = []
        self.broken = False

    def feed(self, event: Event) -> list[Event]:
        """The events whose turn it is."""
        out: list[Event] = []
        self._take(event, out)
        return out

    def _take(self, event: Event, out: list[Event]) -> None:
        if self._call is not None and self._is_beside(event):
            if self._is_whole():
                out.append(ToolCallEnded(self._call))
                self._ended.add(self._call)
            elif isinstance(event, Finished | Ended):
                self.broken = True
            else:
                self._waiting.append(event)
                return
            self._next(out)
            self._take(event, out)
            return
        match event:
            case ToolCallArguments(index) | ToolCallEnded(index) if index in self._ended:
                return
            case ToolCallStarted(index):
                self._call, self._pieces = index, []
            case ToolCallArguments(_, json):
                if json.strip():  # space alone ends nothing
                    self._pieces.append(json)
            case ToolCallEnded():
                if any(piece.strip() for piece in self._pieces) and not self._is_whole():
                    self.broken = True
                else:
                    out.append(event)
                self._next(out)
                return
            case _:
                pass
        out.append(event)

    def _next(self, out: list[Event]) -> None:
        """No call is open any more."""
        self._call = None
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self._take(event, out)

    def _is_beside(self, event: Event) -> bool:
        match event:
            case ToolCallArguments(index) | ToolCallEnded(index):
                return index != self._call and index not in self._ended
            case _:
                return True

    def _is_whole(self) -> bool:
        text = "".join(self._pieces).rstrip()
        return text.endswith("}") and is_object(text)


def must_be_cut(reason: FinishReason | None) -> None:
    """A reply holds a tool call whose arguments are no JSON object: that may only be where it was cut short. Raises: `UpstreamGarbled`."""
    if reason in {None, "stop", "tool_calls"}:
        raise UpstreamGarbled("the arguments of the provider's tool call are not a JSON object")
