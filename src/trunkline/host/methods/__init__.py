"""What a worker may ask of the host: groups of methods, each in one file.

A member exports one constant, `METHODS`. A whole group:

    async def profile(people: People, ask: Ask[Nothing]) -> Profile:
        return people.profile(ask.user)                       # of whom the call is for: a worker cannot choose

    METHODS = Group(
        service=People,
        calls={"user.profile": Method(profile, params=Nothing, needs="user.profile.read", rate=Rate(10, 20))},
    )

and the service joins the others where the broker is made; each group finds its own by the class. What a method can rely on:

* **Who** asks stands in `ask.context`, and is the host's word. A call that is bound to no call of the host's is the extension's own: it
  has no user.
* **May it?** was answered before it runs (`host/broker.py`), from `needs`: a permission, a function of the params, or `None` for what
  everybody may. What is found out later, such as where a redirect leads, is asked by `ask.require`.
* **Params** are read as the record that it names; unknown fields are passed over, and what does not fit is `invalid_params`.
* **How often** is `rate`, for each extension, over all its workers.
* **The end**: it is cancelled when the deadline has passed, when the worker cancels, when the call that it is bound to is over, and when
  the worker is gone.
* **Errors** for the worker are `RpcError`s; anything else is told as `failed`, without its text, and logged.

Each module whose name begins with `_` is shared by members, and is none.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from trunkline.host.line import Line
from trunkline.host.rates import Rate
from trunkline_sdk.api import Context
from trunkline_sdk.rpc.errors import RpcError

S = TypeVar("S")
P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Generic[P]):
    """One call of a worker.

    Attributes:
        params: what it says.
        context: who asks.
        number: the call's, for streams that belong to its answer.
        during: the host's call that it is bound to; `None` for none.
        line: the worker's connection.
    """

    params: P
    context: Context
    number: int
    during: int | None
    line: Line

    def require(self, permission: str) -> None:
        """Go on only where the extension was granted it. Raises: `RpcError`."""
        if not self.line.grants.allows(permission):
            name = self.context.extension
            raise RpcError(
                "permission_denied",
                f"`{name}` was not granted `{permission}`. `[extensions.{name}]` in the configuration says what it may.",
                details={"permission": permission},
            )


@dataclass(frozen=True, slots=True)
class Method(Generic[S, P]):
    """A call that is answered.

    Attributes:
        do: answers it, with anything that has a JSON form.
        params: the record that its params are.
        needs: the permission, or how it follows from the params; `None` for none.
        rate: how often.
    """

    do: Callable[[S, Ask[P]], Awaitable[object]]
    params: type[P]
    needs: Callable[[P], str] | str | None
    rate: Rate


@dataclass(frozen=True, slots=True)
class Notice(Generic[S, P]):
    """A notification that is heard. What comes too often is dropped, and counted in the log.

    Attributes:
        do: hears it.
        params: the record that its params are.
        rate: how often.
    """

    do: Callable[[S, Line, P], None]
    params: type[P]
    rate: Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Generic[S]):
    """Methods that share a service.

    Attributes:
        service: its class.
        calls: by their names on the wire.
        notices: likewise.
    """

    service: type[S]
    calls: Mapping[str, Method[S, Any]] = field(default_factory=lambda: MappingProxyType({}))
    notices: Mapping[str, Notice[S, Any]] = field(default_factory=lambda: MappingProxyType({}))
