"""The only place where objects meet."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from trunkline import surfaces as surfaces_package
from trunkline.access.identity import Identity
from trunkline.access.ring import KeyRing
from trunkline.app.config import Config, connect
from trunkline.app.exposure import check_exposure, check_tls
from trunkline.app.launch import Launched
from trunkline.app.weights import find
from trunkline.base import members
from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.base.egress import Egress
from trunkline.base.log import Logger
from trunkline.base.metrics import Registry, render
from trunkline.base.process import Command
from trunkline.base.secret import Secret
from trunkline.dialects import Dialect
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.errors import ConfigInvalid
from trunkline.gateway.exchange import Exchanges
from trunkline.gateway.headers import Headers, first
from trunkline.gateway.health import Health
from trunkline.gateway.pipeline import Pipeline
from trunkline.gateway.router import Router
from trunkline.gateway.told import Teller
from trunkline.gateway.upstream import Address, Upstream
from trunkline.net.decoding import BEYOND
from trunkline.net.dial import JudgingDial
from trunkline.providers import Provider
from trunkline.providers._local_server import Settings as ServerProgram
from trunkline.providers._local_server import command
from trunkline.providers.local import LocalSettings
from trunkline.server import pages
from trunkline.server.asgi import Page, Site
from trunkline.server.cors import Cors
from trunkline.server.proxies import Proxies
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
        health: what is known of targets.
        registry: the metrics.
        teller: tells of each exchange.
        http: connections to our own children, whose addresses need no judging.
        tls: the trusted roots, read once.
        tasks: the parent of what runs beside requests.
        ready: whether calls are welcome, for `/readyz`.
    """

    clock: Clock
    log: Logger
    ring: KeyRing
    health: Health
    registry: Registry
    teller: Teller
    http: http1.Client
    tls: ssl.SSLContext
    tasks: Tasks
    ready: Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """What one configuration makes. A reload makes another, and this one ends when its last request has.

    Attributes:
        config: what it was made from.
        site: what requests meet.
        exchanges: its requests in flight.
        http: its connections to providers.
        servers: the model servers that it runs, by provider.
    """

    config: Config
    site: Site
    exchanges: Exchanges
    http: http1.Client
    servers: dict[str, Launched]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a configuration means, before anything runs."""

    providers: dict[str, Provider]
    router: Router
    egress: Egress
    cors: Cors
    proxies: Proxies


def parts(config: Config) -> Parts:
    """The parts that a configuration describes.

    Raises:
        ConfigInvalid: one of them cannot be made; nothing else is wrong with it that could be known before it is used.
    """
    server = config.sections.server
    check_exposure(server)
    check_tls(server)
    providers = connect(config)
    return Parts(
        providers=providers,
        router=Router(providers=providers, routes=config.sections.routes),
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
    made = parts(config)
    exchanges = Exchanges()
    http = http1.Client(dial=JudgingDial(made.egress), decoders=BEYOND, tls=ground.tls)
    servers = {name: _server(provider, ground, before) for name, provider in made.providers.items() if provider.kind.launched}
    access = Identity(ground.ring)
    pipeline = Pipeline(
        access=access,
        router=made.router,
        upstream=Upstream(http=http, servers=servers, clock=ground.clock),
        health=ground.health,
        exchanges=exchanges,
        clock=ground.clock,
        told=ground.teller.tell,
        crashed=ground.teller.crashed,
    )
    tables = surfaces().values()
    site = Site(
        pipeline=pipeline,
        access=access,
        endpoints={endpoint.path: endpoint for surface in tables for endpoint in surface.endpoints},
        follow_ups=[each for surface in tables for each in surface.follow_ups],
        pages=_pages(ground, made.router, [listing for surface in tables for listing in surface.listings]),
        dialect_of=dialect_of,
        cors=made.cors,
        proxies=made.proxies,
        max_body=config.sections.server.max_body_bytes,
    )
    return Plant(config=config, site=site, exchanges=exchanges, http=http, servers=servers)


def dialect_of(path: str, headers: Headers) -> Dialect:
    """The dialect in which a caller expects errors of paths that are no calls: only Anthropic's SDKs send a version."""
    ours = path.startswith("/v1/messages") or first(headers, b"anthropic-version") is not None
    return ANTHROPIC if ours else OPENAI_CHAT


def _pages(ground: Ground, router: Router, listings: list[Listing]) -> dict[str, Page]:
    found = {
        "/healthz": pages.health(),
        "/readyz": pages.readiness(ground.ready),
        "/metrics": pages.metrics(lambda: render(ground.registry)),
    }
    for listing in listings:
        found.update(pages.listing(router.listed, listing))
    return found


def _server(provider: Provider, ground: Ground, before: Plant | None) -> Launched:
    settings = provider.settings
    if not isinstance(settings, LocalSettings):
        raise ConfigInvalid(f"`providers.{provider.name}` is to be launched, and its kind does not say how")
    if before is not None and before.config.providers.get(provider.name) == settings:
        return before.servers[provider.name]

    def start(key: Secret) -> Command:
        program = ServerProgram(
            model=str(find(settings.weights)),
            api_key=key.reveal(),
            aliases=list(settings.models),
            threads=settings.threads,
            context=settings.context,
            parallel=settings.parallel,
        )
        return command(program, hears=lambda line: ground.log.info("local model", provider=provider.name, line=line))

    return Launched(provider.name, command=start, ready=partial(_answers, ground.http), tasks=ground.tasks, clock=ground.clock)


async def _answers(http: http1.Client, address: Address) -> bool:
    """Whether a llama.cpp server has loaded its model: `/health` is 200 then, and 503 before."""
    try:
        response = await http.request("GET", f"{address.base_url}/health", [])
        await response.read()
    except http1.HttpError:
        return False
    return response.status == 200
