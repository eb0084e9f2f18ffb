"""From a name to a socket: addresses in order, certificates by name, nothing from the environment."""

import asyncio
import datetime as dt
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable

import pytest
import trustme

from sdk.tests.http1.asking import MakeClient, ask, dead_port, loopback, open_sockets, sees_the_end, silent_port
from sdk.tests.http1.peer import Peer, Wire, server_context
from trunkline_sdk.http1 import (
    Address,
    CertificateRejected,
    Client,
    ConnectFailed,
    ConnectTimeout,
    Origin,
    Timeouts,
    connect,
    connect_first,
    dial,
    resolve,
)
from trunkline_sdk.http1.dialling import P

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
OK_AND_CLOSE = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"


def named(peer: Peer) -> str:
    return f"{'https' if peer.tls else 'http'}://peer.test:{peer.port}/"


def resolving_to(*addresses: Address) -> Callable[[Origin], Awaitable[list[Address]]]:
    async def resolve(origin: Origin) -> list[Address]:
        return list(addresses)

    return resolve


async def test_the_second_address_is_tried_when_the_first_refuses(peer: Peer, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trunkline_sdk.http1.dialling.resolve", resolving_to(loopback(dead_port()), loopback(peer.port)))
    peer.says(OK)
    assert await ask(client, named(peer)) == b"ok"


async def test_the_second_address_is_tried_when_the_first_is_silent(peer: Peer, make_client: MakeClient) -> None:
    with silent_port() as silent:

        async def impatient(origin: Origin, factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
            return await connect_first(origin, [loopback(silent), loopback(peer.port)], factory, patience=0.1)

        peer.says(OK)
        assert await ask(make_client(dial=impatient), named(peer)) == b"ok"


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_when_every_address_refuses_the_last_refusal_counts(client: Client, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    before = open_sockets()
    monkeypatch.setattr("trunkline_sdk.http1.dialling.resolve", resolving_to(loopback(dead_port()), loopback(dead_port())))
    with pytest.raises(ConnectFailed, match=r"^peer\.test: cannot connect: ") as caught:
        await ask(client, f"{scheme}://peer.test/")
    assert not caught.value.sent
    assert open_sockets() == before


async def test_a_name_without_address_cannot_be_reached(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def knows_nobody(origin: Origin) -> list[Address]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("trunkline_sdk.http1.dialling.resolve", knows_nobody)
    with pytest.raises(ConnectFailed, match="Name or service not known"):
        await ask(client, "http://peer.test/")
    monkeypatch.setattr("trunkline_sdk.http1.dialling.resolve", resolving_to())
    with pytest.raises(ConnectFailed, match="no address"):
        await ask(client, "http://peer.test/")


class RefusedError(Exception):
    """What a judge of addresses raises."""


@pytest.mark.parametrize("answer", [OK, OK_AND_CLOSE])
async def test_a_name_that_changes_to_a_private_address_is_judged_at_the_next_dial(
    peer: Peer, make_client: MakeClient, answer: bytes
) -> None:
    answers = ["127.0.0.1", "10.0.0.7"]

    async def judging(origin: Origin, factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        number = ipaddress.ip_address(answers.pop(0))
        if not number.is_loopback:
            raise RefusedError(str(number))
        return await connect(origin, loopback(origin.port), factory)

    client = make_client(dial=judging)
    peer.says(answer)
    assert await ask(client, named(peer)) == b"ok"
    if answer is OK:  # an open connection stays with the address it was judged by
        assert await ask(client, named(peer)) == b"ok"
        busy = await client.request("GET", named(peer))
        with pytest.raises(RefusedError):
            await ask(client, named(peer))
        assert await busy.read() == b"ok"
    else:
        with pytest.raises(RefusedError):
            await ask(client, named(peer))
    assert len(peer.wires) == 1


@pytest.mark.parametrize(("host", "number"), [("2852039166", "169.254.169.254"), ("0x7f.1", "127.0.0.1"), ("::1", "::1")])
async def test_a_number_is_read_as_the_resolver_reads_it(host: str, number: str) -> None:
    addresses = await resolve(Origin("http", host, 80, None))
    assert [address.sockaddr[:2] for address in addresses] == [(number, 80)]


@pytest.mark.parametrize("server_tls", ["tls"], indirect=True)
async def test_the_server_is_told_the_name_and_asked_for_http11(peer: Peer, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trunkline_sdk.http1.dialling.resolve", resolving_to(loopback(peer.port)))
    told: list[str | None] = []
    assert peer.tls is not None
    peer.tls.sni_callback = lambda _object, name, _context: told.append(name)
    peer.says(OK)
    try:
        assert await ask(client, named(peer)) == b"ok"
    finally:
        peer.tls.sni_callback = None
    assert told == ["peer.test"]
    assert (await peer.wire()).writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"


def self_signed(authority: trustme.CA) -> ssl.SSLContext:
    stranger = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with stranger.cert_pem.tempfile() as certificate, stranger.private_key_pem.tempfile() as key:
        context.load_cert_chain(certificate, key)
    return context


def expired(authority: trustme.CA) -> ssl.SSLContext:
    day = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    return server_context(authority.issue_cert("127.0.0.1", not_before=day, not_after=day + dt.timedelta(days=1)))


def for_another_name(authority: trustme.CA) -> ssl.SSLContext:
    return server_context(authority.issue_cert("other.test"))


def from_a_stranger(authority: trustme.CA) -> ssl.SSLContext:
    return server_context(trustme.CA().issue_cert("127.0.0.1"))


@pytest.mark.parametrize(
    ("context", "why"),
    [(for_another_name, "mismatch"), (expired, "expired"), (self_signed, "self.signed"), (from_a_stranger, "self.signed|unable to get")],
)
async def test_a_certificate_that_proves_nothing_is_rejected_before_anything_is_sent(
    client: Client, authority: trustme.CA, context: Callable[[trustme.CA], ssl.SSLContext], why: str
) -> None:
    async with Peer(context(authority), Wire.stop) as peer:
        with pytest.raises(CertificateRejected, match=why) as caught:
            await ask(client, peer.url)
        assert not caught.value.sent
    assert peer.wires == [] or not peer.wires[0].reader._buffer


async def test_a_peer_that_speaks_no_tls_cannot_be_reached(client: Client) -> None:
    async def speaks_plainly(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await wire.gone()

    async with Peer(None, speaks_plainly) as peer:
        with pytest.raises(ConnectFailed) as caught:
            await ask(client, f"https://127.0.0.1:{peer.port}/")
        assert type(caught.value) is ConnectFailed
        assert not caught.value.sent


async def test_a_peer_that_hangs_up_during_the_handshake_cannot_be_reached(client: Client) -> None:
    async def hangs_up(wire: Wire) -> None:
        await wire.reader.readexactly(5)
        wire.reset()

    async with Peer(None, hangs_up) as peer:
        with pytest.raises(ConnectFailed):
            await ask(client, f"https://127.0.0.1:{peer.port}/")


async def test_the_default_dial_resolves_and_connects(peer: Peer, make_client: MakeClient) -> None:
    peer.says(OK)
    assert await ask(make_client(dial=dial), f"{'https' if peer.tls else 'http'}://localhost:{peer.port}/") == b"ok"


async def test_small_writes_are_not_held_back(peer: Peer, make_client: MakeClient) -> None:
    delays: list[int] = []

    async def looks(origin: Origin, factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        transport, protocol = await connect(origin, loopback(peer.port), factory)
        delays.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        return transport, protocol

    peer.says(OK)
    await ask(make_client(dial=looks), named(peer))
    assert delays[0] != 0


async def test_proxies_of_the_environment_are_ignored(peer: Peer, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{dead_port()}")
    peer.says(OK)
    assert await ask(client, peer.url) == b"ok"


async def test_a_redirect_is_an_answer_like_any_other(peer: Peer, client: Client) -> None:
    peer.says(b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n")
    response = await client.request("GET", peer.url)
    assert (response.status, response.headers[0]) == (302, (b"location", b"http://169.254.169.254/"))
    await response.aclose()
    assert len(peer.wires) == 1


async def test_a_connection_that_is_made_too_late_is_not_kept(peer: Peer, make_client: MakeClient) -> None:
    async def slow(origin: Origin, factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        made = await connect(origin, loopback(peer.port), factory)
        await asyncio.Event().wait()
        return made

    async def sees_nothing(wire: Wire) -> None:
        await wire.stop()

    peer.plays(sees_nothing)
    with pytest.raises(ConnectTimeout):
        await ask(make_client(dial=slow, timeouts=Timeouts(connect=0.2)), named(peer))
    await sees_the_end(await peer.wire())
