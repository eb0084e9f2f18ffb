"""Refreshes: each refresh token goes upstream once, whatever becomes of the requests that ask for it.

A rotating refresh token is void once it was used, so an answer that is lost is a lost sign-in. A request that leaves does not stop its
refresh; one that comes with the same token joins it, or gets what came of it (daemon contract, C5 and K9). Where refresh tokens do not rotate, a record
that already holds what came of it is refreshed anew.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable

from trunkline_sdk.daemon.messages import Record


class Renewals:
    """The refreshes of one daemon. Tokens are kept as keyed hashes; records only for as long as they are remembered, in memory."""

    def __init__(self, *, remembered_seconds: float) -> None:
        self._remembered_seconds = remembered_seconds
        self._key = secrets.token_bytes(32)
        self._tasks: dict[bytes, asyncio.Task[Record]] = {}
        self._forgetting: dict[bytes, asyncio.TimerHandle] = {}

    @property
    def under_way(self) -> int:
        """Refreshes that have no answer yet."""
        return sum(not task.done() for task in self._tasks.values())

    async def renew(self, provider: str, record: Record, refresh: Callable[[Record], Awaitable[Record]]) -> Record:
        """What the provider gives for the record; cancelling the wait does not cancel the refresh.

        Raises:
            Exception: what `refresh` raises, to all who wait for it. It is not remembered.
        """
        key = self._hashed(provider, record)
        task = self._tasks.get(key)
        if task is not None and task.done() and task.result().access_token == record.access_token:
            task = None  # not a lost answer: the product has it, and was refused with it
            self._drop(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._renewed(key, record, refresh), name=f"refresh of {provider}")
            self._tasks[key] = task
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # which says that it was seen
        return await asyncio.shield(task)

    async def aclose(self, seconds: float) -> None:
        """Let those under way end, for so long; then cancel them and forget everything."""
        if running := [task for task in self._tasks.values() if not task.done()]:
            _, late = await asyncio.wait(running, timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        for timer in self._forgetting.values():
            timer.cancel()
        self._forgetting.clear()
        self._tasks.clear()

    def _hashed(self, provider: str, record: Record) -> bytes:
        return hashlib.blake2b(f"{provider}\0{record.refresh_token}".encode(), key=self._key).digest()

    async def _renewed(self, key: bytes, record: Record, refresh: Callable[[Record], Awaitable[Record]]) -> Record:
        """One refresh. What is remembered of it is settled before its task is done, so that nobody meets one that is neither."""
        try:
            renewed = await refresh(record)
        except BaseException:
            self._forget(key)
            raise
        self._forgetting[key] = asyncio.get_running_loop().call_later(self._remembered_seconds, self._forget, key)
        return renewed

    def _drop(self, key: bytes) -> None:
        self._forgetting[key].cancel()
        self._forget(key)

    def _forget(self, key: bytes) -> None:
        self._tasks.pop(key, None)
        self._forgetting.pop(key, None)
