"""Processes of one machine: start them on a core, measure them, pause them, end them. Linux only: it reads /proc."""

import os
import platform
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

TICKS = os.sysconf("SC_CLK_TCK")
GATEWAY_CORE, LOAD_CORE = "0", "1"
END_SECONDS = 10.0
BUILD = Path(__file__).parents[1] / "build/bench"
"""Where programs and results go, unless BENCH_WORK says otherwise."""


class Process:
    """A process on one core, with its family: all that it started. Its output goes to a file."""

    def __init__(self, argv: Sequence[str], *, core: str, log: Path, env: Mapping[str, str] | None = None) -> None:
        self.begun = time.monotonic()
        with log.open("ab") as out:
            self._popen = subprocess.Popen(
                ["taskset", "-c", core, *argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        self.log = log

    @property
    def alive(self) -> bool:
        """It has not ended."""
        return self._popen.poll() is None

    @property
    def cpu(self) -> float:
        """Seconds of CPU that the family has used."""
        return sum(_cpu_ticks(pid) for pid in self._family()) / TICKS

    @property
    def memory(self) -> float:
        """Bytes: its own, and its share of what it has in common with others (PSS)."""
        return sum(_pss(pid) for pid in self._family())

    def pause(self) -> None:
        """Let it use nothing while another one is measured."""
        os.killpg(self._popen.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.killpg(self._popen.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End the family, and wait until it is gone."""
        family = self._family()
        self.resume()
        self._popen.terminate()
        try:
            self._popen.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        for pid in family:
            if pid != self._popen.pid and _stat(pid):
                os.kill(pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _family(self) -> list[int]:
        children: dict[int, list[int]] = {}
        for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
            if stat := _stat(pid):
                children.setdefault(int(stat[1]), []).append(pid)
        found: list[int] = []
        left = [self._popen.pid]
        while left:
            pid = left.pop()
            found.append(pid)
            left += children.get(pid, [])
        return found


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none when there is no such process, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
    return [] if fields[0] == "Z" else fields


def _cpu_ticks(pid: int) -> int:
    stat = _stat(pid)
    return int(stat[11]) + int(stat[12]) if stat else 0


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def busy_seconds() -> float:
    """Seconds of CPU that the whole machine has used since it started."""
    fields = [int(each) for each in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / TICKS


def wait_until(done: Callable[[], bool], *, seconds: float, every: float = 0.02) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(every)
    return True


def wait_for_quiet(seconds: float, *, share: float = 0.15) -> None:
    """Wait, not for ever, until others use less than this share of a core."""

    def quiet() -> bool:
        before = busy_seconds()
        time.sleep(0.4)
        return busy_seconds() - before < share * 0.4

    wait_until(quiet, seconds=seconds, every=0)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def build(source: Path, into: Path) -> Path:
    """Compile a C file, unless that is done. Raises: `SystemExit`, saying what is missing."""
    program = into / source.stem
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        if shutil.which("gcc") is None:
            raise SystemExit("gcc is missing, and the load generator is C. Debian, Ubuntu: sudo apt install gcc libc6-dev")
        subprocess.run(["gcc", "-O2", "-o", program, source], check=True)
    return program


def check() -> None:
    """Raises: `SystemExit`, when nothing can be measured here."""
    if platform.system() != "Linux" or (os.cpu_count() or 1) < 2:
        raise SystemExit("the harness needs Linux and two cores: one for the gateway, one for the load")
    if shutil.which("taskset") is None:
        raise SystemExit("taskset is missing. Debian, Ubuntu: sudo apt install util-linux")


def description() -> dict[str, str | int]:
    """What is worth knowing about this machine; nothing that names it."""
    cpu = next((line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    memory = next(int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal"))
    return {
        "cpu": cpu,
        "cores": os.cpu_count() or 0,
        "memory_gb": round(memory / 2**20),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()
