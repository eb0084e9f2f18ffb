"""Accounts, users and keys over the admin API, with the real services behind it."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.fakes.admin import Asking, member, operator
from tests.fakes.clock import FakeClock
from trunkline.access.accounts import Accounts
from trunkline.access.keys import KEY, Keys
from trunkline.access.users import Users
from trunkline.model.caller import Caller, Role
from trunkline.server.admin.accounts import RESOURCE as ACCOUNTS
from trunkline.server.admin.keys import RESOURCE as KEYS
from trunkline.server.admin.users import RESOURCE as USERS


@pytest.fixture
def api(engine: Engine, clock: FakeClock, accounts: Accounts, users: Users, keys: Keys) -> Iterator[Asking]:
    asking = Asking({"accounts": ACCOUNTS, "users": USERS, "keys": KEYS}, [accounts, users, keys], clock=clock)
    yield asking
    asking.pool.close()
    assert asking.crashes == []


@pytest.fixture
def acme(accounts: Accounts) -> str:
    return accounts.create("acme").id


def boss(account: str, role: Role = "owner") -> Caller:
    return Caller(id=f"key_{role}", kind="person", name=role, scopes=frozenset({"inference", "account"}), account=account, role=role)


async def made(api: Asking, path: str, **body: Any) -> dict[str, Any]:
    reply = await api.ask("POST", path, body)
    assert reply.status == 201, reply.body
    assert reply.headers["location"] == f"/api/v1{path}/{reply.json['id']}"
    return reply.json


async def test_an_account_is_made_read_renamed_disabled_and_deleted(api: Asking) -> None:
    account = await made(api, "/accounts", name="acme")
    at = f"/accounts/{account['id']}"
    reply = await api.get(at)
    assert (reply.json, reply.headers["etag"]) == (account, '"1"')
    reply = await api.ask("PATCH", at, {"name": "ajax"}, if_match='"1"')
    assert (reply.json["name"], reply.json["revision"], reply.headers["etag"]) == ("ajax", 2, '"2"')
    assert (await api.ask("PATCH", at, {"name": "mine"}, if_match='"1"')).status == 412
    assert (await api.ask("PATCH", at, {"disabled": True})).json["disabled_at"] == api.clock.now()
    assert {row["name"] for row in (await api.get("/accounts")).json["data"]} == {"ajax", "default"}
    assert (await api.ask("DELETE", at, if_match='"1"')).status == 412
    assert (await api.ask("DELETE", at)).status == 204
    assert (await api.get(at)).status == 404
    assert (await api.ask("POST", "/accounts", {"name": "default"})).status == 409
    assert (await api.ask("DELETE", "/accounts/acc_default")).status == 409


async def test_who_looks_after_an_account_sees_and_renames_that_one(api: Asking, acme: str) -> None:
    api.caller = boss(acme)
    assert [row["id"] for row in (await api.get("/accounts")).json["data"]] == [acme]
    assert (await api.ask("PATCH", f"/accounts/{acme}", {"name": "ajax"})).status == 200
    assert (await api.ask("PATCH", f"/accounts/{acme}", {"disabled": True})).status == 403
    assert (await api.ask("POST", "/accounts", {"name": "other"})).status == 403
    assert (await api.ask("DELETE", f"/accounts/{acme}")).status == 403
    assert (await api.get("/accounts/acc_default")).status == 404


@pytest.mark.proves("admin.hidden")
async def test_of_other_accounts_nobody_learns_that_they_have_something(api: Asking, acme: str) -> None:
    ada = (await made(api, "/users", name="ada"))["id"]
    key = (await made(api, "/keys", name="laptop", scopes=["inference"]))["id"]
    api.caller = boss(acme)
    for path, there, nothing in (("/users", ada, "usr_x"), ("/keys", key, "key_x"), ("/accounts", "acc_default", "acc_x")):
        for method, body in (("GET", None), ("PATCH", {"name": "mine"}), ("DELETE", None)):
            one, other = [await api.ask(method, f"{path}/{wanted}", body) for wanted in (there, nothing)]
            assert one.said.replace(there, nothing) == other.said
    one, other = [await api.ask("POST", "/keys", {"name": "k", "scopes": ["inference"], "user": user}) for user in (ada, "usr_x")]
    assert one.status == other.status == 404
    assert one.said.replace(ada, "usr_x") == other.said


async def test_a_user_is_made_changed_and_deleted(api: Asking, acme: str) -> None:
    api.caller = boss(acme)
    user = await made(api, "/users", name="ada", external_id="u1", role="admin")
    assert (user["account"], user["role"], user["external_id"]) == (acme, "admin", "u1")
    at = f"/users/{user['id']}"
    reply = await api.ask("PATCH", at, {"external_id": None, "disabled": True}, if_match='"1"')
    assert (reply.json["external_id"], reply.json["name"], reply.json["disabled_at"]) == (None, "ada", api.clock.now())
    assert (await api.ask("PATCH", at, {"role": "emperor"})).status == 400
    assert [row["id"] for row in (await api.get(f"/users?account={acme}")).json["data"]] == [user["id"]]
    assert (await api.ask("DELETE", at)).status == 204
    assert (await api.get(at)).status == 404


async def test_a_key_is_shown_once_when_it_is_made_and_when_it_is_rotated(api: Asking, acme: str) -> None:
    api.caller = boss(acme)
    key = await made(api, "/keys", name="ci", scopes=["inference"], models=["openai/*"])
    secret = key.pop("key")
    assert KEY.fullmatch(secret)
    assert (key["account"], key["models"], key["scopes"], key["end_users"]) == (acme, ["openai/*"], ["inference"], "key")
    at = f"/keys/{key['id']}"
    assert (await api.get(at)).json == key
    rotated = (await api.ask("POST", f"{at}/rotate", {"grace_seconds": 60})).json
    assert (rotated["replaces"], rotated["until"]) == (key["id"], api.clock.now() + 60)
    assert KEY.fullmatch(rotated["key"])
    for reply in (await api.get("/keys"), await api.get(at), await api.ask("PATCH", at, {"name": "old"})):
        assert reply.status == 200
        for each in (secret, rotated["key"]):
            assert each not in reply.body.decode()
            assert each[8:] not in reply.body.decode()


async def test_a_key_is_changed_and_revoked(api: Asking) -> None:
    key = await made(api, "/keys", name="ci", scopes=["metrics", "inference"], expires_at=api.clock.now() + 9)
    at = f"/keys/{key['id']}"
    changed = (await api.ask("PATCH", at, {"scopes": ["metrics"], "expires_at": None}, if_match='"1"')).json
    assert (changed["scopes"], changed["expires_at"], changed["models"]) == (["metrics"], None, None)
    assert (await api.ask("DELETE", at, if_match='"1"')).status == 412
    assert (await api.ask("DELETE", at, if_match='"2"')).status == 204
    assert (await api.get(at)).json["revoked_at"] == api.clock.now()
    assert (await api.ask("DELETE", at)).status == 409
    assert (await api.ask("POST", f"{at}/rotate", {})).status == 409


async def test_a_whole_key_in_a_path_is_not_found_and_not_repeated(api: Asking) -> None:
    secret = (await made(api, "/keys", name="ci", scopes=["inference"]))["key"]
    reply = await api.get(f"/keys/{secret}")
    assert reply.status == 404
    assert secret[8:] not in reply.body.decode()


async def test_nobody_gives_more_than_they_have(api: Asking, acme: str, users: Users) -> None:
    owner = users.create("o", account=acme, role="owner").id
    api.caller = boss(acme, "admin")
    for path, body in (
        ("/keys", {"name": "k", "scopes": ["metrics"]}),
        ("/keys", {"name": "k", "scopes": ["inference"], "user": owner}),
        ("/users", {"name": "u", "role": "owner"}),
    ):
        reply = await api.ask("POST", path, body)
        assert (reply.status, reply.error["code"]) == (403, "denied")
    for path, body in (
        ("/keys", {"name": "k", "scopes": ["inference"], "account": "acc_default"}),
        ("/users", {"name": "u", "account": "acc_default"}),
    ):
        assert (await api.ask("POST", path, body)).status == 404
    assert (await api.get("/keys?account=acc_default")).status == 404
    reply = await api.ask("POST", "/keys", {"name": "k", "scopes": ["admin"]})
    assert reply.status == 400, "nobody of a customer's account is an operator"


async def test_operators_change_every_account(api: Asking, acme: str) -> None:
    api.caller = operator()
    user = await made(api, "/users", name="ada", account=acme, role="owner")
    key = await made(api, "/keys", name="k", scopes=["inference", "account"], account=acme, user=user["id"])
    assert (key["account"], key["user"]) == (acme, user["id"])
    assert (await api.ask("DELETE", f"/users/{user['id']}")).status == 409, "an account keeps its last owner"
    rows = (await api.get("/keys?limit=1")).json
    assert ([row["id"] for row in rows["data"]], rows["next"]) == ([key["id"]], None)


@pytest.mark.parametrize("role", ["member", "service"])
async def test_members_and_programs_administer_nothing(api: Asking, acme: str, role: Role) -> None:
    api.caller = member(acme, role)
    for path in ("/accounts", "/users", "/keys"):
        assert (await api.get(path)).status == 403


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/keys", {"name": "k"}, "scopes"),
        ("/keys", {"name": "k", "scopes": []}, "scopes"),
        ("/keys", {"name": "k", "scopes": ["everything"]}, "scopes"),
        ("/keys", {"name": "k", "scopes": ["inference"], "models": []}, "models"),
        ("/keys", {"name": "k", "scopes": ["inference"], "end_users": "all"}, "end_users"),
        ("/keys", {"name": "k", "scopes": ["inference"], "expires_at": 1}, "expires_at"),
        ("/keys", {"name": "k", "scopes": ["inference"], "hash": "x"}, "hash"),
        ("/users", {"name": ""}, "name"),
        ("/users", {"name": "x", "id": "usr_x"}, "id"),
        ("/accounts", {}, "name"),
    ],
)
async def test_what_is_no_value_is_refused_by_its_name(api: Asking, path: str, body: dict[str, Any], field: str) -> None:
    reply = await api.ask("POST", path, body)
    assert reply.status == 400
    assert f"`{field}" in reply.error["message"]
    assert len((await api.get("/keys")).json["data"]) == 0
