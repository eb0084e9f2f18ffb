"""Kills hosts at random, and looks whether anything of them is left. Whatever loses its parent below this process becomes its child.

usage: killing.py FOLDER TIMES TIER; prints one JSON object: how many processes each host had when it was killed, and how long the last took to end.
"""

import asyncio
import ctypes
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from tests.host.extensions import CODE, extensions
from tests.host.test_worker_program import weaker
from trunkline.host import machine
from trunkline.host.sandbox.features import Features, detect

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h
FORKS = CODE.replace("def activate(context):", "def activate(context):\n    fork(None, None)", 1)
ENDS = "import os\ndef activate(context):\n    os._exit(3)\n"


async def host(folder: Path, up: int, tier: str) -> None:
    """Be a host, for ever, on a machine that offers no more than such a tier needs."""
    features = weaker(await detect(), tier)

    async def offered() -> Features:
        return features

    machine.detect = offered
    async with extensions(folder) as running:
        running.write("well")
        running.write("forks", FORKS)
        running.write("ends", ENDS)
        os.write(up, b"u")
        running.apply()
        await asyncio.Event().wait()


def below(pid: int) -> list[int]:
    """Every process that descends from one."""
    try:
        children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:
        return []
    return [process for child in children for process in (child, *below(child))]


def kill_one(folder: Path, after: float, tier: str) -> tuple[int, float]:
    """How many processes a host had, and the seconds until none was left."""
    ready, up = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready)
        try:
            asyncio.run(host(folder, up, tier))
        finally:
            os._exit(1)
    os.close(up)
    assert os.read(ready, 1) == b"u", "the host does not start"
    os.close(ready)
    time.sleep(after)
    count = len(below(pid))
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    while True:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return count, time.monotonic() - began
        if not ended:
            assert time.monotonic() - began < 5, f"left: {below(os.getpid())}"
            time.sleep(0.002)


def main(folder: Path, times: int, tier: str) -> None:
    ctypes.CDLL(None).prctl(SUBREAPER, 1)
    chance = random.Random(times)
    killed = [kill_one(folder, chance.uniform(0, 0.7), tier) for _ in range(times)]
    print(json.dumps({"processes": [count for count, _ in killed], "slowest": max(seconds for _, seconds in killed)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
