"""One running Trunkline: from an opened database to the last byte of the last reply."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TextIO

from sqlalchemy import Engine

from trunkline.access.connections import Connections, Happening
from trunkline.access.first_key import deliver
from trunkline.access.flows import Flows
from trunkline.access.key_sources import key_source
from trunkline.access.keys import Keys
from trunkline.access.purse import Purse
from trunkline.access.ring import KeyRing
from trunkline.access.vault import Vault
from trunkline.access.wallet import Wallet
from trunkline.app.compose import Ground, Plant, build, known_models, parts
from trunkline.app.config import Config, shared_server
from trunkline.app.database import open_store
from trunkline.app.folder import listening, sole_user
from trunkline.base.aio import Tasks, cancelled
from trunkline.base.clock import Clock, SystemClock
from trunkline.base.egress import Egress, EgressSettings
from trunkline.base.log import Logger
from trunkline.base.metrics import Registry
from trunkline.catalog.discovery import Board
from trunkline.catalog.evidence import EvidenceStore
from trunkline.catalog.known import Catalog
from trunkline.catalog.overrides import Overrides
from trunkline.errors import ListenFailed, ShuttingDown, Unauthenticated
from trunkline.gateway.health import Health
from trunkline.gateway.overriding import Overriding
from trunkline.gateway.recorder import Recorder
from trunkline.gateway.records import Records, keep_clean
from trunkline.gateway.told import Teller
from trunkline.host.broker import Broker, groups
from trunkline.host.methods.log import Lines
from trunkline.host.methods.network import Network
from trunkline.host.supervisor import Supervisor
from trunkline.model.credential import Owner
from trunkline.net.pins import pin_of
from trunkline.server import connect
from trunkline.server.asgi import Application
from trunkline.server.rest.pool import Pool
from trunkline.store.shared import Shared, open_shared
from trunkline.store.writer import Writer
from trunkline_sdk.daemon.tokenstore import Refresh
from trunkline_sdk.http1 import Client, tls_context
from trunkline_sdk.listen import Listener, ListenError, ListenLimits, Tls

FIXED = ("host", "port", "tls_cert", "tls_key", "insecure_http", "max_header_bytes", "header_seconds")
"""Settings of the listener, which a reload does not open anew."""

FIRST_LOOK = 2.0
"""Seconds that a configuration waits for its daemons before calls meet it; after them it is told of what is not there yet."""


class Installation:
    """The objects of one running Trunkline. Made by `installed`."""

    def __init__(
        self,
        *,
        engine: Engine,
        writer: Writer,
        log: Logger,
        clock: Clock,
        tasks: Tasks,
        ring: KeyRing,
        vault: Vault,
        wallet: Wallet,
        connections: Connections,
        shared: Shared,
        catalog: Catalog,
        http: Client,
        pool: Pool,
        data: Path,
    ) -> None:
        registry = Registry()
        self._egress = Egress(EgressSettings())
        tls = tls_context()
        broker = Broker(
            groups(), [Network(lambda address: self._egress.listed(address), tls=tls), Lines(log)], clock=clock, log=log, registry=registry
        )
        self.extensions = Supervisor(data=data, broker=broker, clock=clock, log=log, registry=registry)
        self._recorder = Recorder(writer.add, log=log, registry=registry)
        self._log = log
        self._tasks = tasks
        self._plants: list[Plant] = []  # the last one is in use, the others have requests in flight
        self._draining = False
        self._looking: list[asyncio.Task[None]] = []
        self._ground = Ground(
            clock=clock,
            log=log,
            ring=ring,
            vault=vault,
            wallet=wallet,
            connections=connections,
            purse=Purse(wallet, connections),
            flows=Flows(engine, vault, clock, pool.run),
            link=self.link,
            shared=shared,
            health=Health(clock),
            catalog=catalog,
            board=Board(),
            evidence=EvidenceStore(engine),
            registry=registry,
            teller=Teller(log, registry, lambda: sum(len(plant.exchanges) for plant in self._plants), note=self._recorder.note),
            http=http,
            tls=tls,
            tasks=tasks,
            ready=lambda: ring.readable and not self._draining,
            engine=engine,
            pool=pool,
            extensions=self.extensions,
        )
        self._application: Application | None = None
        self._listener: Listener | None = None

    @property
    def keep_days(self) -> float:
        """For how long rows of calls are kept."""
        return self._plants[-1].config.sections.exchanges.keep_days

    @property
    def urls(self) -> list[str]:
        """Where it listens."""
        return list(self._listener.urls) if self._listener else []

    def link(self, provider: str) -> str:
        """Where a person signs in to a provider."""
        return connect.link(self._plants[-1].config.sections.server.public_url or next(iter(self.urls), ""), provider)

    def refresher(self, provider: str) -> Refresh:
        """What renews a sign-in to a provider. Raises: `NotFound`."""
        return self._plants[-1].daemons.refresher(provider)

    async def keep_sign_ins_clean(self) -> None:
        """Delete sign-ins that have expired, again and again."""
        await self._ground.flows.keep_clean(self._failed)

    async def start(self, config: Config) -> None:
        """Listen. Raises: `ConfigInvalid`, `ListenFailed`."""
        plant = build(config, self._ground)
        self._plants.append(plant)
        await self._look(plant)
        self._recorder.keeps = self.keep_days > 0
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
        self._extend(config)

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
        await self._look(plant)
        self._recorder.keeps = self.keep_days > 0
        self._application.site = plant.site
        self._extend(config)
        self._tasks.start(self._retire(before), name="retire a configuration")
        new, old = config.sections, before.config.sections
        late = [f"server.{name}" for name in FIXED if getattr(new.server, name) != getattr(old.server, name)]
        late += [name for name in ("log", "store", "vault") if getattr(new, name) != getattr(old, name)]
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

    def end_calls_of(self, gone: Collection[str]) -> None:
        """End the calls in flight of keys and users that are not taken any more: streams by an error event, the others by an error."""
        cause = Unauthenticated("the key, or whom it calls for, is not taken any more", hint="Ask whoever runs this server for a new key.")
        for plant in self._plants:
            plant.exchanges.interrupt_of(gone, cause)

    async def aclose(self) -> None:
        """End what is left."""
        if self._listener is not None:
            await self._listener.aclose()
        for plant in self._plants:
            await plant.http.aclose()
            await plant.daemons.aclose()
            for server in plant.servers.values():
                await server.aclose()

    async def _look(self, plant: Plant) -> None:
        """Keep up with one configuration's daemons, and with what its providers list, and no longer with another's."""
        before, self._looking = self._looking, []
        await cancelled(*before)
        self._ground.board.ttl = plant.config.sections.catalog.ttl
        self._looking = [
            self._tasks.start(plant.daemons.run(self._failed), name="daemons"),
            self._tasks.start(plant.discovery.run(self._failed), name="discovery"),
        ]
        await plant.daemons.first_look(FIRST_LOOK)

    def _extend(self, config: Config) -> None:
        """Have the extensions of a configuration run, and no others."""
        self._egress = Egress(config.sections.egress)
        self.extensions.apply(config.sections.extensions)

    def _failed(self, task: str, error: BaseException) -> None:
        self._log.error("a background task failed", task=task, exc_info=error)

    async def _retire(self, plant: Plant) -> None:
        await plant.exchanges.idle()
        self._plants.remove(plant)
        await plant.http.aclose()
        await plant.daemons.aclose()
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
        engine = await asyncio.to_thread(open_store, data, config.sections.store)
        stack.callback(engine.dispose)
        if (first := await asyncio.to_thread(Keys(engine, clock).first_admin)) is not None:
            log.info("made the first admin key", where=deliver(first[1], data, terminal))

        def failed(task: str, error: BaseException) -> None:
            log.error("a background task failed", task=task, exc_info=error)

        tasks = await stack.enter_async_context(Tasks(failed))
        shared = await stack.enter_async_context(open_shared(shared_server(config.sections.store), clock, data=data, failed=failed))
        ring = KeyRing(engine, clock, failed=failed, bus=shared.bus)
        await stack.enter_async_context(ring.running())
        vault = Vault(engine, key_source(config.sections.vault, data))
        wallet = Wallet(engine, vault, clock, failed=failed, bus=shared.bus)
        await stack.enter_async_context(wallet.running())

        def refresher(provider: str) -> Refresh:
            return installation.refresher(provider)

        def link(provider: str) -> str:
            return installation.link(provider)

        connections = Connections(
            engine,
            vault,
            clock,
            shared.leases,
            refresher=refresher,
            link=link,
            failed=failed,
            told=partial(_told, log),
            bus=shared.bus,
        )
        http = await stack.enter_async_context(Client())
        catalog = await asyncio.to_thread(known_models)
        overriding = Overriding(overrides=Overrides(engine, clock), catalog=catalog, clock=clock, log=log, failed=failed)
        await overriding.refresh()
        tasks.start(overriding.run(), name="overrides: look for changes")
        pool = Pool()
        stack.push_async_callback(asyncio.to_thread, pool.close)
        writer = Writer(engine, failed=failed)
        stack.push_async_callback(asyncio.to_thread, writer.close)
        installation = Installation(
            engine=engine,
            writer=writer,
            log=log,
            clock=clock,
            tasks=tasks,
            ring=ring,
            vault=vault,
            wallet=wallet,
            connections=connections,
            shared=shared,
            catalog=catalog,
            http=http,
            pool=pool,
            data=data,
        )
        stack.push_async_callback(installation.aclose)
        await stack.enter_async_context(connections.running())  # it ends before what renewals go through
        ring.when_gone(installation.end_calls_of)
        await stack.enter_async_context(installation.extensions)  # they end before the server does
        await installation.start(config)
        tasks.start(installation.keep_sign_ins_clean(), name="sign-ins: delete old ones")
        tasks.start(keep_clean(Records(engine), clock, lambda: installation.keep_days, failed=failed), name="exchanges: delete old rows")
        cert = config.sections.server.tls_cert
        stack.enter_context(listening(data, installation.urls, pin_of(Path(cert)) if cert else ""))
        yield installation


def _told(log: Logger, what: Happening, provider: str, owner: Owner) -> None:
    """One line of the log for what became of a sign-in."""
    say = log.info if what == "renewed" else log.warning
    say(what, provider=provider, account=owner.account or None, user=owner.user or None)
