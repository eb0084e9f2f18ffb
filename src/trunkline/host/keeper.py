"""Keeps one extension: starts its worker when one is due, never two, and says how it stands."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from trunkline.base.clock import Clock
from trunkline.base.codec import Raw
from trunkline.base.log import Logger, printable
from trunkline.base.metrics import Gauge, Tally
from trunkline.errors import ConfigInvalid, LaunchFailed
from trunkline.host.course import Course, Pace, Rest, State
from trunkline.host.machine import Machine
from trunkline.host.output import Output
from trunkline.host.rates import Bucket, Queue, Rate
from trunkline.host.sandbox.launch import Program
from trunkline.host.sandbox.policy import Policy, Tier
from trunkline.host.sandbox.report import Finding
from trunkline.host.settings import ExtensionSettings
from trunkline.host.worker import End, Surroundings, Worker
from trunkline_sdk.rpc.errors import Code, RpcError
from trunkline_sdk.rpc.messages import Control
from trunkline_sdk.worker import PROGRAM

MAIN = "main.py"
WARNINGS = Rate(per_second=1 / 60, burst=5)
"""Of one extension that comes and goes."""
MOST_REASON = 1000
"""Characters of what a worker said of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all keepers share.

    Attributes:
        data: the folder in which each has one of its own.
        restarts: how many there may be of all of them.
    """

    around: Surroundings
    machine: Machine
    data: Path
    threads: Executor
    clock: Clock
    log: Logger
    pace: Pace
    chance: Callable[[], float]
    restarts: Queue
    ends: Tally
    states: Gauge


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How it stands with an extension. Times are seconds since the epoch.

    Attributes:
        applied: what its worker's sandbox is made of.
        findings: what probes found it to enforce; empty before they have run.
    """

    name: str
    state: State
    reason: str
    since: float
    next_attempt: float | None
    restarts: int
    pid: int | None
    tier: Tier | None
    applied: tuple[Control, ...]
    findings: tuple[Finding, ...]
    registered: tuple[str, ...]
    permissions: tuple[str, ...]


