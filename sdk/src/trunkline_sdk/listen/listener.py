"""Binds, serves, drains."""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import stat
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from uvicorn import Config

from trunkline_sdk.listen.connection import Connection, Shared
from trunkline_sdk.listen.limits import ListenLimits
from trunkline_sdk.outbox import Outbox

_LAST_MOMENT = 1.0  # seconds that an app has to end after its connections were closed, and again after it was cancelled


class ListenError(Exception):
    """The listener cannot start: the address is taken or not ours, or the certificate cannot be used."""


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate chain and its private key, as PEM files."""

    cert: Path
    key: Path


class Listener:
    """Serves one ASGI app at one address: ``host`` and ``port`` (0 takes a free one), or the Unix socket ``unix`` (of mode 0600)."""

    def __init__(
        self,
        app: Callable[[Any, Any, Any], Awaitable[None]],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        unix: Path | None = None,
        tls: Tls | None = None,
        limits: ListenLimits = ListenLimits(),  # noqa: B008 - a frozen record
    ) -> None:
        self._host = host
        self._port = port
        self._unix = unix
        self._tls = tls
        self._limits = limits
        self._app = app
        self._shared = Shared()
        self._server: asyncio.Server | None = None
        self._clock: asyncio.TimerHandle | None = None
        self._file: os.stat_result | None = None
        self._urls: tuple[str, ...] = ()

    @property
    def urls(self) -> tuple[str, ...]:
        """Where it listens: ``http://127.0.0.1:8080``, ``https://[::1]:8443``, ``unix:/run/x.sock``; empty before the start."""
        return self._urls

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._shared.connections)

    async def start(self) -> tuple[str, ...]:
        """Bind, begin to serve, say where.

        Raises:
            ListenError: it cannot, and why.
        """
        config = self._configuration()
        loop = asyncio.get_running_loop()
        self._shared.outbox = Outbox(loop)
        options: dict[str, Any] = {"backlog": 2048}
        if self._tls is not None:
            options |= {"ssl": _context(self._tls), "ssl_handshake_timeout": self._limits.head_seconds, "ssl_shutdown_timeout": 1.0}

        def connection() -> Connection:
            return Connection(config, self._shared, self._limits)

        place = f"{self._host}:{self._port}" if self._unix is None else str(self._unix)
        try:
            if self._unix is None:
                self._server = await loop.create_server(connection, self._host, self._port, **options)
            else:
                sock = _unix_socket(self._unix)
                self._file = self._unix.stat()
                self._server = await loop.create_unix_server(connection, sock=sock, **options)
        except OSError as error:
            raise ListenError(f"cannot listen on {place}: {error.strerror or error}") from error
        self._tick()
        scheme = "http" if self._tls is None else "https"
        names = [sock.getsockname() for sock in self._server.sockets]
        self._urls = tuple(
            f"unix:{name}" if isinstance(name, str) else f"{scheme}://{f'[{name[0]}]' if ':' in name[0] else name[0]}:{name[1]}"
            for name in names
        )
        return self._urls

    async def drain(self, seconds: float, *, ending: Callable[[], object] | None = None, grace: float = 1.0) -> None:
        """Stop so that nobody is cut who can finish in time.

        No connection is accepted any more, idle ones are closed, the others get ``connection: close`` with their answer. After
        ``seconds``, if answers are still under way, ``ending`` is called, so that the app ends its streams with an error of their own,
        which may take ``grace`` seconds. Then every connection that is left is closed and the app's tasks are cancelled. None is left.
        """
        self._stop_accepting()
        if not await self._quiet(seconds) and ending is not None:
            ending()
            await self._quiet(grace)
        await self.aclose()

    async def aclose(self) -> None:
        """Close everything now."""
        self._stop_accepting()
        for connection in list(self._shared.connections):
            connection.transport.abort()
        if not await self._quiet(_LAST_MOMENT):
            for task in self._shared.tasks:
                task.cancel()
            await self._quiet(_LAST_MOMENT)
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    def _configuration(self) -> Config:
        config = Config(
            lambda: self._app,
            factory=True,  # else uvicorn tries whether the app is one
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=self._limits.idle_seconds,
        )
        config.load()
        return config

    def _tick(self) -> None:
        # RFC 9110, section 6.6.1: a `Date` on every answer, not written anew for each.
        self._shared.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        self._clock = asyncio.get_running_loop().call_later(1.0, self._tick)

    def _stop_accepting(self) -> None:
        if self._server is None:
            return
        self._server.close()
        self._server = None
        self._shared.draining = True
        if self._unix is not None:
            with contextlib.suppress(FileNotFoundError):
                if self._file is not None and os.path.samestat(self._unix.stat(), self._file):
                    self._unix.unlink()
        for connection in list(self._shared.connections):
            connection.shutdown()

    async def _quiet(self, seconds: float) -> bool:
        """Whether every connection and every call of the app has ended in this time."""
        try:
            async with asyncio.timeout(seconds):
                await self._shared.empty.wait()
                while self._shared.tasks:
                    await asyncio.wait(self._shared.tasks)
        except TimeoutError:
            return False
        return True


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.cert, tls.key)
    except OSError as error:
        raise ListenError(f"cannot use the certificate {tls.cert} with the key {tls.key}: {error.strerror or error}") from error
    return context


def _unix_socket(path: Path) -> socket.socket:
    """A bound socket that nobody but us may connect to; a file that a dead server left is replaced, a live one's is not."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.setblocking(False)
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(path.stat().st_mode) and _is_dead(path):
                path.unlink()
        sock.bind(str(path))
        path.chmod(0o600)  # before it listens, so no one can have come in
    except BaseException:
        sock.close()
        raise
    return sock


def _is_dead(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        return probe.connect_ex(str(path)) == errno.ECONNREFUSED
