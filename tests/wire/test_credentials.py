"""Stored credentials: which one a call goes out with, which ones rest, and that nobody gets to see one.

That none is in a line of the log or in an answer is checked after every test (`Gateway.check`), whatever the provider quotes.
"""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import replies
from tests.fakes.replies import Reply
from tests.fakes.upstream import Call, Upstream, Wire
from tests.wire.conftest import PROVIDERS
from tests.wire.gateway import Gateway
from tests.wire.sides import CHAT, RESPONSES
from trunkline.access.credentials import CredentialRow, Credentials
from trunkline.access.key_sources import FileSource
from trunkline.access.vault import Vault
from trunkline.app import database
from trunkline.base.clock import SystemClock
from trunkline.base.secret import Secret

ONE, OTHER, MINE = "sk-stored/o+ne=canary1", "sk-stored/oth+er=canary2", "sk-stored/mi+ne=canary3"
FRESH = "sk-stored/fre+sh=canary4"


class Store:
    """A data folder's credentials, as another process has them: `trunkline credentials`, say."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def _with(self, work: Callable[[Vault, Credentials], Any]) -> Any:
        engine = database.open_store(self._data)
        try:
            vault = Vault(engine, FileSource(self._data / "vault.key"))
            return work(vault, Credentials(engine, vault, SystemClock()))
        finally:
            engine.dispose()

    def add(self, secret: str, **fields: Any) -> CredentialRow:
        return self._with(lambda _, credentials: credentials.create(secret=Secret(secret), **fields))

    def rotate(self) -> None:
        self._with(lambda vault, _: vault.rotate())


@pytest.fixture
def keyed(keyed: tuple[Path, dict[str, str]], tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, dict[str, str]]:
    """The data folder with what the test has stored: two credentials for `openai`, unless it says otherwise."""
    template, keys = keyed
    data = Path(shutil.copytree(template, tmp_path / "template"))
    mark = request.node.get_closest_marker("stores")
    for fields in mark.args if mark else ({"secret": ONE, "name": "one"}, {"secret": OTHER, "name": "other"}):
        Store(data).add(**{"provider": "openai", **fields})
    return data, keys


@pytest.fixture
def stored(keyed: tuple[Path, dict[str, str]]) -> dict[str, str]:
    data, _ = keyed
    [key] = FileSource(data / "vault.key").read()
    lines = [line for line in (data / "vault.key").read_text().splitlines() if not line.startswith("#")]
    return {"one": ONE, "other": OTHER, "mine": MINE, "fresh": FRESH, "vault key": lines[0], "in hex": key.material.hex()}


@pytest.fixture
def config(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Providers of the kind OpenAI have no credential but stored ones."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name in ("openai", "pro"):
        del config["providers"][name]["api_key"]
    return config


@pytest.fixture
def store(tmp_path: Path, gateway: Gateway) -> Store:
    """The store of the running one."""
    return Store(tmp_path / "data")


def key_of(call: Call) -> str:
    """The credential that a call came with."""
    return (call.header("authorization") or "").removeprefix("Bearer ")


def keys_of(upstream: Upstream) -> list[str]:
    return [key_of(call) for call in upstream.calls]


@pytest.fixture
def judging(upstreams: dict[str, Upstream]) -> dict[str, tuple[int, list[tuple[str, str]]]]:
    """`openai` answers each credential as is put here, with a status and headers, and quotes all that it was ever sent; else it serves."""
    verdicts: dict[str, tuple[int, list[tuple[str, str]]]] = {}
    upstream = upstreams["openai"]

    async def script(call: Call, wire: Wire) -> None:
        status, headers = verdicts.get(key_of(call), (200, []))
        seen = ", ".join(sorted({*keys_of(upstream)}))
        whole = replies.whole("openai_chat", Reply("here I am", model="gpt-mini"))
        body = json.dumps(whole if status == 200 else {"error": {"message": f"no more for {seen} now", "type": "x", "code": None}}).encode()
        await wire.head(status, [("content-type", "application/json"), ("content-length", str(len(body))), *headers])
        await wire.send(body)

    upstream.does(script, times=None)
    return verdicts


@pytest.mark.parametrize("status", [401, 402, 403])
@pytest.mark.proves("credentials.rest")
async def test_one_is_refused_so_the_other_serves_and_the_refused_one_rests(
    gateway: Gateway, upstreams: dict[str, Upstream], judging: dict[str, Any], status: int
) -> None:
    judging[ONE] = status, []
    for _ in range(12):
        assert (await gateway.ask(CHAT)).status == 200
    tried = keys_of(upstreams["openai"])
    assert (tried.count(ONE), tried.count(OTHER)) == (tried.count(ONE), 12)
    assert tried.count(ONE) <= 1, "it rests"
    judging.clear()
    gateway.clock.advance(31)
    for _ in range(40):
        assert (await gateway.ask(CHAT)).status == 200
    assert keys_of(upstreams["openai"])[len(tried) :].count(ONE) > 0, "its rest is over"


@pytest.mark.proves("credentials.rest", "G14")
async def test_a_busy_one_rests_as_long_as_it_was_told_and_when_both_do_the_caller_is_told_the_shorter_wait(
    gateway: Gateway, upstreams: dict[str, Upstream], judging: dict[str, Any]
) -> None:
    judging[ONE], judging[OTHER] = (429, [("retry-after", "50")]), (429, [("retry-after", "20")])
    got = await gateway.ask(CHAT)
    assert got.status == 429
    assert sorted(keys_of(upstreams["openai"])) == sorted([ONE, OTHER])
    assert 18 <= int(got.headers["retry-after"]) <= 20
    assert (await gateway.ask(CHAT)).status == 429
    assert len(upstreams["openai"].calls) == 2, "nobody is asked while both rest"
    judging.clear()
    gateway.clock.advance(21)
    assert (await gateway.ask(CHAT)).status == 200
    assert keys_of(upstreams["openai"])[2:] == [OTHER]


@pytest.mark.proves("vault.unread", "G19")
async def test_a_provider_that_quotes_every_credential_of_the_call_is_told_without_any(
    gateway: Gateway, upstreams: dict[str, Upstream], judging: dict[str, Any]
) -> None:
    judging[ONE] = judging[OTHER] = 429, []
    got = await gateway.ask(CHAT)
    assert got.status == 429
    said = got.json()["error"]["message"]
    assert "no more for" in said
    assert said.count("***") == 2
    line = await gateway.told()
    assert all(attempt.split(" ")[3].startswith("cred_") for attempt in line["attempts"]), "the line names the credential"
    assert len({attempt.split(" ")[3] for attempt in line["attempts"]}) == 2


@pytest.mark.stores({"secret": ONE}, {"secret": MINE, "account": "acc_default"})
@pytest.mark.proves("credentials.choice")
async def test_an_accounts_own_credential_wins_over_the_installations(
    gateway: Gateway, upstreams: dict[str, Upstream], judging: dict[str, Any]
) -> None:
    for _ in range(5):
        assert (await gateway.ask(CHAT)).status == 200
    judging[MINE] = 401, []
    got = await gateway.ask(CHAT)
    assert got.status == 502, "who has its own does not go out with another's"
    assert set(keys_of(upstreams["openai"])) == {MINE}


@pytest.mark.stores({"provider": "home", "secret": ONE, "weight": 1000})
@pytest.mark.proves("credentials.choice")
async def test_the_configurations_credential_counts_as_one_of_weight_one(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    for _ in range(6):
        upstreams["home"].answers(429, {"error": {"message": "slow"}}, retry_after=1)
        upstreams["home"].says("here I am")
        assert (await gateway.ask(CHAT, model="home/m")).status == 200
        gateway.clock.advance(2)
    assert {key_of(call) for call in upstreams["home"].calls} == {ONE, PROVIDERS["home"]}


@pytest.mark.stores({"provider": "other", "secret": ONE})
async def test_without_any_the_way_out_is_told_and_nothing_is_sent(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    got = await gateway.ask(CHAT)
    assert got.status == 503
    assert "trunkline credentials add openai" in got.body.decode()
    assert upstreams["openai"].calls == []


@pytest.mark.stores({"provider": "pro", "secret": ONE, "name": "one"}, {"provider": "pro", "secret": OTHER, "name": "other"})
@pytest.mark.proves("stored")
async def test_what_a_provider_keeps_for_a_credential_is_asked_for_with_that_one(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    for _ in range(6):
        upstreams["openai"].calls.clear()
        upstreams["openai"].says("hi")
        upstreams["openai"].says("hi again")
        upstreams["openai"].answers(200, {"id": "resp_fake", "object": "response"})
        first = (await gateway.post(RESPONSES.path, {"model": "pro/o9", "input": "hello"})).json()["id"]
        assert first.startswith("resp_pro~cred_")
        again = await gateway.post(RESPONSES.path, {"model": "pro/o9", "input": "more", "previous_response_id": first})
        assert again.json()["id"] == first
        kept = await gateway.get(f"/v1/responses/{first}")
        assert (kept.status, kept.json()["id"]) == (200, first)
        assert len(set(keys_of(upstreams["openai"]))) == 1
        assert upstreams["openai"].calls[1].json()["previous_response_id"] == "resp_fake"
    gone = await gateway.get("/v1/responses/resp_pro~cred_abcdefghijklmnopqrstuvwx~resp_fake")
    assert gone.status == 404


# ----------------------------------------------------------------------------------------------------------- while it runs
def as_admin(gateway: Gateway) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {gateway.secrets['admin']}")]


async def admin(gateway: Gateway, method: str, path: str, body: Any = None) -> Any:
    """The admin API's answer."""
    headers = [*as_admin(gateway), ("content-type", "application/json")]
    response = await gateway.open(method, f"/api/v1{path}", b"" if body is None else json.dumps(body).encode(), headers)
    content = await response.read()
    assert response.status < 400, content
    return json.loads(content) if content else None


