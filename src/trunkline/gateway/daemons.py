"""The extension daemons of one configuration: what each serves, looked at in the background and never for a request.

Every provider behind a daemon is a provider here, `DAEMON/ID`. A daemon that fails keeps the providers that it had: calls to them find
out for themselves. Whatever goes wrong is told by its code, and in our own words.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal, cast, get_args

from trunkline.base import codec
from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.base.egress import Egress
from trunkline.base.log import Logger
from trunkline.catalog.known import Known, Source
from trunkline.errors import NotFound, TrunklineError, UpstreamDown, UpstreamTimeout
from trunkline.gateway.daemon_client import client_of, failure
from trunkline.gateway.live import Live
from trunkline.providers import Provider, Served, Settings
from trunkline_sdk.daemon.client import Client, Driver
from trunkline_sdk.daemon.errors import CallFailed
from trunkline_sdk.daemon.messages import InfoResponse, Record
from trunkline_sdk.daemon.protocol.failures import clean
from trunkline_sdk.daemon.protocol.routes import is_provider_id

TICK = 1.0
"""Seconds between two glances at which daemons are due."""

EVERY = 60.0
"""Seconds from a look that went well to the next."""
AGAIN = 2.0
"""Seconds after a look that failed; doubled after each further one, up to `SLOWEST`."""
SLOWEST = 30.0
LOOK_SECONDS = 5.0
"""For an answer (daemon contract, H8)."""

MOST_SERVED = 500
"""Providers of one daemon that are taken."""

Kind = Literal["oauth", "token", "none", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How it stands with a daemon.

    Attributes:
        version: what it says of itself.
        served: its providers; those of the last look that went well.
        left_out: providers whose ids break the rules, or that stand there twice.
        seen_at: when that look was, in seconds since the Unix epoch; `None` before the first.
        code: why the last look failed, by our own codes; empty where it went well, and before the first.
        failures: looks in a row that failed.
        due: when the next one is, by the monotonic clock.
    """

    version: str = ""
    served: tuple[Served, ...] = ()
    left_out: int = 0
    seen_at: float | None = None
    code: str = ""
    failures: int = 0
    due: float = 0.0


@dataclass(slots=True)
class _Daemon:
    provider: Provider
    client: Client
    state: State = State()
    looking: bool = False
    looked: asyncio.Event = field(default_factory=asyncio.Event)


