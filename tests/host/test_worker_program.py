"""The worker's program in a real sandbox of each tier, started cold and forked warm."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trunkline.host.sandbox.features import Features, detect
from trunkline.host.sandbox.forks import ForkServer, fork_server
from trunkline.host.sandbox.launch import Launched, Launcher, Program
from trunkline.host.sandbox.policy import Interpreter, Policy
from trunkline.host.sandbox.users import Users
from trunkline_sdk.channel import Call, Channel
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.rpc.messages import Hello
from trunkline_sdk.rpc.peer import Peer
from trunkline_sdk.worker import PROGRAM

pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("sandbox")]

SOON = 20.0

CODE = """
import ctypes, os, socket, time

print("✗ hi")

def activate(context):
    context.handle("echo", lambda params, call: params)
    context.handle("sleep", lambda params, call: time.sleep(params))
    context.handle("reach", reach)
    context.handle("crash", lambda params, call: ctypes.string_at(0))

def reach(params, call):
    for attempt in (lambda: open("/etc/passwd"), lambda: open(__file__, "a"), socket.socket):
        try:
            attempt()
        except OSError:
            continue
        return "more than it may"
    return "nothing"
"""


def weaker(features: Features, tier: str) -> Features:
    """A machine that offers no more than such a tier needs."""
    if tier == "A":
        return features
    namespaces = tuple(name for name in features.namespaces if name not in {"mount", "pid"}) if tier == "B" else ()
    return replace(features, own_root=False, namespaces=namespaces)


class Running:
    """A worker in a sandbox, and the host's end of its channel."""

    def __init__(self, launched: Launched, log: Path) -> None:
        self.launched = launched
        self.channel = Channel(Peer("host"), self._refuse)
        self.log = log

    async def _refuse(self, call: Call) -> object:
        raise RpcError("method_not_found", call.method)

    async def meet(self) -> Hello:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self.channel, self.launched.sock)
        hello = await asyncio.wait_for(self.channel.greeted(), SOON)
        self.channel.welcome(hello)
        return hello

    async def ask(self, method: str, params: object = None) -> Any:
        return msgspec.json.decode(await self.channel.call(method, params, seconds=SOON))

    async def call(self, name: str, params: object = None) -> Any:
        return await self.ask("call", {"name": name, "params": params})


class Sandboxes:
    """Starts workers of one tier, in the one way or the other."""

    def __init__(self, folder: Path, launcher: Launcher, warm: ForkServer | None) -> None:
        self._launcher = launcher
        self._warm = warm
        self._users = Users()
        self._folder = folder / "extension"
        self._folder.mkdir()
        (self._folder / "main.py").write_text(CODE, encoding="utf-8")
        self._log = folder / "log"

    @asynccontextmanager
    async def __call__(self) -> AsyncGenerator[Running]:
        policy = Policy(folder=str(self._folder.resolve()), user=self._users.take() if os.geteuid() == 0 else None)
        program = Program(file=PROGRAM, arguments={"name": "weather", "folder": policy.folder})
        with self._log.open("wb") as log:
            launched = await self._launcher.launch(policy, program, stdout=log.fileno(), stderr=log.fileno(), warm=self._warm)
        running = Running(launched, self._log)
        try:
            yield running
        finally:
            launched.kill()
            await launched.wait()
            running.channel.close()


@pytest.fixture(params=["A, cold", "A, warm", "B, cold", "B, warm", "C, cold", "C, warm"])
async def sandboxes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Sandboxes]:
    tier, start = request.param.split(", ")
    async with AsyncExitStack() as stack:
        warm = await stack.enter_async_context(fork_server(Interpreter.running("trunkline_sdk", "msgspec"))) if start == "warm" else None
        yield Sandboxes(tmp_path, Launcher(weaker(await detect(), tier)), warm)


@pytest.mark.proves("worker.life", "worker.warm")
async def test_a_worker_lives_in_its_sandbox_and_says_what_was_done_to_it(sandboxes: Sandboxes) -> None:
    async with sandboxes() as worker:
        hello = await worker.meet()
        assert hello.controls == worker.launched.controls
        assert len(await worker.ask("activate")) == 1
        assert await worker.call("reach") == "nothing"
        assert await worker.call("echo", "kış 🛰") == "kış 🛰"
        assert await worker.ask("dump") is None
        assert await worker.ask("deactivate") is None
        assert await asyncio.wait_for(worker.launched.wait(), SOON) == 0
        said = worker.log.read_text(encoding="utf-8")
        assert said.startswith("✗ hi\n")
        assert "most recent call first" in said


@pytest.mark.proves("worker.gone")
async def test_it_ends_at_sigterm_at_a_crash_and_with_its_connection(sandboxes: Sandboxes) -> None:
    async with sandboxes() as worker:
        await worker.meet()
        worker.launched.terminate()
        assert await asyncio.wait_for(worker.launched.wait(), SOON) == 143
    async with sandboxes() as worker:
        await worker.meet()
        await worker.ask("activate")
        with pytest.raises(RpcError, match="the other side is gone"):
            await worker.call("crash")
        assert await asyncio.wait_for(worker.launched.wait(), SOON) == 139
        assert "Segmentation fault" in worker.log.read_text(encoding="utf-8")
    async with sandboxes() as worker:
        await worker.meet()
        await worker.ask("activate")
        stuck = asyncio.ensure_future(worker.call("sleep", 600))
        await worker.ask("dump")
        worker.channel.close()
        assert await asyncio.wait_for(worker.launched.wait(), SOON) == 0
        with pytest.raises(RpcError):
            await stuck
