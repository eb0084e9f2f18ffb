"""The descriptor 3 as an asyncio transport, which another thread may read and write too, while extension code keeps the loop.

One lock holds the socket's order: who reads passes on what was read before the lock is free again. What the other thread reads waits
here for the loop, but for what is urgent.
"""

import asyncio
import socket
from collections.abc import Callable
from threading import Lock

from trunkline_sdk.worker.urgent import Sieve, Urgent

READ_BYTES = 256 * 1024
HIGH, LOW = 256 * 1024, 64 * 1024
"""Bytes that wait to be written: from the one on nothing more is taken from streams, below the other again."""

Reply = Callable[[Urgent], bytes]
"""A frame that answers an urgent call; it is called in either thread."""


class Wire(asyncio.Transport):
    """The transport. All but `serve` and `tell` belongs to the loop's thread.

    Args:
        sock: connected, a stream.
        reply: answers what is urgent.
    """

    def __init__(self, sock: socket.socket, reply: Reply) -> None:
        super().__init__()
        sock.setblocking(False)
        self._sock = sock
        self._reply = reply
        self._loop = asyncio.get_running_loop()
        self._protocol: asyncio.Protocol | None = None
        self._lock = Lock()
        self._sieve = Sieve()
        self._kept: list[bytes] = []  # read by the other thread, for the loop
        self._out = bytearray()
        self._over = False
        self._lost = False
        self._paused = False
        self._writing = False  # the loop waits until more can be written
        self._emptied: asyncio.Future[None] | None = None

    def start(self, protocol: asyncio.Protocol) -> None:
        """Tell a protocol what comes."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._loop.add_reader(self._sock, self._readable)

    # ------------------------------------------------------------------------------------------------ of asyncio
    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See `asyncio.WriteTransport`."""
        with self._lock:
            self._write(data)
        self._after_writing()

    def abort(self) -> None:
        """See `asyncio.WriteTransport`. What waits to be written is dropped."""
        self._end(None)

    def close(self) -> None:
        """The same."""
        self.abort()

    def is_closing(self) -> bool:
        """See `asyncio.BaseTransport`."""
        return self._lost

    async def written(self) -> None:
        """Wait until all is written, or never can be."""
        while self._out and not self._lost:
            if self._emptied is None:
                self._emptied = self._loop.create_future()
            await self._emptied

    def _readable(self) -> None:
        with self._lock:
            data = self._receive()
            parts, self._kept = [*self._kept, data], []
        self._take(b"".join(parts))

    def _take_kept(self) -> None:
        with self._lock:
            parts, self._kept = self._kept, []
        self._take(b"".join(parts))

    def _take(self, data: bytes) -> None:
        self._after_writing()  # replies to what was urgent
        if data and self._protocol is not None and not self._lost:
            try:
                self._protocol.data_received(data)
            except Exception as error:  # noqa: BLE001 - out of memory, most likely; what was in the bytes is lost, and the connection with it
                self._end(RuntimeError(f"{type(error).__name__} while reading what came"))
        if self._over:
            self._end(None)

    def _writable(self) -> None:
        with self._lock:
            del self._out[: self._send(self._out)]
        self._after_writing()

    def _after_writing(self) -> None:
        """Have the loop do the rest."""
        if self._lost:
            return
        waiting = len(self._out)
        if waiting and not self._writing:
            self._loop.add_writer(self._sock, self._writable)
        elif self._writing and not waiting:
            self._loop.remove_writer(self._sock)
        self._writing = waiting > 0
        assert self._protocol is not None
        if waiting > HIGH and not self._paused:
            self._paused = True
            self._protocol.pause_writing()
        elif waiting <= LOW and self._paused:
            self._paused = False
            self._protocol.resume_writing()
        if not self._out and self._emptied is not None:
            self._emptied.set_result(None)
            self._emptied = None

    def _end(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        if self._emptied is not None:
            self._emptied.set_result(None)
        if self._protocol is not None:
            self._loop.call_soon(self._protocol.connection_lost, error)

    # ------------------------------------------------------------------------------------------------ of the other thread
    def serve(self) -> bool:
        """In the other thread: read what is there, answer what is urgent, keep the rest for the loop; whether there may be more."""
        with self._lock:
            self._kept.append(self._receive())
        self._loop.call_soon_threadsafe(self._take_kept)
        return not self._over

    def tell(self, frame: bytes) -> None:
        """In the other thread: write a small frame."""
        with self._lock:
            self._write(frame)
        self._loop.call_soon_threadsafe(self._after_writing)

    # ------------------------------------------------------------------------------------------------ under the lock
    def _receive(self) -> bytes:
        """Read once; what is not urgent of it."""
        if self._over:
            return b""
        try:
            data = self._sock.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError:
            data = b""
        if not data:
            self._over = True
            return b""
        passed, urgent = self._sieve.feed(data)
        if urgent:
            self._write(b"".join(map(self._reply, urgent)))
        return passed

    def _write(self, data: bytes | bytearray | memoryview) -> None:
        """Write, behind what waits."""
        if self._out:
            self._out += data
            del self._out[: self._send(self._out)]
        elif (sent := self._send(data)) < len(data):
            self._out += memoryview(data)[sent:]

    def _send(self, data: bytes | bytearray | memoryview) -> int:
        """How many bytes the socket takes; all, where nobody reads any more: what is to be read still is."""
        if self._over:
            return len(data)
        try:
            return self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return len(data)
