"""Counters, messages and leases of one process."""

from collections.abc import Callable

from trunkline.base.clock import Clock
from trunkline.store.shared.contract import MOST, Callback, checked_amount, next_token

SWEEP = 1024
"""So many counters are kept before the vanished ones are looked for; after that, twice as many as were left."""


class MemoryCounters:
    """Counters that end with the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._totals: dict[str, tuple[int, float]] = {}
        self._sweep_at = SWEEP

    async def add(self, key: str, amount: int, *, until: float) -> int:
        """See `Counters`."""
        total, end = self._live(key)
        total += checked_amount(amount)
        if total > MOST:
            raise OverflowError(f"the counter `{key}` would pass {MOST}")
        self._keep(key, total, max(end, until))
        return total

    async def take(self, key: str, amount: int, *, cap: int, until: float) -> int | None:
        """See `Counters`."""
        total, end = self._live(key)
        total += checked_amount(amount)
        if total > checked_amount(cap) or until <= self._clock.now():
            return None
        self._keep(key, total, max(end, until))
        return total

    async def give(self, key: str, amount: int) -> None:
        """See `Counters`."""
        total, end = self._live(key)
        self._keep(key, max(0, total - checked_amount(amount)), end)

    async def read(self, key: str) -> int:
        """See `Counters`."""
        return self._live(key)[0]

    def _live(self, key: str) -> tuple[int, float]:
        total, end = self._totals.get(key, (0, 0.0))
        return (total, end) if end > self._clock.now() else (0, 0.0)

    def _keep(self, key: str, total: int, end: float) -> None:
        now = self._clock.now()
        if end <= now:
            self._totals.pop(key, None)
            return
        self._totals[key] = (total, end)
        if len(self._totals) >= self._sweep_at:
            self._totals = {key: kept for key, kept in self._totals.items() if kept[1] > now}
            self._sweep_at = max(SWEEP, 2 * len(self._totals))


class Switchboard:
    """The subscribers in this process, whichever way messages come.

    Args:
        failed: told of what a subscriber raised.
    """

    def __init__(self, failed: Callable[[str, BaseException], None]) -> None:
        self._failed = failed
        self._callbacks: dict[str, list[Callback]] = {}

    def subscribe(self, channel: str, callback: Callback) -> Callable[[], None]:
        """See `Bus`."""
        callbacks = self._callbacks.setdefault(channel, [])
        callbacks.append(callback)

        def end() -> None:
            # By identity: equal callbacks may have subscribed, and each ends for itself. A second call finds nothing.
            kept = [each for each in self._callbacks.get(channel, ()) if each is not callback]
            if kept:
                self._callbacks[channel] = kept
            else:
                self._callbacks.pop(channel, None)

        return end

    def deliver(self, channel: str, message: bytes) -> None:
        """Tell the subscribers of a channel."""
        for callback in tuple(self._callbacks.get(channel, ())):
            try:
                callback(message)
            except Exception as error:  # noqa: BLE001 -- a subscriber's border: the others are told all the same
                self._failed(f"a subscriber of {channel}", error)

    def gap(self) -> None:
        """Tell every subscriber that messages may have been missed."""
        for channel, callbacks in tuple(self._callbacks.items()):
            for callback in tuple(callbacks):
                try:
                    callback.on_gap()
                except Exception as error:  # noqa: BLE001 -- as above
                    self._failed(f"a subscriber of {channel}", error)


class MemoryBus(Switchboard):
    """Messages within the process, delivered before `publish` returns."""

    async def publish(self, channel: str, message: bytes) -> None:
        """See `Bus`."""
        self.deliver(channel, message)


class MemoryTable:
    """Who has which lease until when: the `Table` of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._holders: dict[str, tuple[str, float]] = {}
        self._token = 0  # one for all names: a lease that nobody has leaves nothing behind

    async def acquire(self, name: str, owner: str, seconds: float) -> int | None:
        """See `Table`."""
        if self._holder(name) is not None:
            return None
        self._token = next_token(self._token, self._clock.now())
        self._holders[name] = (owner, self._clock.monotonic() + seconds)
        return self._token

    async def renew(self, name: str, owner: str, seconds: float) -> bool:
        """See `Table`."""
        if self._holder(name) != owner:
            return False
        self._holders[name] = (owner, self._clock.monotonic() + seconds)
        return True

    async def release(self, name: str, owner: str) -> None:
        """See `Table`."""
        if self._holder(name) == owner:
            del self._holders[name]

    def _holder(self, name: str) -> str | None:
        owner, end = self._holders.get(name, ("", 0.0))
        return owner if owner and end > self._clock.monotonic() else None
