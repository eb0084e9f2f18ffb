"""Cancelling closes the socket at once, wherever the exchange stands (G18)."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from sdk.tests.http1.asking import MakeClient, ask, cancelled, open_sockets, sees_the_end, silent_port
from sdk.tests.http1.peer import SOON, Peer, Script, Wire, after
from trunkline_sdk.http1 import BodyCut, Client, ClientClosed, ConnectionLost, Limits

pytestmark = pytest.mark.proves("G18")

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "script",
    [after(), after(HEAD[:30]), after(HEAD), after(HEAD, b"5\r\nhello\r\n"), after(HEAD, b"5\r\nhello\r\n", b"ff\r\nhalf")],
    ids=["before the head", "inside the head", "after the head", "between chunks", "inside a chunk"],
)
async def test_cancelling_while_the_answer_is_awaited_closes_the_socket(peer: Peer, client: Client, script: Script) -> None:
    peer.plays(script)
    task = asyncio.create_task(ask(client, peer.url))
    wire = await peer.wire()
    await wire.reached.wait()
    await cancelled(task)
    await sees_the_end(wire)


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield bytes(50_000)


@pytest.mark.parametrize("body", [lambda: bytes(40_000_000), endless], ids=["bytes", "iterator"])
async def test_cancelling_in_the_middle_of_the_request_body_closes_the_socket(
    peer: Peer, client: Client, body: Callable[[], bytes | AsyncIterator[bytes]]
) -> None:
    async def takes_half(wire: Wire) -> None:
        await wire.head()
        await wire.reader.readexactly(100_000)
        await wire.stop()

    peer.plays(takes_half)
    task = asyncio.create_task(ask(client, peer.url, body()))
    wire = await peer.wire()
    await wire.reached.wait()
    await cancelled(task)
    await sees_the_end(wire)


async def test_cancelling_while_the_callers_own_body_iterator_waits_closes_both(peer: Peer, client: Client) -> None:
    waiting, closed = asyncio.Event(), asyncio.Event()

    async def waits() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            waiting.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def takes_the_head(wire: Wire) -> None:
        await wire.head()
        await wire.stop()

    peer.plays(takes_the_head)
    task = asyncio.create_task(ask(client, peer.url, waits()))
    wire = await peer.wire()
    await waiting.wait()
    await cancelled(task)
    assert closed.is_set()
    await sees_the_end(wire)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_cancelling_while_the_name_is_resolved_connects_nowhere(client: Client, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    asked = asyncio.Event()

    async def resolves_for_ever(origin: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("trunkline_sdk.http1.dialling.resolve", resolves_for_ever)
    before = open_sockets()
    task = asyncio.create_task(ask(client, f"{scheme}://peer.test/"))
    await asked.wait()
    await cancelled(task)
    assert open_sockets() == before


@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_cancelling_does_not_wait_for_the_resolvers_thread(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = threading.Event(), threading.Event()

    def blocks(*_: object, **__: object) -> list[object]:
        asked.set()
        answer.wait(10)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", blocks)
    task = asyncio.create_task(ask(client, "http://peer.test/"))
    try:
        assert await asyncio.to_thread(asked.wait, 5)
        await cancelled(task)
    finally:
        answer.set()


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_cancelling_while_tcp_connects_closes_the_socket(client: Client, scheme: str) -> None:
    with silent_port() as port:
        before = open_sockets()
        task = asyncio.create_task(ask(client, f"{scheme}://127.0.0.1:{port}/"))
        async with asyncio.timeout(SOON):
            while open_sockets() == before:
                await asyncio.sleep(0)
        assert not task.done()
        await cancelled(task)
        assert open_sockets() == before


async def test_cancelling_during_the_tls_handshake_closes_the_socket(client: Client) -> None:
    async def reads_the_hello(wire: Wire) -> None:
        await wire.reader.readexactly(5)
        await wire.stop()

    async with Peer(None, reads_the_hello) as peer:
        task = asyncio.create_task(ask(client, f"https://127.0.0.1:{peer.port}/"))
        wire = await peer.wire()
        await wire.reached.wait()
        await cancelled(task)
        await sees_the_end(wire)


async def test_cancelling_while_waiting_for_a_connection_gives_the_turn_to_the_next(peer: Peer, make_client: MakeClient) -> None:
    async def answers_when_told(wire: Wire) -> None:
        for number in range(2):
            await wire.request()
            if number == 0:
                await wire.reached.wait()
            await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    peer.plays(answers_when_told)
    client = make_client(limits=Limits(connections=1))
    first = asyncio.create_task(ask(client, peer.url))
    wire = await peer.wire()
    second, third = (asyncio.create_task(ask(client, peer.url)) for _ in range(2))
    await asyncio.sleep(0)
    await cancelled(second)
    wire.reached.set()
    assert await first == await third == b"ok"
    assert len(peer.wires) == 1


async def test_a_turn_that_comes_with_the_cancellation_is_passed_on(peer: Peer, make_client: MakeClient) -> None:
    peer.says(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    client = make_client(limits=Limits(connections=1))
    first = await client.request("GET", peer.url)
    second, third = (asyncio.create_task(ask(client, peer.url)) for _ in range(2))
    await asyncio.sleep(0)
    await first.read()  # hands the connection to the second, which never gets to use it
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert await third == b"ok"
    assert len(peer.wires) == 1


async def test_a_cancelled_read_closes_the_socket_though_the_response_is_kept(peer: Peer, client: Client) -> None:
    peer.plays(after(HEAD, b"5\r\nhello\r\n"))
    response = await client.request("GET", peer.url)
    assert await anext(response.body) == b"hello"
    reading = asyncio.create_task(response.read())
    await asyncio.sleep(0)
    await cancelled(reading)
    await sees_the_end(await peer.wire())
    with pytest.raises(BodyCut):
        await anext(response.body)


async def test_closing_a_response_ends_the_reading_of_another_task(peer: Peer, client: Client) -> None:
    peer.plays(after(HEAD, b"5\r\nhello\r\n"))
    response = await client.request("GET", peer.url)
    assert await anext(response.body) == b"hello"
    reading = asyncio.create_task(response.read())
    await asyncio.sleep(0)
    await response.aclose()
    with pytest.raises(BodyCut):
        await asyncio.wait_for(reading, SOON)
    await sees_the_end(await peer.wire())


@pytest.mark.parametrize("cancel", [False, True])
async def test_a_turn_with_a_connection_that_has_just_died_costs_nothing(peer: Peer, make_client: MakeClient, cancel: bool) -> None:
    peer.says(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    client = make_client(limits=Limits(connections=1))
    first = await client.request("GET", peer.url)
    second = asyncio.create_task(ask(client, peer.url))
    await asyncio.sleep(0)
    (pool,) = client._pools.values()
    (connection,) = pool._live
    await first.read()  # hands the connection to the second
    connection.eof_received()
    if cancel:
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
    else:
        assert await second == b"ok"
    assert await ask(client, peer.url) == b"ok"
    assert len(peer.wires) == 2


async def test_a_body_that_is_closed_early_closes_the_socket(peer: Peer, client: Client) -> None:
    peer.plays(after(HEAD, b"5\r\nhello\r\n"))
    async with await client.request("GET", peer.url) as response:
        assert await anext(response.body) == b"hello"
    await sees_the_end(await peer.wire())
    with pytest.raises(BodyCut):
        await anext(response.body)


async def test_a_consumer_cancelled_elsewhere_that_forgets_its_response_closes_the_socket(peer: Peer, client: Client) -> None:
    at_work = asyncio.Event()

    async def consumes() -> None:
        response = await client.request("GET", peer.url)
        async for _ in response.body:
            at_work.set()
            await asyncio.Event().wait()

    peer.plays(after(HEAD, b"5\r\nhello\r\n"))
    task = asyncio.create_task(consumes())
    await at_work.wait()
    await cancelled(task)
    await sees_the_end(await peer.wire())


async def test_a_complete_answer_that_nobody_read_does_not_lend_its_connection_again(peer: Peer, client: Client) -> None:
    peer.says(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    response = await client.request("GET", peer.url)
    await response.aclose()
    assert await ask(client, peer.url) == b"ok"
    assert len(peer.wires) == 2


async def test_closing_the_client_ends_what_is_under_way(peer: Peer, client: Client) -> None:
    peer.plays(after(HEAD))
    response = await client.request("GET", peer.url)
    reading = asyncio.create_task(response.read())
    await asyncio.sleep(0)
    await client.aclose()
    with pytest.raises(ConnectionLost):
        await reading
    with pytest.raises(ClientClosed):
        await client.request("GET", peer.url)
    await sees_the_end(await peer.wire())
