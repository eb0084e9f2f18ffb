"""The loop that asks providers for their models, against a provider on loopback."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.fakes.clock import FakeClock
from tests.fakes.upstream import Upstream
from tests.fakes.wallet import Wallet
from trunkline.base.aio import Tasks
from trunkline.base.codec import parse
from trunkline.base.secret import Secret
from trunkline.catalog.cards import Cards
from trunkline.catalog.discovery import Board, Diagnosis
from trunkline.catalog.evidence import EvidenceStore
from trunkline.catalog.known import Catalog, Listed
from trunkline.catalog.listing import Found, Rows
from trunkline.catalog.prices import Book, Prices
from trunkline.errors import StoreUnavailable, TrunklineError
from trunkline.gateway import discovery as module
from trunkline.gateway.choice import Choice
from trunkline.gateway.discovery import TICK, Behind, Discovery, Lister, key_of
from trunkline.gateway.live import Live
from trunkline.gateway.upstream import Address
from trunkline.model.card import Card
from trunkline.model.credential import Credential
from trunkline.providers import Kind, Provider, Served, Settings
from trunkline.providers.anthropic import PROVIDER as ANTHROPIC
from trunkline.providers.compatible import PROVIDER as COMPATIBLE
from trunkline.providers.daemon import PROVIDER as DAEMON
from trunkline.providers.echo import PROVIDER as ECHO
from trunkline.providers.local import PROVIDER as LOCAL
from trunkline.providers.openai import PROVIDER as OPENAI
from trunkline_sdk import http1

CANARY = "sk-canary-0123456789"
WORDS = "our datacenter at 10.1.2.3 burns, key sk-canary-0123456789"
"""What a provider may say, and nobody is to be told."""


class Log:
    """What was said, in order."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def info(self, event: str, **facts: Any) -> None:
        self.lines.append(("info", event, facts))

    def warning(self, event: str, **facts: Any) -> None:
        self.lines.append(("warning", event, facts))


