"""What is known of a model."""

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Literal

Modality = Literal["text", "image", "audio", "video", "file"]
LimitField = Literal["max_tokens", "max_completion_tokens"]
State = Literal["active", "deprecated", "retired"]

THINKING = frozenset({"thinking", "reasoning_effort", "reasoning"})
LIMITS: frozenset[str] = frozenset({"max_tokens", "max_completion_tokens"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """Where a model stands between its beginning and its end.

    Attributes:
        state: as its vendor said when it was looked at.
        deprecated_at: when its end was announced, as an ISO date.
        retires_at: from which day on it does not answer, as an ISO date (UTC).
        replacement: what its vendor recommends instead.
    """

    state: State = "active"
    deprecated_at: str | None = None
    retires_at: str | None = None
    replacement: str | None = None

    def at(self, now: float) -> State:
        """Where it stands at an instant, in seconds since the Unix epoch."""
        today = datetime.fromtimestamp(now, UTC).date().isoformat()
        return "retired" if self.retires_at is not None and today >= self.retires_at else self.state


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a model takes and gives; `None` where nobody knows.

    Attributes:
        context_window: the most tokens that it reads and writes together.
        max_output: the most tokens it writes.
        inputs: what it reads.
        outputs: what it writes.
        tools: whether it calls tools.
        thinking: how it is told to think: by a budget of tokens, adaptively with an effort, or not at all.
        efforts: the words for how hard it may think, the least first.
        forbidden: parameters that it refuses, by their neutral names (`temperature`, `top_p`, …).
        limit_field: the name that it wants for the output limit in Chat Completions.
        tool_name_limit: the most characters of a tool's name.
        surfaces: the ids of those that it has behind an extension daemon, where it does not have all of its provider's.
        lifecycle: whether it is to stay.
    """

    context_window: int | None = None
    max_output: int | None = None
    inputs: frozenset[Modality] | None = None
    outputs: frozenset[Modality] | None = None
    tools: bool | None = None
    thinking: Literal["budget", "adaptive", "none"] | None = None
    efforts: tuple[str, ...] | None = None
    forbidden: frozenset[str] | None = None
    limit_field: LimitField | None = None
    tool_name_limit: int | None = None
    surfaces: frozenset[str] | None = None
    lifecycle: Lifecycle | None = None

    def forbids(self, parameter: str) -> bool:
        """Whether it is known to refuse a parameter."""
        return self.forbidden is not None and parameter in self.forbidden

    def over(self, other: "Card") -> "Card":
        """What this card says, and where it says nothing, what the other does."""
        if self is UNKNOWN or other is UNKNOWN:
            return other if self is UNKNOWN else self
        said = {name: value for name in _NAMES if (value := getattr(self, name)) is not None}
        return replace(other, **said)


_NAMES = tuple(field.name for field in fields(Card))
UNKNOWN = Card()


def touches(card: Card, fields: Collection[str]) -> bool:
    """Whether a request with these top-level fields holds anything that the model's traits change."""
    return (
        (card.forbidden is not None and not card.forbidden.isdisjoint(fields))
        or (card.limit_field is not None and any(name in fields for name in LIMITS if name != card.limit_field))
        or (card.tool_name_limit is not None and "tools" in fields)
        or (card.thinking == "none" and not THINKING.isdisjoint(fields))
    )
