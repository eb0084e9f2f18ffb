import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from trunkline.base.clock import SystemClock
from trunkline.base.log import LogSettings, open_log
from trunkline.errors import LaunchFailed, SandboxTooWeak
from trunkline.host.machine import Machine
from trunkline.host.sandbox import memory
from trunkline.host.sandbox.features import Features, detect
from trunkline.host.sandbox.forks import fork_server
from trunkline.host.sandbox.launch import Launched, Launcher, Program
from trunkline.host.sandbox.planning import Plan
from trunkline.host.sandbox.policy import Limits, Policy
from trunkline.host.sandbox.probe import Prober, probe
from trunkline.host.sandbox.users import FIRST

pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("sandbox")]
SOON = 10.0
ECHO = "import os\ndef main(controls, arguments):\n    os.write(3, repr((controls[0]['control'], arguments, sorted(os.environ))).encode())\n    return 9\n"
STAYS = "import os, time\ndef main(controls, arguments):\n    os.write(3, b'up')\n    time.sleep(600)\n"


def children() -> set[str]:
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended meanwhile
            found |= set((task / "children").read_text().split())
    return found


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    before = children(), descriptors()
    yield
    assert (children(), descriptors()) == before


@pytest.fixture
async def features() -> Features:
    return await detect()


def program(policy: Policy, code: str) -> Program:
    path = Path(policy.folder) / "program.py"
    path.write_text(code)
    return Program(file=str(path), arguments={"a": [1, "två"]})


async def said(worker: Launched) -> bytes:
    async with asyncio.timeout(SOON):
        heard = await asyncio.get_running_loop().sock_recv(worker.sock, 4096)
    worker.sock.close()
    return heard


async def test_a_worker_is_told_what_was_applied_and_its_arguments_and_has_an_empty_environment(
    features: Features, policy: Policy, nowhere: int
) -> None:
    worker = await Launcher(features).launch(policy, program(policy, ECHO), stdout=nowhere, stderr=nowhere)
    heard = await said(worker)
    assert heard.replace(b"'LC_CTYPE'", b"") == b"('environment', {'a': [1, 'tv\xc3\xa5']}, [])"
    assert {control.control: control.status for control in worker.controls}["landlock"] == "applied"
    assert await worker.wait() == 9
    assert not worker.alive
    worker.kill()  # nobody: its number may be another's


@pytest.mark.parametrize("warm", [False, True])
async def test_a_worker_does_not_run_where_the_host_does(features: Features, policy: Policy, nowhere: int, warm: bool) -> None:
    tells = "import os\ndef main(controls, arguments):\n    os.write(3, os.getcwd().encode())\n"
    launcher = Launcher(replace(features, namespaces=(), own_root=False))
    async with fork_server(policy.interpreter) as forks:
        worker = await launcher.launch(policy, program(policy, tells), stdout=nowhere, stderr=nowhere, warm=forks if warm else None)
        assert await said(worker) == b"/"
        await worker.wait()


async def test_a_program_that_fails_says_so_on_stderr_and_by_its_status(features: Features, policy: Policy) -> None:
    theirs, ours = os.pipe()
    worker = await Launcher(features).launch(policy, program(policy, "import nothing_of_the_kind\n"), stdout=ours, stderr=ours)
    os.close(ours)
    worker.sock.close()
    assert await worker.wait() == 1
    with os.fdopen(theirs, encoding="utf-8") as heard:
        assert heard.read().endswith("ModuleNotFoundError: No module named 'nothing_of_the_kind'\n")


@pytest.mark.parametrize("tier", ["A", "C"])
async def test_a_killed_worker_is_reaped(features: Features, policy: Policy, nowhere: int, tier: str) -> None:
    launcher = Launcher(features if tier == "A" else replace(features, namespaces=(), own_root=False))
    worker = await launcher.launch(policy, program(policy, STAYS), stdout=nowhere, stderr=nowhere)
    assert await said(worker) == b"up"
    assert worker.held().memory > 1 << 20
    assert worker.held().threads == 1
    worker.kill()
    assert await worker.wait() == 128 + signal.SIGKILL
    assert worker.held() == (0, 0)


