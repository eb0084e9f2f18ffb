"""The descriptor 3 as a transport: what is written waits for who is slow, and what cannot be taken in ends it."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from trunkline_sdk.worker.wire import HIGH, LOW, Wire


class Told(asyncio.Protocol):
    """A protocol that notes what it is told."""

    def __init__(self) -> None:
        self.paused = False
        self.ends: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        raise MemoryError

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.ends.set_result(exc)


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


async def test_a_writer_is_paused_until_a_slow_reader_has_taken_most(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    wire, told = Wire(theirs, lambda _: b""), Told()
    wire.start(told)
    size = 4 * HIGH
    wire.write(b"x" * size)
    assert told.paused
    writing = asyncio.ensure_future(wire.written())
    taken, loop = 0, asyncio.get_running_loop()
    while taken < size:
        taken += len(await loop.sock_recv(ours, 16 * 1024))
        assert told.paused or size - taken <= LOW + 512 * 1024  # what the socket itself holds is written
    await writing
    assert not told.paused
    wire.abort()
    assert await told.ends is None


async def test_what_cannot_be_taken_in_ends_the_connection_with_a_reason(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    wire, told = Wire(theirs, lambda _: b""), Told()
    wire.start(told)
    ours.send(b"anything")
    assert str(await told.ends) == "MemoryError while reading what came"
    assert wire.is_closing()


async def test_nobody_waits_for_what_cannot_be_written_any_more(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    wire, told = Wire(theirs, lambda _: b""), Told()
    wire.start(told)
    wire.write(b"x" * 4 * HIGH)
    writing = asyncio.ensure_future(wire.written())
    await asyncio.sleep(0)
    assert not writing.done()
    ours.close()
    await writing
    assert await told.ends is None
