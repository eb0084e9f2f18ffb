"""What becomes of running extensions when the operator's file, their folders or they themselves change at an awkward time."""

import asyncio
import gc
import os
import signal
import weakref
from pathlib import Path

import pytest

from tests.host.extensions import SOON, extensions
from trunkline.host.line import Line
from trunkline.host.output import Pipe
from trunkline.host.sandbox.launch import Launched
from trunkline.host.worker import Worker
from trunkline_sdk.channel import Channel
from trunkline_sdk.rpc.errors import RpcError

pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("sandbox")]


@pytest.mark.proves("supervisor.calls")
async def test_a_call_that_comes_while_a_worker_is_put_down_fails_as_those_in_flight(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("weather", memory_mb=64)
        running.apply()
        await running.until("weather", "ready")
        codes: set[str] = set()

        async def ask(what: str, params: object = None) -> None:
            try:
                await running.call("weather", what, params)
            except RpcError as error:
                codes.add(error.code)

        async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
            group.create_task(ask("hoard", 100 << 20))
            asked = [group.create_task(ask("echo"))]
            while running.one("weather").restarts == 0:  # one in each turn of the loop, also in those between its end and its burial
                if len(asked) - sum(each.done() for each in asked) < 32:
                    asked.append(group.create_task(ask("echo")))
                await asyncio.sleep(0)
        assert codes == {"worker_exited"}


async def test_a_worker_that_is_gone_is_nobodys_circle(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("weather")
        running.apply()
        await running.until("weather", "ready")
        gc.collect()
        gc.disable()
        try:
            kept = [weakref.ref(each) for each in gc.get_objects() if isinstance(each, (Worker, Line, Channel, Launched, Pipe))]
            assert len(kept) == 5
            pid = running.one("weather").pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await running.when("weather", lambda shown: shown.state == "ready" and shown.pid != pid)
            assert [each() for each in kept if each() is not None] == []
        finally:
            gc.enable()
