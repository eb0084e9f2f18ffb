"""What becomes of running extensions when the operator's file, their folders or they themselves change at an awkward time."""

import asyncio
import errno
import gc
import os
import signal
import threading
import weakref
from dataclasses import replace
from pathlib import Path

import pytest

from tests.host.extensions import CODE, QUICK, SOON, extensions
from tests.host.users import SOMEBODY, reachable
from trunkline.errors import ConfigInvalid
from trunkline.host import keeper, output
from trunkline.host.line import Line
from trunkline.host.machine import Machine
from trunkline.host.output import Pipe
from trunkline.host.sandbox.launch import Launched, Program
from trunkline.host.sandbox.policy import Policy
from trunkline.host.sandbox.report import Report
from trunkline.host.settings import ExtensionSettings
from trunkline.host.worker import Worker
from trunkline_sdk.channel import Channel
from trunkline_sdk.rpc.errors import RpcError

LATE = """
import asyncio, os, pathlib, signal, time
def activate(context):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("it activates", flush=True)
    while not pathlib.Path(__file__).with_name("go").exists():
        time.sleep(0.01)
    asyncio.get_running_loop().call_later(0.3, end)
def end():
    print("it was activated", flush=True)
    os._exit(0)
"""

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


@pytest.mark.proves("supervisor.reload")
async def test_a_link_that_leads_elsewhere_since_is_other_code(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        link = tmp_path / "link"
        for name in ("first", "second"):
            running.write(name)
        link.symlink_to("first")
        running.settings = {"weather": ExtensionSettings(path=str(link))}
        running.apply()
        before = (await running.until("weather", "ready")).pid
        link.unlink()
        link.symlink_to("second")
        running.apply()
        shown = await running.when("weather", lambda shown: shown.state == "ready" and shown.pid != before)
        assert shown.restarts == 0
        link.unlink()
        running.apply()
        assert (await running.until("weather", "failed_config")).reason == f"`{link}` is no folder"


@pytest.mark.proves("supervisor.folder")
@pytest.mark.parametrize("path", ["data", ".", "data/within", "link"])
async def test_a_folder_that_shares_something_with_the_data_folder_is_none_for_an_extension(tmp_path: Path, path: str) -> None:
    async with extensions(tmp_path) as running:
        (tmp_path / "data" / "within").mkdir(parents=True)
        (tmp_path / "link").symlink_to("data")
        (tmp_path / path / "main.py").write_text(CODE)
        running.settings["greedy"] = ExtensionSettings(path=str(tmp_path / path), allow_unsandboxed=True)
        running.apply()
        shown = await running.until("greedy", "failed_config", "ready")
        assert (shown.state, shown.reason) == ("failed_config", f"`{tmp_path / path}` is, holds or lies in the server's data folder")


@pytest.mark.proves("supervisor.reload")
async def test_one_that_is_taken_out_and_put_back_runs_however_slowly_its_log_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, writing = threading.Event(), asyncio.Event()
    loop, append = asyncio.get_running_loop(), output._append

    def slow(path: Path, data: bytes) -> None:
        loop.call_soon_threadsafe(writing.set)
        written.wait(SOON)
        append(path, data)

    monkeypatch.setattr(output, "_append", slow)
    async with extensions(tmp_path) as running:
        running.write("weather")
        running.apply()
        await writing.wait()
        before = (await running.until("weather", "ready")).pid
        settings = running.settings.pop("weather")
        running.apply()
        await running.until("weather", "disabled")
        running.settings["weather"] = settings
        running.apply()
        written.set()
        assert await running.call("weather", "echo", 1) == 1
        assert running.one("weather").pid != before


@pytest.mark.proves("supervisor.reload")
async def test_one_that_rests_goes_on_resting_when_the_file_is_read_again(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("weather", idle_seconds=0.2)
        running.write("other")
        running.apply()
        await running.when("weather", lambda shown: shown.reason == "nobody called it for a while" and shown.state == "idle")
        running.write("other", network=["api.example.com"])
        running.apply()
        await running.when("other", lambda shown: shown.permissions != () and shown.state == "ready")
        shown = running.one("weather")
        assert (shown.state, shown.reason) == ("idle", "nobody called it for a while")
        running.write("weather", idle_seconds=600)
        running.apply()
        await running.until("weather", "ready")  # what is new is tried at once


@pytest.mark.proves("supervisor.activation")
async def test_what_the_machine_refuses_a_start_is_told_and_is_no_fault_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def launch(_machine: Machine, _policy: Policy, _program: Program, _output: int) -> Launched:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Machine, "launch", launch)
    async with extensions(tmp_path) as running:
        running.write("weather")
        running.apply()
        assert "Too many open files" in (await running.until("weather", "crash_loop")).reason
    assert [line for line in running.events() if line["event"] == "a background task failed"] == []


@pytest.mark.proves("supervisor.activation")
def test_a_folder_that_the_server_may_not_read_is_told_as_that(tmp_path: Path) -> None:
    reachable(tmp_path)
    (tmp_path / "closed").mkdir(mode=0o000)
    oneself = os.geteuid()
    if oneself == 0:
        os.seteuid(SOMEBODY)
    try:
        with pytest.raises(ConfigInvalid, match="`.*closed` is no folder that the server can read: .*Permission denied"):
            keeper._folder(str(tmp_path / "closed"), tmp_path / "data")
    finally:
        os.seteuid(oneself)


@pytest.mark.proves("supervisor.reload")
async def test_what_probes_found_is_shown_of_the_sandbox_that_it_has_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report, found = Machine.report, asyncio.Event()

    async def slow(machine: Machine, policy: Policy) -> Report | None:
        if policy.limits.memory == 128 << 20:
            await found.wait()
        return await report(machine, policy)

    monkeypatch.setattr(Machine, "report", slow)
    async with extensions(tmp_path) as running:
        running.write("weather")
        running.apply()
        before = await running.when("weather", lambda shown: shown.findings != ())
        running.write("weather", memory_mb=128)
        running.apply()
        shown = await running.when("weather", lambda shown: shown.state == "ready" and shown.pid != before.pid)
        assert shown.findings == ()
        found.set()
        await running.when("weather", lambda shown: shown.findings != ())


@pytest.mark.proves("supervisor.stop")
async def test_one_that_is_ready_only_after_it_was_asked_to_end_is_not_said_to_be(tmp_path: Path) -> None:
    async with extensions(tmp_path, patience=replace(QUICK, terminate=SOON)) as running:
        running.write("late", LATE)
        running.apply()
        await running.when("late", lambda _: "it activates" in running.log("late"))
        running.write("late", LATE, enabled=False)
        running.apply()
        await running.until("late", "stopping")
        (tmp_path / "late" / "go").touch()
        await running.until("late", "disabled")
        assert "it was activated" in running.log("late")
    assert [line for line in running.events() if line["event"] == "extension ready"] == []
