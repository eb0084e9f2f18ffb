"""One worker's life, from its launch until nothing is left of it.

    launch → hello → activate → [ ping, lag, memory ]* → stop: deactivate → SIGTERM → SIGKILL → reaped

Whatever ends it, its calls in flight fail at once, everything that it started is killed, and `run` returns when it is reaped.
"""

import asyncio
import math
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.base.codec import Malformed, Raw, Wire, decode_raw
from trunkline.errors import LaunchFailed, SandboxTooWeak
from trunkline.host.broker import Broker
from trunkline.host.grants import Grants
from trunkline.host.output import Output, Pipe
from trunkline.host.pulse import Pulse
from trunkline.host.rates import Bucket, Rate
from trunkline.host.sandbox import memory
from trunkline.host.sandbox.launch import Launched, Program
from trunkline.host.sandbox.policy import Policy
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.rpc.peer import Peer

Cause = Literal["asked", "exited", "killed", "memory", "processes", "cpu", "unresponsive", "activation", "config", "launch"]

DUMP_SECONDS = 0.3
"""That a worker has to write its stacks before it is killed."""
HANGUP_SECONDS = 1.0
"""In which a worker that closed its connection has to end."""
LAGS = Rate(per_second=2, burst=10)
"""Of what it tells of its loop; more is passed over."""
DRAIN_SECONDS = 0.5
"""In which what it printed last may still arrive."""
CPU_STATUS = 128 + 24
"""The exit status of one whom SIGXCPU ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long is waited for a worker, in seconds. Source of the numbers: the extension host's design, section 4.

    Attributes:
        activation: from its launch until it is ready.
        ping: between two pings, and for the answer of each.
        missed: so many pings without an answer are too many.
        lag: that its loop may not turn before it counts as unresponsive.
        stuck: that its loop may not turn at all.
        deactivate: for its own end.
        terminate: after SIGTERM.
        idle: without a call before it is stopped; 0: never.
    """

    activation: float = 10.0
    ping: float = 10.0
    missed: int = 3
    lag: float = 5.0
    stuck: float = 60.0
    deactivate: float = 5.0
    terminate: float = 2.0
    idle: float = 600.0


class End(NamedTuple):
    """How it ended.

    Attributes:
        reason: in words.
        again: whether another one may fare better.
    """

    cause: Cause
    reason: str
    again: bool = True


class Watcher(Protocol):
    """Told of what becomes of it."""

    def activated(self, worker: "Worker") -> None:
        """It is ready."""
        ...

    def silent(self, reason: str) -> None:
        """It does not answer, or its loop does not turn."""
        ...

    def well(self) -> None:
        """It answers again."""
        ...

    def unused(self) -> None:
        """Nobody has called it for as long as it may be idle."""
        ...


class _Lag(Wire, frozen=True):
    lag: float = 0.0


class _Late(Wire, frozen=True):
    seconds: float


class _Registered(Wire, frozen=True):
    registered: tuple[str, ...] = ()


Launch = Callable[[Policy, Program, int], Awaitable[Launched]]
"""Starts a process with a descriptor for its stdout and stderr. Raises: `SandboxTooWeak`, `LaunchFailed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every worker has around it.

    Attributes:
        launch: starts a process.
        turns: how many may be started at once.
        failed: told of faults of the host.
    """

    launch: Launch
    broker: Broker
    clock: Clock
    pulse: Pulse
    patience: Patience
    turns: asyncio.Semaphore
    failed: Callable[[str, BaseException], None]


