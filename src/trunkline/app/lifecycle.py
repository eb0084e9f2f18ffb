"""One running Trunkline: from an opened database to the last byte of the last reply."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TextIO

from sqlalchemy import Engine

from trunkline.access.first_key import deliver
from trunkline.access.keys import Keys
from trunkline.access.ring import KeyRing
from trunkline.app.compose import Ground, Plant, build, parts
from trunkline.app.config import Config
from trunkline.app.folder import sole_user
from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock, SystemClock
from trunkline.base.log import Logger
from trunkline.base.metrics import Registry
from trunkline.errors import ListenFailed, ShuttingDown
from trunkline.gateway.health import Health
from trunkline.gateway.told import Teller
from trunkline.server.asgi import Application
from trunkline.store.engine import open_engine, sqlite_url
from trunkline.store.schema import migrate
from trunkline_sdk import http1
from trunkline_sdk.listen import Listener, ListenError, ListenLimits, Tls

FIXED = ("host", "port", "tls_cert", "tls_key", "insecure_http", "max_header_bytes", "header_seconds")
"""Settings of the listener, which a reload does not open anew."""


class Installation:
    """The objects of one running Trunkline. Made by `installed`."""

    def __init__(self, *, engine: Engine, log: Logger, clock: Clock, tasks: Tasks, ring: KeyRing, http: http1.Client) -> None:
        registry = Registry()
        self._engine = engine
        self._log = log
        self._tasks = tasks
        self._plants: list[Plant] = []  # the last one is in use, the others have requests in flight
        self._draining = False
        self._ground = Ground(
            clock=clock,
            log=log,
            ring=ring,
            health=Health(clock),
            registry=registry,
            teller=Teller(log, registry, lambda: sum(len(plant.exchanges) for plant in self._plants)),
            http=http,
            tls=http1.tls_context(),
            tasks=tasks,
            ready=lambda: ring.readable and not self._draining,
        )
        self._application: Application | None = None
        self._listener: Listener | None = None

    @property
    def urls(self) -> list[str]:
        """Where it listens."""
        return list(self._listener.urls) if self._listener else []

    async def start(self, config: Config) -> None:
        """Listen. Raises: `ConfigInvalid`, `ListenFailed`."""
        plant = build(config, self._ground)
        self._plants.append(plant)
        self._application = Application(plant.site, self._ground.clock, self._ground.teller.crashed)
        settings = config.sections.server
        self._listener = Listener(
            self._application,
            host=settings.host,
            port=settings.port,
            tls=Tls(Path(settings.tls_cert), Path(settings.tls_key)) if settings.tls_cert and settings.tls_key else None,
            limits=ListenLimits(head_bytes=settings.max_header_bytes, head_seconds=settings.header_seconds),
        )
        try:
            await self._listener.start()
        except ListenError as error:
            raise ListenFailed(str(error), hint="Choose another `--port`, or stop what listens there.") from None

    async def reload(self, load: Callable[[], Config]) -> None:
        """Take a new configuration for new requests; those in flight end with the old one.

        Raises:
            ConfigInvalid: it cannot be used, and nothing has changed.
        """
        assert self._application is not None
        before = self._plants[-1]
        config = await asyncio.to_thread(load)
        plant = build(config, self._ground, before=before)
        self._plants.append(plant)
        self._application.site = plant.site
        self._tasks.start(self._retire(before), name="retire a configuration")
        new, old = config.sections, before.config.sections
        late = [f"server.{name}" for name in FIXED if getattr(new.server, name) != getattr(old.server, name)]
        late += ["log"] if new.log != old.log else []
        self._log.info("took a new configuration", after_restart=late)

    async def drain(self) -> None:
        """Take no more connections, let calls in flight go on for a while, then end them as `end_calls` does."""
        assert self._listener is not None
        self._draining = True
        seconds = self._plants[-1].config.sections.server.drain_seconds
        self._log.info("stopping", seconds=seconds)
        await self._listener.drain(seconds, ending=self.end_calls)

    def end_calls(self) -> None:
        """End all calls in flight now: streams by an error event, the others by an error."""
        cause = ShuttingDown("the server is being stopped", hint="Ask again in a moment.")
        for plant in self._plants:
            plant.exchanges.interrupt(cause)

    async def aclose(self) -> None:
        """End what is left."""
        if self._listener is not None:
            await self._listener.aclose()
        for plant in self._plants:
            await plant.http.aclose()
            for server in plant.servers.values():
                await server.aclose()

    async def _retire(self, plant: Plant) -> None:
        await plant.exchanges.idle()
        self._plants.remove(plant)
        await plant.http.aclose()
        kept = {id(server) for other in self._plants for server in other.servers.values()}
        for server in plant.servers.values():
            if id(server) not in kept:
                await server.aclose()


@asynccontextmanager
async def installed(
    config: Config, data: Path, log: Logger, *, terminal: TextIO | None = None, clock: Clock | None = None
) -> AsyncGenerator[Installation]:
    """A Trunkline that listens while the block runs.

    Args:
        config: read and checked.
        data: its data folder, which it has for itself.
        log: the log.
        terminal: where a first admin key may be shown, if that is a terminal.
        clock: the time.

    Raises:
        ConfigInvalid: the configuration cannot be used.
        Conflict: another Trunkline has the data folder.
        StoreUnavailable: the data folder or the database cannot be used. `MigrationNeeded`: it is newer than this version.
        ListenFailed: the address is taken, or not ours.
    """
    clock = clock or SystemClock()
    parts(config)  # before anything is made
    async with AsyncExitStack() as stack:
        stack.enter_context(sole_user(data))
        engine = await asyncio.to_thread(open_store, data)
        stack.callback(engine.dispose)
        if (first := await asyncio.to_thread(Keys(engine, clock).first_admin)) is not None:
            log.info("made the first admin key", where=deliver(first[1], data, terminal))

        def failed(task: str, error: BaseException) -> None:
            log.error("a background task failed", task=task, exc_info=error)

        tasks = await stack.enter_async_context(Tasks(failed))
        ring = KeyRing(engine, clock, failed=failed)
        await stack.enter_async_context(ring.running())
        http = await stack.enter_async_context(http1.Client())
        installation = Installation(engine=engine, log=log, clock=clock, tasks=tasks, ring=ring, http=http)
        stack.push_async_callback(installation.aclose)
        await installation.start(config)
        yield installation


def open_store(data: Path) -> Engine:
    """The data folder's database, at this version's schema. Raises: `StoreUnavailable`, `MigrationNeeded`."""
    engine = open_engine(sqlite_url(data))
    try:
        migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine
