"""How often something may happen: a bucket that time fills with tokens."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """So many per second in the long run, and so many at once."""

    per_second: float
    burst: int


class Bucket:
    """One bucket, full at first. Times are seconds of a clock that only moves forward."""

    __slots__ = ("_at", "_rate", "_tokens")

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._at = now

    def take(self, now: float) -> float:
        """Take a token: 0, or the seconds until there is one, and then none was taken."""
        self._tokens = min(float(self._rate.burst), self._tokens + (now - self._at) * self._rate.per_second)
        self._at = now
        if self._tokens < 1:
            return (1 - self._tokens) / self._rate.per_second
        self._tokens -= 1
        return 0.0
