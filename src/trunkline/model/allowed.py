"""Which models a list of names allows; `*` in a name stands for any characters, `/` included. Pure."""

from collections.abc import Sequence

Models = tuple[str, ...] | None
"""Names with `*`, or `None` for all models."""


def allows(models: Models, *names: str) -> bool:
    """Whether one of the names that a model goes by is on the list."""
    return models is None or any(_fits(each, name) for each in models for name in names)


def within(inner: Sequence[str] | None, outer: Models) -> bool:
    """Whether a list allows nothing that the other does not.

    A `*` of the inner list is only covered by one of the outer list, so that the question is the same as for a name.
    """
    return outer is None or (inner is not None and all(allows(outer, each) for each in inner))


def _fits(pattern: str, name: str) -> bool:
    """Piece by piece, each at its first place: the time grows with the length of a name that a caller chose, and not with its square."""
    head, star, rest = pattern.partition("*")
    if not star:
        return pattern == name
    *middle, tail = rest.split("*")
    at, end = len(head), len(name) - len(tail)
    if at > end or not name.startswith(head) or not name.endswith(tail):
        return False
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
