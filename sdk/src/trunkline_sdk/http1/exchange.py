"""One exchange on one connection: write the request until it is written or answered, then wait for the answer's head."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from types import TracebackType

from trunkline_sdk.http1.connection import Connection
from trunkline_sdk.http1.limits import Timeouts
from trunkline_sdk.http1.response_head import Head

_JOINED = 16 * 1024
"""Copying a body so long behind its head is cheaper than a second write."""
_AT_ONCE = 256 * 1024
_PIECE = 64 * 1024


async def exchange(connection: Connection, method: str, head: bytes, body: bytes | AsyncIterable[bytes], timeouts: Timeouts) -> Head:
    """The head of the answer. Whatever goes wrong, cancelling included, closes the connection.

    Raises:
        HttpError: `ConnectionLost`, `Garbled`, `FirstByteTimeout`, `SilenceTimeout`.
    """
    connection.begin(method, timeouts)
    try:
        if isinstance(body, bytes) and len(body) <= _JOINED:
            connection.write(head + body)  # nothing to wait for: what an idle connection had to write is written
            whole = True
        else:
            whole = await _send(connection, head, body)
        return await connection.answer(request_whole=whole)
    except BaseException:
        connection.abort()
        raise


async def _send(connection: Connection, head: bytes, body: bytes | AsyncIterable[bytes]) -> bool:
    """Whether the whole request was written; an answer that comes before ends the sending."""
    if not isinstance(body, bytes):
        return await _send_stream(connection, head, body)
    if len(body) <= _AT_ONCE:
        connection.write(head, body)
    else:
        connection.write(head)
        rest = memoryview(body)
        for begin in range(0, len(body), _PIECE):
            if connection.answered:
                return False
            connection.write(rest[begin : begin + _PIECE])
            await connection.drain()
        return True
    await connection.drain()
    return True


async def _send_stream(connection: Connection, head: bytes, body: AsyncIterable[bytes]) -> bool:
    """Each piece becomes one chunk (RFC 9112, 7.1). While the caller's iterator is awaited an answer interrupts it."""
    pieces = aiter(body)
    connection.write(head)
    try:
        while not connection.answered:
            piece = None
            with _UntilAnswer(connection):
                piece = await anext(pieces, None)
                if piece is None:
                    connection.write(b"0\r\n\r\n")
                    return True
            if piece:
                connection.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await connection.drain()
        return False
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


class _UntilAnswer:
    """Cancels what is awaited inside when the answer comes, and only that (as `asyncio.timeout` does)."""

    __slots__ = ("_before", "_connection", "_fired", "_task")

    def __init__(self, connection: Connection) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()
        self._connection = connection
        self._fired = False

    def __enter__(self) -> None:
        self._connection.on_answer = self._fire

    def _fire(self) -> None:
        if not self._fired:
            self._fired = True
            self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        self._connection.on_answer = None
        if not self._fired:
            return False
        return self._task.uncancel() <= self._before and kind is asyncio.CancelledError
