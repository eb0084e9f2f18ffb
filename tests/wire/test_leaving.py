"""A caller that leaves takes its call with it: the provider sees it end within a second, and nothing is left behind."""

import asyncio
import json

import pytest

from tests.fakes.upstream import NEVER, Call, Upstream, Wire
from tests.wire.gateway import Gateway, question
from tests.wire.sides import Side
from trunkline.gateway.pipeline import BACK_OFF

EVENT_STREAM = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]


async def gone(gateway: Gateway, upstream: Upstream) -> None:
    """The provider has seen the end of the call, its connection is closed, and the log says why."""
    await upstream.disconnected(timeout=1)
    await upstream.idle(timeout=1)
    line = await gateway.told(timeout=1)
    assert line["outcome"] == "interrupted"
    assert line["attempts"][-1].split(" ")[1] == "interrupted", "which tells nothing about the provider"
    assert await gateway.in_flight() == 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.proves("G18")
async def test_before_the_provider_answers(gateway: Gateway, upstreams: dict[str, Upstream], side: Side, stream: bool) -> None:
    upstreams[side.first].hangs()
    async with asyncio.TaskGroup() as group:
        call = group.create_task(gateway.ask(side, model=side.route, stream=stream))
        await upstreams[side.first].called()
        call.cancel()
    await gone(gateway, upstreams[side.first])
    assert upstreams[side.second].calls == [], "nobody else is asked for a caller that has left"


@pytest.mark.proves("G18")
async def test_while_a_whole_reply_arrives(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    begun = asyncio.Event()

    async def script(_: Call, wire: Wire) -> None:
        await wire.head(200, [("content-type", "application/json"), ("content-length", "1000")])
        await wire.send(b'{"id":')
        begun.set()
        await NEVER.wait()

    upstreams[side.first].does(script)
    async with asyncio.TaskGroup() as group:
        call = group.create_task(gateway.ask(side))
        await begun.wait()
        call.cancel()
    await gone(gateway, upstreams[side.first])


@pytest.mark.proves("G18")
async def test_before_the_first_part_of_a_stream_is_shown(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    begun = asyncio.Event()

    async def script(_: Call, wire: Wire) -> None:
        await wire.head(200, EVENT_STREAM)
        await wire.chunk(side.stream()[0])  # which is no part of the reply yet, so that it is held back
        begun.set()
        await NEVER.wait()

    upstreams[side.first].does(script)
    async with asyncio.TaskGroup() as group:
        call = group.create_task(gateway.begin(side))
        await begun.wait()
        call.cancel()
    await gone(gateway, upstreams[side.first])


@pytest.mark.proves("G18")
async def test_in_the_middle_of_a_stream(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    upstreams[side.first].says("one two three four", gate=NEVER)
    response = await gateway.begin(side)
    assert await anext(response.body)
    await response.aclose()
    await gone(gateway, upstreams[side.first])


@pytest.mark.proves("G18")
async def test_in_the_middle_of_a_stream_that_is_not_read(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    *start, word = side.stream()[: side.shown]

    async def script(_: Call, wire: Wire) -> None:
        await wire.head(200, EVENT_STREAM)
        await wire.chunk(b"".join(start))
        while True:
            await wire.chunk(word * 100)

    upstreams[side.first].does(script)
    response = await gateway.begin(side)
    assert await anext(response.body)
    before = -1
    while before != (sent := sum(len(answer.body) for answer in gateway.recording.answers)):  # until all buffers are full
        before = sent
        await asyncio.sleep(0.1)
    await response.aclose()
    await gone(gateway, upstreams[side.first])


@pytest.mark.proves("G18")
async def test_between_two_attempts(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    upstreams[side.first].answers(500)
    async with asyncio.TaskGroup() as group:
        call = group.create_task(gateway.ask(side))
        await gateway.clock.asked(BACK_OFF)
        call.cancel()
    assert (await gateway.told(timeout=1))["outcome"] == "interrupted"
    assert len(upstreams[side.first].calls) == 1, "the second attempt is not made"


@pytest.mark.proves("G18")
async def test_while_its_own_request_arrives(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    body = json.dumps(question(side)).encode()
    host, port = gateway.base_url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {side.path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {gateway.key}\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body[:20])
    await writer.drain()
    while not gateway.recording.answers:
        await asyncio.sleep(0)
    writer.close()
    await writer.wait_closed()
    assert (await gateway.told(timeout=1))["outcome"] == "interrupted"
    assert upstreams[side.first].calls == []


@pytest.mark.proves("G18")
async def test_slots_are_freed_so_that_the_next_callers_are_served(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    upstreams[side.first].hangs(times=30)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(gateway.ask(side)) for _ in range(30)]
        await upstreams[side.first].called(30)
        assert await gateway.in_flight() == 30
        for call in calls:
            call.cancel()
    await upstreams[side.first].disconnected(count=30)
    await upstreams[side.first].idle(timeout=1)
    upstreams[side.first].says("hello")
    assert (await gateway.ask(side)).status == 200