async def test_without_process_descriptors_a_thread_waits_for_the_end(
    features: Features, policy: Policy, nowhere: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    worker = await Launcher(features).launch(policy, program(policy, ECHO), stdout=nowhere, stderr=nowhere)
    await said(worker)
    assert await worker.wait() == 9


@pytest.mark.parametrize("tier", ["A", "C"])
@pytest.mark.parametrize("warm", [False, True])
async def test_a_step_that_fails_lets_no_code_run(features: Features, policy: Policy, nowhere: int, tier: str, warm: bool) -> None:
    class Wrong(Launcher):
        def plan(self, policy: Policy) -> Plan:
            made = Launcher(self.features).plan(policy)
            return replace(made, steps=(*made.steps, ("parent", {"pid": 1 if tier == "C" else "x"})))

    launcher = Wrong(features if tier == "A" else replace(features, namespaces=(), own_root=False))
    async with fork_server(policy.interpreter) as forks:
        before = children()
        with pytest.raises(LaunchFailed, match="could not be made"):
            await launcher.launch(policy, program(policy, ECHO), stdout=nowhere, stderr=nowhere, warm=forks if warm else None)
        assert children() == before
        assert forks.alive


async def test_an_interpreter_that_cannot_run_is_told(
    features: Features, policy: Policy, nowhere: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(LaunchFailed, match="the launcher ended"):
        await Launcher(features).launch(policy, program(policy, ECHO), stdout=nowhere, stderr=nowhere)


async def test_a_launch_that_is_given_up_leaves_nothing(features: Features, policy: Policy, nowhere: int) -> None:
    before = children()
    for seconds in (0, 0.001, 0.01, 0.02, 0.03, 0.05):
        try:
            async with asyncio.timeout(seconds):
                worker = await Launcher(features).launch(policy, program(policy, STAYS), stdout=nowhere, stderr=nowhere)
        except TimeoutError:
            assert children() == before
            continue
        worker.sock.close()
        worker.kill()
        await worker.wait()


async def test_where_no_cgroup_can_be_made_nothing_runs_without(features: Features, policy: Policy, nowhere: int, tmp_path: Path) -> None:
    launcher = Launcher(replace(features, cgroup=str(tmp_path / "none")))
    with pytest.raises(LaunchFailed, match="No such file"):
        await launcher.launch(policy, program(policy, ECHO), stdout=nowhere, stderr=nowhere)


@pytest.mark.needs("cgroup_memory")
async def test_a_cgroup_ends_a_worker_that_takes_too_much(features: Features, policy: Policy, nowhere: int) -> None:
    hoards = "import mmap\ndef main(controls, arguments):\n    hoard = mmap.mmap(-1, 512 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100)\n    for at in range(0, len(hoard), 4096): hoard[at] = 1\n"
    small = replace(policy, limits=Limits(memory=96 << 20))
    worker = await Launcher(features).launch(small, program(policy, hoards), stdout=nowhere, stderr=nowhere)
    worker.sock.close()
    assert await worker.wait() == 128 + signal.SIGKILL
    assert features.cgroup is not None
    assert list(Path(features.cgroup).glob("trunkline-worker-*")) == []


@pytest.mark.proves("sandbox.tiers")
async def test_a_machine_that_is_too_weak_runs_nothing_unless_it_is_allowed_by_name(
    policy: Policy, nowhere: int, features: Features
) -> None:
    weak = Launcher(replace(features, landlock=0, seccomp=False, namespaces=(), own_root=False))
    with pytest.raises(SandboxTooWeak, match="tier D"):
        await weak.launch(policy, program(policy, ECHO), stdout=nowhere, stderr=nowhere)
    worker = await weak.launch(replace(policy, allow_unsandboxed=True), program(policy, ECHO), stdout=nowhere, stderr=nowhere)
    await said(worker)
    assert await worker.wait() == 9
    assert worker.plan.tier == "D"
    assert {control.control: control.status for control in worker.controls}["seccomp"] == "absent"


async def test_a_fork_server_that_has_ended_is_done_without(features: Features, policy: Policy, nowhere: int) -> None:
    before = children()
    async with fork_server(policy.interpreter) as forks:
        first = await Launcher(features).launch(policy, program(policy, ECHO), stdout=nowhere, stderr=nowhere, warm=forks)
        assert b"environment" in await said(first)
        assert await first.wait() == 9
        (server,) = children() - before
        os.kill(int(server), signal.SIGKILL)
        async with asyncio.timeout(SOON):
            while forks.alive:
                await asyncio.sleep(0)
        second = await Launcher(features).launch(policy, program(policy, ECHO), stdout=nowhere, stderr=nowhere, warm=forks)
        assert b"environment" in await said(second)
        assert await second.wait() == 9


@pytest.mark.parametrize("warm", [False, True])
async def test_what_a_worker_prints_arrives(features: Features, policy: Policy, warm: bool) -> None:
    prints = "import sys\ndef main(controls, arguments):\n    sys.stdout.reconfigure(encoding='utf-8')\n    print('✗ hi')\n"
    theirs, ours = os.pipe()
    async with fork_server(policy.interpreter) as forks:
        worker = await Launcher(features).launch(policy, program(policy, prints), stdout=ours, stderr=ours, warm=forks if warm else None)
        os.close(ours)
        worker.sock.close()
        assert await worker.wait() == 0
    with os.fdopen(theirs, encoding="utf-8") as heard:
        assert heard.read() == "✗ hi\n"


async def test_a_fork_server_whose_imports_fail_is_told(policy: Policy) -> None:
    with pytest.raises(LaunchFailed, match="does not start"):
        async with fork_server(policy.interpreter, ["nothing_of_the_kind"]):
            pass


@pytest.mark.proves("sandbox.report")
async def test_a_host_that_cannot_see_what_a_worker_holds_says_so(
    features: Features, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "held", lambda _: memory.Held(0, 0))  # as where /proc hides the processes of others
    report = await probe(Launcher(features), policy)
    [found] = [finding for finding in report.findings if finding.control == "memory"]
    assert "the host cannot see" in found.detail


@pytest.mark.proves("sandbox.report")
async def test_a_policy_is_probed_at_its_first_use(features: Features, policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    probed: list[Any] = []

    async def launch(self: Launcher, policy: Policy, program: Program, **more: Any) -> Launched:
        probed.append(policy.limits.memory)
        return await real(self, policy, program, **more)

    real = Launcher.launch
    monkeypatch.setattr(Launcher, "launch", launch)
    prober = Prober(Launcher(features))
    other = Path(policy.folder) / "other"
    other.mkdir()
    other.chmod(0o755)  # as reachable as the first
    first, again, elsewhere = await asyncio.gather(
        prober.report(policy), prober.report(policy), prober.report(replace(policy, folder=str(other)))
    )
    assert first is again is elsewhere
    await prober.report(replace(policy, limits=Limits(memory=64 << 20)))
    assert probed == [256 << 20, 64 << 20]


@pytest.mark.needs("root")
@pytest.mark.proves("sandbox.report")
async def test_a_worker_that_keeps_the_hosts_user_is_not_told_of_by_a_report_on_others(policy: Policy, nowhere: int) -> None:
    for name, mode in (("open", 0o755), ("hidden", 0o700)):
        (Path(policy.folder) / name).mkdir()
        (Path(policy.folder) / name).chmod(mode)
    policy, own = (replace(policy, folder=f"{policy.folder}/{name}") for name in ("open", "hidden"))
    faults = list[BaseException]()
    log, writer = open_log(LogSettings(), StringIO())
    async with Machine(log, SystemClock(), lambda _, error: faults.append(error)) as machine:
        worker = await machine.launch(policy, program(policy, ECHO), nowhere)
        await said(worker)
        await worker.wait()
        others, ours = await machine.report(policy), await machine.report(own)
        assert others is await machine.report(replace(policy, user=FIRST + 1))
        assert ours is not others
    writer.close()
    assert faults == []
