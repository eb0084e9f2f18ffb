"""How often something may happen: a bucket that time fills with tokens."""

from dataclasses import dataclass
from itertools import count


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

    def take(self, now: float, leaving: int = 0) -> float:
        """Take a token where so many more are left: 0, or the seconds until that is so, and then none was taken."""
        self._tokens = min(float(self._rate.burst), self._tokens + (now - self._at) * self._rate.per_second)
        self._at = now
        if self._tokens < 1 + leaving:
            return (1 + leaving - self._tokens) / self._rate.per_second
        self._tokens -= 1
        return 0.0


class Queue:
    """One bucket for several who come again when they are told to: whoever had less of it of late is first, then whoever came first."""

    def __init__(self, rate: Rate, now: float) -> None:
        self._bucket = Bucket(rate, now)
        self._waiting: dict[str, tuple[int, int]] = {}
        self._numbers = count()

    def take(self, who: str, had: int, now: float) -> float:
        """A token for one who had so many of late: 0, or the seconds until it is worth coming again."""
        mine = self._waiting.setdefault(who, (had, next(self._numbers)))
        seconds = self._bucket.take(now, leaving=sum(other < mine for other in self._waiting.values()))
        if not seconds:
            self.leave(who)
        return seconds

    def leave(self, who: str) -> None:
        """Come no more."""
        self._waiting.pop(who, None)
