"""Many requests, large bodies, slow readers: memory, tasks and descriptors stay flat."""

import asyncio
import contextlib
import gc
import os
import tracemalloc
from pathlib import Path

import pytest

from sdk.tests.http1.asking import MakeClient, ask
from sdk.tests.http1.peer import Peer, Wire
from trunkline_sdk.http1 import BodyCut, Client, Limits

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
MiB = 1024 * 1024


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_slow_reader_of_100_mb_holds_the_sender_back(peer: Peer, client: Client, framing: str) -> None:
    block = bytes(64 * 1024)
    sent = 0
    total = 1600 * len(block)
    stalled = asyncio.Event()

    async def pours(wire: Wire) -> None:
        nonlocal sent
        await wire.request()
        if framing == "length":
            await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total)
        else:
            await wire.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        piece = block if framing == "length" else b"10000\r\n" + block + b"\r\n"
        for _ in range(1600):
            wire.writer.write(piece)
            draining = asyncio.ensure_future(wire.writer.drain())
            if not stalled.is_set() and not (await asyncio.wait({draining}, timeout=0.3))[0]:
                stalled.set()
            await draining
            sent += len(block)
        if framing == "chunked":
            await wire.send(b"0\r\n\r\n")

    peer.plays(pours)
    response = await client.request("GET", peer.url)
    await asyncio.wait_for(stalled.wait(), 10)
    assert sent < 30 * MiB  # what the kernel's socket buffers hold, and a little of ours
    before = most = resident()
    got = count = 0
    async for piece in response.body:
        got += len(piece)
        count += 1
        if count % 20 == 0:
            most = max(most, resident())
            await asyncio.sleep(0)
    assert got == total
    assert most - before < 16 * MiB


async def test_1000_parallel_requests_share_50_connections(peer: Peer, make_client: MakeClient) -> None:
    async def echoes(wire: Wire) -> None:
        while True:
            request = await wire.request()
            await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(request.body), request.body)

    peer.plays(echoes)
    client = make_client(limits=Limits(connections=50))
    bodies = [b"number %d" % number for number in range(1000)]
    assert await asyncio.gather(*(ask(client, peer.url, body) for body in bodies)) == bodies
    assert peer.most_open <= 50
    assert len(peer.wires) <= 50


async def test_10000_requests_leave_no_descriptor_task_or_memory_behind(peer: Peer, client: Client) -> None:
    async def mixed(wire: Wire) -> None:
        for number in range(199):
            await wire.reader.readuntil(b"\r\n\r\n")
            wire.writer.write(OK if number % 2 else b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
        await wire.reader.readuntil(b"\r\n\r\n")
        wire.writer.write(OK[:-1])  # one byte short, and then the end
        await wire.close()

    async def batch() -> None:
        for number in range(2_000):
            response = await client.request("GET", peer.url)
            if number % 50 == 0:
                await response.aclose()
            elif number % 50 == 1:
                reading = asyncio.ensure_future(response.read())
                await asyncio.sleep(0)
                reading.cancel()
                await asyncio.wait({reading})
            else:
                with contextlib.suppress(BodyCut):
                    await response.read()

    def left() -> tuple[int, int, int, int]:
        peer.wires.clear()
        gc.collect()
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        return descriptors, len(asyncio.all_tasks()), len(gc.get_objects()), tracemalloc.get_traced_memory()[0]

    peer.plays(mixed)
    await batch()
    await batch()
    tracemalloc.start()
    try:
        await batch()
        before = left()
        await batch()
        await batch()
        after = left()
    finally:
        tracemalloc.stop()
    descriptors, tasks, objects, size = (now - then for now, then in zip(after, before, strict=True))
    assert descriptors <= 2
    assert tasks <= 1
    assert objects < 500
    assert size < 600 * 1024  # one more or less of asyncio's TLS connections is 256 KiB


async def test_10000_chunks_pass_one_by_one(peer: Peer, client: Client) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for number in range(10_000):
            wire.writer.write(b"5\r\n%05d\r\n" % number)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await wire.send(b"0\r\n\r\n")

    peer.plays(script)
    assert await ask(client, peer.url) == b"".join(b"%05d" % number for number in range(10_000))
