"""A deadline that moves far more often than it passes."""

import asyncio
import math
from collections.abc import Callable
from weakref import WeakMethod


class Deadline:
    """Moving it costs no timer: the one that runs is set anew when it rings too early.

    `passed` is a method of who has the deadline, and held weakly: the two are no circle that is left to the garbage collector.
    """

    __slots__ = ("_due", "_loop", "_passed", "_rings", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, passed: Callable[[], None]) -> None:
        self._loop = loop
        self._passed = WeakMethod(passed)
        self._due = math.inf
        self._rings = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """Call `passed` in `seconds`, unless it is moved or cleared until then."""
        due = self._due = self._loop.time() + seconds
        if due < self._rings:
            self._run(due)

    def clear(self) -> None:
        """Nothing is waited for."""
        self._due = math.inf

    def stop(self) -> None:
        """Leave no timer behind."""
        self._due = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings = when
        self._timer = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._rings = math.inf
        if self._due == math.inf:
            return
        if self._loop.time() < self._due - 0.001:  # clocks of loops tick in milliseconds
            self._run(self._due)
        else:
            self._due = math.inf
            if (passed := self._passed()) is not None:
                passed()
