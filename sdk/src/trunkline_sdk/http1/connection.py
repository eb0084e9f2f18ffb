"""One connection: at most one exchange at a time, each wait with its deadline, and no task of its own."""

import asyncio
import ssl
from collections import deque
from typing import TYPE_CHECKING, Protocol, cast

from trunkline_sdk.deadline import Deadline
from trunkline_sdk.http1.errors import BodyCut, ConnectionLost, FirstByteTimeout, Garbled, HttpError, HttpTimeout, SilenceTimeout
from trunkline_sdk.http1.framing import Framing
from trunkline_sdk.http1.limits import DEFAULT_TIMEOUTS, Limits, Timeouts
from trunkline_sdk.http1.response_head import Head, Malformed, check_start, read
from trunkline_sdk.outbox import Gathered, Outbox

if TYPE_CHECKING:
    from collections.abc import Callable


class Owner(Protocol):
    """Who lends connections out."""

    def opened(self, connection: "Connection", /) -> None:
        """Its socket is connected."""

    def freed(self, connection: "Connection", /) -> None:
        """The exchange came to its clean end; another may follow."""

    def ended(self, connection: "Connection", /) -> None:
        """It will carry nothing more."""

    def closed(self, connection: "Connection", /) -> None:
        """Its socket is closed."""


