"""Handlers that answer with a stream."""

import asyncio

import pytest

from sdk.tests.worker.host import SOON, Starts, Worker
from trunkline_sdk.channel import Call, Incoming
from trunkline_sdk.rpc.errors import RpcError

CODE = """
    import asyncio

    def activate(context):
        context.handle("count", count)
        context.handle("endless", endless)
        context.handle("breaks", breaks)

    async def count(params, call):
        for n in range(params):
            page = await call.network.fetch(f"http://there.test/{n}")
            yield page.body

    async def endless(params, call):
        made = 0
        try:
            while True:
                made += 1
                yield b"x" * 10_000
        finally:
            call.log.info("closed", made=made)

    async def breaks(params, call):
        yield b"one"
        raise ValueError("secret-text")
"""


async def streaming(worker: Worker, name: str, params: object = None) -> tuple["asyncio.Future[object]", Incoming]:
    """Call a handler; the call, and the stream that it has opened."""
    opened: asyncio.Future[Incoming] = asyncio.get_running_loop().create_future()
    asked = {"name": name, "params": params}
    calling = asyncio.ensure_future(worker.channel.call("call", asked, seconds=SOON, opened=opened.set_result))
    return calling, await asyncio.wait_for(opened, SOON)


@pytest.mark.proves("worker.stream")
async def test_a_stream_comes_whole_and_what_it_asks_meanwhile_is_bound_to_its_call(starts: Starts) -> None:
    async with starts(CODE) as worker:
        during: list[int | None] = []

        async def fetch(call: Call) -> object:
            during.append(call.during)
            return {"status": 200, "url": "http://there.test/", "headers": [], "body": b"%d," % len(during)}

        worker.answers["network.fetch"] = fetch
        await worker.ask("activate")
        calling, stream = await streaming(worker, "count", 40)
        assert b"".join([piece async for piece in stream]) == b"".join(b"%d," % (n + 1) for n in range(40))
        assert bytes(await calling) == b"null"  # pyright: ignore[reportArgumentType]
        assert during == [2] * 40


@pytest.mark.proves("worker.stream")
async def test_it_goes_on_when_there_is_room_and_is_closed_when_nobody_takes_the_rest(starts: Starts) -> None:
    async with starts(CODE) as worker:
        await worker.ask("activate")
        calling, stream = await streaming(worker, "endless")
        async with stream:
            assert await anext(stream) == b"x" * 10_000
            assert await worker.ask("ping") == {"lag": 0}
        closed = await worker.hears("log")
        assert (closed["message"], closed["fields"]["made"] <= 40) == ("closed", True)
        with pytest.raises(RpcError) as left:
            await calling
        assert left.value.code == "cancelled"


async def test_a_caller_that_leaves_closes_it_too(starts: Starts) -> None:
    async with starts(CODE) as worker:
        await worker.ask("activate")
        calling, stream = await streaming(worker, "endless")
        calling.cancel()
        assert (await worker.hears("log"))["message"] == "closed"
        with pytest.raises(RpcError) as over:
            async for _ in stream:
                pass
        assert over.value.code == "cancelled"
        assert worker.odd == []


async def test_a_fault_ends_stream_and_call_and_keeps_its_words_to_the_log(starts: Starts) -> None:
    async with starts(CODE) as worker:
        await worker.ask("activate")
        calling, stream = await streaming(worker, "breaks")
        with pytest.raises(RpcError) as broken:
            async for _ in stream:
                pass
        with pytest.raises(RpcError) as failed:
            await calling
        for error in (broken.value, failed.value):
            assert error.code == "failed"
            assert "ValueError" in error.message
            assert "secret-text" not in error.message
        assert "secret-text" in worker.said
