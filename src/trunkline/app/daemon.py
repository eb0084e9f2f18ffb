"""`trunkline daemon`: our providers for products that speak the extension daemon protocol. It keeps nothing, and has no database."""

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

import uvloop

from trunkline.app.compose import known_models, surfaces
from trunkline.app.config import Config, connect, kinds
from trunkline.app.launch import Launched
from trunkline.app.local import launched
from trunkline.base.aio import Tasks
from trunkline.base.clock import SystemClock
from trunkline.base.codec import nearest
from trunkline.base.codec import replace as but
from trunkline.base.egress import Egress
from trunkline.base.log import Logger
from trunkline.base.secret import Secret
from trunkline.errors import ConfigInvalid, ListenFailed, NotFound
from trunkline.gateway.upstream import Upstream
from trunkline.net.decoding import BEYOND
from trunkline.net.dial import JudgingDial
from trunkline.providers import Provider
from trunkline.server.daemon.offered import Offered, surfaces_of
from trunkline_sdk import http1
from trunkline_sdk.daemon.protocol.routes import is_provider_id
from trunkline_sdk.daemon.server import Daemon, DaemonLimits
from trunkline_sdk.daemon.server.running import PORT, Exposed, named, run
from trunkline_sdk.dumps import no_core_dumps
from trunkline_sdk.listen import ListenError, Tls