class Connection(asyncio.Protocol):
    """`begin`, `write` and `drain`, `answer`, then `take` and `more` until `complete`, then `release`; `abort` at any time.

    `heard`: a byte of the answer came. `used`: exchanges begun. `born`: the loop's time when it was made. `on_answer`, while set, is
    called when the answer's head or an error comes.
    """

    __slots__ = (
        "__weakref__",  # of its deadline
        "_buffered",
        "_chunks",
        "_deadline",
        "_error",
        "_framing",
        "_gone",
        "_head",
        "_informational",
        "_late",
        "_limits",
        "_loop",
        "_method",
        "_outbox",
        "_owner",
        "_partial",
        "_reading_paused",
        "_request_whole",
        "_timeouts",
        "_tls",
        "_transport",
        "_waiter",
        "_writing_paused",
        "born",
        "heard",
        "host",
        "on_answer",
        "used",
    )

    def __init__(self, owner: Owner, host: str, limits: Limits, outbox: Outbox, loop: asyncio.AbstractEventLoop) -> None:
        self._owner = owner
        self._outbox = outbox
        self.host = host
        self._limits = limits
        self._loop = loop
        self._deadline = Deadline(loop, self._expire)
        self._late: tuple[type[HttpTimeout], str, float] | None = None
        self._transport: asyncio.Transport | None = None
        self._tls: ssl.SSLObject | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._gone = self._reading_paused = self._writing_paused = False
        self.on_answer: Callable[[], None] | None = None
        self.born = loop.time()
        self.used = 0
        self._method = ""  # empty while idle
        self._timeouts = DEFAULT_TIMEOUTS
        self._head: Head | None = None
        self._framing: Framing | None = None
        self._error: HttpError | None = None
        self._partial = b""
        self._informational = 0
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._request_whole = False
        self.heard = False

    # ------------------------------------------------------------------------------------------------ one exchange
    def begin(self, method: str, timeouts: Timeouts) -> None:
        """Expect the answer to a request."""
        self._deadline.clear()
        self._method = method
        self._timeouts = timeouts
        self._head = self._framing = None
        self._informational = 0
        self._request_whole = False
        self.heard = False
        self.used += 1

    def write(self, *data: bytes | memoryview) -> None:
        """Hand bytes of the request to the transport; `drain` before there are many."""
        if self._transport is not None and not self._gone:
            if len(data) == 1:
                self._transport.write(data[0])
            else:
                self._transport.writelines(data)

    async def drain(self) -> None:
        """Wait while the peer does not take what was written and has not answered.

        Raises:
            SilenceTimeout: It takes nothing.
        """
        while self._writing_paused and not self.answered:
            await self._wait(SilenceTimeout, "the peer to take the request", self._timeouts.silence)

    @property
    def answered(self) -> bool:
        """The answer's head is there, or an error instead of it."""
        return self._head is not None or self._error is not None

    async def answer(self, *, request_whole: bool) -> Head:
        """The answer's head; a connection whose request was not written whole is not used again.

        Raises:
            HttpError: There is none.
        """
        self._request_whole = request_whole
        while not self.answered:
            await self._wait(FirstByteTimeout, "the first byte of the answer", self._timeouts.first_byte)
        if self._head is None:
            assert self._error is not None
            raise self._error
        return self._head

    def take(self) -> bytes | None:
        """The next piece of the body that is here already."""
        if not self._chunks:
            return None
        chunk = self._chunks.popleft()
        self._buffered -= len(chunk)
        if self._reading_paused and self._buffered * 2 <= self._limits.buffer_bytes:
            self._pause_reading(on=False)
        return chunk

    def take_whole(self, most: float) -> bytes | None:
        """The body, where all of it is here in one piece that is not larger than that."""
        if len(self._chunks) == 1 and self._finished and self._buffered <= most:
            return self.take()
        return None

    @property
    def complete(self) -> bool:
        """The body was taken to its end."""
        return not self._chunks and self._finished

    @property
    def _finished(self) -> bool:
        return self._framing is not None and self._framing.finished

    async def more(self) -> None:
        """Wait for a piece of the body or its end.

        Raises:
            HttpError: There will be none.
        """
        if self._gone and self._error is None:
            self._error = BodyCut("the body was closed before its end was read", host=self.host)
        if self._error is not None:
            raise self._error
        await self._wait(SilenceTimeout, "more of the body", self._timeouts.silence)

    def release(self) -> None:
        """The complete body was taken: the connection is its owner's again."""
        head = self._head
        if head is None or self._unsent or not head.keep_alive or head.framing.surplus:
            self.abort()
        if self._gone:
            return
        self._method = ""
        self._head = self._framing = self._late = None
        self._deadline.set(self._limits.idle_seconds)
        self._owner.freed(self)

    def fail(self, error: HttpError) -> None:
        """Close the socket; whoever waits for the exchange gets `error`."""
        self._error = error
        self.abort()
        self._announce()

    def abandon(self) -> None:
        """As `abort`, from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.abort)

    @property
    def alive(self) -> bool:
        """Nothing has ended it yet."""
        return not self._gone

    @property
    def _unsent(self) -> bool:
        return self._transport is None or not self._request_whole or self._transport.get_write_buffer_size() > 0

    def abort(self) -> None:
        """Close the socket now, whatever it was doing."""
        if self._gone:
            return
        self._gone = True
        self._deadline.stop()
        if self._transport is not None:
            self._transport.abort()
        self._owner.ended(self)
        self._wake()

    # ------------------------------------------------------------------------------------------------ what the loop calls
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TCP is up, and TLS where it is wanted."""
        self._transport = Gathered(cast(asyncio.Transport, transport), self._outbox)
        self._tls = transport.get_extra_info("ssl_object")
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        """One read."""
        framing = self._framing
        if self._gone:
            return
        if framing is not None:
            self._read_body(framing, data)
        elif self._method:
            self._read_head(data)
        else:  # bytes that nobody asked for
            self.abort()

    def eof_received(self) -> None:
        """The peer sends no more; under TLS `_end` finds out whether it said so."""
        self._end(clean=True)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """The socket is closed, by either side."""
        self._end(clean=False)
        self._owner.closed(self)

    def pause_writing(self) -> None:
        """The peer takes less than we write."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._writing_paused = False
        self._wake()

    # ------------------------------------------------------------------------------------------------ reading
    def _read_head(self, data: bytes) -> None:
        self.heard = True
        seen = max(len(self._partial) - 3, 0)
        start = self._partial + data
        try:
            while (end := start.find(b"\r\n\r\n", seen) + 4) > 3:
                head = read(start[:end], self._method, self._limits)
                start, seen = start[end:], 0
                if head.status >= 200:
                    self._begin_body(head, start)
                    return
                self._count_informational()
            check_start(start, self._limits)
        except Malformed as error:
            self.fail(Garbled(str(error), host=self.host))
            return
        self._partial = start
        if self._request_whole:  # somebody waits in `answer`
            if start:
                self._expect(SilenceTimeout, "the rest of the answer's head", self._timeouts.silence)
            else:
                self._expect(FirstByteTimeout, "the answer after an informational one", self._timeouts.first_byte)

    def _count_informational(self) -> None:
        self._informational += 1
        if self._informational > self._limits.informational:
            raise Malformed(f"more than {self._limits.informational} informational answers")

    def _begin_body(self, head: Head, data: bytes) -> None:
        self._partial = b""
        self._head = head
        self._framing = head.framing
        self._read_body(head.framing, data)
        self._announce()

    def _read_body(self, framing: Framing, data: bytes) -> None:
        if data:
            if framing.finished:
                framing.surplus = True
                return
            chunk = framing.feed(data)
            if chunk:
                self._chunks.append(chunk)
                self._buffered += len(chunk)
                if self._buffered > self._limits.buffer_bytes and not self._reading_paused:
                    self._pause_reading(on=True)
            if framing.fault:
                self.fail(Garbled(framing.fault, host=self.host))
                return
        self._wake()

    def _pause_reading(self, *, on: bool) -> None:
        if self._transport is None or self._gone:
            return
        self._reading_paused = on
        if on:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _read_rest(self, tls: ssl.SSLObject) -> bool:
        """Read what the TLS layer still holds; whether the peer said that this is all (close_notify, RFC 9112, 9.8).

        uvloop drops what came while reading was paused, asyncio reports an end without the goodbye like one with it.
        """
        self._reading_paused = True  # there is nothing left to pause
        while not self._gone:
            try:
                data = tls.read(65536)
            except ssl.SSLZeroReturnError:
                return True
            except ssl.SSLError:
                return False
            if not data:
                return True
            self.data_received(data)
        return False

    def _end(self, *, clean: bool) -> None:
        if self._gone:
            return
        if self._method and not self._finished:
            if self._tls is not None:
                clean = self._read_rest(self._tls)
            if self._framing is None:
                self._error = self._error or self._no_head()
            elif self._framing.open_ended and clean:
                self._framing.finished = True
            elif not self._finished:
                self._error = self._error or BodyCut("the connection ended before the body did", host=self.host)
        self.abort()
        self._announce()

    def _no_head(self) -> HttpError:
        if self.heard:
            return Garbled("the answer broke off inside its head", host=self.host)
        return ConnectionLost("the connection ended before any byte of the answer", host=self.host)

    # ------------------------------------------------------------------------------------------------ waiting
    async def _wait(self, error: type[HttpTimeout], what: str, seconds: float) -> None:
        assert self._waiter is None, "one task at a time may read a response"
        self._expect(error, what, seconds)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
            self._deadline.clear()

    def _expect(self, error: type[HttpTimeout], what: str, seconds: float) -> None:
        self._late = (error, what, seconds)
        self._deadline.set(seconds)

    def _expire(self) -> None:
        if self._late is None:
            self.abort()
        else:
            error, what, seconds = self._late
            self.fail(error(self.host, what, seconds))

    def _announce(self) -> None:
        if self.on_answer is not None:
            self.on_answer()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
