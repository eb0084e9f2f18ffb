"""Identifiers: a prefix that says what it is, then letters only, sortable by time.

Letters only, because clients match on digits in texts that quote an id (`503`, `429`) and take it for a status.
"""

import os
from functools import lru_cache

from trunkline.base.clock import Clock

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
PAIRS = [one + other for one in ALPHABET for other in ALPHABET]
TIME_LETTERS = 10  # 26^10 milliseconds reach past the year 6000
RANDOM_LETTERS = 14  # 65 bits
STOCK = 256
_DIGITS = str.maketrans(ALPHABET, "0123456789abcdefghijklmnop")  # as `int` reads base 26
LAST = len(ALPHABET) ** TIME_LETTERS - 1  # the last millisecond that an id can tell


def letters(number: int, length: int) -> str:
    """A number in base 26, padded to a length; the order of texts is the order of numbers."""
    out: list[str] = []
    for _ in range((length + 1) // 2):
        number, pair = divmod(number, len(PAIRS))
        out.append(PAIRS[pair])
    return "".join(reversed(out))[-length:]


class _Random:
    """Random letters, unguessable, taken from the system many at a time: a system call for each id costs more than the id."""

    _LETTER_OF = bytes(ord(ALPHABET[byte % len(ALPHABET)]) for byte in range(256))  # the last four are a tenth rarer

    def __init__(self) -> None:
        self._stock: list[str] = []
        os.register_at_fork(after_in_child=self._stock.clear)  # a child must not tell the same ones

    def take(self) -> str:
        if not self._stock:
            letters = os.urandom(RANDOM_LETTERS * STOCK).translate(self._LETTER_OF).decode()
            self._stock += [letters[at : at + RANDOM_LETTERS] for at in range(0, len(letters), RANDOM_LETTERS)]
        return self._stock.pop()


_random = _Random()


def new_id(prefix: str, clock: Clock) -> str:
    """A new identifier such as `rqe_` and 24 letters; later ones sort after earlier ones, to the millisecond."""
    rest, last = divmod(int(clock.now() * 1000), len(PAIRS))
    early, middle = divmod(rest, len(PAIRS))
    return f"{prefix}_{_early(early)}{PAIRS[middle]}{PAIRS[last]}{_random.take()}"


@lru_cache(2)
def _early(number: int) -> str:
    """The first letters of a time, which are the same for seven minutes."""
    return letters(number, TIME_LETTERS - 4)


def first_id(prefix: str, seconds: float) -> str:
    """What no identifier made at an instant (seconds since the epoch) or later sorts before."""
    return f"{prefix}_{letters(min(max(0, int(seconds * 1000)), LAST), TIME_LETTERS)}"


def time_of(identifier: str) -> float:
    """When an identifier was made, in seconds since the epoch, to the millisecond."""
    return int(identifier.rpartition("_")[2][:TIME_LETTERS].translate(_DIGITS), len(ALPHABET)) / 1000