SDK_LOG = "trunkline_sdk.daemon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How a daemon is served.

    Attributes:
        secrets: what products show; two while it is being changed; none lets in everybody who can reach it.
        host: the address to listen on.
        port: the port; 0 takes a free one.
        unix: a Unix socket to listen on instead.
        names: under which products reach it, beside loopback ones and `host`.
        tls: the certificate and its key.
        drain_seconds: what calls under way have when it is stopped.
    """

    secrets: Sequence[Secret] = field(default=(), repr=False)
    host: str = "127.0.0.1"
    port: int = PORT
    unix: Path | None = None
    names: Sequence[str] = ()
    tls: Tls | None = None
    drain_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Choice:
    """A provider that is served, without any credential of ours."""

    provider: Provider
    needs_credential: bool


def chosen(config: Config, names: Sequence[str] = (), environment: Mapping[str, str] = os.environ) -> list[Choice]:
    """The providers to be served: those that are named, or all that can be.

    Args:
        config: read and checked.
        names: of providers; each once.
        environment: the variables. Credentials are not read.

    Raises:
        NotFound: there is no such provider.
        ConfigInvalid: one that is named cannot be served, or none can.
    """
    behind = {name for name, kind in kinds().items() if kind.daemon}
    for name in names:
        if (settings := config.providers.get(name)) is None:
            close = nearest(name, list(config.providers))
            raise NotFound(
                f"there is no provider `{name}`",
                hint=f"Did you mean `{close}`?" if close else f"Configured: {', '.join(config.providers) or 'none'}.",
            )
        if settings.kind in behind:
            raise ConfigInvalid(
                f"`{name}` is a daemon itself, and is not served by another one", hint="Give the products its own address and secret."
            )
        if not is_provider_id(name):
            raise ConfigInvalid(
                f"`{name}` cannot be a provider's id there",
                hint="It has 1 to 128 characters and is not `info`. Rename it in the configuration.",
            )
    wanted = {
        name: but(settings, api_key=None)
        for name, settings in config.providers.items()
        if (name in names if names else settings.kind not in behind and is_provider_id(name))
    }
    if not wanted:
        raise ConfigInvalid("there is no provider that could be served", hint="Write `[providers.NAME]`.")
    catalog = known_models()
    choices: list[Choice] = []
    for name, provider in connect(but(config, providers=wanted), environment).items():
        needs = provider.kind.key_required or config.providers[name].api_key is not None
        choices.append(Choice(replace(provider, api_key=None, known=catalog.of(provider.source)), needs))
    endpoints = [endpoint for surface in surfaces().values() for endpoint in surface.endpoints]
    if mute := [each.provider.name for each in choices if not surfaces_of(each.provider, endpoints)]:
        raise ConfigInvalid(f"`{mute[0]}` speaks no format that the daemon protocol knows")
    return choices


def serve(config: Config, choices: Collection[Choice], serving: Serving, log: Logger) -> None:
    """Serve until SIGINT or SIGTERM; at a second one calls under way are broken off at once.

    Raises:
        ConfigInvalid: it would be open to other machines, or a secret cannot be one.
        ListenFailed: the address is taken, or not ours.
    """
    no_core_dumps()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(served(config, choices, serving, log))


async def served(
    config: Config,
    choices: Collection[Choice],
    serving: Serving,
    log: Logger,
    *,
    ready: Callable[[tuple[str, ...]], object] | None = None,
) -> None:
    """The same in a running loop. `ready` is called with where it listens."""

    def failed(task: str, error: BaseException) -> None:
        log.error("a background task failed", task=task, exc_info=error)

    def listening(urls: tuple[str, ...]) -> None:
        log.info("listening", urls=list(urls), providers=[each.provider.name for each in choices])
        if ready is not None:
            ready(urls)

    async with AsyncExitStack() as stack:
        stack.enter_context(_Lines(log))
        tasks = await stack.enter_async_context(Tasks(failed))
        own = await stack.enter_async_context(http1.Client())
        clock = SystemClock()
        servers: dict[str, Launched] = {}
        for provider in (each.provider for each in choices if each.provider.kind.launched):
            servers[provider.name] = launched(provider, http=own, tasks=tasks, clock=clock, log=log)
            stack.push_async_callback(servers[provider.name].aclose)
        dial = JudgingDial(Egress(config.sections.egress))
        http = await stack.enter_async_context(http1.Client(dial=dial, decoders=BEYOND))
        upstream = Upstream(http=http, servers=servers, clock=clock)
        endpoints = [endpoint for surface in surfaces().values() for endpoint in surface.endpoints]
        backends = [
            Offered(
                each.provider,
                needs_credential=each.needs_credential,
                endpoints=endpoints,
                http=http,
                servers=servers,
                upstream=upstream,
                clock=clock,
                log=log,
            )
            for each in choices
        ]
        daemon = _daemon(backends, serving)
        try:
            await run(
                daemon,
                host=serving.host,
                port=serving.port,
                unix=serving.unix,
                tls=serving.tls,
                drain_seconds=serving.drain_seconds,
                ready=listening,
            )
        except Exposed as error:
            raise ConfigInvalid(
                str(error), hint="Anyone who can reach a daemon can use its keyless providers: `--secret-file`, or listen on 127.0.0.1."
            ) from None
        except ListenError as error:
            raise ListenFailed(str(error), hint="Choose another `--bind`, or stop what listens there.") from None
    log.info("stopped")


def _daemon(backends: Sequence[Offered], serving: Serving) -> Daemon:
    try:
        return Daemon(
            *backends,
            secret=[secret.reveal() for secret in serving.secrets],
            version=f"trunkline {version('trunkline')}",
            hosts=[*serving.names, *named(serving.host)],
            limits=DaemonLimits(default_seconds=None),  # then each provider's own timeouts hold
        )
    except ValueError as error:
        raise ConfigInvalid(str(error)) from None


class _Lines(logging.Handler):
    """One line in our log for each request, while the block runs; the SDK tells it with its facts."""

    def __init__(self, log: Logger) -> None:
        super().__init__(logging.INFO)
        self._log = log
        self._logger = logging.getLogger(SDK_LOG)
        self._level = self._logger.level

    def __enter__(self) -> None:
        self._logger.setLevel(logging.INFO)
        self._logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        facts = record.__dict__.get("exchange")
        if isinstance(facts, dict):
            self._log.info("exchange", **facts)  # pyright: ignore[reportUnknownArgumentType] - names and plain values
