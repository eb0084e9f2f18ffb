from collections.abc import Iterator

import pytest

from tests.fakes.admin import Asking, member
from tests.fakes.clock import FakeClock
from trunkline.app.config import connect, read
from trunkline.errors import UpstreamBusy, UpstreamDown
from trunkline.gateway.health import FAILURES, Health
from trunkline.model.target import Target
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
    asking = Asking({"providers": RESOURCE}, [Upstreams(list(providers.values()), health)])
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
    assert row["formats"] == ["openai_chat", "openai_responses", "openai_embeddings"]
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
