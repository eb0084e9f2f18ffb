"""What is known of a model."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

THINKING = frozenset({"thinking", "reasoning_effort", "reasoning"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a model takes and gives; `None` where nobody knows.

    Attributes:
        max_output: the most tokens it writes.
        forbidden: parameters that it refuses, by their neutral names (`temperature`, `top_p`, …).
        tool_name_limit: the most characters of a tool's name.
        thinking: how it is told to think: by a budget of tokens, adaptively with an effort, or not at all.
    """

    max_output: int | None = None
    forbidden: frozenset[str] = frozenset()
    tool_name_limit: int | None = None
    thinking: Literal["budget", "adaptive", "none"] | None = None


UNKNOWN = Card()


def touches(card: Card, fields: Collection[str]) -> bool:
    """Whether a request with these top-level fields holds anything that the model's traits change."""
    return (
        not card.forbidden.isdisjoint(fields)
        or (card.tool_name_limit is not None and "tools" in fields)
        or (card.thinking == "none" and not THINKING.isdisjoint(fields))
    )
