"""Asks providers which models they have: in the background, one look at a time for each, and never for a request.

What `catalog.discovery` decides is done here. A look that fails keeps the old list; whatever goes wrong is told by its code, and in
our own words.
"""

import asyncio
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Protocol
from urllib.parse import quote

from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.base.codec import Malformed
from trunkline.base.log import Logger
from trunkline.base.secret import Secret
from trunkline.catalog.discovery import Board, Evidence, Failure, Fence, Key, StateChanged
from trunkline.catalog.evidence import EvidenceStore
from trunkline.catalog.known import Catalog, Listed
from trunkline.catalog.listing import Found, read_page
from trunkline.errors import (
    ConfigInvalid,
    Conflict,
    EgressDenied,
    StoreUnavailable,
    TrunklineError,
    UpstreamError,
    UpstreamGarbled,
    UpstreamTimeout,
)
from trunkline.gateway.headers import Headers, retry_after
from trunkline.gateway.upstream import Address, Http, translated
from trunkline.providers import Provider, sign
from trunkline_sdk import http1

TICK = 5.0
"""Seconds between two glances at what is due; none of them asks anybody anything by itself."""

LOOK_SECONDS = 60.0
"""For a whole list, all its pages."""
TIMEOUTS = http1.Timeouts(connect=10.0, first_byte=30.0, silence=15.0)
LARGEST_PAGE = 16 << 20
"""Bytes."""
MOST_PAGES = 20


class Running(Protocol):
    """A provider that we run ourselves."""

    @property
    def running(self) -> Address | None:
        """Where it is, if it runs: nobody starts a model only to ask for its name."""
        ...


class Lister:
    """Asks one provider.

    Args:
        http: what goes out to the network, judged.
        servers: the providers that we run ourselves, by name.
        credential: what the installation calls a provider with.
        clock: the time.
    """

    def __init__(
        self, *, http: Http, servers: Mapping[str, Running], credential: Callable[[Provider], Secret | None], clock: Clock
    ) -> None:
        self._http = http
        self._servers = servers
        self._credential = credential
        self._clock = clock

    def reachable(self, provider: Provider) -> bool:
        """Whether there is anybody to ask."""
        server = self._servers.get(provider.name)
        return provider.kind.lists is not None and (server is None or server.running is not None)

    async def ask(self, provider: Provider) -> tuple[Found, ...]:
        """All models that it lists.

        Raises:
            UpstreamError: it failed, or refused.
            OperatorError: it cannot be asked as it is configured.
        """
        found: dict[str, Found] = {}
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                after = ""
                for _ in range(MOST_PAGES):
                    page = read_page(await self._page(provider, after))
                    found.update({each.id: each for each in page.found if each.id not in found})
                    if not page.after or page.after == after:
                        break
                    after = page.after
        except TimeoutError:
            raise UpstreamTimeout(f"the list was not complete within {LOOK_SECONDS:g} seconds") from None
        except Malformed:
            raise UpstreamGarbled("the answer is not a list of models") from None
        return tuple(found.values())

    async def _page(self, provider: Provider, after: str) -> bytes:
        assert provider.kind.lists is not None
        server = self._servers.get(provider.name)
        address = server.running if server is not None else None
        base_url, key = (address.base_url, address.api_key) if address else (provider.base_url, self._credential(provider))
        if base_url is None:
            raise ConfigInvalid(f"the provider `{provider.name}` has no `base_url`")
        headers: list[tuple[bytes, bytes]] = [(b"accept", b"application/json"), (b"user-agent", b"trunkline")]
        headers += provider.kind.headers.items()
        if key is not None:
            headers.append(sign(provider.kind, key.reveal()))
        url = base_url.rstrip("/") + provider.kind.lists
        if after:
            url += f"{'&' if '?' in url else '?'}after_id={quote(after, safe='')}"
        return await self._got(provider, url, headers)

    async def _got(self, provider: Provider, url: str, headers: Headers) -> bytes:
        try:
            response = await self._http.request("GET", url, headers, b"", timeouts=TIMEOUTS, max_body=LARGEST_PAGE)
            try:
                if 300 <= response.status < 400:
                    raise EgressDenied("the provider answered with a redirect, and redirects are not followed")
                if response.status >= 400:  # its words are not read: nobody is told them
                    pause = retry_after(response.headers, self._clock.now())
                    raise provider.speaks[0].dialect.read_error(response.status, b"", pause)
                if response.status != 200:
                    raise UpstreamGarbled(f"the provider answered with HTTP {response.status}", upstream_status=response.status)
                return await response.read()
            finally:
                await response.body.aclose()
        except http1.HttpError as error:
            raise translated(error) from None


