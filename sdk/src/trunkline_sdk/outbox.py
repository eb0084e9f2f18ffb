"""Small writes of one turn of an event loop, made together at its end.

A write to a socket may wake whoever reads at the other end, and costs most then. Those of a busy turn are made one right after the other, and
several to one connection (a head and its body) become one. What is large is not worth waiting for.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

SMALL = 32 * 1024
"""Bytes of one connection that may wait for the end of the turn."""


class Outbox:
    """What the connections of one owner have to write."""

    __slots__ = ("_loop", "_writes")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._writes: list[Callable[[], None]] = []

    def at_end(self, write: Callable[[], None]) -> None:
        """Call `write` at the end of this turn."""
        if not self._writes:
            self._loop.call_soon(self._write)
        self._writes.append(write)

    def _write(self) -> None:
        writes, self._writes = self._writes, []
        for write in writes:
            write()


class Gathered(asyncio.Transport):
    """A transport whose small writes are made at the end of the turn; what is not about writing is the transport's own."""

    __slots__ = ("_out", "_outbox", "_size", "_transport")

    def __init__(self, transport: asyncio.Transport, outbox: Outbox) -> None:
        super().__init__()
        self._transport = transport
        self._outbox = outbox
        self._out: list[bytes | bytearray | memoryview] = []
        self._size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write soon; at once, with what waits, if that is much."""
        if not self._out:
            self._outbox.at_end(self._flush)
        self._out.append(data)
        self._size += len(data)
        if self._size > SMALL:
            self._flush()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """The same with several pieces."""
        if not self._out:
            self._outbox.at_end(self._flush)
        self._out += list_of_data
        self._size = sum(map(len, self._out))
        if self._size > SMALL:
            self._flush()

    def write_eof(self) -> None:
        """Close our side, behind all that was written."""
        self._flush()
        self._transport.write_eof()

    def close(self) -> None:
        """Close when all is written."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close now; what waits is dropped."""
        self._out, self._size = [], 0
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        """Bytes that the other side has not taken."""
        return self._size + self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The transport's own."""
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """The transport's own."""
        return self._transport.is_closing()

    def can_write_eof(self) -> bool:
        """The transport's own."""
        return self._transport.can_write_eof()

    def pause_reading(self) -> None:
        """The transport's own."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """The transport's own."""
        self._transport.resume_reading()

    def _flush(self) -> None:
        out, size, self._out, self._size = self._out, self._size, [], 0
        if not out or self._transport.is_closing():
            return
        if len(out) == 1:
            self._transport.write(out[0])
        elif size <= SMALL:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)
