"""What a key may do: `inference`, `metrics`, `account`, or `admin`, which includes the others. `trunkline.model.caller.Scope` says what each means.

The smallest set that keeps apart what is given to different people: programs that call models, a monitor, who looks after an account,
and whoever runs the server. Listing models is part of calling them.
"""

from collections.abc import Iterable
from typing import get_args

from trunkline.base import codec
from trunkline.errors import BadRequest
from trunkline.model.caller import DEFAULT_ACCOUNT, Role, Scope

SCOPES: tuple[Scope, ...] = get_args(Scope)
ROLES: tuple[Role, ...] = get_args(Role)

_EVERYBODY: frozenset[Scope] = frozenset({"inference", "metrics"})

_ACCOUNT: frozenset[Scope] = frozenset({"account"})

_read = codec.Decoder(list[str])


def parse_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Scopes as a person names them. Raises: `BadRequest`, with the nearest known one."""
    wanted = set(names)
    for name in sorted(wanted.difference(SCOPES)):
        close = codec.nearest(name, SCOPES)
        raise BadRequest(f"there is no scope `{name}`", hint=f"Did you mean `{close}`?" if close else f"There are {', '.join(SCOPES)}.")
    return frozenset(scope for scope in SCOPES if scope in wanted)


def parse_role(name: str) -> Role:
    """A role as a person names it. Raises: `BadRequest`, with the nearest known one."""
    for role in ROLES:
        if name == role:
            return role
    close = codec.nearest(name, ROLES)
    raise BadRequest(f"there is no role `{name}`", hint=f"Did you mean `{close}`?" if close else f"There are {', '.join(ROLES)}.")


def granted(scopes: Iterable[Scope]) -> frozenset[Scope]:
    """All that the holder of these scopes may do."""
    held = frozenset(scopes)
    return frozenset(SCOPES) if "admin" in held else held


def role_of(user: Role | None, scopes: Iterable[Scope]) -> Role:
    """What a key makes its holder: what its user is. A key of nobody is a program's, or an operator's, who is an owner in the operators' account."""
    return user or ("owner" if "admin" in scopes else "service")


def most(role: Role, account: str) -> frozenset[Scope]:
    """The most that a key of this role may hold: only owners and admins look after an account, and only in the operators' own is `admin`."""
    match role:
        case "owner" | "admin":
            return frozenset(SCOPES) if account == DEFAULT_ACCOUNT else _EVERYBODY | _ACCOUNT
        case "member" | "service":
            return _EVERYBODY


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