class Keeper:
    """One extension's.

    Attributes:
        course: how it stands.
        ended: whether nothing of it is left.
    """

    def __init__(self, name: str, settings: ExtensionSettings, shared: Shared) -> None:
        self.name = name
        self.course = Course(shared.clock, shared.chance, shared.pace)
        self.ended = asyncio.Event()
        self._settings = settings
        self._shared = shared
        self._worker: Worker | None = None
        self._findings: tuple[Finding, ...] = ()
        self._code: frozenset[tuple[str, int, int]] = frozenset()
        self._gone = False
        self._called = True  # the first start is wanted
        self._changed = asyncio.Event()
        self._counted: State | None = None
        self._warnings = Bucket(WARNINGS, shared.clock.monotonic())
        self._output = Output(shared.data / name / "log", shared.clock, shared.threads, self._not_written)
        if not settings.enabled:
            self.course.stop("disabled", "the configuration says so")
        self._moved()

    def shown(self) -> Shown:
        """How it stands now."""
        launched = None if self._worker is None else self._worker.launched
        plan = None if launched is None else launched.plan
        course = self.course
        return Shown(
            name=self.name,
            state=course.state,
            reason=course.reason,
            since=course.since,
            next_attempt=course.next_attempt,
            restarts=course.restarts,
            pid=None if launched is None else launched.pid,
            tier=None if plan is None else plan.tier,
            applied=() if plan is None else plan.controls,
            findings=self._findings,
            registered=() if self._worker is None else self._worker.registered,
            permissions=self._settings.grants.permissions,
        )

    def change(self, settings: ExtensionSettings | None) -> None:
        """Have it run with these settings; with `None`, not at all any more. A worker that runs with the same goes on."""
        same = settings == self._settings and not self._gone
        self._gone = settings is None
        if settings is None:
            self._rest("disabled", "it is being stopped")
            return
        self._settings = settings
        if not settings.enabled:
            self._rest("disabled", "the configuration says so")
        elif not self.course.running:
            if self.course.state != "idle" or not same:
                self.course.wanted("the configuration was read")
                self._called = True
        elif not same:
            self._begin_anew("its settings changed")
        elif self._worker is not None:
            self._worker.beside(self._look_for_other_code())
        self._moved()

    async def call(self, name: str, params: object, *, user: str | None, seconds: float) -> Raw:
        """Call what its worker has registered. Raises: `RpcError`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        try:
            async with asyncio.timeout_at(until):
                worker = await self._available()
        except TimeoutError:
            raise self._error("deadline_exceeded", "it did not start in time") from None
        return await worker.call(name, params, user=user, seconds=max(0.001, until - loop.time()))

    async def run(self) -> None:
        """Keep it, until it is not wanted at all any more."""
        try:
            while not self._gone:
                if not self.course.may_begin(called=self._called):
                    await self._due()
                elif self.course.state == "backoff" and (seconds := self._turn()):
                    self.course.postpone(seconds)
                else:
                    await self._live()
                if self._gone:
                    await self._output.written()  # meanwhile it may be wanted again
        finally:
            self._gone = True
            self._moved()
            self.ended.set()

    # ------------------------------------------------------------------------------------------------ one worker
    async def _live(self) -> None:
        settings = self._settings
        self._called = False
        self.course.begin()
        self._moved()
        end = await self._one(settings)
        self._worker = None
        reason = printable(end.reason, MOST_REASON)
        too_often = self.course.ended(reason, again=end.again)
        self._shared.ends.add(self.name, end.cause)
        self._say_how_it_ended(end, reason, too_often=too_often)
        self._moved()

    async def _one(self, settings: ExtensionSettings) -> End:
        machine, user = self._shared.machine, None
        try:
            folder = await asyncio.to_thread(_folder, settings.path, self._shared.data.parent)
            self._code = await asyncio.to_thread(_code, folder)
            if self.course.state == "stopping":
                return End("asked", "")
            self._findings = ()
            user = machine.user()
            policy = Policy(folder=folder, limits=settings.limits, user=user, allow_unsandboxed=settings.allow_unsandboxed)
            self._worker = Worker(
                self.name,
                policy=policy,
                program=Program(file=PROGRAM, arguments={"name": self.name, "folder": policy.folder, "main": MAIN}),
                grants=settings.grants,
                output=self._output,
                around=replace(self._shared.around, patience=replace(self._shared.around.patience, idle=settings.idle_seconds)),
                watcher=self,
            )
            self._output.line(f"--- {datetime.fromtimestamp(self._shared.clock.now(), UTC):%Y-%m-%dT%H:%M:%SZ} a worker starts".encode())
            return await self._worker.run()
        except ConfigInvalid as error:
            return End("config", error.message, again=False)
        except (LaunchFailed, OSError) as error:  # the latter: no descriptors, or a folder that changes just now
            return End("launch", str(error))
        except Exception as error:  # noqa: BLE001 - a fault of the host's must not leave the extension without a keeper
            self._shared.around.failed(f"extension {self.name}", error)
            return End("launch", "the host failed; its log says how")
        finally:
            machine.give(user)

    def activated(self, worker: Worker) -> None:
        """See `Watcher`."""
        self.course.activated()
        if self.course.state != "ready":
            return  # it was asked to end meanwhile
        launched = worker.launched
        assert launched is not None
        self._shared.log.info("extension ready", extension=self.name, pid=launched.pid, tier=launched.plan.tier)
        worker.beside(self._probe(worker))
        self._moved()

    def silent(self, reason: str) -> None:
        """See `Watcher`."""
        self.course.silent(reason)
        if not self._warnings.take(self._shared.clock.monotonic()):
            self._shared.log.warning("extension unresponsive", extension=self.name, reason=reason)
        self._moved()

    def well(self) -> None:
        """See `Watcher`."""
        self.course.well()
        self._moved()

    def unused(self) -> None:
        """See `Watcher`."""
        self._rest("idle", "nobody called it for a while")

    async def _probe(self, worker: Worker) -> None:
        report = await self._shared.machine.report(worker.policy)
        self._findings = () if report is None else report.findings

    async def _look_for_other_code(self) -> None:
        if self._code != await asyncio.to_thread(_code, self._settings.path) and self.course.state != "stopping":
            self._begin_anew("its code changed")

    def _begin_anew(self, reason: str) -> None:
        self._rest("idle", reason)
        self._call_it()

    def _say_how_it_ended(self, end: End, reason: str, *, too_often: bool) -> None:
        log, course = self._shared.log, self.course
        match course.state:
            case "backoff" | "crash_loop" if not too_often:
                log.warning("extension crashed", extension=self.name, reason=reason, cause=end.cause, next_attempt=course.next_attempt)
            case "crash_loop":
                log.error("extension crashes too often", extension=self.name, reason=reason, cause=end.cause)
            case "failed_config":
                log.error("extension does not run", extension=self.name, reason=reason)
            case _:
                log.info("extension stopped", extension=self.name, reason=course.reason)

    # ------------------------------------------------------------------------------------------------ waiting
    def _rest(self, rest: Rest, reason: str) -> None:
        self.course.stop(rest, reason)
        if self._worker is not None:
            self._worker.stop()
        self._moved()

    async def _available(self) -> Worker:
        while True:
            match self.course.state:
                case "ready":
                    assert self._worker is not None
                    return self._worker
                case "unresponsive":
                    raise self._error("unresponsive", self.course.reason)
                case "starting":
                    pass
                case "idle" | "stopping" if self._settings.enabled and not self._gone:
                    self._call_it()
                case "crash_loop" if self.course.may_begin(called=True):
                    self._call_it()
                case state:
                    raise self._error("worker_exited", f"it does not run ({state}): {self.course.reason}")
            await self._changed.wait()

    def _call_it(self) -> None:
        if not self._called:
            self._called = True
            self._moved()

    def _turn(self) -> float:
        """The seconds until it may be restarted among all that crashed."""
        return self._shared.restarts.take(self.name, self.course.crashes, self._shared.clock.monotonic())

    async def _due(self) -> None:
        left = self.course.seconds_left if self.course.state == "backoff" else None
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._changed.wait()

    def _moved(self) -> None:
        """Tell whoever waits."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        state = None if self.ended.is_set() or (self._gone and not self.course.running) else self.course.state
        if state != self._counted:
            if self._counted == "backoff":
                self._shared.restarts.leave(self.name)
            if self._counted is not None:
                self._shared.states.labels(self._counted).dec()
            if state is not None:
                self._shared.states.labels(state).inc()
            self._counted = state

    def _error(self, code: Code, message: str) -> RpcError:
        return RpcError(code, f"extension `{self.name}`: {message}", extension=self.name)

    def _not_written(self, error: OSError) -> None:
        self._shared.log.warning("extension log not written", extension=self.name, reason=error.strerror)


def _folder(path: str, data: Path) -> str:
    """Where it is, without links. Raises: `ConfigInvalid`, where nothing is, or what is the server's own."""
    try:
        found, data = Path(path).expanduser().resolve(), data.resolve()
        if not found.is_dir():
            raise ConfigInvalid(f"`{path}` is no folder")
        next(found.iterdir(), None)  # it can be read
    except (OSError, RuntimeError, ValueError) as error:  # not to be read, no home folder, links in a circle, no path
        raise ConfigInvalid(f"`{path}` is no folder that the server can read: {error}") from None
    if found.is_relative_to(data) or data.is_relative_to(found):
        raise ConfigInvalid(f"`{path}` is, holds or lies in the server's data folder")
    return str(found)


def _code(path: str) -> frozenset[tuple[str, int, int]]:
    """The files of its folder, wherever that is now, with their sizes and times of change; what cannot be looked at is left out."""
    found: set[tuple[str, int, int]] = set()
    with suppress(OSError, RuntimeError, ValueError):
        for file in Path(path).expanduser().resolve().rglob("*.py"):
            with suppress(OSError):
                told = file.stat()
                found.add((str(file), told.st_size, told.st_mtime_ns))
    return frozenset(found)
