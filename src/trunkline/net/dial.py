"""Dialling an address that was judged, not a name that may change its mind in between."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from trunkline.base.egress import Class, Egress
from trunkline_sdk.http1 import Address, Origin, connect_first, resolve

P = TypeVar("P", bound=asyncio.Protocol)
Resolve = Callable[[Origin], Awaitable[list[Address]]]


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
        addresses = {str(address.sockaddr[0]): address for address in await self._resolve(origin)}
        if not addresses:
            raise OSError("the name has no address")
        where = (origin.host, origin.port)
        permitted, kind = self._egress.permitted(list(addresses), self._known.get(where))
        self._known[where] = kind
        return await connect_first(origin, [addresses[each] for each in permitted], factory)
