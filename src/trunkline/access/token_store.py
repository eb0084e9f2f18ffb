"""The token store of the daemon contract (E3), kept in the database: what the SDK's `Coordinator` renews sign-ins over.

What blocks runs in threads. A lease is one of those that the installation's processes share, by a name that does not tell whose it is.
"""

import asyncio
import hashlib
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self, TypeVar

from trunkline.access.connection_rows import ConnectionRows, Place
from trunkline.base.clock import Clock
from trunkline.errors import StoreUnavailable
from trunkline.store.shared.contract import Lease, Leases
from trunkline_sdk.daemon.messages import Record
from trunkline_sdk.daemon.tokenstore import BlankKey, Conflict, NotFound

T = TypeVar("T")

KEEP_SECONDS = 60.0
"""How long it is tried to keep what a refresh gave, while the database does not answer: as long as a daemon remembers it, too."""

KEEP_AGAIN = 1.0
"""Seconds between two attempts."""


class TokenStore:
    """A `trunkline_sdk.daemon.tokenstore.Store` over the table of connections; keys are those of `Place`.

    All methods raise `StoreUnavailable` where the database, or what leases are kept in, does not answer, and `VaultUnavailable` where a
    record cannot be sealed or opened.

    Args:
        rows: the table.
        leases: between the processes of an installation.
        threads: in which the table is asked.
        clock: the time.
    """

    def __init__(self, rows: ConnectionRows, leases: Leases, threads: Executor, clock: Clock) -> None:
        self._rows = rows
        self._leases = leases
        self._threads = threads
        self._clock = clock

    async def load(self, key: str) -> Record:
        """See `Store`."""
        place = _place(key)
        record = await self._asked(lambda: self._rows.load(place))
        if record is None:
            raise NotFound("there is no such credential")
        return record

    async def save(self, key: str, record: Record) -> Record:
        """See `Store`. Raises: `trunkline.errors.NotFound`, where the owner is gone."""
        place = _place(key)
        return await self._asked(lambda: self._rows.save(place, record))

    async def replace_if_current(self, key: str, revision: str, record: Record) -> Record:
        """See `Store`. There may be no other copy of the record, so that a database that does not answer is asked again."""
        place = _place(key)
        end = self._clock.monotonic() + KEEP_SECONDS
        while True:
            try:
                kept = await self._asked(lambda: self._rows.replace(place, revision, record))
                break
            except StoreUnavailable:
                if self._clock.monotonic() >= end:
                    raise
                await self._clock.sleep(KEEP_AGAIN)
        if kept is None:
            raise Conflict("the credential was changed or removed meanwhile")
        return kept

    async def rehearse(self, key: str, revision: str) -> bool:
        """Whether the record with this revision is still there, and what takes its place could be kept now.

        A refresh that cannot be kept voids the sign-in, and so may one with a token that somebody else has used meanwhile: a process that
        was stopped for longer than its lease lasts learns here that it was.
        """
        place = _place(key)
        return await self._asked(lambda: self._rows.rehearse(place, revision))

    async def revoke_if_current(self, key: str, revision: str) -> None:
        """See `Store`. It can be recovered for a day."""
        place = _place(key)
        done = await self._asked(lambda: self._rows.revoke(place, revision))
        if done is None:
            raise NotFound("there is no such credential")
        if not done:
            raise Conflict("the credential was changed meanwhile")

    async def lease(self, key: str) -> "KeyLease":
        """See `Store`."""
        name = hashlib.sha256(_place(key).key.encode()).hexdigest()[:40]
        held = self._leases.held(f"connection:{name}")
        await held.__aenter__()
        return KeyLease(held)

    async def _asked(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, ask)


class KeyLease:
    """See `trunkline_sdk.daemon.tokenstore.Lease`."""

    __slots__ = ("_held",)

    def __init__(self, held: AbstractAsyncContextManager[Lease]) -> None:
        self._held: AbstractAsyncContextManager[Lease] | None = held

    async def release(self) -> None:
        """See `Lease`."""
        held, self._held = self._held, None
        if held is not None:
            await held.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.release()


def _place(key: str) -> Place:
    place = Place.of(key)
    if not place.provider.strip():
        raise BlankKey("the key of a credential is blank")
    return place
