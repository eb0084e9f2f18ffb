"""What a key may do: `inference`, `metrics`, or `admin`, which includes the others. `trunkline.model.caller.Scope` says what each means.

The smallest set that keeps apart what is given to different people: programs that call models, a monitor, and whoever runs the server.
Listing models is part of calling them.
"""

from collections.abc import Iterable
from typing import get_args

from trunkline.base import codec
from trunkline.errors import BadRequest
from trunkline.model.caller import Scope

SCOPES: tuple[Scope, ...] = get_args(Scope)

_read = codec.Decoder(list[str])


def parse_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Scopes as a person names them. Raises: `BadRequest`, with the nearest known one."""
    wanted = set(names)
    for name in sorted(wanted.difference(SCOPES)):
        close = codec.nearest(name, SCOPES)
        raise BadRequest(f"there is no scope `{name}`", hint=f"Did you mean `{close}`?" if close else f"There are {', '.join(SCOPES)}.")
    return frozenset(scope for scope in SCOPES if scope in wanted)


def granted(scopes: Iterable[Scope]) -> frozenset[Scope]:
    """All that the holder of these scopes may do."""
    held = frozenset(scopes)
    return frozenset(SCOPES) if "admin" in held else held


def to_text(scopes: Iterable[Scope]) -> str:
    """Scopes as the database keeps them: a JSON list, sorted."""
    return codec.text(sorted(scopes))


def from_text(text: str) -> frozenset[Scope]:
    """Scopes as the database keeps them; what this version does not know, or cannot read, grants nothing."""
    try:
        names = _read.decode(text)
    except codec.Malformed:
        return frozenset()
    return frozenset(scope for scope in SCOPES if scope in names)
