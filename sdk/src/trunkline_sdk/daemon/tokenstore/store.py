"""The store contract (daemon contract, E3)."""

from types import TracebackType
from typing import Protocol, Self

from trunkline_sdk.daemon.messages import Record


class Lease(Protocol):
    """The right to refresh one key's record: `async with await store.lease(key): ...`.

    It is held until it is released or its process ends, and does not lapse sooner than a refresh can take.
    """

    async def release(self) -> None:
        """Give it back; a second time does nothing."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class Store(Protocol):
    """Keeps records under keys. Every write gives the record a new revision; what goes in and comes out shares nothing with what is kept.

    Each method raises `BlankKey` for a key of white space.
    """

    async def load(self, key: str) -> Record:
        """The record as it is.

        Raises:
            NotFound: there is none, or it was revoked.
        """
        ...

    async def save(self, key: str, record: Record) -> Record:
        """Keep the record, whatever was there: somebody signed in. The revision that it comes with does not matter."""
        ...

    async def replace_if_current(self, key: str, revision: str, record: Record) -> Record:
        """Keep the record in the place of the one with this revision.

        Raises:
            Conflict: the revision is another one, the record was revoked, or there never was one.
        """
        ...

    async def revoke_if_current(self, key: str, revision: str) -> None:
        """Take the record with this revision away.

        Raises:
            Conflict: the revision is another one.
            NotFound: there is none.
        """
        ...

    async def lease(self, key: str) -> Lease:
        """Wait until nobody else, in any process on the same store, has the lease of this key; then it is the caller's.

        A cancelled wait leaves nothing behind.
        """
        ...
