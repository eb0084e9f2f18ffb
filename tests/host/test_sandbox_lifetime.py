"""A host that is killed: no worker, and nothing that one forked, is left a second later."""

import os
import select
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.host.users import Run, as_oneself, as_somebody, reachable

pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("sandbox")]

PROGRAM = """
import os, signal, time
def main(controls, arguments):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if arguments["forks"] and os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(1, b"up\\n")
        time.sleep(600)
    if not arguments["forks"]:
        os.write(1, b"up\\n")
    time.sleep(600)
"""


def below(pid: int) -> list[int]:
    """Every process that descends from one."""
    children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return [process for child in children for process in (child, *below(child))]


def gone_within(seconds: float, handle: int) -> bool:
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = reachable(tmp_path_factory.mktemp("extension"))
    (place / "program.py").write_text(PROGRAM)
    return place


@pytest.mark.proves("sandbox.lifetime")
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "forked"])
@pytest.mark.parametrize("tier", ["A", "B", "C"])
@pytest.mark.parametrize(
    "who",
    [
        pytest.param(as_oneself, id="root", marks=pytest.mark.needs("root")),
        pytest.param(as_somebody, id="an ordinary user", marks=pytest.mark.needs("interpreter_for_all")),
    ],
)
def test_a_killed_host_leaves_nothing(who: Callable[[], Run], tier: str, warm: bool, folder: Path) -> None:
    asked = {"column": tier, "warm": warm, "folder": str(folder), "arguments": {"forks": tier == "A"}}
    with who().start("hold", asked) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == "up\n"
        processes = below(host.pid)
        assert len(processes) == 1 + (tier == "A") + warm
        handles = [os.pidfd_open(process) for process in processes]
        host.send_signal(signal.SIGKILL)
        host.wait()
        assert [gone_within(1, handle) for handle in handles] == [True] * len(processes)
        assert host.stdout.read() == ""  # so the ends of the pipes are closed, too


@pytest.mark.proves("sandbox.lifetime")
def test_what_a_worker_forked_ends_with_it(folder: Path) -> None:
    with as_oneself().start("hold", {"column": "A", "folder": str(folder), "arguments": {"forks": True}}) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == "up\n"
        worker, child = below(host.pid)
        handle = os.pidfd_open(child)
        os.kill(worker, signal.SIGKILL)
        assert gone_within(1, handle)
        assert '"status": 137' in host.stdout.read()
        assert host.wait() == 0
