"""What keeps up with daemons, against a daemon on loopback."""

import asyncio
import functools
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.fakes.clock import FakeClock
from tests.fakes.daemon import FakeDaemon
from trunkline.app.config import connect, read
from trunkline.base.aio import Tasks
from trunkline.base.egress import Egress, EgressSettings
from trunkline.catalog.cards import Cards
from trunkline.catalog.known import Catalog
from trunkline.catalog.prices import Book, Prices
from trunkline.errors import NotFound, UpstreamDown
from trunkline.gateway import daemons as module
from trunkline.gateway.daemons import AGAIN, EVERY, SLOWEST, TICK, Daemons, State
from trunkline.gateway.daemons import read as read_info
from trunkline.gateway.live import Live
from trunkline.model.price import Price
from trunkline.providers import Served
from trunkline_sdk import http1
from trunkline_sdk.daemon.messages import InfoResponse, ProviderInfo, Record
from trunkline_sdk.listen import Listener, Tls

SECRET = "secret-canary-0123456789"
NOWHERE = "http://127.0.0.1:9"
ROOTS_ONCE = functools.cache(http1.tls_context)


class Log:
    """What was said, in order."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def info(self, event: str, **facts: Any) -> None:
        self.lines.append(("info", event, facts))

    def warning(self, event: str, **facts: Any) -> None:
        self.lines.append(("warning", event, facts))


class Board:
    """All that daemons need, around one configuration."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.log = Log()
        self.catalog = Catalog(Prices(Book(made_from="", units={}, vendors={}, rows=[])), Cards([]))
        self.failures: list[tuple[str, BaseException]] = []
        self.told = 0
        self.made: list[Daemons] = []
        self.live = Live({})
        self._tls = ROOTS_ONCE()

    def of(self, tables: dict[str, Any], before: Daemons | None = None, secret: str = SECRET) -> Daemons:
        self.live = Live(connect(read({"providers": {"echo": {"kind": "echo"}, **tables}}), {"SECRET": secret}))
        made = Daemons(
            providers=self.live,
            known=self.catalog.of,
            egress=Egress(EgressSettings()),
            tls=self._tls,
            clock=self.clock,
            log=self.log,  # type: ignore[arg-type]
            before=before,
        )
        made.when_changed(self._count)
        self.made.append(made)
        return made

    def _count(self) -> None:
        self.told += 1

    def failed(self, task: str, error: BaseException) -> None:
        self.failures.append((task, error))

    @asynccontextmanager
    async def running(self, daemons: Daemons) -> AsyncIterator[None]:
        async with Tasks(self.failed) as tasks:
            tasks.start(daemons.run(self.failed), name="daemons")
            yield
        assert self.failures == []


@pytest.fixture
async def board() -> AsyncIterator[Board]:
    board = Board()
    yield board
    for each in board.made:
        await each.aclose()


@pytest.fixture
async def fake() -> AsyncIterator[FakeDaemon]:
    async with FakeDaemon(NOWHERE, secret=SECRET, only=("open", "pasted")) as fake:
        yield fake


class Told:
    """A daemon that says what a test says: to `info` this, and to everything else that it is renewed."""

    def __init__(self) -> None:
        self.status = 200
        self.looks = 0
        self.info: Any = {"version": "1", "providers": []}
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Any, _receive: Any, send: Any) -> None:
        self.looks += 1
        body = self.info
        if scope["path"] != "/extension/v1/info":
            self.asked.set()
            await self.go_on.wait()
            body = {"record": {"AccessToken": "new"}}
        await send({"type": "http.response.start", "status": self.status, "headers": [(b"location", b"http://127.0.0.1:9/")]})
        await send({"type": "http.response.body", "body": body if isinstance(body, bytes) else json.dumps(body).encode()})


@pytest.fixture
async def told() -> AsyncIterator[tuple[Told, str]]:
    told = Told()
    async with Listener(told, port=0) as listener:
        yield told, listener.urls[0]


def table(url: str, **more: Any) -> dict[str, Any]:
    return {"kind": "daemon", "base_url": url, "secret": "env:SECRET", **more}