class Daemons:
    """Keeps up with the daemons of one configuration.

    Args:
        providers: the configured ones; what daemons serve is put beside them.
        known: what the catalogue knows of a provider's models.
        egress: which addresses may be dialled.
        tls: this machine's trusted roots.
        clock: the time.
        log: is told of a daemon that begins to fail or to answer, and of what it serves.
        before: those of the configuration that this one replaces: what they knew of a daemon that did not change is still known.

    Attributes:
        providers: what daemons serve at this moment, by `DAEMON/ID`; the same object while nothing has changed.

    Raises:
        ConfigInvalid: a daemon's certificates cannot be read.
    """

    def __init__(
        self,
        *,
        providers: Live,
        known: Callable[[Source], Known],
        egress: Egress,
        tls: ssl.SSLContext,
        clock: Clock,
        log: Logger,
        before: "Daemons | None" = None,
    ) -> None:
        self.providers = Live({})
        self._all = providers
        self._known = known
        self._clock = clock
        self._log = log
        self._daemons = {
            name: _Daemon(provider, client_of(provider, egress, tls)) for name, provider in providers.items() if provider.kind.daemon
        }
        self._ways: Mapping[str, tuple[Client, str]] = {}
        self._renewals: set[asyncio.Event] = set()
        self._changed: Callable[[], None] = lambda: None
        if before is not None:
            self._go_on_from(before)

    # ---------------------------------------------------------------------------------------------------------- asking
    def states(self) -> Mapping[str, State]:
        """How it stands with each daemon, by name."""
        return {name: each.state for name, each in self._daemons.items()}

    def client(self, name: str) -> tuple[Client, str]:
        """Who is asked for a provider `DAEMON/ID`, and its id there. Raises: `UpstreamDown`: no daemon serves it now."""
        if (way := self._ways.get(name)) is not None:
            return way
        daemon, _, served = name.partition("/")
        state = self._daemons[daemon].state if daemon in self._daemons else State()
        if state.seen_at is None:
            raise UpstreamDown(f"the daemon `{daemon}` has not been reached yet")
        raise UpstreamDown(f"the daemon `{daemon}` does not serve `{served}` now")

    def refresher(self, name: str) -> Callable[[Record], Awaitable[Record]]:
        """What renews a sign-in to a provider `DAEMON/ID`, whether or not its daemon has been reached. Raises: `NotFound`."""
        client, served = self._asked(name)

        async def renew(record: Record) -> Record:
            ended = asyncio.Event()
            self._renewals.add(ended)
            try:
                return await client.refresh(served, record)
            finally:
                self._renewals.discard(ended)
                ended.set()

        return renew

    def driver(self, name: str) -> Driver:
        """What a sign-in to a provider `DAEMON/ID` goes through, whether or not its daemon has been reached. Raises: `NotFound`."""
        client, served = self._asked(name)
        return client.driver(served)

    def _asked(self, name: str) -> tuple[Client, str]:
        daemon, _, served = name.partition("/")
        if daemon not in self._daemons or not is_provider_id(served):
            raise NotFound(f"there is no provider `{name}` behind a daemon", hint="Its name is `DAEMON/PROVIDER`.")
        return self._daemons[daemon].client, served

    # --------------------------------------------------------------------------------------------------------- looking
    def when_changed(self, changed: Callable[[], None]) -> None:
        """Call this whenever other providers are served than before."""
        self._changed = changed

    async def run(self, failed: Callable[[str, BaseException], None]) -> None:
        """Look at each daemon at once, and then whenever it is time, until this is cancelled."""
        async with Tasks(failed) as tasks:
            while self._daemons:
                now = self._clock.monotonic()
                for name, each in self._daemons.items():
                    if not each.looking and now >= each.state.due:
                        tasks.start(self.look(name), name=f"daemon: {name}")
                await self._clock.sleep(TICK)

    async def first_look(self, seconds: float) -> None:
        """Return when every daemon has been looked at once, whatever it said, or after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for each in self._daemons.values():
                    await each.looked.wait()

    async def look(self, name: str) -> None:
        """One look at one daemon. What it does wrong is noted and not raised."""
        each = self._daemons[name]
        each.looking = True
        try:
            info = await _info(name, each.client)
        except TrunklineError as error:
            self._failed(each, error)
        else:
            self._seen(each, info)
        finally:
            each.looking = False
            each.looked.set()

    async def aclose(self) -> None:
        """Close every connection, once the renewals that are under way have ended: what they bring is the only copy of a login."""
        for ended in list(self._renewals):
            await ended.wait()
        for each in self._daemons.values():
            await each.client.aclose()

    def _failed(self, each: _Daemon, error: TrunklineError) -> None:
        before = each.state
        wait = min(AGAIN * 2 ** min(before.failures, 10), SLOWEST)
        each.state = replace(before, code=error.code, failures=before.failures + 1, due=self._clock.monotonic() + wait)
        if before.code != error.code:
            self._log.warning("a daemon does not answer as it should", daemon=each.provider.name, code=error.code)

    def _seen(self, each: _Daemon, info: InfoResponse) -> None:
        before, name = each.state, each.provider.name
        served = read(name, info)
        left_out = len(info.providers) - len(served)
        each.state = State(
            version=clean(info.version),
            served=served,
            left_out=left_out,
            seen_at=self._clock.now(),
            due=self._clock.monotonic() + EVERY,
        )
        if before.seen_at is None or before.code or before.served != served or before.left_out != left_out:
            self._log.info("a daemon answers", daemon=name, version=each.state.version, providers=[e.id for e in served], left_out=left_out)
        if before.served != served:
            self._take()
            self._changed()

    def _go_on_from(self, before: "Daemons") -> None:
        for name, each in self._daemons.items():
            old = before._daemons.get(name)  # noqa: SLF001 - another of the same class
            if old is not None and (old.provider.settings, old.provider.secret) == (each.provider.settings, each.provider.secret):
                each.state = replace(old.state, due=0.0)
                if old.looked.is_set():
                    each.looked.set()
        self._take()

    def _take(self) -> None:
        """Have what the daemons serve among the providers."""
        served: dict[str, Provider] = {}
        ways: dict[str, tuple[Client, str]] = {}
        for each in self._daemons.values():
            for one in each.state.served:
                provider = self._provider(each.provider, one)
                served[provider.name] = provider
                ways[provider.name] = (each.client, one.id)
        self._ways = ways
        self.providers.take(served)
        self._all.take(served)

    def _provider(self, daemon: Provider, served: Served) -> Provider:
        name = f"{daemon.name}/{served.id}"
        if name in self.providers and self.providers[name].served == served:
            return self.providers[name]
        provider = behind(daemon, served)
        return replace(provider, known=self._known(provider.source))


async def _info(name: str, client: Client) -> InfoResponse:
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await client.info()
    except CallFailed as error:
        raise failure(error, name, secret_only=True) from None
    except TimeoutError:
        raise UpstreamTimeout(f"the daemon did not answer within {LOOK_SECONDS:g} seconds") from None


def read(daemon: str, info: InfoResponse) -> tuple[Served, ...]:
    """The providers that a daemon tells of, each id once; those whose ids break the rules are left out."""
    found: dict[str, Served] = {}
    for each in info.providers[:MOST_SERVED]:
        if is_provider_id(each.id) and each.id not in found:
            said = each.credential_kind
            found[each.id] = Served(
                daemon=daemon,
                id=each.id,
                title=clean(each.name),
                surfaces=each.surfaces,
                credential=cast(Kind, said) if said in get_args(Kind) else "",
                methods=each.oauth_methods,
                refreshable=each.has_refresh,
            )
    return tuple(found.values())


def behind(daemon: Provider, served: Served) -> Provider:
    """A provider behind a daemon: it is as the daemon is configured, with what that says of `ID/MODEL` for its own models."""
    return replace(
        daemon, name=f"{daemon.name}/{served.id}", settings=_settings(daemon.settings, served.id), served=served, secret=None, api_key=None
    )


def _settings(settings: Settings, served: str) -> Settings:
    prefix = f"{served}/"
    if isinstance(settings.models, dict):
        own = {name.removeprefix(prefix): each for name, each in settings.models.items() if name.startswith(prefix)}
        return codec.replace(settings, models=own)
    return codec.replace(settings, models=[name.removeprefix(prefix) for name in settings.models if name.startswith(prefix)])
