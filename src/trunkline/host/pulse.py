"""Whether the host itself keeps time: a worker that seems not to answer may be one whom nobody listened to."""

from trunkline.base.clock import Clock

EVERY = 0.5
LATE = 1.0
"""Seconds that the loop may be late before nobody else is blamed."""


class Pulse:
    """Measures how late the event loop is."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._beat = clock.monotonic()
        self._late = float("-inf")

    async def run(self) -> None:
        """Measure, for ever."""
        while True:
            self._beat = self._clock.monotonic()
            await self._clock.sleep(EVERY)
            if self._clock.monotonic() - self._beat > EVERY + LATE:
                self._late = self._clock.monotonic()

    def steady(self, since: float) -> bool:
        """Whether the loop has kept time since then (of the clock's `monotonic`)."""
        now = self._clock.monotonic()
        return self._late < since and now - self._beat <= EVERY + LATE
