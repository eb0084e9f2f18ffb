"""The way to a Valkey or Redis server: connections, each call with its deadline, and a pause between attempts while it is away.

A call is never repeated once it may have been sent, for it may have counted. While the server is away, calls fail at once until the
pause is over; then the next one tries again.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha1
from typing import Any, Protocol, cast

from redis import exceptions
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection

from trunkline.base.clock import Clock
from trunkline.errors import StoreFull, StoreReadOnly, StoreUnavailable
from trunkline.store.shared.address import Address
from trunkline.store.shared.contract import pause

DEADLINE = 1.0
"""Seconds for a call, connecting included."""

MOST_CONNECTIONS = 32
"""So many calls are under way at once; others wait for their turn, within their deadline."""

Word = str | bytes | int


class Wire(Protocol):
    """What we use of a connection of redis-py, whose own types say less."""

    async def connect(self) -> None:
        """Connect, and say who we are, unless it is connected."""
        ...

    async def can_read(self) -> bool:
        """Whether something lies there unread, the end included."""
        ...

    async def send_command(self, *words: Word) -> None:
        """Send a command."""
        ...

    async def read_response(self, *, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - redis-py's signature
        """Read an answer; with a timeout, `None` where none came in so many seconds. Raises: redis-py's errors."""
        ...

    async def disconnect(self, *, nowait: bool = False) -> None:
        """Close it."""
        ...


class Script:
    """A Lua script, which the server runs as one step."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = sha1(text.encode(), usedforsecurity=False).hexdigest()


class Link:
    """Calls to one server.

    Args:
        address: where it is.
        clock: the time, for pauses.
        deadline: seconds for a call.
    """

    def __init__(self, address: Address, clock: Clock, *, deadline: float = DEADLINE) -> None:
        self.address = address
        self._clock = clock
        self._deadline = deadline
        self._idle: list[Wire] = []
        self._turns = asyncio.Semaphore(MOST_CONNECTIONS)
        self._failures: int = 0
        self._closed_until = float("-inf")
        self._closed = False

    def key(self, *parts: str) -> str:
        """The name of a key, under the prefix."""
        return ":".join((self.address.prefix, *parts))

    async def ask(self, *words: Word) -> Any:
        """Send a command and return the answer. Raises: `StoreUnavailable`."""
        if (left := self._closed_until - self._clock.monotonic()) > 0:
            raise StoreUnavailable(
                f"{self._name} is away", hint="What needs it is refused until it is back; it is tried again by itself.", retry_after=left
            )
        seen = self._failures
        try:
            with self.told():
                async with asyncio.timeout(self._deadline), self._turns:
                    answer = await self._asked(words)
        except StoreUnavailable:
            if self._failures == seen:  # those that fail together are one failure
                self._failures += 1
                self._closed_until = self._clock.monotonic() + pause(self._failures)
            raise
        self._failures = 0
        return answer

    async def run(self, script: Script, keys: tuple[str, ...], *arguments: Word) -> int:
        """Run a script that returns an integer. Raises: `StoreUnavailable`."""
        try:
            return int(await self.ask("EVALSHA", script.sha, len(keys), *keys, *arguments))
        except _Unknown:  # the server was restarted, or never had it; nothing was run
            return int(await self.ask("EVAL", script.text, len(keys), *keys, *arguments))

    @asynccontextmanager
    async def wire(self) -> AsyncGenerator[Wire]:
        """A connection of one's own, open within the deadline and closed at the end. Raises: `StoreUnavailable`."""
        wire = self._made()
        try:
            with self.told():
                async with asyncio.timeout(self._deadline):
                    await wire.connect()
            yield wire
        finally:
            await wire.disconnect(nowait=True)

    @contextmanager
    def told(self) -> Generator[None]:
        """Tell what the client's library raises in words of ours."""
        try:
            yield
        except exceptions.NoScriptError:
            raise _Unknown from None
        except (exceptions.RedisError, TimeoutError, OSError, EOFError) as error:
            raise _told(error, self._name) from error

    async def aclose(self) -> None:
        """Close the connections that nobody uses; those in use close when their call ends."""
        self._closed = True
        while self._idle:
            await self._idle.pop().disconnect(nowait=True)

    @property
    def _name(self) -> str:
        return f"the shared store at `{self.address.place}`"

    def _made(self) -> Wire:
        where = self.address
        options: dict[str, Any] = {
            "username": where.username,
            "password": where.password.reveal() if where.password else None,
            "db": where.db,
            "protocol": 2,
            "driver_info": None,
            "socket_timeout": None,  # the deadline is around it all
            "socket_connect_timeout": self._deadline,
        }
        match where.kind:
            case "unix":
                return cast(Wire, UnixDomainSocketConnection(path=where.host, **options))
            case "tls":
                return cast(Wire, SSLConnection(host=where.host, port=where.port, ssl_ca_certs=where.authority, **options))
            case "tcp":
                return cast(Wire, Connection(host=where.host, port=where.port, **options))

    async def _asked(self, words: tuple[Word, ...]) -> Any:
        used = bool(self._idle)
        wire = self._idle.pop() if used else self._made()
        try:
            await wire.connect()
            if await wire.can_read():  # the server ended it meanwhile
                await wire.disconnect(nowait=True)
                await wire.connect()
            try:
                await wire.send_command(*words)
            except exceptions.ConnectionError:  # it broke meanwhile; a command that was not sent to its end is not carried out
                if not used:
                    raise
                await wire.send_command(*words)  # on a new one
            answer = await wire.read_response()
        except exceptions.ResponseError:  # an answer all the same: the connection is in order
            await self._put_back(wire)
            raise
        except BaseException:
            await wire.disconnect(nowait=True)
            raise
        await self._put_back(wire)
        return answer

    async def _put_back(self, wire: Wire) -> None:
        if self._closed:
            await wire.disconnect(nowait=True)
        else:
            self._idle.append(wire)


class _Unknown(Exception):
    """The server does not know a script by its sum."""


_MEANINGS: tuple[tuple[tuple[type[Exception], ...], type[StoreUnavailable], str, str], ...] = (
    (
        (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError),
        StoreUnavailable,
        "does not accept who we say we are",
        "Check user and password in `store.shared`, and what that user may do.",
    ),
    ((exceptions.OutOfMemoryError,), StoreFull, "has no memory left", "Give it more (`maxmemory`), and `maxmemory-policy noeviction`."),
    ((exceptions.ReadOnlyError,), StoreReadOnly, "is a replica that cannot be written to", "Let `store.shared` name the primary."),
    ((exceptions.BusyLoadingError,), StoreUnavailable, "is loading its data", "It is tried again by itself."),
    ((TimeoutError, exceptions.TimeoutError), StoreUnavailable, "does not answer in time", "It is tried again by itself."),
)


def _told(error: Exception, name: str) -> StoreUnavailable:
    """What happened, and what to do. The library's own words may quote a command, so that only their first one is told."""
    for kinds, kind, what, hint in _MEANINGS:
        if isinstance(error, kinds):
            return kind(f"{name} {what}", hint=hint)
    if isinstance(error, exceptions.ResponseError):
        code = error.status_code or str(error).partition(" ")[0]
        return StoreUnavailable(
            f"{name} refused a command ({code if code.isupper() else 'ERR'})",
            hint="Its log may say why. It has to be Valkey, or Redis from 6.2 on.",
        )
    return StoreUnavailable(
        f"{name} cannot be reached", hint="Look whether it runs, and whether `store.shared` names it; it is tried again by itself."
    )
