"""The threads that ask the database for the admin API: few, and no endless queue before them, nor before what it asks others."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from trunkline.errors import LimitReached, StoreUnavailable

T = TypeVar("T")

THREADS = 4
MOST = 64  # questions at a time, those that wait included
WAIT_SECONDS = 30.0


class Pool:
    """Runs what blocks. Made once; `close` ends it."""

    def __init__(self, *, threads: int = THREADS, most: int = MOST, wait_seconds: float = WAIT_SECONDS) -> None:
        self._threads = ThreadPoolExecutor(threads, "admin")
        self._most = most
        self._wait_seconds = wait_seconds
        self._busy = 0
        self._waiting = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Run something to its end, whether or not anybody still waits for it.

        Raises:
            LimitReached: too many wait already, and nothing was done.
            StoreUnavailable: it takes too long; it may be done yet.
        """
        if self._busy >= self._most:
            raise LimitReached(f"{self._busy} questions are being answered already", hint="Ask again in a moment.", retry_after=1.0)
        self._busy += 1
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        future.add_done_callback(partial(self._ended))
        await asyncio.wait({future}, timeout=self._wait_seconds)
        if not future.done():
            raise StoreUnavailable(
                f"the database has not answered for {self._wait_seconds:.0f} seconds",
                hint="What was asked may be done yet; look before you repeat it.",
            )
        return future.result()

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for something that takes no thread, as an answer of somebody else does.

        Raises:
            LimitReached: too many wait already, and nothing was done.
        """
        if self._waiting >= self._most:
            work.close()
            raise LimitReached(f"{self._waiting} answers of others are waited for already", hint="Ask again in a moment.", retry_after=1.0)
        self._waiting += 1
        try:
            return await work
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Wait for what runs, and take no more."""
        self._threads.shutdown(cancel_futures=True)

    def _ended(self, future: "asyncio.Future[T]") -> None:
        self._busy -= 1
        if not future.cancelled():
            future.exception()  # somebody looked at it, though its asker may have gone
