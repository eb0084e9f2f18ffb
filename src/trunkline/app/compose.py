"""The only place where objects meet."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlalchemy import Engine

from trunkline import dialects as dialects_package
from trunkline import surfaces as surfaces_package
from trunkline.access.accounts import Accounts
from trunkline.access.connecting import Connecting
from trunkline.access.connections import Connections
from trunkline.access.credentials import Credentials
from trunkline.access.flows import Flows
from trunkline.access.identity import Identity
from trunkline.access.keys import Keys
from trunkline.access.purse import Purse
from trunkline.access.ring import KeyRing
from trunkline.access.sign_ins import SignIns
from trunkline.access.users import Users
from trunkline.access.vault import Vault
from trunkline.access.wallet import Wallet
from trunkline.app.callables import Callables
from trunkline.app.config import Config, address, connect, shared_server
from trunkline.app.exposure import check_exposure, check_tls
from trunkline.app.launch import Launched
from trunkline.app.local import launched
from trunkline.app.resources import resources
from trunkline.base import members
from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.base.egress import Egress
from trunkline.base.log import Logger
from trunkline.base.metrics import Registry, render
from trunkline.catalog import cards, prices
from trunkline.catalog.discovery import Board
from trunkline.catalog.evidence import EvidenceStore
from trunkline.catalog.known import Catalog
from trunkline.catalog.overrides import Overrides
from trunkline.dialects import Dialect
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.gateway.choice import Choice
from trunkline.gateway.daemon_calls import DaemonCalls
from trunkline.gateway.daemon_client import check
from trunkline.gateway.daemon_models import DaemonModels
from trunkline.gateway.daemons import Daemons
from trunkline.gateway.discovery import Discovery, Lister
from trunkline.gateway.exchange import Exchanges
from trunkline.gateway.headers import Headers, first
from trunkline.gateway.health import Health
from trunkline.gateway.live import Live
from trunkline.gateway.pipeline import Pipeline
from trunkline.gateway.records import Records
from trunkline.gateway.router import Router
from trunkline.gateway.shown import Shown
from trunkline.gateway.told import Teller
from trunkline.gateway.upstream import Upstream
from trunkline.host.supervisor import Supervisor
from trunkline.net.decoding import BEYOND
from trunkline.net.dial import JudgingDial
from trunkline.providers import Provider
from trunkline.server import connect as connect_page
from trunkline.server import pages
from trunkline.server.admin.providers import Upstreams
from trunkline.server.admin.routes import Routing
from trunkline.server.asgi import Page, Site
from trunkline.server.cors import Cors
from trunkline.server.proxies import Proxies
from trunkline.server.rest.api import Api
from trunkline.server.rest.pool import Pool
from trunkline.store.engine import file_of
from trunkline.store.shared import Shared
from trunkline.surfaces import Listing, Surface
from trunkline_sdk import http1


def surfaces() -> dict[str, Surface]:
    """Every surface, by its name."""
    return members.load(surfaces_package, "SURFACE", Surface)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What outlives a reload.

    Attributes:
        clock: the time.
        log: the log.
        ring: the keys.
        vault: what is encrypted in it.
        wallet: the stored credentials.
        connections: people's sign-ins.
        purse: what a call may go out with: both.
        flows: those that have begun.
        link: where a person signs in to a provider, by its name.
        shared: counters, messages and leases that several processes may share.
        health: what is known of targets.
        catalog: what is known of models.
        board: what providers list.
        evidence: keeps that.
        registry: the metrics.
        teller: tells of each exchange.
        http: connections to our own children, whose addresses need no judging.
        tls: the trusted roots, read once.
        tasks: the parent of what runs beside requests.
        ready: whether calls are welcome, for `/readyz`.
        engine: the database.
        pool: the threads that ask it for the admin API.
        extensions: keeps them running.
    """

    clock: Clock
    log: Logger
    ring: KeyRing
    vault: Vault
    wallet: Wallet
    connections: Connections
    purse: Purse
    flows: Flows
    link: Callable[[str], str]
    shared: Shared
    health: Health
    catalog: Catalog
    board: Board
    evidence: EvidenceStore
    registry: Registry
    teller: Teller
    http: http1.Client
    tls: ssl.SSLContext
    tasks: Tasks
    ready: Callable[[], bool]
    engine: Engine
    pool: Pool
    extensions: Supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """What one configuration makes. A reload makes another, and this one ends when its last request has.

    Attributes:
        config: what it was made from.
        site: what requests meet.
        exchanges: its requests in flight.
        http: its connections to providers.
        servers: the model servers that it runs, by provider.
        daemons: keeps up with what its daemons serve.
        discovery: keeps up with what its providers list.
    """

    config: Config
    site: Site
    exchanges: Exchanges
    http: http1.Client
    servers: dict[str, Launched]
    daemons: Daemons
    discovery: Discovery


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a configuration means, before anything runs.

    Attributes:
        providers: by name; what daemons serve comes in once they have been reached.
    """

    providers: Live
    router: Router
    egress: Egress
    cors: Cors
    proxies: Proxies


def known_models() -> Catalog:
    """What the files of this version know. They are read once; the first time takes some milliseconds."""
    return Catalog(prices.shipped(), cards.shipped())


def parts(config: Config, catalog: Catalog | None = None) -> Parts:
    """The parts that a configuration describes.

    Args:
        config: read and checked.
        catalog: what is known of models; without one, what the files of this version know.

    Raises:
        ConfigInvalid: one of them cannot be made; nothing else is wrong with it that could be known before it is used.
    """
    server = config.sections.server
    check_exposure(server)
    check_tls(server)
    if config.sections.store.url is not None:
        file_of(address(config.sections.store.url, "store.url").reveal())
    shared_server(config.sections.store)
    catalog = catalog or known_models()
    providers = Live({name: replace(provider, known=catalog.of(provider.source)) for name, provider in connect(config).items()})
    for provider in providers.values():
        if provider.kind.daemon:
            check(provider)
    return Parts(
        providers=providers,
        router=Router(providers=providers, routes=config.sections.routes, discovered=catalog),
        egress=Egress(config.sections.egress),
        cors=Cors(server.cors_origins),
        proxies=Proxies(server.trusted_proxies),
    )


def build(config: Config, ground: Ground, *, before: Plant | None = None) -> Plant:
    """Everything that a configuration describes.

    Args:
        config: read and checked.
        ground: what outlives it.
        before: the plant that it replaces, whose model servers go on where their settings did not change.

    Raises:
        ConfigInvalid: a part of it cannot be made.
    """
    made = parts(config, ground.catalog)
    daemons = Daemons(
        providers=made.providers,
        known=ground.catalog.of,
        egress=made.egress,
        tls=ground.tls,
        clock=ground.clock,
        log=ground.log,
        before=None if before is None else before.daemons,
    )
    exchanges = Exchanges()
    http = http1.Client(dial=JudgingDial(made.egress), decoders=BEYOND, tls=ground.tls)
    servers = {name: _server(provider, ground, before) for name, provider in made.providers.items() if provider.kind.launched}
    access = Identity(ground.ring, config.sections.accounts)
    choice = Choice(wallet=ground.purse, providers=made.providers, rest=ground.health.rest_of, link=ground.link)
    pipeline = Pipeline(
        access=access,
        router=made.router,
        upstream=Upstream(http=http, servers=servers, daemons=DaemonCalls(daemons.client, ground.connections), clock=ground.clock),
        choice=choice,
        health=ground.health,
        exchanges=exchanges,
        clock=ground.clock,
        told=ground.teller.tell,
        crashed=ground.teller.crashed,
    )
    tables = surfaces().values()
    shown = Shown(router=made.router, catalog=ground.catalog, clock=ground.clock)
    site = Site(
        pipeline=pipeline,
        access=access,
        endpoints={endpoint.path: endpoint for surface in tables for endpoint in surface.endpoints},
        follow_ups=[each for surface in tables for each in surface.follow_ups],
        pages=_pages(ground, shown, [listing for surface in tables for listing in surface.listings]),
        dialect_of=dialect_of,
        cors=made.cors,
        proxies=made.proxies,
        max_body=config.sections.server.max_body_bytes,
        api=Api(
            resources=resources(),
            services={type(each): each for each in services(config, made, ground, daemons)},
            access=access,
            pool=ground.pool,
            clock=ground.clock,
            crashed=ground.teller.crashed,
            most_body=config.sections.server.max_body_bytes,
            open_documents=config.sections.server.open_docs,
        ),
    )
    discovery = Discovery(
        providers=made.providers,
        wanted=lambda provider: provider.served is not None or config.sections.catalog.discover,
        credentials=choice.ids,
        lister=Lister(
            http=http,
            servers=servers,
            behind=DaemonModels(client=daemons.client, credential=choice.own, tokens=ground.connections),
            credential=choice.own,
            clock=ground.clock,
        ),
        board=ground.board,
        store=ground.evidence,
        catalog=ground.catalog,
        clock=ground.clock,
        log=ground.log,
    )

    def served_changed() -> None:
        made.router.providers_changed()
        ground.catalog.providers_changed()
        discovery.glance()

    daemons.when_changed(served_changed)
    served_changed()  # what the daemons of the configuration before served
    return Plant(
        config=config,
        site=site,
        exchanges=exchanges,
        http=http,
        servers=servers,
        daemons=daemons,
        discovery=discovery,
    )


def services(config: Config, made: Parts, ground: Ground, daemons: Daemons) -> list[object]:
    """What the resources of the admin API are given; each finds its own by the class."""
    return [
        Upstreams(made.providers, ground.health, lambda provider: bool(ground.purse.of(provider)), daemons.states),
        Credentials(ground.engine, ground.vault, ground.clock, providers=lambda: Callables(config), changed=ground.wallet.changed),
        Accounts(ground.engine, ground.clock, changed=ground.ring.changed),
        Users(ground.engine, ground.clock, changed=ground.ring.changed),
        Keys(ground.engine, ground.clock, changed=ground.ring.changed),
        Routing(config.sections.routes, made.router, ground.health, members.load(dialects_package, "DIALECT", Dialect)),
        Records(ground.engine),
        Overrides(ground.engine, ground.clock),
        SignIns(flows=ground.flows, daemons=daemons, keep=ground.connections.save, clock=ground.clock, log=ground.log),
        Connecting(ground.connections, daemons, ground.log),
        ground.extensions,
    ]


def dialect_of(path: str, headers: Headers) -> Dialect:
    """The dialect in which a caller expects errors of paths that are no calls: only Anthropic's SDKs send a version."""
    ours = path.startswith("/v1/messages") or first(headers, b"anthropic-version") is not None
    return ANTHROPIC if ours else OPENAI_CHAT


def _pages(ground: Ground, shown: Shown, listings: list[Listing]) -> dict[str, Page]:
    found = {
        "/healthz": pages.health(),
        "/readyz": pages.readiness(ground.ready),
        "/metrics": pages.metrics(lambda: render(ground.registry)),
        connect_page.PATH: connect_page.page(),
    }
    for listing in listings:
        found.update(pages.listing(shown.models, listing))
    return found


def _server(provider: Provider, ground: Ground, before: Plant | None) -> Launched:
    if before is not None and before.config.providers.get(provider.name) == provider.settings:
        return before.servers[provider.name]
    return launched(provider, http=ground.http, tasks=ground.tasks, clock=ground.clock, log=ground.log)
