"""All extensions of the operator's file: each is kept by itself, so that none waits for another.

async with Supervisor(…) as extensions:
    extensions.apply(settings)                      # and again, whenever they changed
    await extensions.call("weather", "forecast", {…}, user="usr_…", seconds=30)
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.base.codec import Raw
from trunkline.base.log import Logger
from trunkline.base.metrics import Gauge, Registry, Tally
from trunkline.errors import NotFound
from trunkline.host.broker import Broker
from trunkline.host.course import Pace
from trunkline.host.keeper import Keeper, Shared, Shown
from trunkline.host.machine import Machine
from trunkline.host.pulse import Pulse
from trunkline.host.rates import Queue, Rate
from trunkline.host.settings import ExtensionSettings
from trunkline.host.worker import Patience, Surroundings

STARTS = 4
"""That may be under way at once."""
RESTARTS = Rate(per_second=20 / 60, burst=20)
"""Of all extensions together, by themselves; who crashed less is first."""
PATIENCE, PACE = Patience(), Pace()


class Supervisor:
    """Keeps extensions running. As `async with`: at the end nothing of them is left.

    Args:
        data: the server's data folder; what extensions print goes below it.
        chance: a number from 0 to 1, each time another.
        patience, pace: the times.
    """

    def __init__(
        self,
        *,
        data: Path,
        broker: Broker,
        clock: Clock,
        log: Logger,
        registry: Registry,
        patience: Patience = PATIENCE,
        pace: Pace = PACE,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._log = log
        self._keepers: dict[str, Keeper] = {}
        self._tasks = Tasks(self._failed)
        self._machine = Machine(log, clock, self._failed)
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="extension logs")
        self._pulse = Pulse(clock)
        self._beats = False
        self._shared = Shared(
            around=Surroundings(
                launch=self._machine.launch,
                broker=broker,
                clock=clock,
                pulse=self._pulse,
                patience=patience,
                turns=asyncio.Semaphore(STARTS),
                failed=self._failed,
            ),
            machine=self._machine,
            data=data / "extensions",
            threads=self._threads,
            clock=clock,
            log=log,
            pace=pace,
            chance=chance,
            restarts=Queue(RESTARTS, clock.monotonic()),
            ends=Tally(
                "trunkline_extension_worker_ends", "Workers of extensions that have ended.", ("extension", "cause"), registry=registry
            ),
            states=Gauge("trunkline_extensions", "Extensions by their state.", ("state",), registry=registry),
        )

    async def __aenter__(self) -> Self:
        await self._machine.__aenter__()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            async with self._machine, self._tasks:
                self.apply({})
                while self._keepers:
                    await next(iter(self._keepers.values())).ended.wait()
        finally:
            self._threads.shutdown()

    def apply(self, settings: Mapping[str, ExtensionSettings]) -> None:
        """Have these run, as they are set, and no others. What had failed is tried again. Returns at once."""
        if settings and not self._beats:
            self._beats = True
            self._tasks.start(self._pulse.run(), name="extensions: keep time")
        for name, keeper in self._keepers.items():
            if name not in settings:
                keeper.change(None)
        for name, each in settings.items():
            found = self._keepers.get(name)
            if found is not None:
                found.change(each)
            else:
                keeper = self._keepers[name] = Keeper(name, each, self._shared)
                self._tasks.start(self._keep(name, keeper), name=f"extension {name}")

    async def call(self, extension: str, name: str, params: object = None, *, user: str | None, seconds: float) -> Raw:
        """Call what an extension has registered; one that rests is started for it.

        Raises:
            NotFound: there is no such extension.
            RpcError: there is no result.
        """
        return await self._keeper(extension).call(name, params, user=user, seconds=seconds)

    def shown(self) -> list[Shown]:
        """How it stands with each, by name."""
        return [self._keepers[name].shown() for name in sorted(self._keepers)]

    def one(self, extension: str) -> Shown:
        """How it stands with one. Raises: `NotFound`."""
        return self._keeper(extension).shown()

    def _keeper(self, name: str) -> Keeper:
        if name not in self._keepers:
            raise NotFound(f"there is no extension `{name}`", hint="`GET /api/v1/extensions` lists them.")
        return self._keepers[name]

    async def _keep(self, name: str, keeper: Keeper) -> None:
        try:
            await keeper.run()
        finally:
            del self._keepers[name]

    def _failed(self, task: str, error: BaseException) -> None:
        self._log.error("a background task failed", task=task, exc_info=error)
