"""From an origin to a connected transport. A caller with rules about addresses writes its own `Dial` from `resolve` and `connect_first`."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

P = TypeVar("P", bound=asyncio.Protocol)


@dataclass(frozen=True, slots=True)
class Origin:
    """Whom to reach; `ssl` is the TLS context for `https`, None for `http`. `host` is what SNI and the certificate are held to."""

    scheme: str
    host: str
    port: int
    ssl: ssl.SSLContext | None


class Address(NamedTuple):
    """One answer of the resolver, ready for a socket; `sockaddr[0]` is the numeric address."""

    family: socket.AddressFamily
    sockaddr: tuple[Any, ...]


class Dial(Protocol):
    """Makes a connected transport to `origin` whose protocol is made by `factory` (once per attempt).

    An `OSError` becomes `ConnectFailed`, a certificate's error `CertificateRejected`; any other error, such as a refused address,
    reaches the caller of `request` as it is. The connect deadline cancels it.
    """

    async def __call__(self, origin: Origin, factory: Callable[[], P], /) -> tuple[asyncio.Transport, P]:
        """The transport, TLS included where the origin has it, and its protocol."""
        ...


def tls_context(cafile: str | None = None) -> ssl.SSLContext:
    """The platform's trusted roots (or those of `cafile` alone), names checked, ALPN `http/1.1`."""
    context = ssl.create_default_context(cafile=cafile)
    context.set_alpn_protocols(["http/1.1"])
    return context


async def dial(origin: Origin, factory: Callable[[], P], /) -> tuple[asyncio.Transport, P]:
    """Resolve and connect to whatever address answers first, in the resolver's order."""
    return await connect_first(origin, await resolve(origin), factory)


async def resolve(origin: Origin) -> list[Address]:
    """The addresses of the origin's host, in order, each once. A number such as `2852039166` is read as the resolver reads it.

    Raises:
        OSError: No address.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(Address(family, sockaddr) for family, _, _, _, sockaddr in found))


async def connect_first(
    origin: Origin, addresses: Sequence[Address], factory: Callable[[], P], *, patience: float = 3.0
) -> tuple[asyncio.Transport, P]:
    """Try each address in turn; all but the last get `patience` seconds for TCP, so that a dead one leaves time for the next.

    Raises:
        OSError: That of the last address; TLS that fails is not tried again elsewhere.
    """
    failure = OSError("the name has no address")
    for number, address in enumerate(addresses, start=1):
        try:
            return await connect(origin, address, factory, patience=patience if number < len(addresses) else None)
        except ssl.SSLError:
            raise
        except OSError as error:
            failure = error
    raise failure


async def connect(
    origin: Origin, address: Address, factory: Callable[[], P], *, patience: float | None = None
) -> tuple[asyncio.Transport, P]:
    """TCP to this one address within `patience` seconds, then TLS under the origin's name. Cancelling closes the socket.

    Raises:
        OSError: Refused, unreachable, out of patience, or TLS failed (`ssl.SSLError`).
    """
    loop = asyncio.get_running_loop()
    # with the protocol number asyncio switches Nagle's algorithm off
    sock = socket.socket(address.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        async with asyncio.timeout(patience):
            await loop.sock_connect(sock, address.sockaddr)
    except BaseException:
        sock.close()
        raise
    name = None if origin.ssl is None else origin.host
    transport, protocol = await loop.create_connection(factory, sock=sock, ssl=origin.ssl, server_hostname=name)
    return transport, protocol
