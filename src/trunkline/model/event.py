"""What a stream says, piece by piece, and the whole reply that the pieces come to.

A reply is a sequence of parts. The pieces of a part follow each other, except that tool calls may be told at once: their `index`
tells them apart.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

from trunkline.base.codec import Value
from trunkline.errors import UpstreamError
from trunkline.model.loss import Loss
from trunkline.model.part import Part, Reasoning, Refusal, Text, ToolCall
from trunkline.model.usage import Usage

FinishReason = Literal["stop", "length", "tool_calls", "refused", "paused"]


class Started(Value, frozen=True):
    """The reply begins; nothing of it is there yet. `created` is in seconds since the epoch, 0 where the format has none."""

    id: str
    model: str
    created: int = 0


class TextDelta(Value, frozen=True):
    """A piece of text."""

    text: str


class ReasoningDelta(Value, frozen=True):
    """A piece of a thought."""

    text: str


class ReasoningEnded(Value, frozen=True):
    """A thought is complete: with what its vendor wants to see again (see `model.part.Reasoning`)."""

    signature: str = ""
    encrypted: str = ""
    origin: str = ""
    id: str = ""


class RefusalDelta(Value, frozen=True):
    """A piece of the words for not answering."""

    text: str


class ToolCallStarted(Value, frozen=True):
    """A tool call begins; `namespace` and `free` as in `model.part.ToolCall`."""

    index: int
    id: str
    name: str
    namespace: str = ""
    free: bool = False


class ToolCallArguments(Value, frozen=True):
    """A piece of a tool call's arguments, which are JSON only when all pieces are there."""

    index: int
    json: str


class ToolCallEnded(Value, frozen=True):
    """A tool call is complete; before this it must not be run."""

    index: int


class Lost(Value, frozen=True):
    """Something was said that the neutral model has no word for."""

    loss: Loss


class Finished(Value, frozen=True):
    """The model has ended, and why; `stop` is the stop sequence that it met, where it is told."""

    reason: FinishReason
    stop: str | None = None


class Used(Value, frozen=True):
    """What the call used so far; a later one replaces an earlier one."""

    usage: Usage


class Failed(Value, frozen=True):
    """The provider says, inside a stream that began well, that it failed."""

    error: UpstreamError


class Ended(Value, frozen=True):
    """Nothing more comes."""


Event = (
    Started
    | TextDelta
    | ReasoningDelta
    | ReasoningEnded
    | RefusalDelta
    | ToolCallStarted
    | ToolCallArguments
    | ToolCallEnded
    | Lost
    | Finished
    | Used
    | Failed
    | Ended
)


class Reply(Value, frozen=True, kw_only=True):
    """A whole reply.

    Attributes:
        content: text, reasoning, refusal and tool calls, in order.
        losses: what it said that the neutral model has no word for.
    """

    id: str
    model: str
    created: int = 0
    content: tuple[Part, ...] = ()
    finish: FinishReason | None = None
    stop: str | None = None
    usage: Usage | None = None
    losses: tuple[Loss, ...] = ()

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls among the content."""
        return tuple(part for part in self.content if isinstance(part, ToolCall))


@dataclass(slots=True)
class Fold:
    """Events become the reply that they tell."""

    started: Started = Started(id="", model="")  # noqa: RUF009 - it is frozen
    finished: Finished | None = None
    usage: Usage | None = None
    losses: list[Loss] = field(default_factory=list[Loss])
    _parts: list[Part] = field(default_factory=list[Part])
    _pieces: list[str] = field(default_factory=list[str])
    _kind: type[TextDelta | ReasoningDelta | RefusalDelta] | None = None
    _calls: dict[int, tuple[int, list[str]]] = field(default_factory=dict[int, tuple[int, list[str]]])

    def add(self, event: Event) -> None:  # noqa: C901 - one case for each kind of event
        """Take in the next event."""
        match event:
            case TextDelta(text) | ReasoningDelta(text) | RefusalDelta(text):
                if self._kind is not type(event):
                    self._close()
                    self._kind = type(event)
                self._pieces.append(text)
            case ReasoningEnded(signature, encrypted, origin, thought_id):
                if self._kind is not ReasoningDelta:
                    self._close()
                text = "".join(self._pieces)
                self._pieces, self._kind = [], None
                self._parts.append(Reasoning(text=text, signature=signature, encrypted=encrypted, origin=origin, id=thought_id))
            case ToolCallStarted(index, call_id, name, namespace, free):
                self._close()
                self._calls[index] = (len(self._parts), [])
                self._parts.append(ToolCall(id=call_id, name=name, arguments="", namespace=namespace, free=free))
            case ToolCallArguments(index, json):
                self._calls[index][1].append(json)
            case Started():
                self.started = event
            case Finished():
                self.finished = event
            case Used(usage):
                self.usage = usage
            case Lost(loss):
                self.losses.append(loss)
            case ToolCallEnded() | Failed() | Ended():
                pass

    def reply(self) -> Reply:
        """What has been told so far."""
        self._close()
        parts = list(self._parts)
        for place, pieces in self._calls.values():
            call = parts[place]
            assert isinstance(call, ToolCall)
            parts[place] = replace(call, arguments="".join(pieces))
        return Reply(
            id=self.started.id,
            model=self.started.model,
            created=self.started.created,
            content=tuple(parts),
            finish=self.finished.reason if self.finished else None,
            stop=self.finished.stop if self.finished else None,
            usage=self.usage,
            losses=tuple(self.losses),
        )

    def _close(self) -> None:
        text = "".join(self._pieces)
        if self._kind is ReasoningDelta:
            self._parts.append(Reasoning(text=text))
        elif self._kind is RefusalDelta:
            self._parts.append(Refusal(text=text))
        elif self._kind is TextDelta:
            self._parts.append(Text(text=text))
        self._pieces, self._kind = [], None
