"""Extensions that live, fail, hang and end, on a real supervisor."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.host.extensions import CODE, EAGER, QUICK, SOON, extensions
from trunkline.errors import LaunchFailed
from trunkline.host import machine, supervisor
from trunkline.host.machine import Machine
from trunkline.host.rates import Rate
from trunkline.host.sandbox.features import Features, detect
from trunkline.host.sandbox.launch import Launched, Program
from trunkline.host.sandbox.policy import Policy
from trunkline.host.settings import ExtensionSettings
from trunkline_sdk.rpc.errors import RpcError

pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("sandbox")]

RAISES = """
def activate(context):
    raise LookupError("no such city")
"""
BROKEN = "def activate(context:\n"
HANGS = """
import time
def activate(context):
    time.sleep(600)
"""
ENDS = """
import os
def activate(context):
    os._exit(3)
"""
STAYS = """
import signal, time
def activate(context):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    context.handle("echo", lambda params, call: params)
async def deactivate():
    print("asked to end")
    time.sleep(600)
"""


FLOODS = """
import os, threading
def activate(context):
    def flood():
        while True:
            os.write(1, lines)
    lines = b"\\n" * 65536
    threading.Thread(target=flood, daemon=True).start()
"""
LIES = """
from trunkline_sdk.rpc.errors import RpcError
def activate(context):
    raise RpcError("worker_exited", "it says")
"""
HELD = """
import pathlib, time
def activate(context):
    context.handle("hold", hold)
def hold(params, call):  # until the test lets it go
    while not pathlib.Path(__file__).with_name("go").exists():
        time.sleep(0.01)
    return "held"
"""
FLAPS = """
def activate(context):
    def flap(params, call):
        for seconds in [6, 0] * 500:
            context.log._channel.notify("lag", {"seconds": seconds})
        context.log._channel.notify("lag", {"seconds": "no number"})
        return True
    context.handle("flap", flap)
