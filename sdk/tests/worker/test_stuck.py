"""Workers whose code keeps the loop, or the whole interpreter."""

import asyncio
import signal

import pytest

from sdk.tests.worker.host import SOON, Starts, Worker
from trunkline_sdk.rpc.errors import RpcError

STUCK = """
    import re, time

    def activate(context):
        context.handle("sleep", sleep)
        context.handle("spin", spin)
        context.handle("freeze", freeze)
        context.handle("echo", lambda params, call: params)

    def sleep(params, call):
        call.log.info("begins")
        time.sleep(params)

    def spin(params, call):
        call.log.info("begins")
        until = time.monotonic() + params
        while time.monotonic() < until:
            pass

    def freeze(params, call):
        call.log.info("begins")
        re.match("(a+)+$", "a" * 64 + "b")
"""


async def begin(worker: Worker, name: str, params: object = None) -> "asyncio.Future[object]":
    """Have a handler keep the loop: it has begun to."""
    await worker.ask("activate")
    kept = asyncio.ensure_future(worker.call(name, params))
    assert (await worker.hears("log"))["message"] == "begins"
    return kept


@pytest.mark.proves("worker.stuck")
@pytest.mark.parametrize("how", ["sleep", "spin"])
async def test_a_ping_is_answered_while_code_keeps_the_loop_and_the_lag_is_told(starts: Starts, how: str) -> None:
    async with starts(STUCK) as worker:
        kept = await begin(worker, how, 4)
        assert 1 <= (await worker.hears("lag"))["seconds"] < 3
        assert (await worker.ask("ping"))["lag"] >= 1
        assert (await worker.hears("lag"))["seconds"] >= 2
        assert not kept.done()
        await kept
        while (await worker.hears("lag"))["seconds"]:
            pass
        assert await worker.ask("ping") == {"lag": 0}
        assert worker.odd == []


async def test_calls_that_come_meanwhile_are_answered_in_their_order_when_the_loop_turns(starts: Starts) -> None:
    async with starts(STUCK) as worker:
        kept = await begin(worker, "sleep", 3)
        await worker.hears("lag")
        answered: list[int] = []

        async def echo(n: int) -> None:
            answered.append(await worker.call("echo", n))

        echoes = [asyncio.ensure_future(echo(n)) for n in range(20)]
        large = asyncio.ensure_future(worker.call("echo", "x" * 900_000))
        await worker.ask("ping")
        await worker.ask("ping")
        assert not kept.done()
        await asyncio.gather(kept, *echoes)
        assert answered == list(range(20))
        assert len(await large) == 900_000
        assert (worker.odd, worker.channel.peer.late) == ([], 0)


async def test_a_dump_shows_where_the_code_is(starts: Starts) -> None:
    async with starts(STUCK) as worker:
        kept = await begin(worker, "sleep", 3)
        assert await worker.ask("dump") is None
        assert not kept.done()
        assert "in sleep" in worker.said
        await kept
        assert worker.said.count("in sleep") == 1
        assert await worker.ask("dump") is None


async def test_a_signal_shows_it_even_where_the_interpreter_itself_is_stuck(starts: Starts) -> None:
    async with starts(STUCK) as worker:
        stuck = await begin(worker, "freeze")
        with pytest.raises(RpcError) as silent:
            await worker.ask("ping", seconds=1.5)
        assert silent.value.code == "deadline_exceeded"
        worker.process.send_signal(signal.SIGUSR1)
        async with asyncio.timeout(SOON):
            while "in freeze" not in worker.said:
                await asyncio.sleep(0.01)
        worker.process.kill()
        with pytest.raises(RpcError) as gone:
            await stuck
        assert gone.value.code == "worker_exited"


@pytest.mark.proves("worker.gone")
async def test_a_worker_whose_code_keeps_the_loop_ends_with_its_connection(starts: Starts) -> None:
    async with starts(STUCK) as worker:
        kept = await begin(worker, "sleep", 600)
        worker.channel.close()
        async with asyncio.timeout(1):
            assert await worker.process.wait() == 0
        with pytest.raises(RpcError):
            await kept


@pytest.mark.proves("worker.gone")
@pytest.mark.parametrize("how", ["closed here", "printed to", "half closed there"])
async def test_it_ends_too_where_code_spoils_its_end_and_where_the_host_only_says_no_more(starts: Starts, how: str) -> None:
    code = f"""
        import os, time

        def activate(context):
            def stick(params, call):
                call.log.info("begins")
                if {how == "closed here"}:
                    os.close(3)
                if {how == "printed to"}:
                    os.write(3, b"hello, descriptor")
                time.sleep(600)

            context.handle("stick", stick)
    """
    async with starts(code) as worker:
        kept = await begin(worker, "stick")
        if how == "half closed there":
            assert worker.channel._transport is not None  # pyright: ignore[reportPrivateUsage] - a channel closes both ways
            worker.channel._transport.write_eof()  # pyright: ignore[reportPrivateUsage]
        assert await worker.ends() == 0
        with pytest.raises(RpcError) as gone:
            await kept
        assert gone.value.code == "worker_exited"


async def test_a_task_that_will_not_be_cancelled_does_not_keep_the_worker(starts: Starts) -> None:
    code = """
        import asyncio

        def activate(context):
            async def stubborn(params, call):
                call.log.info("waits")
                while True:
                    try:
                        await asyncio.Event().wait()
                    except asyncio.CancelledError:
                        pass

            context.handle("stubborn", stubborn)
    """
    async with starts(code) as worker:
        await worker.ask("activate")
        kept = asyncio.ensure_future(worker.call("stubborn"))
        await worker.hears("log")
        assert await worker.ask("deactivate") is None
        assert await worker.ends() == 0
        with pytest.raises(RpcError):
            await kept
