"""A response: its head at once, its body as it comes."""

import math
from types import TracebackType
from typing import Self

from trunkline_sdk.http1.connection import Connection
from trunkline_sdk.http1.decoders import Decoder
from trunkline_sdk.http1.errors import BodyCut, BodyTooLarge, HttpError, UndecodableBody

_PIECE = 64 * 1024


class Body:
    """Iterates over the body's pieces as they arrived; none is empty, none is waited for longer than it takes to come.

    What arrived before a failure is handed out before its error; a failure is never a clean end. Taking the last byte gives the
    connection back; an error, a cancelled wait, `aclose`, or forgetting the body closes it.

    Raises (while iterating):
        HttpError: `BodyCut`, `Garbled`, `SilenceTimeout`, `BodyTooLarge`, `UndecodableBody`.
    """

    __slots__ = ("_connection", "_error", "_host", "_most", "_room")

    def __init__(self, connection: Connection, most: int | None) -> None:
        self._connection: Connection | None = connection
        self._error: HttpError | None = None
        self._host = connection.host
        self._most = most
        self._room = math.inf if most is None else most
        if connection.complete:
            self._finish(connection)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        connection = self._connection
        if connection is None:
            raise self._error or StopAsyncIteration
        chunk = connection.take()
        if chunk is None:
            try:
                while chunk is None and not connection.complete:
                    await connection.more()
                    chunk = connection.take()
            except BaseException as error:
                self._stop(error if isinstance(error, HttpError) else self._closed_early())
                raise
        if connection.complete:
            self._finish(connection)
        if chunk is None:
            raise StopAsyncIteration
        self._room -= len(chunk)
        if self._room < 0:
            raise self._stop(BodyTooLarge(f"a body of more than {self._most} bytes", host=self._host))
        return chunk

    async def read(self) -> bytes:
        """All that is left of the body."""
        if (whole := self._whole()) is not None:
            return whole
        parts = [chunk async for chunk in self]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def aclose(self) -> None:
        """Close the connection unless the body was read to its end."""
        if self._connection is not None:
            self._stop(self._closed_early())

    def __del__(self) -> None:
        if self._connection is not None:
            self._connection.abandon()

    def _whole(self) -> bytes | None:
        """The body, where it is here in one piece, as small ones are: nothing is waited for, and nobody else's turn comes."""
        connection = self._connection
        whole = None if connection is None else connection.take_whole(self._room)
        if connection is not None and whole is not None:
            self._finish(connection)
        return whole

    def _finish(self, connection: Connection) -> None:
        self._connection = None
        connection.release()

    def _stop(self, error: HttpError) -> HttpError:
        self._error = error
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        return error

    def _closed_early(self) -> HttpError:
        return BodyCut("the body was closed before its end was read", host=self._host)


class UnfoldedBody(Body):
    """A body whose content encoding is undone on the way, in pieces of about 64 KiB; without a decoder none of it can be read."""

    __slots__ = ("_decoder", "_encoded", "_more", "_most_unfolded", "_unfolded")

    def __init__(self, connection: Connection, most: int | None, decoder: Decoder | None, most_unfolded: int) -> None:
        super().__init__(connection, most)
        self._decoder = decoder
        self._most_unfolded = most_unfolded if most is None else min(most, most_unfolded)
        self._unfolded = 0
        self._encoded = False
        self._more = False

    async def __anext__(self) -> bytes:
        if self._error is not None:
            raise self._error
        while True:
            piece = self._decode(b"") if self._more else b""
            if not piece:
                piece = self._decode(await self._encoded_piece())
            if piece:
                self._unfolded += len(piece)
                if self._unfolded > self._most_unfolded:
                    raise self._stop(BodyTooLarge(f"a body that unfolds into more than {self._most_unfolded} bytes", host=self._host))
                return piece

    def _whole(self) -> bytes | None:
        return None

    async def _encoded_piece(self) -> bytes:
        try:
            data = await super().__anext__()
        except StopAsyncIteration:
            if self._encoded and self._decoder is not None and not self._decoder.finished:
                raise self._broken("its stream ends early") from None
            raise
        self._encoded = True
        return data

    def _decode(self, data: bytes) -> bytes:
        if self._decoder is None:
            raise self._broken("there is no decoder for it")
        try:
            piece = self._decoder.decode(data, _PIECE)
        except ValueError:
            raise self._broken("its stream is broken") from None
        self._more = bool(piece) and not self._decoder.finished
        return piece

    def _broken(self, why: str) -> HttpError:
        return self._stop(UndecodableBody(f"the content encoding cannot be undone: {why}", host=self._host))


class Response:
    """`headers` are pairs of bytes in the order and spelling in which they came.

    Where a content encoding is undone its header and the Content-Length are left out. Use it as `async with`, or read it to its end.
    """

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: Body) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    async def read(self) -> bytes:
        """The whole body, or what is left of it."""
        return await self.body.read()

    async def aclose(self) -> None:
        """Close the connection unless the body was read to its end."""
        await self.body.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.body.aclose()
