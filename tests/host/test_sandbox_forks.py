"""The warm interpreter: what it keeps, what becomes of a fork that fails, and who comes after it."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.fakes.clock import FakeClock
from tests.host.test_sandbox_launch import ECHO, SOON, STAYS, children, program, said
from trunkline.errors import LaunchFailed
from trunkline.host.sandbox import launch
from trunkline.host.sandbox.features import detect
from trunkline.host.sandbox.forks import ForkServer, Warm, fork_server
from trunkline.host.sandbox.launch import Launcher, Program
from trunkline.host.sandbox.policy import SDK, Interpreter, Policy

pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("sandbox")]
CANARY = "an order for one worker alone"


async def process(forks: ForkServer, before: set[str]) -> int:
    [pid] = children() - before
    assert forks.alive
    return int(pid)


async def gone(forks: ForkServer) -> None:
    async with asyncio.timeout(SOON):
        while forks.alive:
            await asyncio.sleep(0)


async def kill(forks: ForkServer) -> None:
    forks.end()
    await gone(forks)


@pytest.mark.proves("sandbox.warm")
async def test_one_that_ended_is_started_anew_and_later_each_time_until_one_lives_long() -> None:
    clock, told, before = FakeClock(), list[str](), children()
    async with Warm(Interpreter.running(*SDK), clock, told.append) as warm:
        first = await warm.ready()
        assert first is not None
        assert await warm.ready() is first
        for pause in (1, 2, 4):
            running = await warm.ready()
            assert running is not None
            await kill(running)
            clock.advance(pause - 0.1)
            assert await warm.ready() is None
            clock.advance(0.1)
            assert await warm.ready() not in {None, running}
        assert told == ["the interpreter that forks workers has ended"] * 3
        clock.advance(600)
        old = await warm.ready()
        assert old is not None
        await kill(old)
        anew = await warm.ready()
        assert anew is not None
        await kill(anew)
        clock.advance(1)
        assert await warm.ready() is not None
    assert children() == before


@pytest.mark.proves("sandbox.warm")
async def test_one_that_does_not_come_up_is_told_and_not_tried_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = FakeClock(), list[str]()
    async with Warm(Interpreter.running(*SDK), clock, told.append) as warm:
        monkeypatch.setattr("sys.executable", "/bin/false")
        assert await warm.ready() is None
        assert await warm.ready() is None
        assert len(told) == 1
        assert "does not start" in told[0]
        monkeypatch.undo()
        clock.advance(1)
        assert await warm.ready() is not None


@pytest.mark.proves("sandbox.warm")
async def test_one_that_does_not_fork_in_time_is_ended(policy: Policy, nowhere: int, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher, before = Launcher(await detect()), children()
    async with fork_server(policy.interpreter) as forks:
        os.kill(await process(forks, before), signal.SIGSTOP)
        monkeypatch.setattr(launch, "SECONDS", 0.5)
        with pytest.raises(LaunchFailed, match="took too long"):
            await launcher.launch(policy, program(policy, ECHO), stdout=nowhere, stderr=nowhere, warm=forks)
        await gone(forks)
    assert children() == before


@pytest.mark.proves("sandbox.warm")
async def test_it_learns_nothing_of_what_a_worker_is_told(policy: Policy, nowhere: int) -> None:
    launcher, before = Launcher(await detect()), children()
    async with fork_server(policy.interpreter) as forks:
        pid = await process(forks, before)
        started = program(policy, STAYS)
        worker = await launcher.launch(
            policy, Program(file=started.file, arguments={"a": CANARY}), stdout=nowhere, stderr=nowhere, warm=forks
        )
        assert await said(worker) == b"up"
        found = {who: CANARY.encode() in memory(who) for who in (pid, worker.pid)}
        worker.kill()
        await worker.wait()
    assert found == {pid: False, worker.pid: True}


@pytest.mark.proves("sandbox.warm")
async def test_a_fork_that_fails_before_its_sandbox_is_made_ends(policy: Policy, nowhere: int, tmp_path: Path) -> None:
    before = children()
    talk = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)  # nothing that an order can be read from
    async with fork_server(policy.interpreter) as forks:
        others = children()
        assert forks.fork([], nowhere, nowhere, nowhere, talk)
        async with asyncio.timeout(SOON):
            while not (made := children() - others):
                await asyncio.sleep(0)
            [failed] = map(int, made)
            while os.waitpid(failed, os.WNOHANG) == (0, 0):
                await asyncio.sleep(0)
        assert forks.alive
    os.close(talk)
    assert children() == before


def memory(pid: int) -> bytes:
    """What a process has written to its memory."""
    held = bytearray()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as pages:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            place, rights, *_ = line.split()
            start, end = (int(each, 16) for each in place.split("-"))
            if rights.startswith("rw"):
                pages.seek(start)
                held += pages.read(end - start)
    return bytes(held)
