"""Keeps extensions busy and breaks them, for a while; prints what the host held in each tenth of the time, one JSON object a line.

usage: soaking.py FOLDER SECONDS
"""

import asyncio
import json
import os
import random
import re
import signal
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import uvloop

from tests.host.extensions import EAGER, QUICK, Running, extensions
from trunkline.base.garbage import spare_what_stays
from trunkline.errors import NotFound
from trunkline_sdk.rpc.errors import RpcError

NAMES = [f"one-{number}" for number in range(6)]
CALLS = [("echo", "x" * 1000), ("user", None), ("slow", 0.2), ("print", 50_000), ("nothing", None)]
FAULTS = [("exit", 3), ("stick", 0.6), ("kill", None), ("change", None), ("remove", None)]


def held() -> dict[str, int]:
    """What this process has now: bytes of memory, descriptors, children. Pages of files do not count: how many share them is others' business."""
    with open("/proc/self/smaps_rollup") as rollup, open(f"/proc/self/task/{os.getpid()}/children") as children:  # noqa: PTH123 - no new strings
        pss = re.search(r"^Pss_Anon:\s+(\d+) kB", rollup.read(), re.MULTILINE)
        assert pss is not None
        return {"pss": int(pss[1]) << 10, "descriptors": len(os.listdir("/proc/self/fd")), "children": len(children.read().split())}  # noqa: PTH208


def move_names() -> None:
    """Have the interpreter move its table of names as often as it does in days: 3 MB in all, and no more after that (see docs/performance.md)."""
    for number in range(400_000):
        sys.intern(f"name {number}")


def usual(samples: Sequence[Mapping[str, int]]) -> dict[str, float]:
    """Of each figure the median."""
    return {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}


async def disturb(running: Running, chance: random.Random) -> None:
    """Do something to some extension that no host may mind."""
    name = chance.choice(NAMES)
    what, params = chance.choice(CALLS) if chance.random() < 0.9 else chance.choice(FAULTS)
    try:
        match what:
            case "kill":
                pid = running.one(name).pid
                if pid is not None:
                    os.kill(pid, signal.SIGKILL)
            case "change":
                running.write(name, network=[f"host-{chance.randrange(10)}.example.com"])
                running.apply()
            case "remove":
                kept = running.settings.pop(name, None)
                running.apply()
                if kept is not None:
                    running.settings[name] = kept
                running.apply()
            case _:
                await running.call(name, what, params, user="usr_a", seconds=0.5)
    except (RpcError, NotFound, ProcessLookupError):
        pass


async def soak(folder: Path, seconds: float) -> None:
    chance, loop = random.Random(7), asyncio.get_running_loop()
    with Path(os.devnull).open("w") as nowhere:
        async with extensions(folder, patience=QUICK, pace=replace(EAGER, retry=0.2), stream=nowhere) as running:
            for name in NAMES:
                running.write(name)
            running.apply()
            spare_what_stays()  # as the server does
            move_names()
            began, done = loop.time(), 0
            for tenth in range(1, 11):
                samples: list[dict[str, int]] = []
                while loop.time() - began < seconds * tenth / 10:
                    await asyncio.gather(*(disturb(running, chance) for _ in range(4)))
                    done += 4
                    samples.append(held())
                    await asyncio.sleep(0.05)
                restarts = sum(shown.restarts for shown in running.supervisor.shown())
                print(json.dumps(usual(samples) | {"done": done, "restarts": restarts}), flush=True)
            running.apply()
            for name in NAMES:
                assert await running.call(name, "echo", 1, seconds=60) == 1


if __name__ == "__main__":
    uvloop.run(soak(Path(sys.argv[1]), float(sys.argv[2])))
