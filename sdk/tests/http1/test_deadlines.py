"""Each wait has a deadline and an error of its own, and the error says what was waited for."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from sdk.tests.http1.asking import MakeClient, ask, sees_the_end, silent_port
from sdk.tests.http1.peer import Peer, Wire, after
from trunkline_sdk.http1 import Client, ConnectTimeout, FirstByteTimeout, Limits, SilenceTimeout, Timeouts

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


async def test_no_first_byte_in_time_closes_the_connection(peer: Peer, make_client: MakeClient) -> None:
    peer.plays(after())
    with pytest.raises(FirstByteTimeout, match=r"^127\.0\.0\.1: waited 0\.1 s for the first byte of the answer$") as caught:
        await ask(make_client(timeouts=Timeouts(first_byte=0.1)), peer.url)
    assert caught.value.sent
    assert caught.value.seconds == 0.1
    await sees_the_end(await peer.wire())


@pytest.mark.parametrize("sent", [(b"HTTP/1.1 2",), (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 2")])
async def test_silence_inside_the_head_is_limited(peer: Peer, make_client: MakeClient, sent: tuple[bytes, ...]) -> None:
    peer.plays(after(*sent))
    with pytest.raises(SilenceTimeout, match="rest of the answer's head"):
        await ask(make_client(timeouts=Timeouts(first_byte=5.0, silence=0.1)), peer.url)


async def test_after_an_informational_answer_the_first_byte_is_waited_for_anew(peer: Peer, make_client: MakeClient) -> None:
    peer.plays(after(b"HTTP/1.1 103 Early Hints\r\n\r\n"))
    with pytest.raises(FirstByteTimeout, match="after an informational one"):
        await ask(make_client(timeouts=Timeouts(first_byte=0.2, silence=0.05)), peer.url)


@pytest.mark.parametrize("sent", [(CHUNKED,), (CHUNKED, b"2\r\nok\r\n"), (CHUNKED, b"2\r\nok\r\n", b"ff")])
async def test_silence_in_the_body_is_limited_and_what_came_before_counts(
    peer: Peer, make_client: MakeClient, sent: tuple[bytes, ...]
) -> None:
    peer.plays(after(*sent))
    client = make_client(timeouts=Timeouts(silence=0.1))
    response = await client.request("GET", peer.url)
    if len(sent) > 1:
        assert await anext(response.body) == b"ok"
    with pytest.raises(SilenceTimeout, match="more of the body"):
        await anext(response.body)
    await sees_the_end(await peer.wire())


async def test_the_time_a_reader_takes_is_no_silence_of_the_peer(peer: Peer, make_client: MakeClient) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(CHUNKED, b"2\r\nok\r\n")
        await wire.reached.wait()
        await wire.send(b"0\r\n\r\n")

    peer.plays(script)
    response = await make_client(timeouts=Timeouts(silence=0.1)).request("GET", peer.url)
    assert await anext(response.body) == b"ok"
    await asyncio.sleep(0.25)  # the reader's own work
    (await peer.wire()).reached.set()
    assert await response.read() == b""


@pytest.mark.parametrize("stream", [False, True], ids=["bytes", "iterator"])
async def test_a_peer_that_takes_nothing_of_the_body_is_silent(peer: Peer, make_client: MakeClient, stream: bool) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(100_000)

    async def takes_nothing(wire: Wire) -> None:
        await wire.head()
        wire.writer.transport.pause_reading()
        await asyncio.Event().wait()

    peer.plays(takes_nothing)
    with pytest.raises(SilenceTimeout, match="the peer to take the request") as caught:
        await ask(make_client(timeouts=Timeouts(silence=0.2)), peer.url, endless() if stream else bytes(40_000_000))
    assert caught.value.sent


async def test_the_time_a_body_iterator_takes_is_no_silence_of_the_peer(peer: Peer, make_client: MakeClient) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"o"
        await asyncio.sleep(0.25)  # the caller's own work
        yield b"k"

    peer.says(OK)
    assert await ask(make_client(timeouts=Timeouts(first_byte=0.1, silence=0.1)), peer.url, slow()) == b"ok"


async def test_the_idle_limit_does_not_run_during_an_exchange(peer: Peer, make_client: MakeClient) -> None:
    async def slow() -> AsyncIterator[bytes]:
        await asyncio.sleep(0.25)  # the caller's own work
        yield b"ok"

    peer.says(OK)
    client = make_client(limits=Limits(idle_seconds=0.1))
    assert await ask(client, peer.url) == b"ok"
    assert await ask(client, peer.url, slow()) == b"ok"
    assert len(peer.wires) == 1


async def test_the_deadline_of_one_request_may_differ(peer: Peer, client: Client) -> None:
    peer.plays(after())
    with pytest.raises(FirstByteTimeout):
        await ask(client, peer.url, timeouts=Timeouts(first_byte=0.05))


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_resolving_counts_as_connecting(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    async def resolves_for_ever(origin: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("trunkline_sdk.http1.dialling.resolve", resolves_for_ever)
    with pytest.raises(ConnectTimeout, match=r"peer\.test: waited 0\.05 s for name, TCP and TLS") as caught:
        await ask(make_client(timeouts=Timeouts(connect=0.05)), f"{scheme}://peer.test/")
    assert not caught.value.sent


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_connecting_has_an_end(make_client: MakeClient, scheme: str) -> None:
    with silent_port() as port, pytest.raises(ConnectTimeout):
        await ask(make_client(timeouts=Timeouts(connect=0.1)), f"{scheme}://127.0.0.1:{port}/")


async def test_a_tls_handshake_counts_as_connecting(make_client: MakeClient) -> None:
    async def says_nothing(wire: Wire) -> None:
        await wire.stop()

    async with Peer(None, says_nothing) as peer:
        with pytest.raises(ConnectTimeout):
            await ask(make_client(timeouts=Timeouts(connect=0.1)), f"https://127.0.0.1:{peer.port}/")
        await sees_the_end(await peer.wire())
