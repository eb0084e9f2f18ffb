"""Which connection carries a request, when one is used again, and the one retry on a stale one."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from sdk.tests.http1.asking import MakeClient, ask, sees_the_end
from sdk.tests.http1.peer import SOON, Peer, Script, Wire
from trunkline_sdk.http1 import (
    Client,
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    Garbled,
    Limits,
    Origin,
    PoolFull,
    PoolTimeout,
    Timeouts,
    dial,
)
from trunkline_sdk.http1.dialling import P

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def test_a_connection_read_to_its_end_carries_the_next_request(peer: Peer, client: Client) -> None:
    peer.says(OK)
    for _ in range(5):
        assert await ask(client, peer.url) == b"ok"
    assert len(peer.wires) == 1


async def test_the_connection_is_free_with_the_last_byte_already(peer: Peer, client: Client) -> None:
    peer.says(OK)
    response = await client.request("GET", peer.url)
    assert await anext(response.body) == b"ok"
    assert await ask(client, peer.url) == b"ok"
    with pytest.raises(StopAsyncIteration):
        await anext(response.body)
    assert len(peer.wires) == 1


async def test_the_newest_idle_connection_goes_first(peer: Peer, client: Client) -> None:
    async def names_itself(wire: Wire) -> None:
        name = b"%d" % (len(peer.wires) - 1)
        while True:
            await wire.request()
            await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n" + name)

    peer.plays(names_itself)
    first, second = await client.request("GET", peer.url), await client.request("GET", peer.url)
    assert (await first.read(), await second.read()) == (b"0", b"1")
    assert [await ask(client, peer.url) for _ in range(3)] == [b"1", b"1", b"1"]


async def test_origins_share_no_connections(peer: Peer, client: Client) -> None:
    peer.says(OK)
    async with Peer(peer.tls) as other:
        other.says(OK)
        for _ in range(2):
            await ask(client, peer.url)
            await ask(client, other.url)
        assert (len(peer.wires), len(other.wires)) == (1, 1)


async def dies_before_the_second_answer(wire: Wire) -> None:
    await wire.request()
    await wire.send(OK)
    await wire.request()
    wire.reset()


async def closes_when_idle(wire: Wire) -> None:
    await wire.request()
    await wire.send(OK)
    await wire.close()


async def answers(wire: Wire) -> None:
    while True:
        request = await wire.request()
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(request.body), request.body))


@pytest.mark.parametrize("stale", [dies_before_the_second_answer, closes_when_idle])
async def test_a_stale_connection_costs_one_try_on_a_fresh_one(peer: Peer, client: Client, stale: Script) -> None:
    peer.plays(stale, answers)
    assert await ask(client, peer.url) == b"ok"
    assert await ask(client, peer.url, b"sent again") == b"sent again"
    assert len(peer.wires) == 2


async def test_a_close_just_before_reuse_is_survived(peer: Peer, client: Client) -> None:
    closed = asyncio.Event()

    async def closes_when_told(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK)
        await wire.reached.wait()
        wire.writer.close()
        closed.set()

    peer.plays(closes_when_told, answers)
    assert await ask(client, peer.url) == b"ok"
    (await peer.wire()).reached.set()
    await closed.wait()  # the end is on its way; whether the client's loop has seen it yet is the kernel's affair
    assert await ask(client, peer.url, b"sent again") == b"sent again"


async def test_the_retry_takes_no_other_idle_connection(peer: Peer, client: Client) -> None:
    peer.plays(dies_before_the_second_answer, dies_before_the_second_answer, answers)
    responses = [await client.request("GET", peer.url) for _ in range(2)]
    for response in responses:
        await response.read()
    assert await ask(client, peer.url, b"sent again") == b"sent again"
    assert len(peer.wires) == 3


async def test_there_is_no_second_retry(peer: Peer, client: Client) -> None:
    async def dies(wire: Wire) -> None:
        await wire.request()
        wire.reset()

    peer.plays(dies_before_the_second_answer, dies)
    assert await ask(client, peer.url) == b"ok"
    with pytest.raises(ConnectionLost):
        await ask(client, peer.url)
    assert len(peer.wires) == 2


async def test_after_one_byte_of_the_answer_there_is_no_retry(peer: Peer, client: Client) -> None:
    async def dies_after_a_byte(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK)
        await wire.request()
        await wire.send(b"H")
        await wire.close()

    peer.plays(dies_after_a_byte, answers)
    assert await ask(client, peer.url) == b"ok"
    with pytest.raises(Garbled):
        await ask(client, peer.url)
    assert len(peer.wires) == 1


async def test_a_body_that_cannot_be_sent_again_is_not(peer: Peer, client: Client) -> None:
    async def once() -> AsyncIterator[bytes]:
        yield b"only once"

    peer.plays(dies_before_the_second_answer, answers)
    assert await ask(client, peer.url) == b"ok"
    with pytest.raises(ConnectionLost) as caught:
        await ask(client, peer.url, once())
    assert caught.value.sent
    assert len(peer.wires) == 1


async def test_a_fresh_connection_that_dies_is_not_tried_again(peer: Peer, client: Client) -> None:
    async def dies(wire: Wire) -> None:
        await wire.request()
        wire.reset()

    peer.plays(dies, answers)
    with pytest.raises(ConnectionLost):
        await ask(client, peer.url)
    assert len(peer.wires) == 1


async def test_a_retry_at_the_limit_of_connections_makes_room(peer: Peer, make_client: MakeClient) -> None:
    client = make_client(limits=Limits(connections=2))
    peer.plays(dies_before_the_second_answer, closes_when_idle, answers)
    responses = [await client.request("GET", peer.url) for _ in range(2)]
    for response in reversed(responses):
        await response.read()
    assert await ask(client, peer.url, b"sent again") == b"sent again"


async def test_bytes_that_nobody_asked_for_cost_an_idle_connection(peer: Peer, client: Client) -> None:
    async def says_too_much(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK)
        await wire.reached.wait()
        await wire.send(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        await wire.gone()

    peer.plays(says_too_much, answers)
    await ask(client, peer.url)
    wire = await peer.wire()
    wire.reached.set()
    await sees_the_end(wire)
    assert await ask(client, peer.url, b"new") == b"new"


async def test_requests_per_connection_are_limited(peer: Peer, make_client: MakeClient) -> None:
    client = make_client(limits=Limits(requests=2))
    peer.says(OK)
    for _ in range(5):
        await ask(client, peer.url)
    assert len(peer.wires) == 3


async def test_an_old_connection_is_not_used_again(peer: Peer, make_client: MakeClient) -> None:
    client = make_client(limits=Limits(age_seconds=0.0))
    peer.says(OK)
    for _ in range(2):
        await ask(client, peer.url)
    assert len(peer.wires) == 2


async def test_an_idle_connection_is_closed_in_time(peer: Peer, make_client: MakeClient) -> None:
    async def answers_once(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK)
        await wire.stop()

    client = make_client(limits=Limits(idle_seconds=0.1))
    peer.plays(answers_once)
    await ask(client, peer.url)
    await sees_the_end(await peer.wire())


async def test_the_last_connection_takes_its_pool_with_it(peer: Peer, client: Client) -> None:
    peer.ends_with(OK)
    await ask(client, peer.url)
    async with asyncio.timeout(SOON):
        while client._pools:
            await asyncio.sleep(0)
    with pytest.raises(ConnectFailed):
        await ask(client, "http://127.0.0.1:1/")
    assert client._pools == {}


async def test_waiting_for_a_connection_has_an_end(peer: Peer, make_client: MakeClient) -> None:
    client = make_client(limits=Limits(connections=1), timeouts=Timeouts(pool=0.05))
    peer.says(OK)
    busy = await client.request("GET", peer.url)
    with pytest.raises(PoolTimeout, match=r"waited 0\.05 s for a free connection") as caught:
        await ask(client, peer.url)
    assert not caught.value.sent
    await busy.read()
    assert await ask(client, peer.url) == b"ok"


async def test_only_so_many_requests_may_wait(peer: Peer, make_client: MakeClient) -> None:
    client = make_client(limits=Limits(connections=1, waiters=1))
    peer.says(OK)
    busy = await client.request("GET", peer.url)
    waiting = asyncio.create_task(ask(client, peer.url))
    await asyncio.sleep(0)
    with pytest.raises(PoolFull) as caught:
        await ask(client, peer.url)
    assert not caught.value.sent
    await busy.read()
    assert await waiting == b"ok"


async def test_a_connection_that_is_closed_gives_its_place_to_who_waits(peer: Peer, make_client: MakeClient) -> None:
    client = make_client(limits=Limits(connections=1))
    peer.says(OK)
    busy = await client.request("GET", peer.url)
    waiting = asyncio.create_task(ask(client, peer.url))
    await asyncio.sleep(0)
    await busy.aclose()
    assert await waiting == b"ok"
    assert len(peer.wires) == 2


async def test_a_dial_that_fails_gives_its_place_to_who_waits(peer: Peer, make_client: MakeClient) -> None:
    tries = 0

    async def fails_once(origin: Origin, factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        nonlocal tries
        tries += 1
        if tries == 1:
            await asyncio.sleep(0)
            raise OSError(111, "no")
        return await dial(origin, factory)

    client = make_client(limits=Limits(connections=1), dial=fails_once)
    peer.says(OK)
    first, second = (asyncio.create_task(ask(client, peer.url)) for _ in range(2))
    with pytest.raises(ConnectFailed):
        await first
    assert await second == b"ok"


async def test_waiters_fail_when_the_client_closes(peer: Peer, make_client: MakeClient) -> None:
    client = make_client(limits=Limits(connections=1))
    peer.says(OK)
    busy = await client.request("GET", peer.url)
    waiting = asyncio.create_task(ask(client, peer.url))
    await asyncio.sleep(0)
    await client.aclose()
    with pytest.raises(ClientClosed):
        await waiting
    assert await busy.read() == b"ok"  # it had arrived
