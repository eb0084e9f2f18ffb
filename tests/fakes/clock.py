"""Time that passes when a test says so."""

import asyncio
from collections.abc import Callable


class FakeClock:
    """A clock that stands still until `advance`; wall and monotonic time run alike, from different beginnings.

    Attributes:
        asked: the seconds of every sleep so far, as asked for.
    """

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._epoch = now
        self._elapsed = 0.0
        self.asked: list[float] = []
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self._more = asyncio.Event()

    def now(self) -> float:
        return self._epoch + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Return when `advance` has come so far; at once for nothing, as `asyncio.sleep` does."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self.asked.append(seconds)
        sleeper = (self._elapsed + seconds, asyncio.get_running_loop().create_future())
        self._sleepers.append(sleeper)
        self._more.set()
        try:
            await sleeper[1]
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    def advance(self, seconds: float) -> None:
        """Let time pass; whoever slept so long wakes in the order of their times."""
        self._elapsed += seconds
        due = sorted((sleeper for sleeper in self._sleepers if sleeper[0] <= self._elapsed), key=lambda sleeper: sleeper[0])
        for sleeper in due:
            self._sleepers.remove(sleeper)
            if not sleeper[1].done():
                sleeper[1].set_result(None)

    async def asleep(self, count: int = 1) -> None:
        """Return when at least so many sleep."""
        await self.when(lambda: len(self._sleepers) >= count)

    async def when(self, condition: Callable[[], bool]) -> None:
        """Return when a condition holds; it is looked at whenever somebody goes to sleep."""
        while not condition():
            self._more.clear()
            await self._more.wait()
