"""What is answered before everything else: `ping` and `dump`, taken out of the bytes that come, before a `Peer` sees them."""

import re
from typing import NamedTuple

from trunkline_sdk.rpc.frames import LENGTH, MESSAGE

MOST_BYTES = 512
"""Of an urgent call. Frames up to that size are looked into, and waited for to their end."""

_CALL = re.compile(rb'\{"id":([1-9][0-9]{0,15}),"method":"(ping|dump)"[,}]')  # as `messages.call` writes it


class Urgent(NamedTuple):
    """A call that was taken out."""

    id: int
    method: str


class Sieve:
    """Takes urgent calls out of bytes that are cut anywhere; all else goes through as it came. Holds less than one small frame."""

    __slots__ = ("_held", "_left")

    def __init__(self) -> None:
        self._held = b""
        self._left = 0  # bytes of a frame that goes through

    def feed(self, data: bytes) -> tuple[bytes, list[Urgent]]:
        """What goes through, and what was taken out."""
        if self._held:
            data = self._held + data
        urgent: list[Urgent] = []
        passed: list[bytes] = []
        at = start = 0
        end = len(data)
        while True:
            at += (step := min(self._left, end - at))
            self._left -= step
            if self._left or end - at < LENGTH.size:
                break
            length, kind = LENGTH.unpack_from(data, at)
            if kind != MESSAGE or length > MOST_BYTES:
                self._left = 4 + length
                continue
            if end - at < 4 + length:
                break
            if found := _CALL.match(data, at + LENGTH.size, at + 4 + length):
                urgent.append(Urgent(int(found[1]), found[2].decode()))
                passed.append(data[start:at])
                start = at + 4 + length
            at += 4 + length
        self._held = data[at:]
        if not urgent and at == end:
            return data, urgent
        passed.append(data[start:at])
        return b"".join(passed), urgent
