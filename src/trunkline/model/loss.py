"""What a translation could not carry."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Change = Literal["unsupported", "dropped", "approximated", "renamed"]
"""The target has no such thing; it was left out; something near stands in its place; it goes by another name."""

Severity = Literal["material", "advisory"]
"""Whether the reply may differ for it."""


@dataclass(frozen=True, slots=True, order=True)
class Loss:
    """One thing that differs between what was asked and what was sent (or between what came and what was handed on).

    Attributes:
        path: where it stood, dot-separated, list positions as numbers: `messages.0.content.1`.
        severity: whether the reply may differ for it.
        change: what happened to it. On the wire its key is `class` (extension daemon contract, B4).
        detail: in words.
    """

    path: str
    severity: Severity
    change: Change
    detail: str = ""


def report(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Sorted by path, severity, change and detail, each once (extension daemon contract, B4)."""
    return tuple(sorted(set(losses)))


def unsupported(path: str, detail: str = "") -> Loss:
    """The target has no word for it, and the reply may differ for it."""
    return Loss(path, "material", "unsupported", detail)


def dropped(path: str, detail: str = "", *, material: bool = False) -> Loss:
    """It was left out."""
    return Loss(path, "material" if material else "advisory", "dropped", detail)


def approximated(path: str, detail: str = "", *, material: bool = False) -> Loss:
    """Something near stands in its place."""
    return Loss(path, "material" if material else "advisory", "approximated", detail)


def renamed(path: str, detail: str = "") -> Loss:
    """It goes by another name, and means the same."""
    return Loss(path, "advisory", "renamed", detail)
