from collections.abc import Iterator

import pytest

from tests.fakes.admin import Asking
from tests.fakes.clock import FakeClock
from trunkline import dialects as dialects_package
from trunkline.app.config import connect, read
from trunkline.base import members
from trunkline.dialects import Dialect
from trunkline.errors import UpstreamBusy
from trunkline.gateway.health import Health
from trunkline.gateway.router import Router
from trunkline.model.target import Target
from trunkline.server.admin.routes import RESOURCE, Routing

CONFIG = {
    "providers": {
        "open": {"kind": "openai", "models": ["gpt"]},
        "anthro": {"kind": "anthropic", "models": ["claude"]},
    },
    "routes": {
        "fast": {"targets": [{"model": "open/gpt", "weight": 3}, {"model": "anthro/claude", "order": 1}]},
        "a/b": {"targets": [{"model": "anthro/claude"}], "losses": [{"action": "allow", "class": "dropped"}]},
    },
}


@pytest.fixture
def api() -> Iterator[Asking]:
    config, health = read(CONFIG), Health(FakeClock())
    router = Router(providers=connect(config, {}), routes=config.sections.routes)
    health.failed(Target("anthro", "claude"), UpstreamBusy("busy", retry_after=7.0))
    routing = Routing(config.sections.routes, router, health, members.load(dialects_package, "DIALECT", Dialect))
    asking = Asking({"routes": RESOURCE}, [routing])
    yield asking
    asking.pool.close()
    assert asking.crashes == []


async def test_routes_are_listed_by_name_with_their_targets(api: Asking) -> None:
    page = (await api.get("/routes")).json
    assert [row["name"] for row in page["data"]] == ["a/b", "fast"]
    assert page["data"][1]["targets"] == [
        {"model": "open/gpt", "weight": 3, "order": 0},
        {"model": "anthro/claude", "weight": 1, "order": 1},
    ]
    assert (await api.get("/routes?limit=1")).json["next"] == "a/b"
    assert [row["name"] for row in (await api.get("/routes?after=a/b")).json["data"]] == ["fast"]


async def test_a_route_is_read_by_its_name_slashes_and_all(api: Asking) -> None:
    assert (await api.get("/routes/a/b")).json["losses"] == [{"action": "allow", "path": "", "severity": None, "class": "dropped"}]
    reply = await api.get("/routes/fats")
    assert (reply.status, reply.error["hint"]) == (404, "Did you mean `fast`?")


async def test_where_a_call_goes_is_explained(api: Asking) -> None:
    told = (await api.get("/explain?model=fast&format=anthropic")).json
    assert [(stop["target"], stop["format"], stop["how"], stop["resting_seconds"]) for stop in told["stops"]] == [
        ("open/gpt", "openai_chat", "translated", 0.0),
        ("anthro/claude", "anthropic", "forwarded", 7.0),
    ]
    assert (await api.get("/explain?model=open/any")).json["stops"][0]["how"] == "forwarded"


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 400, "`model`"),
        ("model=nobody", 404, "`nobody`"),
        ("model=fast&format=antropic", 404, "`antropic`"),
        ("model=", 400, "`model`"),
    ],
)
async def test_what_cannot_be_explained_is_told_why(api: Asking, query: str, status: int, words: str) -> None:
    reply = await api.get(f"/explain?{query}")
    assert (reply.status, words in reply.error["message"]) == (status, True)
