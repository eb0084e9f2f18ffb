"""The promises: what a counter, a bus and a lease are, wherever they are kept.

Everything here belongs to the event loop's thread.
"""

import asyncio
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

MOST = 2**53 - 1
"""The largest total and amount: the largest integer that the scripts of Valkey and Redis count exactly."""

LEASE_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.:-]{0,199}")


class Counters(Protocol):
    """Totals by key, each of which vanishes at an end: the end of a window, which is best a part of its key.

    Amounts are integers from 0 to 2⁵³ - 1 (`ValueError`), and so are totals (`OverflowError`, and nothing changed). All methods raise
    `StoreUnavailable` where the counters cannot be reached; an amount may have been added all the same, so whoever counts what is
    limited counts too much then, never too little.
    """

    async def add(self, key: str, amount: int, *, until: float) -> int:
        """Add, and return the new total.

        Args:
            key: which counter.
            amount: how much.
            until: when it vanishes, in seconds since the epoch; of several such times the last one holds. A counter that would
                have vanished already is not kept.
        """
        ...

    async def take(self, key: str, amount: int, *, cap: int, until: float) -> int | None:
        """Add and return the new total; `None`, and nothing changed, where that would pass the cap, or the window is over."""
        ...

    async def give(self, key: str, amount: int) -> None:
        """Give back what was added; a counter never falls below nothing, and one that has vanished stays away."""
        ...

    async def read(self, key: str) -> int:
        """The total; 0 where there is none."""
        ...


class Callback(Protocol):
    """What a subscriber of a bus is told, in the event loop's thread. What it raises is logged and disturbs nobody."""

    def __call__(self, message: bytes) -> None:
        """A message came."""
        ...

    def on_gap(self) -> None:
        """Messages may have been missed: read again what they would have told."""
        ...


@dataclass(frozen=True, slots=True)
class Listener:
    """A `Callback` of two functions."""

    heard: Callable[[bytes], None]
    gap: Callable[[], None]

    def __call__(self, message: bytes) -> None:
        """Pass a message on."""
        self.heard(message)

    def on_gap(self) -> None:
        """Pass a gap on."""
        self.gap()


class Bus(Protocol):
    """Messages to every process, the sender's own subscribers included: each at most once, in the order of one sender."""

    async def publish(self, channel: str, message: bytes) -> None:
        """Send to whoever listens now. Raises: `StoreUnavailable`; it may have been sent all the same."""
        ...

    def subscribe(self, channel: str, callback: Callback) -> Callable[[], None]:
        """Listen to a channel. Returns what ends it."""
        ...


class Lease(Protocol):
    """The right to be the only one, as long as it lasts."""

    @property
    def token(self) -> int:
        """A number that grows with every lease of the name. What it guards refuses a lower one than it has seen (a fence)."""
        ...

    @property
    def lost(self) -> asyncio.Event:
        """Set when it is over, by the holder's own clock: before anybody else can have it."""
        ...

    @property
    def held(self) -> bool:
        """Whether it is ours at this very moment; looks at the clock, so it is true even where the event loop is late."""
        ...


class Leases(Protocol):
    """Leases by name."""

    def held(self, name: str) -> AbstractAsyncContextManager[Lease]:
        """Wait until nobody has the lease (bound that by `asyncio.timeout`), and have it while the block runs, unless it is lost.

        The block goes on when it is lost: it has to look at `lost`, or at `held` before every step that only one may take.

        Raises:
            StoreUnavailable: whether somebody has it cannot be known.
            ValueError: a name has letters, digits, `_`, `.`, `:` and `-`, at most 200.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What several processes share.

    Attributes:
        counters: totals with an end.
        bus: messages to all.
        leases: the right to be the only one.
    """

    counters: Counters
    bus: Bus
    leases: Leases


def checked_amount(amount: int) -> int:
    """An amount that every implementation counts exactly. Raises: `ValueError`."""
    if not 0 <= amount <= MOST:
        raise ValueError(f"the amount is {amount}; it has to be between 0 and {MOST}")
    return amount


def checked_name(name: str) -> str:
    """A lease's name that is a file's name and a key too. Raises: `ValueError`."""
    if not LEASE_NAME.fullmatch(name):
        raise ValueError(f"the lease's name is `{name}`; it has to be of letters, digits, `_`, `.`, `:` and `-`, at most 200 of them")
    return name


def next_token(last: int, now: float) -> int:
    """The fencing token after another one.

    It grows even where the last one was lost, or was of another kind of lease: by the time in microseconds.
    """
    return max(last + 1, int(now * 1_000_000))


def pause(failures: int) -> float:
    """Seconds to wait after so many failures in a row: none after the first, for one lost connection is no outage; then up to two."""
    return 0.0 if failures <= 1 else min(0.05 * 2.0 ** min(failures - 2, 10), 2.0)
