"""A host in a process of its own, so that tests can run one as any user, and kill it: `python asked.py WHAT JSON`.

`probe [column…]`: what the attempts came to, in each column of `COLUMNS`, as JSON.
`hold {"column", "warm", "program", "policy"}`: starts a worker of a program, hands on what it writes to its stdout, tells `{"pid", "status"}`
when it has ended, and else lives until it is killed.
"""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from trunkline.host.sandbox.features import Features, detect
from trunkline.host.sandbox.forks import fork_server
from trunkline.host.sandbox.launch import Launcher, Program
from trunkline.host.sandbox.memory import exceeded
from trunkline.host.sandbox.policy import Limits, Policy
from trunkline.host.sandbox.probe import probe
from trunkline.host.sandbox.users import FIRST

NOTHING: dict[str, Any] = {"own_root": False, "namespaces": (), "landlock": 0, "seccomp": False}
NETWORK = ("user", "net", "ipc", "uts")
COLUMNS: dict[str, dict[str, Any]] = {
    "none": NOTHING,
    "landlock 7": NOTHING | {"landlock": 7},
    "landlock 3": NOTHING | {"landlock": 3},
    "seccomp": NOTHING | {"seccomp": True},
    "netns": NOTHING | {"namespaces": NETWORK},
    "own root": NOTHING | {"namespaces": (*NETWORK, "mount", "pid"), "own_root": True},
    "C": NOTHING | {"landlock": 7, "seccomp": True},
    "C, landlock 1": NOTHING | {"landlock": 1, "seccomp": True},
    "B": NOTHING | {"landlock": 7, "seccomp": True, "namespaces": NETWORK},
    "A": {},
}
"""What a machine may offer less than this one."""


def column(features: Features, name: str) -> Features:
    less = dict(COLUMNS[name])
    if "namespaces" in less:
        less["namespaces"] = tuple(space for space in features.namespaces if space in less["namespaces"])
    return replace(features, **less)


async def probed(names: list[str], *, warm: bool) -> dict[str, Any]:
    features = await detect()
    policy = Policy(folder="/", user=FIRST if features.user == 0 else None, allow_unsandboxed=True)
    found = {}
    async with AsyncExitStack() as stack:
        forks = await stack.enter_async_context(fork_server(policy.interpreter)) if warm else None
        for name in names:
            report = await probe(Launcher(column(features, name)), policy, warm=forks)
            found[name] = {
                "tier": report.tier,
                "attempts": {attempt: outcome for finding in report.findings for attempt, outcome in finding.attempts.items()},
                "statuses": {finding.control: finding.status for finding in report.findings},
            }
    return found


async def held(asked: dict[str, Any]) -> None:
    features = column(await detect(), asked["column"])
    limits = Limits(**asked.get("limits", {}))
    user = FIRST if features.user == 0 else None
    policy = Policy(folder=asked["folder"], user=user, limits=limits, allow_unsandboxed=True)
    async with AsyncExitStack() as stack:
        forks = await stack.enter_async_context(fork_server(policy.interpreter)) if asked.get("warm") else None
        program = Program(file=asked["folder"] + "/program.py", arguments={"host": os.getpid()} | asked.get("arguments", {}))
        worker = await Launcher(features).launch(policy, program, stdout=1, stderr=2, warm=forks)
        ended = asyncio.ensure_future(worker.wait())
        too_much = asyncio.ensure_future(exceeded(worker, memory=limits.memory, threads=limits.processes))
        await asyncio.wait([ended, too_much], return_when=asyncio.FIRST_COMPLETED)
        told = {"held": 0}
        if not ended.done():
            held = too_much.result()
            told = {"held": held.memory} if held.memory > limits.memory else {"threads": held.threads}
            worker.kill()
        too_much.cancel()
        print(json.dumps({"status": await ended} | told), flush=True)
        worker.sock.close()


if __name__ == "__main__":
    what, asked = sys.argv[1], json.loads(sys.argv[2])
    if what == "probe":
        print(json.dumps(asyncio.run(probed(asked["columns"], warm=asked.get("warm", False)))))
    else:
        asyncio.run(held(asked))
