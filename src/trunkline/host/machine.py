"""Where workers run: the launcher, the users for them, the warm interpreter, and what probes found. Made when the first one is started."""

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.base.log import Logger
from trunkline.errors import TrunklineError
from trunkline.host.sandbox.features import detect
from trunkline.host.sandbox.forks import Warm
from trunkline.host.sandbox.launch import Launched, Launcher, Program
from trunkline.host.sandbox.policy import SDK, Interpreter, Policy
from trunkline.host.sandbox.probe import Prober
from trunkline.host.sandbox.report import Report
from trunkline.host.sandbox.users import Users

PROBE_SECONDS = 5.0
"""That a probe has at the end."""


class Machine:
    """As `async with`: at the end the warm interpreter is gone. Workers are whoever's who launched them."""

    def __init__(self, log: Logger, clock: Clock, failed: Callable[[str, BaseException], None]) -> None:
        self._log = log
        self._clock = clock
        self._stack = AsyncExitStack()
        self._one_at_a_time = asyncio.Lock()
        self._launcher: Launcher | None = None
        self._prober: Prober | None = None
        self._warm: Warm | None = None
        self._users = Users()
        self._probes: dict[str, asyncio.Task[Report | None]] = {}
        self._tasks = Tasks(failed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        async with self._stack, self._tasks:
            if probing := [task for task in self._probes.values() if not task.done()]:
                await asyncio.wait(probing, timeout=PROBE_SECONDS)

    def user(self) -> int | None:
        """A user for a worker, where the host is root; to be given back. Raises: `LaunchFailed`."""
        return self._users.take() if os.geteuid() == 0 else None

    def give(self, user: int | None) -> None:
        """Nothing of that worker is left."""
        if user is not None:
            self._users.give(user)

    async def launch(self, policy: Policy, program: Program, output: int) -> Launched:
        """Start a process. Raises: `SandboxTooWeak`, `LaunchFailed`."""
        async with self._one_at_a_time:
            launcher = self._launcher or await self._look()
            warm = None if self._warm is None else await self._warm.ready()
        return await launcher.launch(policy, program, stdout=output, stderr=output, warm=warm)

    async def report(self, policy: Policy) -> Report | None:
        """What probes found of a policy that was launched; nothing, where it cannot be probed."""
        assert self._prober is not None
        key = self._prober.key(policy)
        found = self._probes.get(key)
        if found is None:
            found = self._probes[key] = self._tasks.start(self._probe(key, policy), name="probe the sandbox")
        return await asyncio.shield(found)  # it serves others, too

    async def _probe(self, key: str, policy: Policy) -> Report | None:
        assert self._prober is not None
        try:
            report = await self._prober.report(policy)
        except TrunklineError as error:
            self._log.warning("extension sandbox not probed", folder=policy.folder, reason=error.message)
            del self._probes[key]
            return None
        left = {finding.control: finding.detail or finding.status for finding in report.findings if finding.status != "enforced"}
        self._log.info("extension sandbox probed", tier=report.tier, kernel=report.kernel, not_enforced=left)
        return report

    async def _look(self) -> Launcher:
        features = await detect()
        if features.linux:
            self._warm = await self._stack.enter_async_context(Warm(Interpreter.running(*SDK), self._clock, self._slow))
        launcher = self._launcher = Launcher(features)
        self._prober = Prober(launcher)
        return launcher

    def _slow(self, reason: str) -> None:
        self._log.warning("extensions start slowly", reason=reason)
