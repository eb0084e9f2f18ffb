"""Answers of a daemon, to the byte, and what a test sees of an error."""

import asyncio
from collections.abc import Awaitable

import pytest

from sdk.tests.http1.peer import Peer, Request, Wire
from trunkline_sdk.daemon.errors import CallFailed, DaemonError

NEUTRAL = (False, False, False)
FAILOVER = (False, True, False)
CIRCUIT = (False, False, True)
AGAIN = (True, True, True)


def answer(body: bytes = b"{}", status: int = 200, headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(body), headers, body)


def chunked(*pieces: bytes, headers: bytes = b"", end: bool = True) -> list[bytes]:
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece]
    return [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + headers + b"\r\n", *chunks, *([b"0\r\n\r\n"] if end else [])]


def keeps(peer: Peer, *pieces: bytes) -> list[Request]:
    """Answer each request with these bytes from now on, on open connections too; the list fills with what was asked."""
    asked: list[Request] = []
    peer.saying = (asked, pieces)

    async def script(wire: Wire) -> None:
        while True:
            request = await wire.request()
            asked, pieces = peer.saying
            asked.append(request)
            await wire.send(*pieces)

    peer.plays(script)
    return asked


def cuts(peer: Peer, *pieces: bytes) -> None:
    """Answer so, and drop the connection."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(*pieces)
        wire.cut()

    peer.plays(script)


async def failure(call: Awaitable[object]) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        async with asyncio.timeout(10):
            await call
    return caught.value


def seen(error: DaemonError) -> tuple[str, tuple[bool, bool, bool]]:
    """Class; retry, failover, circuit."""
    found = error.classification
    return getattr(error, "kind", ""), (found.retryable, found.failover, found.circuit)


def shown(error: BaseException | None) -> str:
    """The error as a log shows it, and all that it was raised from."""
    text = ""
    while error is not None:
        text += f"{error!r} {error} {vars(error)}"
        error = error.__cause__ or error.__context__
    return text
