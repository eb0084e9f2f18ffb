"""Finding out who asks, and for whom."""

from collections.abc import Sequence

from trunkline.access.headers import credential
from trunkline.access.ring import KeyRing
from trunkline.access.settings import AccountSettings
from trunkline.model.caller import Caller


class Identity:
    """From a request's headers to its caller."""

    def __init__(self, ring: KeyRing, settings: AccountSettings) -> None:
        self._ring = ring
        self._make = settings.unknown_end_users == "create"

    async def identify(self, headers: Sequence[tuple[bytes, bytes]], address: str) -> Caller:
        """The caller. Raises: `Unauthenticated`, `StoreUnavailable`."""
        return await self._ring.identify(credential(headers), address)

    async def for_end_user(self, caller: Caller, external_id: str) -> Caller:
        """The caller, acting for an end user whom the request names. Raises: `Denied`, `StoreUnavailable`."""
        return await self._ring.for_end_user(caller, external_id, make=self._make)
