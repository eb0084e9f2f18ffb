"""What the client needs of HTTP, and where it has it from."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from trunkline_sdk.http1 import Client, HttpError, HttpTimeout, Limits, Origin, Timeouts

P = TypeVar("P", bound=asyncio.Protocol)

FAILURES = (HttpError, OSError)
"""What a transport raises when there is no answer, or when the body of one breaks off."""

_LIMITS = Limits(head_bytes=1024 * 1024, unfolded_bytes=1 << 62, connections=10_000, waiters=100_000)
"""The client has bounds of its own for bodies; heads may hold long lists of losses."""


def waited(error: Exception) -> str:
    """How long was waited for what, where that was too long; without the address."""
    return f"{error.seconds:g} s for {error.what}" if isinstance(error, HttpTimeout) else ""


class Answer(Protocol):
    """An answer whose head has come. The body ends early with one of `FAILURES`, never as if it were whole."""

    @property
    def status(self) -> int:
        """HTTP status."""
        ...

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """In any case."""
        ...

    @property
    def body(self) -> AsyncIterator[bytes]:
        """As it arrives, content encodings undone."""
        ...

    async def aclose(self) -> None:
        """Drop the connection, unless the body was read to its end."""


class Transport(Protocol):
    """One HTTP exchange at a time or many: without redirects, proxies, or a look at the environment. Cancelling drops the connection."""

    async def request(self, method: str, url: str, headers: Sequence[tuple[bytes, bytes]], body: bytes, /, *, timeouts: Timeouts) -> Answer:
        """The answer, once its head is there.

        Raises:
            HttpError, OSError: There is none.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""


def over_tcp() -> Transport:
    """HTTP/1.1 by `trunkline_sdk.http1`."""
    return Client(limits=_LIMITS)


def over_unix(path: Path) -> Transport:
    """The same over the Unix socket at `path`, whatever host the base URL names."""

    async def dial(origin: Origin, factory: Callable[[], P], /) -> tuple[asyncio.Transport, P]:
        loop = asyncio.get_running_loop()
        name = None if origin.ssl is None else origin.host
        transport, protocol = await loop.create_unix_connection(factory, str(path), ssl=origin.ssl, server_hostname=name)
        return transport, protocol

    return Client(dial=dial, limits=_LIMITS)