# -------------------------------------------------------------------------------------------------------------- one look
@pytest.mark.proves("daemon.providers")
async def test_each_provider_behind_a_daemon_becomes_one_with_its_surfaces_and_what_it_needs(board: Board, fake: FakeDaemon) -> None:
    daemons = board.of({"x": table(fake.url)})
    await daemons.look("x")
    assert list(daemons.providers) == ["x/open", "x/pasted"]
    assert list(board.live) == ["echo", "x", "x/open", "x/pasted"]
    assert daemons.providers["x/open"].served == Served(
        daemon="x", id="open", title="Open", surfaces=("chat_completions", "responses", "messages", "embeddings"), credential="none"
    )
    pasted = board.live["x/pasted"]
    assert [wire.dialect.name for wire in pasted.speaks] == ["openai_chat"]
    assert pasted.served is not None
    assert pasted.served.credential == "token"
    assert (pasted.secret, pasted.api_key, pasted.base_url) == (None, None, fake.url)
    assert SECRET not in repr(board.live["x"])
    client, served = daemons.client("x/open")
    assert served == "open"
    assert [row.id for row in (await client.models(served)).models] == ["m", "embedder", "claude"]


async def test_a_provider_is_the_same_object_while_nothing_changes(board: Board, told: tuple[Told, str]) -> None:
    daemon, url = told
    daemon.info = {"providers": [{"id": "a", "surfaces": ["messages"]}, {"id": "b", "surfaces": ["messages"]}]}
    daemons = board.of({"x": table(url)})
    await daemons.look("x")
    before = dict(daemons.providers)
    await daemons.look("x")
    assert all(daemons.providers[name] is each for name, each in before.items())
    assert board.told == 1
    daemon.info["providers"][1]["surfaces"] = ["chat_completions"]
    await daemons.look("x")
    assert daemons.providers["x/a"] is before["x/a"]
    assert [wire.dialect.name for wire in daemons.providers["x/b"].speaks] == ["openai_chat"]
    assert board.told == 2


async def test_what_the_configuration_says_of_a_model_behind_a_daemon_is_said_of_it_there(board: Board, fake: FakeDaemon) -> None:
    daemons = board.of({"x": table(fake.url, price="free", models={"open/m": {"context_window": 99}, "pasted/n": {}})})
    await daemons.look("x")
    found = daemons.providers["x/open"]
    assert list(found.settings.models) == ["m"]
    assert found.card("m").context_window == 99
    assert found.price("m", 0.0) == Price(source="the provider's settings", date="", free=True)
    assert list(daemons.providers["x/pasted"].settings.models) == ["n"]


def test_ids_that_break_the_rules_and_those_that_stand_twice_are_left_out() -> None:
    ids = ["ok", "ok", "a/b", "..", "info", "", "Ä", "x" * 129, "Über", "B.c-d_1"]
    info = InfoResponse(version="1", providers=tuple(ProviderInfo(id=each) for each in ids))
    assert [each.id for each in read_info("x", info)] == ["ok", "B.c-d_1"]
    many = InfoResponse(providers=tuple(ProviderInfo(id=f"p{number}") for number in range(module.MOST_SERVED + 5)))
    assert len(read_info("x", many)) == module.MOST_SERVED


def test_an_older_daemon_is_understood_and_a_kind_that_nobody_knows_is_unknown() -> None:
    told = (ProviderInfo(id="a", has_oauth=True), ProviderInfo(id="b"), ProviderInfo(id="c", credential="palm-reading", name="one\ntwo"))
    found = read_info("x", InfoResponse(providers=told))
    assert [(each.credential, each.title) for each in found] == [("oauth", ""), ("", ""), ("", "one two")]


