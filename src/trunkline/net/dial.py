"""Dialling an address that was judged, not a name that may change its mind in between."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from trunkline.base.egress import Class, Egress
from trunkline_sdk.http1 import Address, Origin, connect_first, resolve

P = TypeVar("P", bound=asyncio.Protocol)
Resolve = Callable[[Origin], Awaitable[list[Address]]]
Judge = Callable[[str, int, Sequence[str]], list[str]]
"""Host, port and its numeric addresses → those of them that may be dialled. Raises: `EgressDenied`, where none may."""


class Connect(Protocol):
    """Connects to the first of several addresses that answers, as `connect_first` does."""

    async def __call__(self, origin: Origin, addresses: Sequence[Address], factory: Callable[[], P], /) -> tuple[asyncio.Transport, P]:
        """The transport and its protocol. Raises: `OSError`."""
        ...


class JudgingDial:
    """A `Dial` for upstreams that the operator's file names.

    Such an upstream may be anywhere that is not forbidden; but what kind of address it has (public, private or loopback) is
    remembered from the first answer, and another kind later is refused: a changed name must not lead inside.
    """

    def __init__(self, egress: Egress, resolve: Resolve = resolve) -> None:
        self._egress = egress
        self._resolve = resolve
        self._known: dict[tuple[str, int], Class] = {}

    async def __call__(self, origin: Origin, factory: Callable[[], P], /) -> tuple[asyncio.Transport, P]:
        """Connect to the first permitted address that answers. Raises: `EgressDenied`, `OSError`."""
        addresses = await _numbers(origin, self._resolve)
        where = (origin.host, origin.port)
        permitted, kind = self._egress.permitted(list(addresses), self._known.get(where))
        self._known[where] = kind
        return await connect_first(origin, [addresses[each] for each in permitted], factory)


class StrictDial:
    """A `Dial` for hosts that somebody else than the operator names: every answer of the resolver is judged anew, and nothing is remembered."""

    def __init__(self, judge: Judge, *, resolve: Resolve = resolve, connect: Connect = connect_first) -> None:
        self._judge = judge
        self._resolve = resolve
        self._connect = connect

    async def __call__(self, origin: Origin, factory: Callable[[], P], /) -> tuple[asyncio.Transport, P]:
        """Connect to the first permitted address that answers. Raises: `EgressDenied`, `OSError`."""
        addresses = await _numbers(origin, self._resolve)
        permitted = self._judge(origin.host, origin.port, list(addresses))
        return await self._connect(origin, [addresses[each] for each in permitted], factory)


async def _numbers(origin: Origin, resolve: Resolve) -> dict[str, Address]:
    addresses = {str(address.sockaddr[0]): address for address in await resolve(origin)}
    if not addresses:
        raise OSError("the name has no address")
    return addresses