class Watched(Catalog):
    """A catalogue whose changes can be waited for."""

    def __init__(self) -> None:
        super().__init__(Prices(Book(made_from="", units={}, vendors={}, rows=[])), Cards([]))
        self._changed = asyncio.Event()

    def take_listed(self, provider: str, listed: Listed) -> None:
        super().take_listed(provider, listed)
        self._changed.set()

    async def when(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class NoDaemon:
    """Is not asked: there is no daemon here."""

    async def ask(self, provider: Provider) -> Rows:
        raise AssertionError(provider.name)


class Server:
    """A provider that we run ourselves."""

    def __init__(self) -> None:
        self.running: Address | None = None


def listed(*models: str, **more: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": model, "object": "model"} for model in models], **more}


def provider(name: str, kind: Kind, base_url: str | None, *, key: str | None = CANARY) -> Provider:
    return Provider(name=name, kind=kind, settings=parse({"kind": "x"}, Settings), base_url=base_url, api_key=Secret(key) if key else None)


class Finding:
    """All that a loop needs, around one provider on loopback."""

    def __init__(self, store: EvidenceStore, http: http1.Client) -> None:
        self.clock = FakeClock()
        self.log = Log()
        self.store = store
        self.http = http
        self.board = Board(ttl=900.0, retry=30.0)
        self.catalog = Watched()
        self.wallet = Wallet()
        self.servers: dict[str, Server] = {}
        self.failures: list[tuple[str, BaseException]] = []

    def of(
        self,
        providers: Provider | Mapping[str, Provider],
        *more: Provider,
        behind: Behind | None = None,
        wanted: Callable[[Provider], bool] = lambda _: True,
    ) -> Discovery:
        by_name = {each.name: each for each in (providers, *more)} if isinstance(providers, Provider) else providers
        choice = Choice(wallet=self.wallet, providers=by_name, rest=lambda _credential, _target: 0.0, link=str)
        return Discovery(
            providers=by_name,
            wanted=wanted,
            credentials=choice.ids,
            lister=Lister(http=self.http, servers=self.servers, behind=behind or NoDaemon(), credential=choice.own, clock=self.clock),
            board=self.board,
            store=self.store,
            catalog=self.catalog,
            clock=self.clock,
            log=self.log,  # type: ignore[arg-type]
        )

    def failed(self, task: str, error: BaseException) -> None:
        self.failures.append((task, error))

    @asynccontextmanager
    async def running(self, discovery: Discovery) -> AsyncIterator[None]:
        async with Tasks(self.failed) as tasks:
            tasks.start(discovery.run(self.failed), name="discovery")
            yield

    def models(self, name: str = "home") -> list[str]:
        return list(self.catalog.found(name))

    def diagnosis(self, name: str = "home") -> Diagnosis:
        found = self.catalog.diagnosis(name)
        assert found is not None
        return found


@pytest.fixture
def store(database: Engine) -> EvidenceStore:
    return EvidenceStore(database)


@pytest.fixture
async def finding(store: EvidenceStore) -> AsyncIterator[Finding]:
    async with http1.Client() as http:
        yield Finding(store, http)


# ------------------------------------------------------------------------------------------------------------- one look
async def test_a_look_takes_the_list_tells_the_catalogue_and_keeps_it(finding: Finding, upstream: Upstream) -> None:
    upstream.answers(200, listed("a", "org/b"))
    home = provider("home", COMPATIBLE, f"{upstream.base_url}/v1")
    discovery = finding.of(home)
    await discovery.look("home")
    assert finding.models() == ["a", "org/b"]
    assert (finding.diagnosis().status, finding.diagnosis().observed_at) == ("synced", finding.clock.now())
    kept = finding.store.load(key_of(home)).evidence
    assert kept is not None
    assert [found.id for found in kept.models] == ["a", "org/b"]
    [call] = upstream.calls
    assert (call.method, call.path, call.header("authorization")) == ("GET", "/v1/models", f"Bearer {CANARY}")


async def test_anthropics_list_is_asked_for_as_its_vendor_wants_it_page_by_page(finding: Finding, upstream: Upstream) -> None:
    row = {"type": "model", "id": "claude-x", "max_input_tokens": 99, "max_tokens": 9}
    upstream.answers(200, {"data": [row], "has_more": True, "last_id": "claude-x"})
    upstream.answers(200, listed("claude-y", has_more=False, last_id="claude-y"))
    await finding.of(provider("home", ANTHROPIC, upstream.base_url)).look("home")
    assert finding.models() == ["claude-x", "claude-y"]
    first, second = upstream.calls
    assert first.path == "/v1/models?limit=1000"
    assert second.path == "/v1/models?limit=1000&after_id=claude-x"
    assert (first.header("x-api-key"), first.header("anthropic-version")) == (CANARY, "2023-06-01")
    assert finding.catalog.of(provider("home", ANTHROPIC, None).source).card("claude-x").max_output == 9


async def test_a_list_that_never_ends_is_left(finding: Finding, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PAGES", 3)
    for number in range(3):
        upstream.answers(200, listed(f"m{number}", has_more=True, last_id=f"m{number}"))
    await finding.of(provider("home", OPENAI, f"{upstream.base_url}/v1")).look("home")
    assert finding.models() == ["m0", "m1", "m2"]


@pytest.mark.proves("catalog.discovery")
@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, {"error": {"message": WORDS}}, "upstream_denied"),
        (404, WORDS.encode(), "upstream_refused"),
        (429, {"error": {"message": WORDS}}, "upstream_busy"),
        (500, WORDS.encode(), "upstream_down"),
        (204, b"", "upstream_garbled"),
        (302, b"", "egress_denied"),
        (200, WORDS.encode(), "upstream_garbled"),
        (200, {"data": WORDS}, "upstream_garbled"),
    ],
)
async def test_a_look_that_fails_keeps_the_old_list_marks_it_stale_and_tells_none_of_the_providers_words(
    finding: Finding, upstream: Upstream, status: int, body: Any, code: str
) -> None:
    upstream.answers(200, listed("a"))
    upstream.answers(status, body)
    discovery = finding.of(provider("home", COMPATIBLE, f"{upstream.base_url}/v1"))
    await discovery.look("home")
    finding.clock.advance(1000)
    await discovery.look("home")
    diagnosis = finding.diagnosis()
    assert finding.models() == ["a"]
    assert (diagnosis.status, diagnosis.failure_code, diagnosis.stale) == ("error", code, True)
    assert diagnosis.upstream_status == (None if code == "egress_denied" or status == 200 else status)
    said = f"{diagnosis} {finding.log.lines}"
    assert "datacenter" not in said
    assert CANARY not in said
    [(level, _, facts)] = finding.log.lines
    assert (level, facts["code"], facts["provider"]) == ("warning", code, "home")


