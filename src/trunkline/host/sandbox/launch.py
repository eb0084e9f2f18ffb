"""Starts a worker in its sandbox.

    launcher = Launcher(await detect())
    worker = await launcher.launch(policy, Program(file, {"main": path}), stdout=log, stderr=log)
    await loop.connect_accepted_socket(lambda: channel, worker.sock)

A bare interpreter is spawned from this thread, which has to live as long as its workers: the kernel kills them when it ends. It makes the
sandbox around itself and goes on as the worker; where it must fork for that, the fork is this process's child all the same.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from trunkline.errors import LaunchFailed
from trunkline.host.sandbox import memory
from trunkline.host.sandbox.children import Birth, Child, Talk, spawn
from trunkline.host.sandbox.features import Features, reach
from trunkline.host.sandbox.forks import ForkServer
from trunkline.host.sandbox.planning import Plan, plan
from trunkline.host.sandbox.policy import Policy
from trunkline_sdk.rpc.messages import Control

SECONDS = 10.0
"""That the sandbox may take to be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What runs in the sandbox: a Python file with `main(controls, arguments)`.

    Attributes:
        file: where it is; among what the policy lets read.
        arguments: anything that has a JSON form.
    """

    file: str
    arguments: Mapping[str, object]


class Launched:
    """A worker that runs.

    Attributes:
        pid: as this process sees it.
        sock: the host's end of its channel, non-blocking.
        plan: what was applied.
    """

    def __init__(self, child: Child, sock: socket.socket, plan: Plan, cgroup: Path | None) -> None:
        self.pid = child.pid
        self.sock = sock
        self.plan = plan
        self._child = child
        self._cgroup = cgroup

    @property
    def controls(self) -> tuple[Control, ...]:
        """What is applied and what is absent."""
        return self.plan.controls

    @property
    def alive(self) -> bool:
        """Whether it has not been reaped yet."""
        return self._child.alive

    async def wait(self) -> int:
        """Its exit status once it has ended and is reaped: 0 to 127, or 128 + n after signal n. Nothing that it forked is left then."""
        status = await self._child.wait()
        if self._cgroup is not None:
            await _remove(self._cgroup)
            self._cgroup = None
        return status

    def terminate(self) -> None:
        """Ask it to end: SIGTERM. In a PID namespace that reaches it only if it listens."""
        self._child.signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and everything that it started, at once."""
        if self._cgroup is not None:
            with suppress(OSError):
                (self._cgroup / "cgroup.kill").write_text("1")
        self._child.signal(signal.SIGKILL)

    def held(self) -> memory.Held:
        """What it and what it forked hold now; nothing, once it has ended."""
        return memory.held(self.pid) if self.alive else memory.Held(0, 0)


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts workers on a machine with these features."""

    features: Features

    def plan(self, policy: Policy) -> Plan:
        """How a worker of this policy is started here. Raises: `SandboxTooWeak`."""
        return plan(policy, self.features, reach(policy), parent=os.getpid())

    async def launch(self, policy: Policy, program: Program, *, stdout: int, stderr: int, warm: ForkServer | None = None) -> Launched:
        """Start a worker; its code has begun when this returns.

        Args:
            policy: its sandbox.
            program: what runs in it.
            stdout: a descriptor that it writes to: a pipe, for of a file it could cut what others wrote.
            stderr: likewise.
            warm: forks it, if it still lives; else an interpreter is started. One that does not fork in time is ended.

        Raises:
            SandboxTooWeak: this machine cannot do what the policy asks at least.
            LaunchFailed: the sandbox could not be made; nothing is left of the attempt.
        """
        chosen = self.plan(policy)
        talk, their_talk = socket.socketpair()
        channel, theirs = socket.socketpair()
        channel.setblocking(False)
        birth, cgroup = Birth(Talk(talk)), None
        try:
            with their_talk, theirs:
                async with asyncio.timeout(SECONDS):
                    cgroup = self._cgroup(policy)
                    await birth.talk.say(_order(policy, chosen, program))
                    given = (stdout, stderr, theirs.fileno(), their_talk.fileno())
                    if warm is None or not warm.alive or not warm.fork(chosen.namespaces, *given):
                        birth.launcher = Child(spawn(*given))
                    theirs.close()
                    their_talk.close()  # so that what the launcher does not say is an end, not a silence
                    child = await birth.done()
                    if birth.launcher is not None and birth.launcher is not child:
                        await birth.launcher.wait()  # it forked the worker, and that was all
                    if cgroup is not None:
                        (cgroup / "cgroup.procs").write_text(str(child.pid))
                    await birth.talk.say({})
        except BaseException as error:
            channel.close()
            if isinstance(error, TimeoutError) and warm is not None and birth.child is None:
                warm.end()
            with suppress(TimeoutError):
                async with asyncio.timeout(SECONDS):
                    await birth.abandon(stuck=isinstance(error, TimeoutError))
            if cgroup is not None:
                await _remove(cgroup)
            if isinstance(error, (OSError, LaunchFailed)):
                why = str(error) or "it took too long"
                raise LaunchFailed(f"the sandbox of `{policy.folder}` could not be made: {why}") from error
            raise
        birth.talk.close()
        return Launched(child, channel, chosen, cgroup)

    def _cgroup(self, policy: Policy) -> Path | None:
        """A new cgroup with the policy's limits, where the machine lets us make one. Raises: `OSError`."""
        if self.features.cgroup is None:
            return None
        folder = Path(self.features.cgroup) / f"trunkline-worker-{token_hex(6)}"
        folder.mkdir()
        try:
            (folder / "memory.max").write_text(str(policy.limits.memory))
            (folder / "memory.oom.group").write_text("1")
            (folder / "pids.max").write_text(str(policy.limits.processes))
        except OSError:
            folder.rmdir()
            raise
        return folder


def _order(policy: Policy, chosen: Plan, program: Program) -> dict[str, object]:
    return {
        "namespaces": chosen.namespaces,
        "steps": chosen.steps,
        "controls": chosen.controls,
        "packages": policy.interpreter.packages,
        "program": program.file,
        "arguments": program.arguments,
    }


async def _remove(folder: Path) -> None:
    for _ in range(50):
        if _removed(folder):
            return
        await asyncio.sleep(0.02)  # what was killed is not gone yet


def _removed(folder: Path) -> bool:
    try:
        (folder / "cgroup.kill").write_text("1")
        folder.rmdir()
    except OSError:
        return False
    return True