async def until_sent(gateway: Gateway, upstream: Upstream, secret: str) -> None:
    """Ask until a call goes out with a credential."""
    async with asyncio.timeout(8):
        while secret not in keys_of(upstream):
            await gateway.ask(CHAT)


@pytest.mark.proves("vault.unread")
async def test_a_credential_that_is_put_there_over_rest_is_used_at_once_and_read_back_by_nobody(
    gateway: Gateway, upstreams: dict[str, Upstream], judging: dict[str, Any]
) -> None:
    judging[ONE] = judging[OTHER] = 401, []
    made = await admin(gateway, "POST", "/credentials", {"provider": "openai", "secret": FRESH, "name": "fresh"})
    assert made["hint"] == FRESH[-4:]
    await until_sent(gateway, upstreams["openai"], FRESH)
    listed = await admin(gateway, "GET", "/credentials?provider=openai")
    assert [row["name"] for row in listed["data"]] == ["one", "other", "fresh"]
    assert all("secret" not in row and "sealed" not in row for row in listed["data"])
    await admin(gateway, "GET", f"/credentials/{made['id']}")
    for path in ("/metrics", "/openapi.json", "/api/v1/providers", "/api/v1/credentials"):
        assert (await gateway.get(path, as_admin(gateway))).status == 200
    await admin(gateway, "PATCH", f"/credentials/{made['id']}", {"secret": MINE})
    await until_sent(gateway, upstreams["openai"], MINE)
    await admin(gateway, "DELETE", f"/credentials/{made['id']}")


@pytest.mark.proves("vault.rotation")
async def test_a_running_server_notices_a_rotation(
    gateway: Gateway, upstreams: dict[str, Upstream], store: Store, judging: dict[str, Any]
) -> None:
    assert (await gateway.ask(CHAT)).status == 200
    await asyncio.to_thread(store.rotate)
    await admin(gateway, "POST", "/credentials", {"provider": "openai", "secret": FRESH, "name": "fresh", "weight": 1000})
    await until_sent(gateway, upstreams["openai"], FRESH)
    await asyncio.to_thread(store.rotate)
    await asyncio.to_thread(store.add, MINE, provider="openai", name="mine", weight=1000)
    await until_sent(gateway, upstreams["openai"], MINE)
    assert {line["event"] for line in gateway.log.records()} <= {"listening", "exchange"}