async def test_a_provider_that_cannot_be_reached_or_is_silent_is_a_failure_with_its_own_code(
    finding: Finding, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUTS", http1.Timeouts(connect=1, first_byte=0.05, silence=0.05))
    upstream.hangs()
    upstream.drops()
    discovery = finding.of(provider("home", COMPATIBLE, f"{upstream.base_url}/v1"))
    for code in ("upstream_timeout", "upstream_down"):
        await discovery.look("home")
        assert finding.diagnosis().failure_code == code


async def test_a_whole_list_has_a_deadline(finding: Finding, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    upstream.hangs()
    await finding.of(provider("home", COMPATIBLE, f"{upstream.base_url}/v1")).look("home")
    assert finding.diagnosis().failure_code == "upstream_timeout"
    await upstream.disconnected()


async def test_a_list_that_is_too_large_is_not_read(finding: Finding, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_PAGE", 64)
    upstream.answers(200, listed("a" * 100))
    await finding.of(provider("home", COMPATIBLE, f"{upstream.base_url}/v1")).look("home")
    assert finding.diagnosis().failure_code == "upstream_garbled"


async def test_a_stored_credential_is_what_a_provider_is_asked_with(finding: Finding, upstream: Upstream) -> None:
    finding.wallet.put("home", Credential(id="crd_a", weight=1, secret=Secret("sk-stored")))
    upstream.answers(200, listed("a"))
    await finding.of(provider("home", OPENAI, f"{upstream.base_url}/v1", key=None)).look("home")
    assert upstream.calls[0].header("authorization") == "Bearer sk-stored"


async def test_a_provider_without_its_credential_is_not_asked(finding: Finding, upstream: Upstream) -> None:
    await finding.of(provider("home", OPENAI, f"{upstream.base_url}/v1", key=None)).look("home")
    assert finding.diagnosis().failure_code == "no_credential"
    assert upstream.calls == []


async def test_it_is_told_once_that_a_provider_fails_and_that_it_does_so_no_longer(finding: Finding, upstream: Upstream) -> None:
    upstream.answers(500, times=3)
    upstream.answers(200, listed("a"))
    discovery = finding.of(provider("home", COMPATIBLE, f"{upstream.base_url}/v1"))
    for _ in range(4):
        await discovery.look("home")
    assert [(level, event) for level, event, _ in finding.log.lines] == [
        ("warning", "a provider does not list its models"),
        ("info", "a provider lists its models again"),
    ]


@pytest.mark.proves("catalog.fence")
async def test_what_a_look_shows_that_has_been_overtaken_is_not_taken(finding: Finding, upstream: Upstream) -> None:
    gate = asyncio.Event()
    upstream.answers(200, listed("old"), gate=gate)
    home = provider("home", COMPATIBLE, f"{upstream.base_url}/v1")
    discovery = finding.of(home)
    looking = asyncio.create_task(discovery.look("home"))
    await upstream.called()
    discovery.invalidate("home", hard=True)
    gate.set()
    await looking
    assert finding.models() == []
    assert finding.diagnosis().status == "not_synced"
    assert finding.store.load(key_of(home)).evidence is None


# ------------------------------------------------------------------------------------------------------------- the loop
async def test_every_provider_that_can_list_is_asked_at_once_and_again_when_its_list_is_old(finding: Finding, upstream: Upstream) -> None:
    upstream.answers(200, listed("a"))
    upstream.answers(200, listed("a", "b"))
    discovery = finding.of(provider("home", COMPATIBLE, f"{upstream.base_url}/v1"), provider("echo", ECHO, None))
    async with finding.running(discovery):
        await finding.catalog.when(lambda: finding.models() == ["a"])
        assert finding.catalog.diagnosis("echo") is None
        await finding.clock.asleep()
        finding.clock.advance(899)
        await finding.clock.asleep()
        assert len(upstream.calls) == 1
        finding.clock.advance(TICK)
        await finding.catalog.when(lambda: finding.models() == ["a", "b"])
    assert len(upstream.calls) == 2
    assert finding.failures == []


async def test_a_slow_provider_holds_up_no_other_and_is_asked_once_at_a_time(finding: Finding, upstream: Upstream) -> None:
    gate = asyncio.Event()
    upstream.answers(200, listed("late"), gate=gate)
    async with Upstream() as quick:
        quick.answers(200, listed("soon"))
        discovery = finding.of(
            provider("slow", COMPATIBLE, f"{upstream.base_url}/v1"), provider("quick", COMPATIBLE, f"{quick.base_url}/v1")
        )
        async with finding.running(discovery):
            await finding.catalog.when(lambda: finding.models("quick") == ["soon"])
            await upstream.called()
            for _ in range(3):
                await finding.clock.asleep()
                finding.clock.advance(TICK)
            assert len(upstream.calls) == 1
            gate.set()
            await finding.catalog.when(lambda: finding.models("slow") == ["late"])
        assert quick.violations == []


async def test_an_old_list_becomes_stale_by_itself(finding: Finding, upstream: Upstream) -> None:
    gate = asyncio.Event()
    upstream.answers(200, listed("a"))
    upstream.answers(200, listed("a"), gate=gate)
    async with finding.running(finding.of(provider("home", COMPATIBLE, f"{upstream.base_url}/v1"))):
        await finding.catalog.when(lambda: finding.models() == ["a"])
        await finding.clock.asleep()
        finding.clock.advance(900)
        await finding.catalog.when(lambda: finding.diagnosis().stale)
        gate.set()
        await finding.catalog.when(lambda: not finding.diagnosis().stale)


async def test_what_was_kept_is_known_from_the_start_and_other_settings_do_not_know_it(finding: Finding, upstream: Upstream) -> None:
    upstream.answers(200, listed("a"))
    home = provider("home", COMPATIBLE, f"{upstream.base_url}/v1")
    await finding.of(home).look("home")
    again = Finding(finding.store, finding.http)
    async with again.running(again.of(home)):
        await again.catalog.when(lambda: again.models() == ["a"])
        assert (again.diagnosis().from_cache, again.diagnosis().stale) == (True, False)
        await again.clock.asleep()
    assert len(upstream.calls) == 1, "it is fresh"
    upstream.answers(200, listed("b"))
    other = Finding(finding.store, finding.http)
    elsewhere = provider("home", COMPATIBLE, f"{upstream.base_url}/v2")
    async with other.running(other.of(elsewhere)):
        await other.catalog.when(lambda: other.models() == ["b"])
        await other.clock.asleep()


async def test_a_model_of_our_own_is_asked_only_while_it_runs(finding: Finding, upstream: Upstream) -> None:
    server = finding.servers["local"] = Server()
    discovery = finding.of(provider("local", LOCAL, None, key=None))
    async with finding.running(discovery):
        await finding.clock.asleep()
        assert finding.diagnosis("local").status == "not_synced"
        upstream.answers(200, {"object": "list", "data": [{"id": "smollm2", "object": "model", "meta": {"n_ctx_train": 8192}}]})
        server.running = Address(upstream.base_url, Secret(CANARY))
        finding.clock.advance(TICK)
        await finding.catalog.when(lambda: finding.models("local") == ["smollm2"])
        await finding.clock.asleep()


async def test_a_database_that_is_away_costs_only_what_was_kept(
    finding: Finding, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("the database does not answer")

    monkeypatch.setattr(finding.store, "all", away)
    monkeypatch.setattr(finding.store, "load", away)
    upstream.answers(200, listed("a"))
    async with finding.running(finding.of(provider("home", COMPATIBLE, f"{upstream.base_url}/v1"))):
        await finding.catalog.when(lambda: finding.models() == ["a"])
        await finding.clock.asleep()
    assert all(isinstance(error, TrunklineError) for _, error in finding.failures)
    assert finding.failures[0][0] == "discovery: what was kept"


async def test_leaving_ends_a_look(finding: Finding, upstream: Upstream) -> None:
    upstream.hangs()
    async with finding.running(finding.of(provider("home", COMPATIBLE, f"{upstream.base_url}/v1"))):
        await upstream.called()
    await upstream.disconnected()
    assert finding.failures == []
    again = finding.board.begin(key_of(provider("home", COMPATIBLE, f"{upstream.base_url}/v1")))
    assert again is not None, "the place of the look is free"


def test_the_key_of_a_list_says_nothing_of_the_credential() -> None:
    one, other = provider("home", OPENAI, "https://one.test"), provider("home", OPENAI, "https://one.test", key="another")
    assert key_of(one) == key_of(other)
    assert key_of(one) != key_of(provider("home", OPENAI, "https://two.test"))
    assert CANARY not in str(key_of(one))


# -------------------------------------------------------------------------------------------------------------- daemons
class Daemon:
    """Lists what a test says, of whatever is behind it."""

    def __init__(self) -> None:
        self.rows = Rows((Found("m", Card(surfaces=frozenset({"messages"}))),))
        self.asked: list[str] = []

    async def ask(self, provider: Provider) -> Rows:
        self.asked.append(provider.name)
        return self.rows


def served(name: str) -> Provider:
    daemon, _, each = name.partition("/")
    return replace(provider(name, DAEMON, "http://127.0.0.1:9", key=None), served=Served(daemon=daemon, id=each))


@pytest.mark.proves("daemon.models")
async def test_what_a_daemon_serves_is_asked_as_soon_as_it_is_there_and_forgotten_when_it_is_gone(finding: Finding) -> None:
    daemon, live = Daemon(), Live({"x": provider("x", DAEMON, "http://127.0.0.1:9", key=None), "home": provider("home", COMPATIBLE, None)})
    discovery = finding.of(live, behind=daemon, wanted=lambda each: each.served is not None)
    discovery.glance()  # before it runs, this is nothing
    async with finding.running(discovery):
        await finding.clock.asleep()
        assert daemon.asked == []
        live.take({"x/a": served("x/a")})
        discovery.glance()
        await finding.catalog.when(lambda: finding.models("x/a") == ["m"])
        assert finding.catalog.card(served("x/a").source, None, "m").surfaces == {"messages"}
        live.take({"x/b": served("x/b")})
        discovery.glance()
        await finding.catalog.when(lambda: finding.models("x/b") == ["m"])
        assert finding.models("x/a") == []
        assert finding.catalog.diagnosis("x/a") is None
        await discovery.look("x/a")  # nobody is asked
        discovery.invalidate("x/a")
    assert daemon.asked == ["x/a", "x/b"]


@pytest.mark.proves("daemon.models")
async def test_when_somebody_has_signed_in_it_is_asked_again_at_once(finding: Finding) -> None:
    daemon = Daemon()
    discovery = finding.of({"x/a": served("x/a")}, behind=daemon)
    async with finding.running(discovery):
        await finding.catalog.when(lambda: finding.models("x/a") == ["m"])
        daemon.rows = Rows((Found("for-members"),))
        finding.wallet.put("x/a", Credential(id="con_a", weight=1, secret=Secret("at"), key="k"))
        await finding.clock.asleep()
        finding.clock.advance(TICK)
        await finding.catalog.when(lambda: finding.models("x/a") == ["for-members"])
        finding.wallet.put("x/a", Credential(id="con_a", weight=1, secret=Secret("at-renewed"), key="k", revision="2"))
        await finding.clock.asleep()
        finding.clock.advance(TICK)
        await finding.clock.asleep()
    assert daemon.asked == ["x/a", "x/a"]  # a renewal is no other sign-in


async def test_what_was_kept_of_a_provider_is_known_when_its_daemon_is_reached(finding: Finding) -> None:
    await finding.of({"x/a": served("x/a")}, behind=Daemon()).look("x/a")
    finding.board, live, daemon = Board(ttl=900.0, retry=30.0), Live({}), Daemon()
    discovery = finding.of(live, behind=daemon)
    async with finding.running(discovery):
        await finding.clock.asleep()
        live.take({"x/a": served("x/a")})
        discovery.glance()
        assert finding.models("x/a") == ["m"]
        assert finding.diagnosis("x/a").from_cache
    assert daemon.asked == []


@pytest.mark.proves("daemon.rows")
async def test_rows_that_cannot_be_read_are_told_of_once(finding: Finding, upstream: Upstream) -> None:
    daemon = Daemon()
    daemon.rows = Rows((Found("m"),), 2)
    discovery = finding.of({"x/a": served("x/a")}, behind=daemon)
    await discovery.look("x/a")
    await discovery.look("x/a")
    assert finding.log.lines == [("warning", "a provider lists what cannot be read", {"provider": "x/a", "left_out": 2})]
    assert finding.diagnosis("x/a").left_out == 2
    upstream.answers(200, {"data": [{"id": "a"}, {"id": 7}, 9]})
    await finding.of({"home": provider("home", COMPATIBLE, f"{upstream.base_url}/v1")}).look("home")
    assert finding.diagnosis().left_out == 2
