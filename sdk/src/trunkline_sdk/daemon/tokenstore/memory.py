"""A store in memory, for one event loop: tests, and products that keep nothing."""

import asyncio
import secrets
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from trunkline_sdk.daemon.messages import Record
from trunkline_sdk.daemon.tokenstore.errors import BlankKey, Conflict, NotFound


class MemoryStore:
    """A `Store` that ends with its process."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._locks: dict[str, _Lock] = {}

    async def load(self, key: str) -> Record:
        """See `Store`."""
        return copied(self._current(key))

    async def save(self, key: str, record: Record) -> Record:
        """See `Store`."""
        _check(key)
        return self._keep(key, record)

    async def replace_if_current(self, key: str, revision: str, record: Record) -> Record:
        """See `Store`."""
        _check(key)
        current = self._records.get(key)
        if current is None or current.revision != revision:
            raise Conflict("the credential was changed or removed meanwhile")
        return self._keep(key, record)

    async def revoke_if_current(self, key: str, revision: str) -> None:
        """See `Store`."""
        if self._current(key).revision != revision:
            raise Conflict("the credential was changed meanwhile")
        del self._records[key]

    async def lease(self, key: str) -> "MemoryLease":
        """See `Store`."""
        _check(key)
        lock = self._locks.setdefault(key, _Lock())
        lock.users += 1
        try:
            await lock.lock.acquire()
        except BaseException:
            self._leave(key, lock)
            raise
        return MemoryLease(self, key, lock)

    def _current(self, key: str) -> Record:
        _check(key)
        record = self._records.get(key)
        if record is None:
            raise NotFound("there is no such credential")
        return record

    def _keep(self, key: str, record: Record) -> Record:
        kept = replace(copied(record), revision=secrets.token_hex(16))
        self._records[key] = kept
        return copied(kept)

    def _leave(self, key: str, lock: "_Lock") -> None:
        lock.users -= 1
        if not lock.users:
            del self._locks[key]


class MemoryLease:
    """See `Lease`."""

    __slots__ = ("_key", "_lock", "_store")

    def __init__(self, store: MemoryStore, key: str, lock: "_Lock") -> None:
        self._store = store
        self._key = key
        self._lock: _Lock | None = lock

    async def release(self) -> None:
        """See `Lease`."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.lock.release()
            self._store._leave(self._key, lock)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - one module

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.release()


class _Lock:
    """A key's lock, and how many hold it or wait for it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


def copied(record: Record) -> Record:
    """The record with a metadata map of its own."""
    return replace(record, metadata=dict(record.metadata))


def _check(key: str) -> None:
    if not key.strip():
        raise BlankKey("the key of a credential is blank")
