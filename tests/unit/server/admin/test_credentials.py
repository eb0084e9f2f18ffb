from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.fakes.admin import Asking, member, operator
from tests.fakes.clock import FakeClock
from tests.fakes.people import settle
from trunkline.access.credentials import Credentials
from trunkline.access.key_sources import FileSource
from trunkline.access.vault import Vault
from trunkline.server.admin.credentials import RESOURCE

SECRET = "sk-canary/0123456789+abcdef="


@pytest.fixture
def api(database: Engine, tmp_path: Path) -> Iterator[Asking]:
    settle(database, acc_one=["usr_a"], acc_default=["usr_b"])
    vault = Vault(database, FileSource(tmp_path / "vault.key"))
    asking = Asking({"credentials": RESOURCE}, [Credentials(database, vault, FakeClock(), providers=lambda: ["openai", "anthropic"])])
    yield asking
    asking.pool.close()
    assert asking.crashes == []


def new(**fields: object) -> dict[str, object]:
    return {"provider": "openai", "secret": SECRET, **fields}


@pytest.mark.proves("vault.unread")
async def test_a_credential_is_written_and_never_read_back(api: Asking) -> None:
    made = await api.ask("POST", "/credentials", new(name="team", weight=3))
    assert (made.status, made.headers["etag"]) == (201, '"1"')
    wanted = made.json["id"]
    assert (made.json["hint"], made.json["account"]) == ("def=", None)
    read = await api.get(f"/credentials/{wanted}")
    assert read.json == made.json
    listed = await api.get("/credentials?provider=openai")
    assert listed.json == {"data": [made.json], "next": None}
    changed = await api.ask("PATCH", f"/credentials/{wanted}", {"secret": "sk-canary-another-secret", "enabled": False}, if_match='"1"')
    assert (changed.status, changed.json["revision"], changed.json["enabled"], changed.json["weight"]) == (200, 2, False, 3)
    for reply in (made, read, listed, changed):
        assert b"canary" not in reply.body
        assert b"sealed" not in reply.body
    assert (await api.ask("DELETE", f"/credentials/{wanted}", if_match='"1"')).status == 412
    assert (await api.ask("DELETE", f"/credentials/{wanted}", if_match='"2"')).status == 204
    assert (await api.get(f"/credentials/{wanted}")).status == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (new(provider="opneai"), 404),
        (new(secret=""), 400),
        (new(secret="canar"), 400),
        (new(secret=["canary-in-a-list"]), 400),
        (new(secret="canary\ncanary"), 400),
        (new(weight=0), 400),
        (new(name="file"), 400),
        (new(api_key="canary-key-of-another-name"), 400),
        ({"provider": "openai"}, 400),
    ],
)
@pytest.mark.proves("vault.unread")
async def test_what_cannot_be_is_refused_without_repeating_a_secret(api: Asking, body: object, status: int) -> None:
    reply = await api.ask("POST", "/credentials", body)
    assert reply.status == status
    assert reply.error["message"]
    if "api_key" not in str(body):
        assert b"canar" not in reply.body
    assert (await api.get("/credentials")).json["data"] == []


@pytest.mark.proves("admin.hidden")
async def test_an_account_has_its_own_and_sees_no_others(api: Asking) -> None:
    shared = (await api.ask("POST", "/credentials", new())).json
    api.caller = member("acc_one")
    mine = (await api.ask("POST", "/credentials", new(user="usr_a"))).json
    assert (mine["account"], mine["user"]) == ("acc_one", "usr_a")
    assert [row["id"] for row in (await api.get("/credentials")).json["data"]] == [mine["id"]]
    assert (await api.ask("POST", "/credentials", new(account="acc_two"))).status == 404
    for method, body in (("GET", None), ("PATCH", {"weight": 2}), ("DELETE", None)):
        reply, nothing = [await api.ask(method, f"/credentials/{wanted}", body) for wanted in (shared["id"], "cred_x")]
        assert reply.status == nothing.status == 404
        assert reply.said.replace(shared["id"], "cred_x") == nothing.said
    api.caller = member("acc_two")
    assert (await api.ask("DELETE", f"/credentials/{mine['id']}")).status == 404
    for role in ("member", "service"):
        api.caller = member("acc_one", role)
        assert (await api.get("/credentials")).status == 403
    api.caller = operator()
    assert {row["id"] for row in (await api.get("/credentials")).json["data"]} == {shared["id"], mine["id"]}


async def test_a_user_without_an_account_is_one_of_the_callers_own(api: Asking) -> None:
    made = (await api.ask("POST", "/credentials", new(user="usr_b"))).json
    assert (made["account"], made["user"]) == ("acc_default", "usr_b")


async def test_the_same_name_twice_is_a_conflict(api: Asking) -> None:
    assert (await api.ask("POST", "/credentials", new())).status == 201
    assert (await api.ask("POST", "/credentials", new())).status == 409
