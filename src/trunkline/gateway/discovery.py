"""Asks providers which models they have: in the background, one look at a time for each, and never for a request.

What `catalog.discovery` decides is done here. A look that fails keeps the old list; whatever goes wrong is told by its code, and in
our own words.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Protocol
from urllib.parse import quote

from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.base.codec import Malformed
from trunkline.base.log import Logger
from trunkline.base.secret import Secret
from trunkline.catalog.discovery import Board, Evidence, Failure, Fence, Key, StateChanged
from trunkline.catalog.evidence import EvidenceStore, Kept
from trunkline.catalog.known import Catalog, Listed
from trunkline.catalog.listing import Found, Rows, read_page
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
from trunkline.model.credential import Credential
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


class Behind(Protocol):
    """Asks daemons."""

    async def ask(self, provider: Provider) -> Rows:
        """All models of a provider behind a daemon. Raises: as `Lister.ask`."""
        ...


class Lister:
    """Asks one provider.

    Args:
        http: what goes out to the network, judged.
        servers: the providers that we run ourselves, by name.
        behind: asks for those behind a daemon.
        credential: what the installation calls a provider with.
        clock: the time.
    """

    def __init__(
        self,
        *,
        http: Http,
        servers: Mapping[str, Running],
        credential: Callable[[Provider], Credential | None],
        clock: Clock,
        behind: Behind | None = None,
    ) -> None:
        self._http = http
        self._servers = servers
        self._behind = behind
        self._credential = credential
        self._clock = clock

    def reachable(self, provider: Provider) -> bool:
        """Whether there is anybody to ask."""
        server = self._servers.get(provider.name)
        return lists(provider) and (server is None or server.running is not None)

    async def ask(self, provider: Provider) -> Rows:
        """All models that it lists.

        Raises:
            UpstreamError: it failed, or refused.
            OperatorError: it cannot be asked as it is configured.
        """
        if provider.served is not None:
            assert self._behind is not None
            return await self._behind.ask(provider)
        found: dict[str, Found] = {}
        left_out = 0
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                after = ""
                for _ in range(MOST_PAGES):
                    page = read_page(await self._page(provider, after))
                    found.update({each.id: each for each in page.found if each.id not in found})
                    left_out += page.left_out
                    if not page.after or page.after == after:
                        break
                    after = page.after
        except TimeoutError:
            raise UpstreamTimeout(f"the list was not complete within {LOOK_SECONDS:g} seconds") from None
        except Malformed:
            raise UpstreamGarbled("the answer is not a list of models") from None
        return Rows(tuple(found.values()), left_out)

    async def _page(self, provider: Provider, after: str) -> bytes:
        assert provider.kind.lists is not None
        server = self._servers.get(provider.name)
        address = server.running if server is not None else None
        base_url, key = (address.base_url, address.api_key) if address else (provider.base_url, self._key(provider))
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

    def _key(self, provider: Provider) -> Secret | None:
        credential = self._credential(provider)
        return None if credential is None else credential.secret

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
        providers: by name; what daemons serve may change at any time, which `glance` is told of.
        wanted: of those that have a list, which are to be asked for it.
        credentials: the ids of what a provider behind a daemon is asked with: with others it may list others.
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
        wanted: Callable[[Provider], bool],
        credentials: Callable[[Provider], Sequence[str]],
        lister: Lister,
        board: Board,
        store: EvidenceStore,
        catalog: Catalog,
        clock: Clock,
        log: Logger,
    ) -> None:
        self._providers = providers
        self._wanted = wanted
        self._credentials = credentials
        self._keys = self._keys_now()
        self._lister = lister
        self._board = board
        self._store = store
        self._catalog = catalog
        self._clock = clock
        self._log = log
        self._looking: set[str] = set()
        self._codes: dict[str, str] = {}
        self._left_out: dict[str, int] = {}
        self._told: dict[str, Listed] = {}
        self._kept: Mapping[Key, Kept] = {}
        self._adopted: Mapping[Key, Kept] | None = None
        self._tasks: Tasks | None = None

    async def run(self, failed: Callable[[str, BaseException], None]) -> None:
        """Look whenever it is time, until this is cancelled."""
        self._take()
        try:
            self._kept = await asyncio.to_thread(self._store.all)
        except StoreUnavailable as error:  # then it begins with nothing
            failed("discovery: what was kept", error)
        self._take()
        async with Tasks(failed) as tasks:
            self._tasks = tasks
            try:
                while True:
                    self.glance()
                    await self._clock.sleep(TICK)
            finally:
                self._tasks = None

    def glance(self) -> None:
        """Begin the looks that are due now, also at providers that were not there before; unless `run` has yet to begin, and will."""
        if self._tasks is None:
            return
        self._take()
        for name in self._due():
            self._tasks.start(self.look(name), name=f"discovery: {name}")

    def invalidate(self, provider: str, *, hard: bool = False) -> None:
        """Look again at the next glance; hard: what is known is worth nothing, nor what a look under way will show."""
        if (key := self._keys.get(provider)) is not None:
            self._board.invalidate(key, hard=hard)
            self._tell(provider)

    async def look(self, name: str) -> None:
        """One look at one provider, if none is under way. What the provider does wrong is noted and not raised."""
        if (key := self._keys.get(name)) is None:
            return  # no daemon serves it any more
        self._looking.add(name)
        try:
            evidence = await self._seen(name, key)
        finally:
            self._looking.discard(name)
        if evidence is not None:
            await asyncio.to_thread(self._keep, key, evidence)

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

    async def _seen(self, name: str, key: Key) -> Evidence | None:
        """What a provider lists now, told to the catalogue; `None` where it could not be asked, or was overtaken."""
        fence = self._board.begin(key)
        if fence is None:
            return None
        try:
            found, left_out = await self._lister.ask(self._providers[name])
            evidence = self._board.finish(fence, found, self._clock.now(), left_out=left_out)
        except TrunklineError as error:
            self._failed(name, fence, error)
            return None
        except StateChanged:
            return None
        finally:
            self._board.leave(fence)
        if self._codes.pop(name, None):
            self._log.info("a provider lists its models again", provider=name, models=len(found))
        if left_out and left_out != self._left_out.get(name):
            self._log.warning("a provider lists what cannot be read", provider=name, left_out=left_out)
        self._left_out[name] = left_out
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
        if (key := self._keys.get(name)) is None:
            return  # it has gone meanwhile
        listed = Listed(self._board.evidence(key), self._board.diagnosis(key, self._clock.now()))
        if self._told.get(name) != listed:
            self._told[name] = listed
            self._catalog.take_listed(name, listed)

    def _keys_now(self) -> dict[str, Key]:
        return {name: self._key(provider) for name, provider in self._providers.items() if lists(provider) and self._wanted(provider)}

    def _key(self, provider: Provider) -> Key:
        return key_of(provider, self._credentials(provider) if provider.served is not None else ())

    def _take(self) -> None:
        """Know the providers that there are now: those that are new begin with what was kept; what those had that are gone is forgotten."""
        keys = self._keys_now()
        if keys == self._keys and self._adopted is self._kept:
            return
        self._keys, self._adopted = keys, self._kept
        wanted = set(keys.values())
        self._board.keep(wanted.__contains__)
        self._catalog.forget(lambda name: name not in keys)
        self._told = {name: listed for name, listed in self._told.items() if name in keys}
        for key in wanted:
            if (kept := self._kept.get(key)) is not None and kept.evidence is not None:
                self._board.adopt(key, kept.evidence)
        for name in keys:
            self._tell(name)

    def _keep(self, key: Key, evidence: Evidence) -> None:
        """Write it down, unless another process has seen something newer."""
        kept = self._store.load(key)
        if kept.evidence is None or kept.evidence.observed_at <= evidence.observed_at:
            try:
                self._store.save_if(key, evidence, kept.revision)
            except Conflict:
                return  # another process on this database has just looked, too


def lists(provider: Provider) -> bool:
    """Whether it has a list of its models. A daemon has none of its own."""
    return provider.served is not None or provider.kind.lists is not None


def key_of(provider: Provider, credentials: Sequence[str] = ()) -> Key:
    """Whose list it is: the provider's, at this address, with a credential from this place, or with those of these ids."""
    settings = provider.settings
    text = "\n".join([settings.kind, provider.base_url or "", settings.api_key or provider.kind.api_key or "", *credentials])
    return Key(provider.name, sha256(text.encode()).hexdigest())
