from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes.admin import Asking, member
from tests.fakes.clock import FakeClock
from trunkline.app.config import connect, read
from trunkline.errors import UpstreamBusy, UpstreamDown
from trunkline.gateway.daemons import State, behind
from trunkline.gateway.health import FAILURES, Health
from trunkline.gateway.live import Live
from trunkline.model.target import Target
from trunkline.providers import Served
from trunkline.server.admin.providers import RESOURCE, Upstreams

CANARY = "sk-canary-0123456789abcdef"
CONFIG = {
    "providers": {
        "open": {"kind": "openai", "models": ["a", "b"]},
        "anthro": {"kind": "anthropic", "api_key": "env:CANARY", "models": ["c"]},
        "echo": {"kind": "echo", "models": ["echo"]},
    }
}


@pytest.fixture
def health() -> Health:
    return Health(FakeClock())


@pytest.fixture
def api(health: Health) -> Iterator[Asking]:
    providers = connect(read(CONFIG), {"CANARY": CANARY})
    asking = Asking({"providers": RESOURCE}, [Upstreams(providers, health)])
    yield asking
    asking.pool.close()
    assert asking.crashes == []


async def test_providers_are_listed_by_name_and_what_they_are_called_with_is_not_told(api: Asking) -> None:
    reply = await api.get("/providers")
    assert [(row["name"], row["kind"], row["credential"], row["state"]) for row in reply.json["data"]] == [
        ("anthro", "anthropic", "present", "well"),
        ("echo", "echo", "not needed", "well"),
        ("open", "openai", "missing", "no credential"),
    ]
    assert CANARY.encode() not in reply.body
    assert b"CANARY" not in reply.body
    page = (await api.get("/providers?limit=1&after=anthro")).json
    assert ([row["name"] for row in page["data"]], page["next"]) == (["echo"], "echo")


async def test_one_provider_says_what_it_speaks_and_where_it_is(api: Asking) -> None:
    row = (await api.get("/providers/open")).json
    assert row["base_url"] == "https://api.openai.com/v1"
    assert row["formats"] == ["openai_chat", "openai_responses", "openai_embeddings", "openai_speech"]
    assert row["models"] == ["a", "b"]
    reply = await api.get("/providers/opn")
    assert (reply.status, reply.error["hint"]) == (404, "Did you mean `open`?")


async def test_a_model_that_is_left_alone_is_told_with_its_time(api: Asking, health: Health) -> None:
    health.failed(Target("anthro", "c"), UpstreamBusy("busy", retry_after=30.0))
    for _ in range(FAILURES):
        health.failed(Target("open", "a"), UpstreamDown("down"))
    row = (await api.get("/providers/anthro")).json
    assert (row["state"], row["resting"]) == ("resting", [{"model": "c", "credential": None, "why": "busy", "seconds": 30.0}])
    row = (await api.get("/providers/open")).json
    assert [each["why"] for each in row["resting"]] == ["failing"]


async def test_accounts_do_not_see_the_installations_providers(api: Asking) -> None:
    api.caller = member("acc_one", "owner")
    assert (await api.get("/providers")).status == 403


# -------------------------------------------------------------------------------------------------------------- daemons
class Daemons:
    """The daemons `x`, which has been reached, and `y`."""

    def __init__(self) -> None:
        self.health = Health(FakeClock())
        self.stored: set[str] = set()
        tables = {name: {"kind": "daemon", "base_url": "http://127.0.0.1:9", "secret": "env:CANARY"} for name in ("x", "y")}
        self.live = Live(connect(read({"providers": tables}), {"CANARY": CANARY}))
        served = (
            Served(
                daemon="x", id="codex", title="Codex", surfaces=("responses",), credential="oauth", methods=("device",), refreshable=True
            ),
            Served(daemon="x", id="pi", surfaces=("images",)),
        )
        self.live.take({f"x/{each.id}": behind(self.live["x"], each) for each in served})
        self.states = {"x": State(version="1.2", served=served, left_out=1, seen_at=5.0), "y": State(code="daemon_refused", failures=2)}
        service = Upstreams(self.live, self.health, self.stored.__contains__, lambda: self.states)
        self.api = Asking({"providers": RESOURCE}, [service])

    async def row(self, name: str) -> Any:
        return (await self.api.get(f"/providers/{name}")).json


@pytest.fixture
def daemons() -> Iterator[Daemons]:
    daemons = Daemons()
    yield daemons
    daemons.api.pool.close()
    assert daemons.api.crashes == []


@pytest.mark.proves("daemon.told")
async def test_a_daemon_tells_how_it_stands_and_what_it_serves(daemons: Daemons) -> None:
    reply = await daemons.api.get("/providers")
    assert [row["name"] for row in reply.json["data"]] == ["x", "x/codex", "x/pi", "y"]
    assert CANARY.encode() not in reply.body
    row = await daemons.row("x")
    assert (row["state"], row["formats"], row["served"]) == ("well", [], None)
    assert row["daemon"] == {"version": "1.2", "providers": ["codex", "pi"], "left_out": 1, "seen_at": 5.0, "failure_code": ""}
    row = await daemons.row("y")
    assert (row["state"], row["daemon"]["failure_code"], row["daemon"]["seen_at"]) == ("not reached", "daemon_refused", None)
    daemons.states["x"] = replace(daemons.states["x"], code="upstream_down")
    assert (await daemons.row("x"))["state"] == "failing"


@pytest.mark.proves("daemon.told")
async def test_a_provider_behind_a_daemon_tells_what_its_calls_need(daemons: Daemons) -> None:
    row = await daemons.row("x/codex")
    assert (row["title"], row["formats"], row["daemon"]) == ("Codex", ["openai_responses"], None)
    assert (row["credential"], row["state"]) == ("missing", "no credential")
    assert row["served"] == {
        "daemon": "x",
        "id": "codex",
        "surfaces": ["responses"],
        "credential": "oauth",
        "methods": ["device"],
        "refreshable": True,
    }
    daemons.stored.add("x/codex")
    row = await daemons.row("x/codex")
    assert (row["credential"], row["state"]) == ("present", "well")
    row = await daemons.row("x/pi")
    assert (row["title"], row["formats"], row["credential"], row["served"]["credential"]) == (
        "Extension daemon",
        [],
        "not needed",
        "unknown",
    )
    reply = await daemons.api.get("/providers/x/codx")
    assert (reply.status, reply.error["hint"]) == (404, "Did you mean `x/codex`?")
