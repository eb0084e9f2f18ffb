"""The connections to one origin: newest idle first, never more than allowed, waiters in turn."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable

from trunkline_sdk.http1.connection import Connection
from trunkline_sdk.http1.dialling import Dial, Origin
from trunkline_sdk.http1.errors import (
    CertificateRejected,
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    ConnectTimeout,
    HttpError,
    PoolFull,
    PoolTimeout,
)
from trunkline_sdk.http1.limits import Limits, Timeouts
from trunkline_sdk.outbox import Outbox


class Pool:
    """A slot belongs to a connection that lives, or to a request that makes one.

    `emptied` is called whenever no slot is taken, no socket open and nobody waiting.
    """

    __slots__ = (
        "_closed",
        "_dial",
        "_emptied",
        "_idle",
        "_limits",
        "_live",
        "_loop",
        "_none_open",
        "_open",
        "_origin",
        "_outbox",
        "_slots",
        "_waiters",
    )

    def __init__(self, origin: Origin, *, dial: Dial, limits: Limits, emptied: Callable[[], None]) -> None:
        self._origin = origin
        self._dial = dial
        self._limits = limits
        self._emptied = emptied
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(self._loop)
        self._slots = 0
        self._live: set[Connection] = set()
        self._open: set[Connection] = set()
        self._idle: deque[Connection] = deque()
        self._waiters: deque[asyncio.Future[Connection | None]] = deque()
        self._closed = False
        self._none_open = asyncio.Event()

    def take(self) -> Connection | None:
        """The newest idle connection that is not too old."""
        while self._idle:
            connection = self._idle.pop()
            if self._young(connection):
                return connection
            connection.abort()
        return None

    async def acquire(self, timeouts: Timeouts, *, fresh: bool = False) -> Connection:
        """An idle connection (unless it must be `fresh`), a new one, or one's turn.

        Raises:
            HttpError: `PoolFull`, `PoolTimeout`, `ConnectFailed`, `CertificateRejected`, `ConnectTimeout`, `ClientClosed`.
        """
        if not fresh and (idle := self.take()):
            return idle
        if fresh and self._idle and self._slots >= self._limits.connections:
            self._idle.popleft().abort()
        if self._slots < self._limits.connections:
            self._slots += 1
            return await self._connect(timeouts.connect)
        given = await self._turn(timeouts.pool, first=fresh)
        if given is None:
            return await self._connect(timeouts.connect)
        if not given.alive:  # it ended between being given and being taken
            return await self.acquire(timeouts, fresh=fresh)
        if not fresh:
            return given
        self._slots += 1  # its slot becomes ours
        given.abort()
        return await self._connect(timeouts.connect)

    async def aclose(self) -> None:
        """Close every socket, and return when it is closed."""
        self._closed = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(self._client_closed())
        for connection in list(self._open):
            connection.fail(ConnectionLost("the client was closed", host=self._origin.host))
        while self._open:
            await self._none_open.wait()

    # ------------------------------------------------------------------------------------------------ what connections tell
    def opened(self, connection: Connection, /) -> None:
        """Remember its socket until it is closed."""
        self._open.add(connection)
        self._none_open.clear()

    def freed(self, connection: Connection, /) -> None:
        """Lend it to the next in line, or keep it for a while."""
        if not connection.alive:
            return
        if self._closed or connection.used >= self._limits.requests or not self._young(connection):
            connection.abort()
        elif not self._give(connection):
            self._idle.append(connection)

    def ended(self, connection: Connection, /) -> None:
        """Its slot is free."""
        if connection in self._live:
            self._live.remove(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._free_slot()

    def closed(self, connection: Connection, /) -> None:
        """Its socket holds nothing up any more."""
        self._open.discard(connection)
        if not self._open:
            self._none_open.set()
        self._check_empty()

    # ------------------------------------------------------------------------------------------------ slots and turns
    def _young(self, connection: Connection) -> bool:
        return self._loop.time() - connection.born < self._limits.age_seconds

    def _free_slot(self) -> None:
        if not self._give(None):
            self._slots -= 1
            self._check_empty()

    def _give(self, connection: Connection | None) -> bool:
        """Hand a connection, or a slot to make one, to the first who waits."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False

    def _check_empty(self) -> None:
        if not self._slots and not self._open and not self._waiters:
            self._emptied()

    async def _turn(self, seconds: float, *, first: bool) -> Connection | None:
        if len(self._waiters) >= self._limits.waiters:
            raise PoolFull(f"{self._limits.waiters} requests wait for a connection already", host=self._origin.host)
        waiter: asyncio.Future[Connection | None] = self._loop.create_future()
        if first:
            self._waiters.appendleft(waiter)
        else:
            self._waiters.append(waiter)
        timer = self._loop.call_later(seconds, self._too_late, waiter, seconds)
        try:
            return await waiter
        except BaseException:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            elif not waiter.cancelled() and waiter.exception() is None:  # cancelled with the turn already in hand
                given = waiter.result()
                if given is None:
                    self._free_slot()
                else:
                    self.freed(given)
            raise
        finally:
            timer.cancel()

    def _too_late(self, waiter: "asyncio.Future[Connection | None]", seconds: float) -> None:
        if not waiter.done():
            waiter.set_exception(PoolTimeout(self._origin.host, "a free connection", seconds))

    # ------------------------------------------------------------------------------------------------ new connections
    async def _connect(self, seconds: float) -> Connection:
        """Use the slot that was taken for it."""
        made: list[Connection] = []

        def make() -> Connection:
            connection = Connection(self, self._origin.host, self._limits, self._outbox, self._loop)
            made.append(connection)
            return connection

        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                _, connection = await self._dial(self._origin, make)
            self._check(connection)
        except BaseException as error:
            for connection in made:
                connection.abort()
            self._free_slot()
            if isinstance(error, TimeoutError) and deadline.expired():
                raise ConnectTimeout(self._origin.host, "name, TCP and TLS", seconds) from None
            if isinstance(error, OSError):
                raise self._failure(error) from error
            raise
        self._live.add(connection)
        return connection

    def _check(self, connection: Connection) -> None:
        if self._closed:
            raise self._client_closed()
        if not connection.alive:
            raise ConnectFailed("the connection was closed as soon as it was open", host=self._origin.host)

    def _failure(self, error: OSError) -> HttpError:
        host = self._origin.host
        if isinstance(error, ssl.SSLCertVerificationError):
            return CertificateRejected(f"its certificate is refused: {error.verify_message}", host=host)
        return ConnectFailed(f"cannot connect: {error.strerror or error}", host=host)

    def _client_closed(self) -> HttpError:
        return ClientClosed("the client is closed", host=self._origin.host)
