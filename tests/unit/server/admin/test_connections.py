"""Connections over REST: pasted, listed, disconnected, recovered, and never told."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.fakes.admin import Asking, member, operator
from tests.fakes.clock import FakeClock
from tests.fakes.joining import RECORD, Desk
from tests.fakes.people import settle
from trunkline.access.connection_rows import RECOVERABLE_SECONDS, ConnectionRows, Place
from trunkline.access.connections import LONGEST_TOKEN
from trunkline.model.caller import Caller
from trunkline.model.credential import Owner
from trunkline.server.admin.connections import RESOURCE

TOKEN = "token-canary-0123456789"
ANN = Caller(id="key_a", kind="person", name="ann", scopes=frozenset({"inference"}), account="acc_one", user="usr_a", role="member")
BEN = Caller(id="key_b", kind="person", name="ben", scopes=frozenset({"inference"}), account="acc_one", user="usr_b", role="member")


@pytest.fixture
def desk(database: Engine, tmp_path: Path) -> Desk:
    settle(database, acc_one=["usr_a", "usr_b"], acc_two=[])
    return Desk(database, tmp_path, FakeClock())


@pytest.fixture
def api(desk: Desk) -> Iterator[Asking]:
    asking = Asking({"connections": RESOURCE}, [desk.connecting], clock=desk.clock)
    asking.caller = ANN
    yield asking
    asking.pool.close()
    assert asking.crashes == []


async def pasted(api: Asking, **more: object) -> dict[str, Any]:
    reply = await api.ask("POST", "/connections", {"provider": "home/key", "token": TOKEN, **more})
    assert reply.status == 201, reply.body
    assert reply.headers["location"] == f"/api/v1/connections/{reply.json['id']}"
    return reply.json


async def test_a_token_is_pasted_and_used(api: Asking, desk: Desk) -> None:
    more = {"token_type": "gcp_service_account", "account_id": "ann@vendor.test", "label": "Work", "metadata": {"project": "one"}}
    made = await pasted(api, **more)
    assert made == {
        "id": made["id"],
        "provider": "home/key",
        "account": "acc_one",
        "user": "usr_a",
        "token_type": "gcp_service_account",
        "label": "Work",
        "expires_at": None,
        "refreshable": False,
        "state": "active",
        "created_at": desk.clock.now(),
        "updated_at": desk.clock.now(),
        "revision": 1,
    }
    [credential] = desk.connections.of("home/key")[Owner("acc_one", "usr_a")]
    assert (credential.secret.reveal(), credential.token_type, credential.account) == (TOKEN, "gcp_service_account", "ann@vendor.test")
    assert credential.metadata == {"project": "one", "account_label": "Work"}
    assert (await api.get(f"/connections/{made['id']}")).json == made


async def test_a_token_takes_the_place_of_the_one_before(api: Asking) -> None:
    first = await pasted(api)
    second = await pasted(api, token="another-token", label="New")
    assert (second["id"], second["label"], second["revision"]) == (first["id"], "New", 2)


@pytest.mark.parametrize("provider", ["home/key", "key", "home/old"])
async def test_a_token_without_a_type_is_a_key_that_is_never_renewed(api: Asking, provider: str) -> None:
    made = await pasted(api, provider=provider)
    assert (made["token_type"], made["refreshable"]) == ("api_key", False)


async def test_a_service_accounts_key_is_sent_as_one_line(api: Asking, desk: Desk) -> None:
    document = {"type": "service_account", "private_key": "-----BEGIN\nä\n-----END", "inner": {"a": [1, 2]}}
    await pasted(api, token=f"\n{json.dumps(document, indent=2)}\n")
    [credential] = desk.connections.of("home/key")[Owner("acc_one", "usr_a")]
    assert json.loads(credential.secret.reveal()) == document
    assert "\n" not in credential.secret.reveal()


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"token": "short"}, 400, "`token` has 5 characters"),
        ({"token": "x" * (LONGEST_TOKEN + 1)}, 400, f"{LONGEST_TOKEN + 1} characters"),
        ({"token": "token-canary\r\nx-evil: 1"}, 400, "`token` cannot be sent"),
        ({"token": "{token-\ncanary"}, 400, "`token` cannot be sent"),
        ({"token": TOKEN, "token_type": "a\nb"}, 400, "`token_type` cannot be sent"),
        ({"token": TOKEN, "account_id": " a"}, 400, "`account_id` cannot be sent"),
        ({"token": TOKEN, "label": "a\x00b"}, 400, "NUL"),
        ({"token": TOKEN, "label": "a\tb"}, 400, "`label` cannot be sent"),
        ({"token": ["token-canary"]}, 400, "`token`"),
        ({"token": TOKEN, "metadata": {"oauth_client_secret": ["token-canary"]}}, 400, "`metadata"),
        ({"token": TOKEN, "provider": "home/plan"}, 400, "one signs in to `home/plan`"),
        ({"token": TOKEN, "provider": "home/open"}, 400, "needs no credential"),
        ({"token": TOKEN, "provider": "home/kye"}, 404, "has a provider `home/kye`"),
    ],
)
async def test_what_is_not_kept(api: Asking, body: dict[str, object], status: int, words: str) -> None:
    reply = await api.ask("POST", "/connections", {"provider": "home/key", **body})
    assert reply.status == status
    assert words in reply.error["message"]
    assert b"canary" not in reply.body
    assert (await api.get("/connections")).json["data"] == []


@pytest.mark.proves("sign-in.owners", "deny")
async def test_people_see_and_end_their_own_connections(api: Asking, desk: Desk) -> None:
    anns = await pasted(api)
    api.caller = BEN
    bens = await pasted(api)
    api.caller = member("acc_one")
    teams = await pasted(api)
    api.caller = operator()
    everybodys = await pasted(api)
    alls = [anns, bens, teams, everybodys]
    assert [(row["account"], row["user"]) for row in alls] == [("acc_one", "usr_a"), ("acc_one", "usr_b"), ("acc_one", None), (None, None)]
    for caller, theirs in (
        (ANN, [anns]),
        (BEN, [bens]),
        (member("acc_one"), [anns, bens, teams]),
        (member("acc_two"), []),
        (operator(), alls),
    ):
        api.caller = caller
        assert (await api.get("/connections")).json["data"] == sorted(theirs, key=lambda row: row["id"])
        for row in alls:
            at = f"/connections/{row['id']}"
            assert (await api.get(at)).status == (200 if row in theirs else 404)
            if row not in theirs:
                for method, step in (("GET", ""), ("DELETE", ""), ("POST", "/recover")):
                    told = await api.ask(method, at + step)
                    assert (told.status, told.error["message"], told.error["hint"]) == (404, f"there is no connection `{row['id']}`", "")
    api.caller = ANN
    nowhere = await api.get("/connections/con_nowhere")
    assert (nowhere.status, nowhere.error["message"], nowhere.error["hint"]) == (404, "there is no connection `con_nowhere`", "")
    assert (await api.ask("DELETE", f"/connections/{anns['id']}", if_match='"2"')).status == 412
    assert (await api.ask("DELETE", f"/connections/{anns['id']}", if_match='"1"')).status == 204
    assert (await api.get(f"/connections/{anns['id']}")).status == 404


async def test_a_list_is_read_by_provider_and_page_by_page(api: Asking, desk: Desk) -> None:
    key = await pasted(api)
    desk.clock.advance(1)
    old = await pasted(api, provider="home/old")
    assert (await api.get("/connections?provider=home/old")).json["data"] == [old]
    first = (await api.get("/connections?limit=1")).json
    assert (first["data"], first["next"]) == ([key], key["id"])
    assert (await api.get(f"/connections?limit=1&after={first['next']}")).json == {"data": [old], "next": None}


async def test_a_revoked_connection_is_recovered_within_a_day(api: Asking, desk: Desk) -> None:
    rows, place = ConnectionRows(desk.engine, desk.vault, desk.clock), Place("acc_one", "usr_a", "home/plan")
    made = await desk.connections.save(place.owner, place.provider, RECORD)
    assert (await api.ask("POST", f"/connections/{made}/recover")).error["code"] == "conflict", "it is not revoked"
    assert rows.revoke(place, f"{made}.1")
    assert (await api.get(f"/connections/{made}")).json["state"] == "revoked"
    back = await api.ask("POST", f"/connections/{made}/recover")
    assert (back.status, back.json["state"], back.json["revision"]) == (200, "active", 3)
    assert rows.revoke(place, f"{made}.3")
    desk.clock.advance(RECOVERABLE_SECONDS)
    assert (await api.ask("POST", f"/connections/{made}/recover")).error["code"] == "conflict"


@pytest.mark.proves("sign-in.audit")
async def test_who_did_what_is_logged(api: Asking, desk: Desk) -> None:
    made = await pasted(api)
    api.caller = operator()
    await api.ask("DELETE", f"/connections/{made['id']}")
    whose = {"provider": "home/key", "account": "acc_one", "user": "usr_a", "connection": made["id"]}
    assert desk.log.lines == [
        {"event": "connected", **whose, "by": "key_a", "by_account": "acc_one", "by_user": "usr_a", "method": "token"},
        {"event": "disconnected", **whose, "by": "key_op", "by_account": "acc_default", "by_user": None},
    ]
