"""`network.stream`: as fast as the worker uses it, and with the end that it had."""

import asyncio
import hashlib
import json

import pytest

from tests.fakes.upstream import NEVER, Call, Upstream, Wire
from tests.fakes.worker import PATIENCE, Ground, Meeting
from trunkline_sdk.channel import Call as Asked
from trunkline_sdk.rpc.errors import RpcError

URL = "http://api.example.com/events"


async def opened(met: Meeting, **more: int) -> int:
    return (await met.asks("network.stream", {"url": URL}, **more))["stream"]


@pytest.mark.proves("host.streams")
async def test_a_stream_comes_as_it_arrives_and_to_the_byte(internet: Upstream, met: Meeting) -> None:
    gate = asyncio.Event()
    internet.streams([b"data: \xe2\x82", gate, b"\xac\n\n", bytes(range(256))], headers=[("content-type", "text/event-stream")])
    answer = await met.asks("network.stream", {"url": URL})
    assert (answer["status"], answer["url"], dict(answer["headers"])["content-type"]) == (200, URL, "text/event-stream")
    stream = met.worker.stream(answer["stream"])
    assert await asyncio.wait_for(anext(stream), PATIENCE) == b"data: \xe2\x82"
    gate.set()
    assert b"".join([piece async for piece in stream]) == b"\xac\n\n" + bytes(range(256))


@pytest.mark.proves("host.streams")
async def test_a_worker_that_uses_nothing_stops_the_reading_and_nothing_is_lost(internet: Upstream, met: Meeting) -> None:
    total, sent, blocked = 32 << 20, 0, asyncio.Event()
    digest = hashlib.sha256()

    async def script(_: Call, wire: Wire) -> None:
        nonlocal sent
        await wire.head(200, [("content-length", str(total))])
        for number in range(total >> 16):
            piece = number.to_bytes(4, "big") * (1 << 14)
            digest.update(piece)
            try:
                async with asyncio.timeout(0.5):
                    await wire.send(piece)
            except TimeoutError:  # it is written, and waits
                blocked.set()
                await wire.writer.drain()
            sent += len(piece)

    internet.does(script)
    stream = met.worker.stream(await opened(met))
    await asyncio.wait_for(blocked.wait(), 2 * PATIENCE)
    assert sent < total // 2  # the sockets' own buffers, and a window
    received = hashlib.sha256()
    async for piece in stream:
        received.update(piece)
    assert sent == total
    assert received.digest() == digest.digest()


@pytest.mark.proves("host.streams")
async def test_a_stalled_stream_does_not_hold_up_another_nor_a_call(internet: Upstream, met: Meeting) -> None:
    internet.streams([b"x" * 65536] * 64)
    internet.streams([b"quick"])
    internet.answers(200, b"well")
    stalled = met.worker.stream(await opened(met))
    quick = met.worker.stream(await opened(met))
    assert [piece async for piece in quick] == [b"quick"]
    assert (await met.asks("network.fetch", {"url": URL}))["status"] == 200
    assert sum([len(piece) async for piece in stalled]) == 64 * 65536


@pytest.mark.proves("host.streams")
@pytest.mark.parametrize("silent", [False, True])
async def test_a_worker_that_leaves_a_stream_closes_the_socket_even_where_nothing_comes(
    internet: Upstream, met: Meeting, silent: bool
) -> None:
    internet.streams([b"begun", NEVER] if silent else [b"x" * 65536] * 640)
    async with met.worker.stream(await opened(met)) as stream:
        assert await anext(stream)
    await internet.disconnected()


@pytest.mark.proves("host.streams")
@pytest.mark.parametrize("cut", ["close", "reset"])
async def test_a_body_that_breaks_off_never_ends_well(internet: Upstream, met: Meeting, cut: str) -> None:
    internet.streams([b"one", b"two"], cut=cut)
    stream = met.worker.stream(await opened(met))
    with pytest.raises(RpcError) as broken:
        async for _ in stream:
            pass
    assert (broken.value.code, broken.value.details) == ("failed", {"reason": "body_cut"})


@pytest.mark.proves("host.streams")
async def test_a_refusal_reaches_whoever_asked_for_a_stream(met: Meeting) -> None:
    with pytest.raises(RpcError) as refused:
        await met.asks("network.stream", {"url": "http://other.example.com/"})
    assert refused.value.code == "permission_denied"


@pytest.mark.proves("host.context")
@pytest.mark.proves("host.streams")
async def test_a_stream_ends_with_the_call_that_it_is_bound_to_and_another_goes_on(internet: Upstream, met: Meeting) -> None:
    gate = asyncio.Event()
    internet.streams([b"begun", NEVER])
    internet.streams([b"begun", gate, b"more"])

    async def tool(call: Asked) -> object:
        return [await opened(met, during=call.id), await opened(met)]

    met.answers["tool"] = tool
    bound, free = json.loads(bytes(await met.line.call("tool", user="usr_a", seconds=5)))
    await internet.disconnected()
    stream = met.worker.stream(bound)
    with pytest.raises(RpcError) as ended:
        async for _ in stream:
            pass
    assert ended.value.code == "cancelled"
    gate.set()
    assert b"".join([piece async for piece in met.worker.stream(free)]) == b"begunmore"


@pytest.mark.proves("host.streams")
async def test_a_worker_that_stalls_for_too_long_loses_the_stream_and_nothing_else(ground: Ground, internet: Upstream) -> None:
    ground.broker = ground.make(stalled=0.05)
    internet.streams([b"x" * 65536] * 640)
    async with ground.meet("weather", ["network:*"]) as met:
        number = await opened(met)
        await internet.disconnected(timeout=PATIENCE)
        with pytest.raises(RpcError) as stalled:
            async for _ in met.worker.stream(number):
                pass
        assert stalled.value.code == "deadline_exceeded"
        internet.answers(200, b"well")
        assert (await met.asks("network.fetch", {"url": URL}))["status"] == 200


@pytest.mark.proves("host.limits")
async def test_more_streams_than_a_worker_takes_are_refused_and_their_sockets_closed(internet: Upstream, met: Meeting) -> None:
    internet.streams([b"begun", NEVER], times=None)
    numbers = [await opened(met) for _ in range(64)]
    with pytest.raises(RpcError) as refused:
        await opened(met)
    assert refused.value.code == "rate_limited"
    await internet.disconnected()
    async with met.worker.stream(numbers[0]) as stream:
        assert await anext(stream) == b"begun"
