"""Finding out who asks."""

from collections.abc import Sequence

from trunkline.access.headers import credential
from trunkline.access.ring import KeyRing
from trunkline.model.caller import Caller


class Identity:
    """From a request's headers to its caller."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    async def identify(self, headers: Sequence[tuple[bytes, bytes]], address: str) -> Caller:
        """The caller. Raises: `Unauthenticated`, `StoreUnavailable`."""
        return await self._ring.identify(credential(headers), address)
