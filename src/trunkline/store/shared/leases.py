"""Leases that end by themselves: renewed in time, and given up by the holder before they end.

    request sent        believed until        the table forgets it
    │◀──────────── 40 s ────────────▶│◀── 5 s ──▶│
       answer came somewhere here      margin: clocks may run differently

The holder counts from *before* it asked, so however late the answer came, it stops believing first.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.errors import StoreUnavailable
from trunkline.store.shared.contract import checked_name

TTL = 45.0
"""Seconds after which a lease ends that nobody renewed."""

BELIEVED = 8 / 9
"""The part of the TTL for which its holder counts on it."""

RENEWED = 1 / 3
"""The part of the TTL after which it is renewed."""

AGAIN = 1.0
"""Seconds between two attempts to renew it, after one failed."""

FIRST_LOOK, LAST_LOOK = 0.01, 1.0
"""Seconds between two looks at a lease that somebody else has; each is twice as long as the one before, up to the last."""


class Table(Protocol):
    """Who has which lease. Each method is atomic, and raises `StoreUnavailable`."""

    async def acquire(self, name: str, owner: str, seconds: float) -> int | None:
        """Give a free lease to an owner for so long, and return its token; `None` where somebody has it."""
        ...

    async def renew(self, name: str, owner: str, seconds: float) -> bool:
        """Let its owner have it for so long from now; `False` where it is not the owner's any more."""
        ...

    async def release(self, name: str, owner: str) -> None:
        """End it, if it is its owner's."""
        ...


class TtlLease:
    """A lease as its holder sees it."""

    def __init__(self, token: int, clock: Clock) -> None:
        self.token = token
        self.lost = asyncio.Event()
        self._clock = clock
        self._until = (float("-inf"), float("-inf"))

    @property
    def held(self) -> bool:
        """Whether it is ours at this very moment. Once it was not, it never is again."""
        if self.left <= 0:
            self.lost.set()
        return not self.lost.is_set()

    @property
    def left(self) -> float:
        """Seconds for which it may be counted on.

        The monotonic clock of a machine that slept stood still, so the wall clock has a say, too: the one that is further on.
        """
        return min(self._until[0] - self._clock.monotonic(), self._until[1] - self._clock.now())

    def believe(self, sent: tuple[float, float], seconds: float) -> None:
        """Count on it for so long after a request was sent, at these times of the monotonic and the wall clock."""
        self._until = (sent[0] + seconds, sent[1] + seconds)


class TtlLeases:
    """Leases over a table.

    Args:
        table: who has which lease.
        clock: the holder's own time.
        failed: told of what goes wrong in the background.
        ttl: seconds after which a lease ends that nobody renewed.
    """

    def __init__(self, table: Table, clock: Clock, *, failed: Callable[[str, BaseException], None], ttl: float = TTL) -> None:
        self._table = table
        self._clock = clock
        self._failed = failed
        self._ttl = ttl

    @asynccontextmanager
    async def held(self, name: str) -> AsyncGenerator[TtlLease]:
        """See `Leases`."""
        owner = secrets.token_hex(16)
        lease = await self._acquired(checked_name(name), owner)
        try:
            async with Tasks(self._failed) as tasks:
                tasks.start(self._watch(lease), name=f"lease {name}: watch")
                tasks.start(self._renew(name, owner, lease), name=f"lease {name}: renew")
                yield lease
        finally:
            lease.lost.set()  # first: whoever still looks at it is told before somebody else can have it
            with suppress(StoreUnavailable):  # it ends by itself
                await self._table.release(name, owner)

    async def _acquired(self, name: str, owner: str) -> TtlLease:
        look = FIRST_LOOK
        try:
            while True:
                sent = self._times()
                token = await self._table.acquire(name, owner, self._ttl)
                if token is not None:
                    lease = TtlLease(token, self._clock)
                    lease.believe(sent, self._ttl * BELIEVED)
                    if lease.held:
                        return lease
                    await self._table.release(name, owner)  # the answer was too late to be of use
                await self._clock.sleep(look)
                look = min(2 * look, LAST_LOOK)
        except BaseException:
            with suppress(StoreUnavailable):  # a request whose answer nobody waited for may have been granted
                await self._table.release(name, owner)
            raise

    async def _watch(self, lease: TtlLease) -> None:
        while lease.held:
            await self._clock.sleep(lease.left)

    async def _renew(self, name: str, owner: str, lease: TtlLease) -> None:
        rest = self._ttl * RENEWED
        while lease.held:
            await self._clock.sleep(rest)
            sent = self._times()
            try:
                renewed = await self._table.renew(name, owner, self._ttl)
            except StoreUnavailable:
                rest = min(AGAIN, self._ttl * RENEWED)
                continue
            if not renewed:
                lease.lost.set()
            elif lease.held:  # an answer that came after the holder gave up changes nothing
                lease.believe(sent, self._ttl * BELIEVED)
            rest = self._ttl * RENEWED

    def _times(self) -> tuple[float, float]:
        return self._clock.monotonic(), self._clock.now()