"""


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.proves("supervisor.activation", "supervisor.apart")
async def test_d5_three_extensions_the_middle_one_raises_in_activate(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("first")
        running.write("middle", RAISES)
        running.write("third")
        running.apply()
        for name in ("first", "third"):
            await running.until(name, "ready")
            assert await running.call(name, "echo", "hello") == "hello"
        shown = await running.until("middle", "failed_config")
        assert shown.reason == "LookupError: no such city (main.py:3)"
        assert (shown.next_attempt, shown.restarts, shown.pid) == (None, 0, None)
        assert "LookupError: no such city" in running.log("middle")
        with pytest.raises(RpcError, match="it does not run .failed_config.: LookupError") as error:
            await running.call("middle", "echo")
        assert (error.value.code, error.value.extension) == ("worker_exited", "middle")


@pytest.mark.proves("supervisor.activation")
async def test_status_78_says_that_it_would_fail_again(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("weather", ENDS.replace("3", "78"))
        running.apply()
        shown = await running.until("weather", "failed_config", "crash_loop")
        assert (shown.state, shown.restarts) == ("failed_config", 0)
        assert shown.reason == "it ended with status 78, which says that it would fail again"


@pytest.mark.proves("supervisor.activation")
async def test_what_is_deterministic_is_tried_again_when_the_file_is_read_again(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("syntax", BROKEN)
        running.settings["nowhere"] = ExtensionSettings(path="/nowhere/at/all")
        running.apply()
        assert "SyntaxError" in (await running.until("syntax", "failed_config")).reason
        assert (await running.until("nowhere", "failed_config")).reason.endswith("is no folder")
        running.write("syntax")
        running.apply()
        await running.until("syntax", "ready")
        assert (await running.until("nowhere", "failed_config")).restarts == 0


@pytest.mark.proves("supervisor.apart")
async def test_those_that_hang_or_end_hold_up_nobody(tmp_path: Path) -> None:
    async with extensions(tmp_path, patience=replace(QUICK, activation=600)) as running:
        for number in range(6):
            running.write(f"hangs-{number}", HANGS)
        running.write("ends", ENDS)
        running.write("well")
        running.apply()
        assert await running.call("well", "echo", 1, seconds=SOON) == 1
        assert "status 3" in (await running.until("ends", "crash_loop")).reason
        assert {running.one(f"hangs-{number}").state for number in range(6)} == {"starting"}


@pytest.mark.proves("supervisor.apart", "supervisor.output")
async def test_those_that_print_without_end_hold_up_nobody(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        for number in range(3):
            running.write(f"floods-{number}", FLOODS)
        running.write("well")
        running.apply()
        async with asyncio.timeout(SOON / 3):
            for number in range(3):
                await running.until(f"floods-{number}", "ready")
            for number in range(50):
                assert await running.call("well", "echo", number) == number
        assert [running.one(shown.name).restarts for shown in running.supervisor.shown()] == [0] * 4


@pytest.mark.proves("supervisor.activation")
async def test_one_that_is_not_ready_in_time_is_ended_with_its_stacks_in_the_log(tmp_path: Path) -> None:
    async with extensions(tmp_path, patience=replace(QUICK, activation=3)) as running:
        running.write("hangs", HANGS)
        running.apply()
        shown = await running.when("hangs", lambda shown: shown.restarts > 0)
        assert shown.reason == "it was not ready within 3 s"
        await running.when("hangs", lambda _: "in activate" in running.log("hangs"))


@pytest.mark.proves("supervisor.activation", "supervisor.watch")
async def test_a_host_that_does_not_listen_for_a_while_ends_nobody_for_it(tmp_path: Path) -> None:
    async with extensions(tmp_path, patience=replace(QUICK, activation=3, ping=0.5)) as running:
        running.write("well")
        running.write("starts", enabled=False)
        running.apply()
        await running.until("well", "ready")
        running.write("starts")
        running.apply()
        await running.when("starts", lambda shown: shown.pid is not None)
        time.sleep(5)  # the loop does not turn
        await running.until("starts", "ready")
        assert (running.one("starts").restarts, running.one("well").restarts) == (0, 0)


@pytest.mark.proves("supervisor.calls", "supervisor.backoff")
async def test_calls_fail_at_once_when_their_worker_is_killed_and_it_comes_back(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("one")
        running.write("other")
        running.apply()
        pid = (await running.until("one", "ready")).pid
        await running.until("other", "ready")
        assert pid is not None
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(fails(running.call("one", "slow", 600))) for _ in range(20)]
            undisturbed = group.create_task(running.call("other", "slow", 0.5))
            assert await running.call("one", "echo", 1) == 1
            os.kill(pid, signal.SIGKILL)
            began = asyncio.get_running_loop().time()
            errors = [await each for each in waiting]
            took = asyncio.get_running_loop().time() - began
        assert {error.code for error in errors} == {"worker_exited"}
        assert took < 1
        assert undisturbed.result() == "slept"
        assert is_gone(pid)
        shown = await running.until("one", "ready")
        assert (shown.restarts, shown.pid == pid) == (1, False)
        assert running.one("other").restarts == 0


async def fails(call: Awaitable[object]) -> RpcError:
    with pytest.raises(RpcError) as error:
        await call
    return error.value


@pytest.mark.proves("supervisor.backoff", "supervisor.calls")
async def test_one_that_crashes_too_often_is_tried_by_the_next_call(tmp_path: Path) -> None:
    async with extensions(tmp_path, pace=replace(EAGER, retry=0.2)) as running:
        running.write("weather", ENDS)
        running.apply()
        shown = await running.until("weather", "crash_loop")
        assert (shown.restarts, shown.reason) == (4, "it ended with status 3")
        running.write("weather")
        shown = await running.when("weather", lambda shown: shown.next_attempt is None or time.time() > shown.next_attempt + 0.1)
        assert shown.state == "crash_loop", "nobody called it"
        assert await running.call("weather", "echo", 5) == 5
        assert running.one("weather").state == "ready"
        assert 'trunkline_extension_worker_ends_total{cause="exited",extension="weather"} 5.0' in running.metrics()
    told = [line for line in running.events() if line["event"] == "extension crashes too often"]
    assert len(told) == 1


@pytest.mark.proves("supervisor.calls")
async def test_d4_an_answer_that_comes_too_late_is_dropped_and_the_next_call_works(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("weather")
        running.apply()
        await running.until("weather", "ready")
        with pytest.raises(RpcError) as error:
            await running.call("weather", "stick", 0.6, seconds=0.2)
        assert error.value.code == "deadline_exceeded"
        assert await running.call("weather", "echo", "second") == "second"
        assert running.one("weather").restarts == 0


@pytest.mark.proves("supervisor.output")
async def test_d2_what_it_prints_is_in_its_log_and_not_in_the_protocol(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("weather")
        running.apply()
        assert await running.call("weather", "print", 100_000) == 100_000
        assert await running.call("weather", "echo", "second") == "second"
    log = running.log("weather")
    assert "✗ hi\n" in log
    assert 8192 <= log.count("x") < 100_000 + 1


@pytest.mark.proves("supervisor.watch")
async def test_a_loop_that_stands_still_is_told_and_ended_with_its_stacks_in_the_log(tmp_path: Path) -> None:
    async with extensions(tmp_path, patience=replace(QUICK, stuck=2.5, ping=600)) as running:
        running.write("weather")
        running.apply()
        await running.until("weather", "ready")
        stuck = await fails(running.call("weather", "stick", 600, seconds=600))
        assert stuck.code == "worker_exited"
        await running.when("weather", lambda shown: shown.restarts >= 1 and shown.state == "ready")
        assert "most recent call first" in running.log("weather")
    told = [
        (line["event"], line["reason"]) for line in running.events() if line["event"] in {"extension unresponsive", "extension crashed"}
    ]
    assert [event for event, _ in told[:2]] == ["extension unresponsive", "extension crashed"]
    assert told[0][1].startswith("its loop has not turned")
    assert told[1][1].startswith("its loop did not turn")


@pytest.mark.proves("supervisor.watch")
async def test_one_that_has_all_the_calls_that_it_takes_is_asked_how_it_is_all_the_same(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("weather")
        running.apply()
        await running.until("weather", "ready")
        calls = [running.call("weather", "slow", 3 * QUICK.ping) for _ in range(64)]
        assert await asyncio.gather(*calls) == ["slept"] * 64
        assert running.one("weather").restarts == 0


@pytest.mark.proves("supervisor.watch")
async def test_one_whose_loop_stands_still_is_not_called_and_is_ready_again_when_it_recovers(tmp_path: Path) -> None:
    async with extensions(tmp_path, patience=replace(QUICK, stuck=600, ping=600)) as running:
        running.write("weather", HELD)
        running.apply()
        await running.until("weather", "ready")
        async with asyncio.TaskGroup() as group:
            held = group.create_task(running.call("weather", "hold", seconds=600))
            assert "its loop has not turned" in (await running.until("weather", "unresponsive")).reason
            assert (await fails(running.call("weather", "hold"))).code == "unresponsive"
            (tmp_path / "weather" / "go").touch()
        assert held.result() == "held"
        assert (await running.until("weather", "ready")).restarts == 0


@pytest.mark.proves("supervisor.watch")
async def test_a_process_that_does_not_run_at_all_is_ended(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("weather")
        running.apply()
        pid = (await running.until("weather", "ready")).pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        await running.until("weather", "unresponsive")
        await running.when("weather", lambda shown: shown.restarts == 1)
        assert is_gone(pid)
    ends = [line for line in running.events() if line["event"] == "extension crashed"]
    assert [line["reason"] for line in ends] == ["it did not answer 3 pings"]


@pytest.mark.proves("supervisor.watch")
async def test_one_that_holds_too_much_memory_is_ended_and_that_is_told(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("weather", memory_mb=64)
        running.apply()
        await running.until("weather", "ready")
        assert (await fails(running.call("weather", "hoard", 100 << 20))).code == "worker_exited"
        await running.when("weather", lambda shown: shown.restarts == 1)
    ends = [line for line in running.events() if line["event"] == "extension crashed"]
    assert [(line["cause"], "64 MiB are the most" in line["reason"]) for line in ends] == [("memory", True)]


@pytest.mark.proves("supervisor.stop", "supervisor.orphans")
async def test_one_that_does_not_want_to_end_is_killed_with_what_it_forked(tmp_path: Path) -> None:
    async with extensions(tmp_path, patience=replace(QUICK, deactivate=0.5, terminate=0.3)) as running:
        running.write("stays", STAYS)
        running.write("forks")
        running.apply()
        pids = [(await running.until(name, "ready")).pid for name in ("stays", "forks")]
        assert await running.call("forks", "fork") is True
    assert [is_gone(pid) for pid in pids if pid is not None] == [True, True]
    assert "asked to end" in running.log("stays")
    stopped = [line["extension"] for line in running.events() if line["event"] == "extension stopped"]
    assert sorted(stopped) == ["forks", "stays"]


@pytest.mark.proves("supervisor.stop")
async def test_changed_settings_start_a_new_one_when_the_old_is_gone_and_unchanged_ones_do_not(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("weather")
        running.write("same")
        running.apply()
        before, same = [(await running.until(name, "ready")).pid for name in ("weather", "same")]
        assert before is not None
        running.write("weather", network=["api.example.com"])
        running.apply()
        shown = await running.when("weather", lambda shown: shown.state == "ready" and shown.pid != before)
        assert is_gone(before)
        assert (shown.permissions, shown.restarts) == (("network:api.example.com",), 0)
        assert running.one("same").pid == same
        running.write("same", CODE + "\n# other code\n")
        running.apply()
        assert (await running.when("same", lambda shown: shown.state == "ready" and shown.pid != same)).restarts == 0
        running.write("weather", enabled=False)
        running.apply()
        assert (await running.until("weather", "disabled")).pid is None
        with pytest.raises(RpcError, match="it does not run .disabled."):
            await running.call("weather", "echo")
        del running.settings["same"]
        running.write("weather")
        running.apply()
        await running.until("weather", "ready")
        assert [shown.name for shown in running.supervisor.shown()] == ["weather"]


@pytest.mark.proves("supervisor.calls", "supervisor.stop")
async def test_one_that_nobody_calls_rests_until_somebody_does(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("weather", idle_seconds=0.5)
        running.apply()
        await running.until("weather", "ready")
        shown = await running.until("weather", "idle")
        assert (shown.pid, shown.reason, shown.restarts) == (None, "nobody called it for a while", 0)
        assert await running.call("weather", "user", user="usr_a") == "usr_a"
        assert running.one("weather").restarts == 0


@pytest.mark.proves("supervisor.many")
async def test_fifty_at_once(tmp_path: Path) -> None:
    async with extensions(tmp_path, patience=replace(QUICK, stuck=8, ping=30)) as running:
        names = [f"one-{number}" for number in range(50)]
        for name in names:
            running.write(name)
        running.apply()
        answers = await asyncio.gather(*(running.call(name, "echo", name, seconds=120) for name in names))
        assert answers == names
        pids = {running.one(name).pid for name in names}
        assert len(pids) == 50
        assert all(running.one(name).restarts == 0 for name in names)
    assert [pid for pid in pids if pid is not None and not is_gone(pid)] == []


@pytest.mark.proves("supervisor.activation", "supervisor.watch")
async def test_what_a_worker_says_of_itself_is_not_believed_too_far(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("lies", LIES)
        running.write("flaps", FLAPS)
        running.apply()
        assert await running.call("flaps", "flap") is True
        assert running.one("flaps").restarts == 0
        assert "it says" in (await running.until("lies", "backoff", "crash_loop", "failed_config")).reason
    told = [line for line in running.events() if line["event"] == "extension unresponsive"]
    assert 1 <= len(told) <= 5


@pytest.mark.proves("supervisor.activation")
async def test_a_machine_that_is_too_weak_runs_only_what_is_allowed_to_be_unsandboxed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = replace(await detect(), landlock=0, seccomp=False, own_root=False, namespaces=())

    async def offered() -> Features:
        return features

    monkeypatch.setattr(machine, "detect", offered)
    async with extensions(tmp_path) as running:
        running.write("strict")
        running.write("allowed", allow_unsandboxed=True)
        running.apply()
        shown = await running.until("strict", "failed_config")
        assert (shown.restarts, shown.pid) == (0, None)
        assert "sandbox" in shown.reason or "tier" in shown.reason
        assert (await running.until("allowed", "ready")).tier == "D"
        assert await running.call("allowed", "echo", 1) == 1
        probed = await running.when("allowed", lambda shown: bool(shown.findings))
        assert "absent" in {finding.status for finding in probed.findings}


@pytest.mark.proves("supervisor.activation")
async def test_without_the_warm_interpreter_they_start_all_the_same(tmp_path: Path) -> None:
    async with extensions(tmp_path) as running:
        running.write("first")
        running.apply()
        pid = (await running.until("first", "ready")).pid
        others = set(children()) - {pid}
        await running.when("first", lambda shown: bool(shown.findings))
        [warm] = others & set(children())
        os.kill(warm, signal.SIGKILL)
        running.write("second")
        running.apply()
        await running.until("second", "ready")  # the first try may meet its last breath
        assert await running.call("second", "echo", 2) == 2
        assert await running.call("first", "echo", 1) == 1, "it goes on"


def children() -> list[int]:
    return [int(child) for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


@pytest.mark.proves("supervisor.backoff")
async def test_all_together_are_restarted_so_often_and_a_first_start_is_no_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "RESTARTS", Rate(per_second=0.001, burst=2))
    async with extensions(tmp_path) as running:
        running.write("ends", ENDS)
        running.write("well", idle_seconds=0.2)
        running.apply()
        await running.until("well", "idle")
        shown = await running.when("ends", lambda shown: (shown.next_attempt or 0) - shown.since > 60)
        assert (shown.state, shown.restarts, shown.reason) == ("backoff", 2, "it ended with status 3")
        assert await running.call("well", "echo", 1) == 1


@pytest.mark.proves("supervisor.apart", "supervisor.backoff")
async def test_many_that_keep_crashing_do_not_keep_one_waiting_that_crashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "RESTARTS", Rate(per_second=0.5, burst=8))
    flapping = [f"ends-{number}" for number in range(8)]
    async with extensions(tmp_path, pace=replace(EAGER, crashes=1000)) as running:
        for name in flapping:
            running.write(name, ENDS)
        running.write("well")
        running.apply()
        pid = (await running.until("well", "ready")).pid
        assert pid is not None
        for name in flapping:
            await running.when(name, lambda shown: shown.restarts >= 1 and shown.state == "backoff")
        before = sum(running.one(name).restarts for name in flapping)
        os.kill(pid, signal.SIGKILL)
        await running.when("well", lambda shown: shown.restarts == 1)
        assert sum(running.one(name).restarts for name in flapping) - before <= 2


@pytest.mark.proves("supervisor.output")
async def test_what_a_launcher_says_before_it_gives_up_is_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def launch(_machine: Machine, _policy: Policy, _program: Program, printed: int) -> Launched:
        os.write(printed, b"no interpreter here\n")
        raise LaunchFailed("the launcher ended; its stderr may say why")

    monkeypatch.setattr(Machine, "launch", launch)
    async with extensions(tmp_path) as running:
        running.write("weather")
        running.apply()
        await running.until("weather", "crash_loop")
    assert running.log("weather").count("no interpreter here\n") == 5
