from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.fakes.admin import Asking, member
from tests.fakes.clock import FakeClock
from trunkline.catalog.overrides import Overrides
from trunkline.server.admin.catalog_overrides import RESOURCE

NEW = {
    "provider": "home",
    "model": "org/qwen3",
    "card": {"max_output": 9, "lifecycle": {"state": "deprecated", "retires_at": "2027-01-01"}},
    "price": {"rates": {"input": "2.50"}},
}


@pytest.fixture
def api(database: Engine) -> Iterator[Asking]:
    asking = Asking({"catalog_overrides": RESOURCE}, [Overrides(database, FakeClock())])
    yield asking
    asking.pool.close()
    assert asking.crashes == []


async def made(api: Asking, **over: Any) -> dict[str, Any]:
    reply = await api.ask("POST", "/catalog/overrides", NEW | over)
    assert (reply.status, reply.headers["etag"]) == (201, '"1"')
    assert reply.headers["location"] == f"/api/v1/catalog/overrides/{reply.json['id']}"
    return reply.json


async def test_an_override_is_made_read_listed_changed_and_deleted(api: Asking) -> None:
    row = await made(api)
    assert row["card"] == NEW["card"]
    assert row["price"] == {"rates": {"input": "2.50"}, "tiers": []}
    path = f"/catalog/overrides/{row['id']}"
    assert (await api.get(path)).json == row
    assert [each["id"] for each in (await api.get("/catalog/overrides")).json["data"]] == [row["id"]]
    changed = await api.ask("PATCH", path, {"card": {"tools": True, "lifecycle": None}}, if_match='"1"')
    assert (changed.status, changed.headers["etag"], changed.json["card"]) == (200, '"2"', {"max_output": 9, "tools": True})
    assert (await api.ask("PATCH", path, {"price": None})).json["price"] is None
    assert (await api.ask("PATCH", path, {"card": {"tools": False}}, if_match='"1"')).status == 412
    assert (await api.ask("DELETE", path, if_match='"1"')).status == 412
    assert (await api.ask("DELETE", path)).status == 204
    assert (await api.get(path)).status == 404


@pytest.mark.parametrize(
    ("over", "place"),
    [
        ({"card": {"max_outptu": 9}}, "max_outptu"),
        ({"card": {"max_output": "many"}}, "max_output"),
        ({"price": {"rates": {"input": "2.50", "inptu": "1"}}}, "inptu"),
        ({"price": {"rates": {"input": 2.5}}}, "input"),
        ({"colour": "red"}, "colour"),
        ({"card": {}, "price": None}, "says nothing"),
    ],
)
async def test_a_mistake_is_named_and_nothing_is_kept(api: Asking, over: dict[str, Any], place: str) -> None:
    reply = await api.ask("POST", "/catalog/overrides", NEW | over)
    assert reply.status == 400
    assert place in reply.error["message"]
    assert (await api.get("/catalog/overrides")).json["data"] == []


async def test_a_change_names_an_unknown_field(api: Asking) -> None:
    row = await made(api)
    reply = await api.ask("PATCH", f"/catalog/overrides/{row['id']}", {"card": {"max_outptu": 9}})
    assert (reply.status, reply.error["hint"]) == (400, "Did you mean `max_output`?")


async def test_a_second_one_for_the_same_model_is_a_conflict(api: Asking) -> None:
    await made(api)
    assert (await api.ask("POST", "/catalog/overrides", NEW)).status == 409


async def test_accounts_neither_see_nor_change_them(api: Asking) -> None:
    row = await made(api)
    api.caller = member("acc_one", "owner")
    for method, path, body in (
        ("GET", "/catalog/overrides", None),
        ("POST", "/catalog/overrides", NEW),
        ("GET", f"/catalog/overrides/{row['id']}", None),
        ("PATCH", f"/catalog/overrides/{row['id']}", {"card": {"tools": True}}),
        ("DELETE", f"/catalog/overrides/{row['id']}", None),
    ):
        assert (await api.ask(method, path, body)).status == 403