class Worker:
    """One of them.

    Attributes:
        name: the extension's.
        policy: its sandbox's.
        launched: its process, once there is one.
        registered: what can be called of it, once it is ready.
    """

    def __init__(
        self, name: str, *, policy: Policy, program: Program, grants: Grants, output: Output, around: Surroundings, watcher: Watcher
    ) -> None:
        self.name = name
        self.launched: Launched | None = None
        self.registered: tuple[str, ...] = ()
        self.policy = policy
        self._program = program
        self._output = output
        self._around = around
        self._watcher = watcher
        self._line = around.broker.handler(self, grants)
        self._stop = asyncio.Event()
        self._end: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._greeted = asyncio.Event()
        self._ready = False
        self._quiet = False
        self._tasks = Tasks(around.failed)
        self._words = Bucket(LAGS, around.clock.monotonic())
        self._downed = False
        self._calls = 0
        self._used = around.clock.monotonic()

    def stop(self) -> None:
        """Have it end, in good order."""
        self._stop.set()

    def beside(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Do something for as long as it lives."""
        self._tasks.start(coroutine, name=f"beside the worker of {self.name}")

    async def call(self, name: str, params: object, *, user: str | None, seconds: float) -> Raw:
        """Call what it has registered. Raises: `RpcError`."""
        self._calls += 1
        try:
            return await self._line.call(name, params, user=user, seconds=seconds)
        finally:
            self._calls -= 1
            self._used = self._around.clock.monotonic()

    # ------------------------------------------------------------------------------------------------ its life
    async def run(self) -> End:
        """Live. When this returns, or is cancelled, nothing is left of it."""
        pipe, transport, theirs = await Pipe.open(self._output)
        with ExitStack() as given:
            given.callback(os.close, theirs)
            try:
                return await self._live(theirs, given)
            finally:
                given.close()
                await pipe.drained(DRAIN_SECONDS)
                transport.close()

    async def _live(self, theirs: int, given: ExitStack) -> End:
        async with AsyncExitStack() as stack:
            async with self._around.turns:  # until it greets, which is before its code runs: that holds up no other
                if self._stop.is_set():
                    return End("asked", "")
                try:
                    launched = self.launched = await self._around.launch(self.policy, self._program, theirs)
                except SandboxTooWeak as error:
                    return End("config", str(error), again=False)
                except LaunchFailed as error:
                    return End("launch", str(error))
                given.close()
                stack.push_async_callback(_bury, launched)
                line = await stack.enter_async_context(self._line)
                channel = line.open(Peer("host"), heard=self._heard)
                await asyncio.get_running_loop().connect_accepted_socket(lambda: channel, launched.sock)
                await stack.enter_async_context(self._tasks)
                for what, watch in {
                    "exit": self._until_reaped(launched),
                    "memory": self._until_too_large(launched),
                    "connection": self._until_hung_up(),
                    "stop": self._until_stopped(launched),
                    "activation": self._until_too_late(),
                    "life": self._active(),
                }.items():
                    self._tasks.start(watch, name=f"worker of {self.name}: {what}")
                await self._greeted.wait()
            end = await self._end
            return End("asked", "") if self._stop.is_set() else end

    async def _active(self) -> None:
        try:
            if not await self._welcomed():
                return
            answer = await self._line.channel.call("activate", {})
        except RpcError as error:
            if not self._line.channel.closed:  # else how it ended is told by whoever reaps it
                again = error.code != "failed" or error.retryable
                self._finish(End("activation" if again else "config", error.message, again=again))
            return
        with suppress(*Malformed):
            self.registered = decode_raw(answer, _Registered).registered
        self._ready = True
        self._used = self._around.clock.monotonic()
        self._watcher.activated(self)
        await self._keep_asking()

    async def _welcomed(self) -> bool:
        hello = await self._line.channel.greeted()
        self._greeted.set()
        try:
            self._line.channel.welcome(hello)
        except RpcError as error:
            if not self._line.channel.closed:  # else how it ended is told by whoever reaps it
                self._finish(End("config", error.message, again=False))
            return False
        return True

    async def _keep_asking(self) -> None:
        clock, patience = self._around.clock, self._around.patience
        missed = 0
        while True:
            if not missed:
                await clock.sleep(patience.ping)
            sent = clock.monotonic()
            try:
                said = decode_raw(await self._line.channel.call("ping", seconds=patience.ping, urgent=True), _Lag)
            except (RpcError, *Malformed):
                if self._line.channel.closed:
                    return
                if not self._around.pulse.steady(sent):
                    continue  # it may have answered, and the host did not listen
                missed += 1
                self._silent("it does not answer pings")
                if missed >= patience.missed:
                    await self._put_down(End("unresponsive", f"it did not answer {missed} pings"))
                    return
            else:
                missed = 0
                self._lags(said.lag)
                self._look_whether_it_is_used()

    def _look_whether_it_is_used(self) -> None:
        idle = self._around.patience.idle
        unused = self._around.clock.monotonic() - self._used
        if idle and unused >= idle and not self._calls and not self._line.channel.busy:
            self._watcher.unused()

    # ------------------------------------------------------------------------------------------------ what ends it
    async def _until_too_late(self) -> None:
        clock, patience = self._around.clock, self._around.patience
        since = clock.monotonic()
        await clock.sleep(patience.activation)
        if not self._ready and not self._around.pulse.steady(since):
            await clock.sleep(patience.activation)  # it may have said so, and the host did not listen
        if not self._ready:
            await self._put_down(End("activation", f"it was not ready within {patience.activation:g} s"))

    async def _until_reaped(self, launched: Launched) -> None:
        status = await launched.wait()
        self._finish(ending(status))

    async def _until_too_large(self, launched: Launched) -> None:
        limits = self.policy.limits
        held = await memory.exceeded(launched, memory=limits.memory, threads=limits.processes)
        if held.memory > limits.memory:
            self._finish(End("memory", f"it held {held.memory >> 20} MiB of memory, and {limits.memory >> 20} MiB are the most"))
        else:
            self._finish(End("processes", f"it had {held.threads} processes and threads, and {limits.processes} are the most"))

    async def _until_hung_up(self) -> None:
        why = await self._line.channel.wait_closed()
        await self._around.clock.sleep(HANGUP_SECONDS)  # whoever ends by itself tells more by its status
        self._finish(End("exited", f"it closed its connection{f': {why}' if why else ''}"))

    async def _until_stopped(self, launched: Launched) -> None:
        patience = self._around.patience
        await self._stop.wait()
        if self._ready:
            with suppress(RpcError, TimeoutError):
                async with asyncio.timeout(patience.deactivate):
                    with suppress(RpcError):  # it may fail, and end all the same
                        await self._line.channel.call("deactivate", seconds=patience.deactivate)
                    await launched.wait()
        launched.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience.terminate):
                await launched.wait()
        self._finish(End("asked", ""))

    async def _put_down(self, end: End) -> None:
        """End one that is stuck, once its stacks are in its log."""
        launched = self.launched
        if launched is not None and launched.alive and self._greeted.is_set():
            with suppress(ProcessLookupError):
                os.kill(launched.pid, signal.SIGUSR1)  # written by the interpreter's own handler: no code of the extension's has to run
            await self._around.clock.sleep(DUMP_SECONDS)
        self._finish(end)

    def _finish(self, end: End) -> None:
        if not self._end.done():
            self._end.set_result(end)
            self._greeted.set()  # nobody waits for that any more

    # ------------------------------------------------------------------------------------------------ what it tells
    def _heard(self, method: str, params: Raw) -> None:
        if method == "lag" and not self._words.take(self._around.clock.monotonic()):
            with suppress(*Malformed):
                self._lags(decode_raw(params, _Late).seconds)

    def _lags(self, seconds: float) -> None:
        patience, pulse = self._around.patience, self._around.pulse
        if not self._ready or not math.isfinite(seconds):
            return
        if seconds <= patience.lag:
            if self._quiet:
                self._quiet = False
                self._watcher.well()
            return
        self._silent(f"its loop has not turned for {seconds:.0f} s")
        if seconds >= patience.stuck and not self._downed and pulse.steady(self._around.clock.monotonic() - patience.lag):
            self._downed = True
            self._tasks.start(self._put_down(End("unresponsive", f"its loop did not turn for {seconds:.0f} s")), name=f"end {self.name}")

    def _silent(self, reason: str) -> None:
        if not self._quiet:
            self._quiet = True
            self._watcher.silent(reason)
            self._tasks.start(self._show_stacks(), name=f"stacks of {self.name}")

    async def _show_stacks(self) -> None:
        with suppress(RpcError):
            await self._line.channel.call("dump", seconds=self._around.patience.ping, urgent=True)


def ending(status: int) -> End:
    """What an exit status says of whoever was not asked to end."""
    match status:
        case 0:
            return End("exited", "it ended by itself")
        case 78:  # EX_CONFIG of sysexits.h
            return End("config", "it ended with status 78, which says that it would fail again", again=False)
        case _ if status == CPU_STATUS:
            return End("cpu", "it used up its processor time")
        case _ if status - 128 in signal.valid_signals():  # it may have made up the status, too
            return End("killed", f"it was ended by {signal.strsignal(status - 128) or status - 128}")
        case _:
            return End("exited", f"it ended with status {status}")


async def _bury(launched: Launched) -> None:
    launched.kill()
    await launched.wait()