# ------------------------------------------------------------------------------------------------------------- failures
@pytest.mark.proves("daemon.secret")
async def test_a_wrong_secret_is_the_operators_error_and_the_providers_stay(board: Board, fake: FakeDaemon) -> None:
    daemons = board.of({"x": table(fake.url)}, secret="another-canary-987654321")
    await daemons.look("x")
    assert daemons.states()["x"] == State(code="daemon_refused", failures=1, due=AGAIN)
    assert board.log.lines == [("warning", "a daemon does not answer as it should", {"daemon": "x", "code": "daemon_refused"})]
    await daemons.look("x")
    assert len(board.log.lines) == 1  # said once


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (200, b"not json", "upstream_garbled"),
        (200, b'{"providers": 7}', "upstream_garbled"),
        (301, b"", "upstream_garbled"),
        (401, b'{"error":"no"}', "daemon_refused"),
        (403, b'{"error":"no"}', "daemon_refused"),
        (404, b"{}", "upstream_refused"),
        (429, b"{}", "upstream_busy"),
        (503, b"{}", "upstream_down"),
    ],
)
async def test_whatever_a_daemon_does_wrong_has_a_code(board: Board, told: tuple[Told, str], status: int, body: bytes, code: str) -> None:
    told[0].status, told[0].info = status, body
    daemons = board.of({"x": table(told[1])})
    await daemons.look("x")
    assert daemons.states()["x"].code == code