class Discovery:
    """Keeps the lists of one configuration's providers.

    Args:
        providers: by name.
        lister: asks one of them.
        board: what is known, and what is due. It outlives the configuration.
        store: keeps it over a restart.
        catalog: is told.
        clock: the time.
        log: is told of a provider that begins to fail, and that it does so no longer.
    """

    def __init__(
        self,
        *,
        providers: Mapping[str, Provider],
        lister: Lister,
        board: Board,
        store: EvidenceStore,
        catalog: Catalog,
        clock: Clock,
        log: Logger,
    ) -> None:
        self._keys = {name: key_of(provider) for name, provider in providers.items() if provider.kind.lists is not None}
        self._providers = providers
        self._lister = lister
        self._board = board
        self._store = store
        self._catalog = catalog
        self._clock = clock
        self._log = log
        self._looking: set[str] = set()
        self._codes: dict[str, str] = {}
        self._told: dict[str, Listed] = {}

    async def run(self, failed: Callable[[str, BaseException], None]) -> None:
        """Look whenever it is time, until this is cancelled."""
        try:
            await self._remember()
        except StoreUnavailable as error:  # then it begins with nothing
            failed("discovery: what was kept", error)
        async with Tasks(failed) as tasks:
            while True:
                for name in self._due():
                    tasks.start(self.look(name), name=f"discovery: {name}")
                await self._clock.sleep(TICK)

    def invalidate(self, provider: str, *, hard: bool = False) -> None:
        """Look again at the next glance; hard: what is known is worth nothing, nor what a look under way will show."""
        if (key := self._keys.get(provider)) is not None:
            self._board.invalidate(key, hard=hard)
            self._tell(provider)

    async def look(self, name: str) -> None:
        """One look at one provider, if none is under way. What the provider does wrong is noted and not raised."""
        self._looking.add(name)
        try:
            evidence = await self._seen(name)
        finally:
            self._looking.discard(name)
        if evidence is not None:
            await asyncio.to_thread(self._keep, self._keys[name], evidence)

    # ------------------------------------------------------------------------------------------------------- looking
    def _due(self) -> list[str]:
        now = self._clock.now()
        for name in self._told:  # a list gets old by itself
            self._tell(name)
        return [
            name
            for name, key in self._keys.items()
            if name not in self._looking and self._board.due(key, now) and self._lister.reachable(self._providers[name])
        ]

    async def _seen(self, name: str) -> Evidence | None:
        """What a provider lists now, told to the catalogue; `None` where it could not be asked, or was overtaken."""
        fence = self._board.begin(self._keys[name])
        if fence is None:
            return None
        try:
            found = await self._lister.ask(self._providers[name])
            evidence = self._board.finish(fence, found, self._clock.now())
        except TrunklineError as error:
            self._failed(name, fence, error)
            return None
        except StateChanged:
            return None
        finally:
            self._board.leave(fence)
        if self._codes.pop(name, None):
            self._log.info("a provider lists its models again", provider=name, models=len(found))
        self._tell(name)
        return evidence

    def _failed(self, name: str, fence: Fence, error: TrunklineError) -> None:
        status = error.upstream_status if isinstance(error, UpstreamError) else None
        try:
            self._board.fail(fence, Failure(error.code, status), self._clock.now())
        except StateChanged:
            return
        if self._codes.get(name) != error.code:
            self._codes[name] = error.code
            self._log.warning("a provider does not list its models", provider=name, code=error.code, upstream_status=status)
        self._tell(name)

    # ------------------------------------------------------------------------------------------------------- telling
    def _tell(self, name: str) -> None:
        key = self._keys[name]
        listed = Listed(self._board.evidence(key), self._board.diagnosis(key, self._clock.now()))
        if self._told.get(name) != listed:
            self._told[name] = listed
            self._catalog.take_listed(name, listed)

    async def _remember(self) -> None:
        """Begin with what was kept; what providers that are gone had is forgotten."""
        wanted = set(self._keys.values())
        self._board.keep(wanted.__contains__)
        self._catalog.forget(lambda name: name not in self._keys)
        for name in self._keys:
            self._tell(name)
        for key, kept in (await asyncio.to_thread(self._store.all)).items():
            if key in wanted and kept.evidence is not None:
                self._board.adopt(key, kept.evidence)
        for name in self._keys:
            self._tell(name)

    def _keep(self, key: Key, evidence: Evidence) -> None:
        """Write it down, unless another process has seen something newer."""
        kept = self._store.load(key)
        if kept.evidence is None or kept.evidence.observed_at <= evidence.observed_at:
            try:
                self._store.save_if(key, evidence, kept.revision)
            except Conflict:
                return  # another process on this database has just looked, too


def key_of(provider: Provider) -> Key:
    """Whose list it is: the provider's, at this address, with a credential from this place."""
    settings = provider.settings
    text = "\n".join([settings.kind, provider.base_url or "", settings.api_key or provider.kind.api_key or ""])
    return Key(provider.name, sha256(text.encode()).hexdigest())
