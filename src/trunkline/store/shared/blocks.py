"""Counting without a round trip: take a block of a counter, and give it out here.

What all `Blocks` on one counter have given out is never more than the counter's total, and that is never more than the cap. What a
process has taken and not given out is counted as used until it gives it back, so the cap may be reached early, by at most two blocks
for each process. Near the cap, where less than four blocks are left, every call makes the round trip and takes what it needs.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from trunkline.base.clock import Clock
from trunkline.errors import StoreUnavailable
from trunkline.store.shared.contract import Counters, checked_amount

NEAR = 4
"""Blocks of headroom below which none is taken in advance."""

MOST_KEPT = 2
"""Blocks of a key that are kept here; more than that is given back."""

SWEEP = 1024
"""So many keys are known before those are looked for whose window is over; after that, twice as many as were left."""


@dataclass(slots=True)
class _Share:
    """What is here of one counter.

    Attributes:
        until: when its window ends.
        cap: the highest cap under which any of what is left was taken.
        left: taken, and not given out yet. Only who has the lock makes it less than two blocks, but for what it gives out.
        total: of the counter, when it was last asked.
    """

    until: float
    cap: int = 0
    left: int = 0
    total: int | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Blocks:
    """Counts locally what it took from counters.

    Args:
        counters: where the totals are.
        clock: the time.
        block: how much is taken in advance.
    """

    def __init__(self, counters: Counters, clock: Clock, *, block: int) -> None:
        if block < 1:
            raise ValueError(f"a block is {block}; it has to be at least 1")
        self._counters = counters
        self._clock = clock
        self._block = block
        self._shares: dict[str, _Share] = {}
        self._sweep_at = SWEEP

    async def take(self, key: str, amount: int, *, cap: int, until: float) -> bool:
        """Count an amount; `False`, and nothing is counted, where the total would pass the cap or the window is over.

        Args:
            key: which counter.
            amount: how much.
            cap: what the total may be at most. One that is lower than before holds from this call on.
            until: when the window ends, in seconds since the epoch; the same for all calls of a key.

        Raises:
            StoreUnavailable: what is here does not suffice, and the counter cannot be asked.
        """
        checked_amount(amount)
        checked_amount(cap)
        if until <= self._clock.now():
            return False
        share = self._share(key, until)
        if not share.lock.locked() and _give_out(share, amount, cap):
            return True
        async with share.lock:  # one asks, and the others may find enough
            if cap < share.cap:  # what is left may lie beyond it
                await self._back(key, share)
            return _give_out(share, amount, cap) or await self._fetch(key, share, amount, cap)

    async def give(self, key: str, amount: int) -> None:
        """Give back what was taken and not used. Raises: `StoreUnavailable`; it counts as used then, until its window ends."""
        checked_amount(amount)
        share = self._shares.get(key)
        if share is None or share.until <= self._clock.now() or self._near(share, share.cap, 0):
            await self._counters.give(key, amount)
            return
        share.left += amount
        keep = MOST_KEPT * self._block
        if share.left > keep:
            back, share.left = share.left - keep, keep
            await self._counters.give(key, back)

    async def aclose(self) -> None:
        """Give back all that is left, as far as the counters can be reached."""
        with suppress(StoreUnavailable):
            for key, share in tuple(self._shares.items()):
                async with share.lock:
                    await self._back(key, share)

    # ------------------------------------------------------------------------------------------------- with the lock of the share
    async def _fetch(self, key: str, share: _Share, amount: int, cap: int) -> bool:
        need = amount - share.left
        for more in (0,) if self._near(share, cap, need) else (self._block, 0):
            total = await self._counters.take(key, need + more, cap=cap, until=share.until)
            if total is not None:
                share.total = total
                share.cap = max(share.cap, cap)
                share.left += need + more - amount
                return True
        share.total = cap  # so that the next one asks for no more than it needs
        await self._back(key, share)  # somebody else may need less
        return False

    async def _back(self, key: str, share: _Share) -> None:
        back, share.left, share.cap = share.left, 0, 0
        if back:
            await self._counters.give(key, back)

    def _near(self, share: _Share, cap: int, need: int) -> bool:
        return share.total is None or cap - share.total - need < NEAR * self._block

    def _share(self, key: str, until: float) -> _Share:
        now = self._clock.now()
        share = self._shares.get(key)
        if share is None or share.until <= now:
            if len(self._shares) >= self._sweep_at:
                self._shares = {key: kept for key, kept in self._shares.items() if kept.until > now}
                self._sweep_at = max(SWEEP, 2 * len(self._shares))
            share = self._shares[key] = _Share(until)
        return share


def _give_out(share: _Share, amount: int, cap: int) -> bool:
    if cap < share.cap or amount > share.left:
        return False
    share.left -= amount
    return True