async def test_a_daemon_that_says_nothing_is_left_and_nobody_listening_is_told(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    connected = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        while await reader.read(1024):
            pass
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        daemons = board.of({"x": table(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"), "y": table(NOWHERE)})
        await daemons.look("x")
        await daemons.look("y")
        assert connected.is_set()
        assert [state.code for state in daemons.states().values()] == ["upstream_timeout", "upstream_down"]


async def test_a_daemon_that_goes_keeps_its_providers_and_its_return_is_told(board: Board) -> None:
    async with FakeDaemon(NOWHERE, secret=SECRET, only=("open",)) as fake:
        port = int(fake.url.rpartition(":")[2])
        daemons = board.of({"x": table(fake.url)})
        await daemons.look("x")
    await daemons.look("x")
    state = daemons.states()["x"]
    assert (state.code, state.failures, [each.id for each in state.served]) == ("upstream_down", 1, ["open"])
    assert daemons.client("x/open")[1] == "open"
    async with FakeDaemon(NOWHERE, secret=SECRET, only=("pasted",), port=port):
        await daemons.look("x")
    assert list(daemons.providers) == ["x/pasted"]
    assert [(event, facts.get("providers")) for _, event, facts in board.log.lines] == [
        ("a daemon answers", ["open"]),
        ("a daemon does not answer as it should", None),
        ("a daemon answers", ["pasted"]),
    ]


def test_a_provider_that_is_not_there_is_down_and_says_why(board: Board) -> None:
    daemons = board.of({"x": table(NOWHERE)})
    with pytest.raises(UpstreamDown, match="the daemon `x` has not been reached yet"):
        daemons.client("x/open")


async def test_a_provider_that_a_daemon_does_not_serve_is_down(board: Board, fake: FakeDaemon) -> None:
    daemons = board.of({"x": table(fake.url)})
    await daemons.look("x")
    with pytest.raises(UpstreamDown, match="the daemon `x` does not serve `other` now"):
        daemons.client("x/other")


async def test_sign_ins_find_their_daemon_before_it_was_reached(board: Board) -> None:
    daemons = board.of({"x": table(NOWHERE)})
    assert callable(daemons.refresher("x/codex"))
    assert daemons.driver("x/codex") is not None
    for name in ("y/codex", "x", "x/", "x/a/b", "echo"):
        with pytest.raises(NotFound, match="behind a daemon"):
            daemons.refresher(name)
        with pytest.raises(NotFound, match="behind a daemon"):
            daemons.driver(name)


# ----------------------------------------------------------------------------------------------------------------- time
@pytest.mark.proves("daemon.looks")
async def test_a_daemon_is_asked_at_once_and_then_every_minute(board: Board, told: tuple[Told, str]) -> None:
    daemon, url = told
    daemons = board.of({"x": table(url)})
    async with board.running(daemons), asyncio.timeout(5):
        await daemons.first_look(5.0)
        began = board.clock.now()
        board.clock.advance(EVERY - TICK)
        await board.clock.asleep()
        board.clock.advance(TICK)
        while daemons.states()["x"].seen_at != began + EVERY:
            await asyncio.sleep(0)
    assert daemon.looks == 2


async def test_a_daemon_that_fails_is_asked_again_soon_and_then_less_often(board: Board) -> None:
    daemons = board.of({"x": table(NOWHERE)})
    waits: list[float] = []
    for _ in range(6):
        await daemons.look("x")
        waits.append(daemons.states()["x"].due - board.clock.monotonic())
    assert waits == [AGAIN, 2 * AGAIN, 4 * AGAIN, 8 * AGAIN, SLOWEST, SLOWEST]


async def test_the_first_look_waits_for_every_daemon_and_not_for_ever(board: Board, fake: FakeDaemon) -> None:
    daemons = board.of({"x": table(fake.url), "y": table(NOWHERE)})
    await daemons.first_look(0.01)  # nobody looks
    assert list(daemons.providers) == []
    async with board.running(daemons):
        await daemons.first_look(5.0)
        assert list(daemons.providers) == ["x/open", "x/pasted"]
        assert daemons.states()["y"].code == "upstream_down"


async def test_without_daemons_nothing_runs(board: Board) -> None:
    daemons = board.of({})
    await daemons.run(board.failed)
    await daemons.first_look(5.0)
    assert board.clock.asked == []


# --------------------------------------------------------------------------------------------------------------- reload
async def test_another_configuration_goes_on_with_what_was_known_of_a_daemon_that_is_the_same(board: Board, fake: FakeDaemon) -> None:
    before = board.of({"x": table(fake.url), "y": table(fake.url)})
    await before.look("x")
    await before.look("y")
    after = board.of({"x": table(fake.url), "y": table(fake.url, timeouts={"silence": 9})}, before=before)
    assert list(after.providers) == ["x/open", "x/pasted"]
    assert after.states()["x"].due == 0.0  # and it is looked at again at once
    assert after.client("x/open")[0] is not before.client("x/open")[0]
    other = board.of({"x": table(fake.url)}, before=before, secret="another-canary-987654321")
    assert list(other.providers) == []


async def test_a_renewal_under_way_ends_before_its_connection_is_closed(board: Board, told: tuple[Told, str]) -> None:
    daemon, url = told
    daemons = board.of({"x": table(url)})
    async with Tasks(board.failed) as tasks, asyncio.timeout(5):
        renewing = tasks.start(_renewed(daemons), name="renew")
        await daemon.asked.wait()
        closing = tasks.start(daemons.aclose(), name="close")
        await asyncio.sleep(0)
        assert not closing.done()
        daemon.go_on.set()
        await closing
        assert renewing.done()
        assert renewing.result() == "new"


async def _renewed(daemons: Daemons) -> str:
    return (await daemons.refresher("x/a")(Record(refresh_token="old"))).access_token


# ------------------------------------------------------------------------------------------------------------------ TLS
@pytest.mark.proves("daemon.tls")
async def test_a_daemon_with_a_certificate_of_its_own_is_reached_by_its_ca_and_held_to_its_pin(board: Board, tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    ca, chain, key = (str(tmp_path / name) for name in ("ca.pem", "chain.pem", "key.pem"))
    authority.cert_pem.write_to_path(ca)
    issued.cert_chain_pems[0].write_to_path(chain)
    issued.private_key_pem.write_to_path(key)
    pin = sha256(ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())).hexdigest()
    told = Told()
    async with Listener(told, port=0, tls=Tls(Path(chain), Path(key))) as listener:
        [url] = listener.urls
        daemons = board.of(
            {
                "plain": table(url),
                "ca": table(url, ca=ca),
                "both": table(url, ca=ca, pins=[pin]),
                "other": table(url, ca=ca, pins=["0" * 64]),
            }
        )
        for name in daemons.states():
            await daemons.look(name)
    assert {name: state.code for name, state in daemons.states().items()} == {
        "plain": "egress_denied",
        "ca": "",
        "both": "",
        "other": "egress_denied",
    }
    assert told.looks == 2


@pytest.mark.proves("daemon.exposure")
async def test_an_address_that_may_not_be_dialled_is_not_dialled(board: Board) -> None:
    daemons = board.of({"x": table("http://169.254.169.254", insecure_http=True)})
    await daemons.look("x")
    assert daemons.states()["x"].code == "egress_denied"
