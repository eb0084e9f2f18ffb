"""Guesses: who shows wrong keys waits longer each time."""

from collections import OrderedDict
from dataclasses import dataclass

FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0
FORGET_SECONDS = 600.0
MOST_ADDRESSES = 10_000


@dataclass(slots=True)
class _Record:
    failures: int
    last: float


class Guesses:
    """Failures by address, in bounded memory: the addresses that have been quiet longest are forgotten first."""

    def __init__(self, *, most: int = MOST_ADDRESSES) -> None:
        self._most = most
        self._records: OrderedDict[str, _Record] = OrderedDict()  # the latest failure last

    def __len__(self) -> int:
        return len(self._records)

    def failed(self, address: str, now: float) -> float:
        """Count a failure at an instant of a monotonic clock; gives the seconds for which its answer is held back.

        100 ms, doubled with every failure of the address, and never more than 5 s. Ten quiet minutes clear an address.
        """
        self._forget(now)
        record = self._records.setdefault(address, _Record(0, now))
        self._records.move_to_end(address)
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(record.failures, 10))  # 2^1024 is no float
        record.failures += 1
        record.last = now
        if len(self._records) > self._most:
            self._records.popitem(last=False)
        return delay

    def _forget(self, now: float) -> None:
        while self._records:
            address, record = next(iter(self._records.items()))
            if now - record.last < FORGET_SECONDS:
                return
            del self._records[address]
