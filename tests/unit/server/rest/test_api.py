"""The conventions of the admin API, by the resource of its guide."""

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import notes
from tests.fakes.admin import Asking, member, operator
from tests.fakes.notes import Notes, Row
from trunkline.errors import ConfigInvalid, StoreUnavailable, Unauthenticated, VaultUnavailable
from trunkline.model.caller import Caller
from trunkline.server.admin import Ask, Resource, Route, declared
from trunkline.server.rest.pool import Pool

CANARY = "sk-canary-0123456789abcdef"


@pytest.fixture
def kept() -> Notes:
    return Notes(Row("nte_a", "acc_one", "hello"), Row("nte_b", "acc_two", "other"), Row("nte_c", "acc_one", "bye", "red", 3))


@pytest.fixture
def api(kept: Notes) -> Iterator[Asking]:
    asking = Asking({"notes": notes.RESOURCE}, [kept])
    yield asking
    asking.pool.close()
    assert asking.crashes == []


# ------------------------------------------------------------------------------------------------------------- lists
async def test_a_list_is_read_page_by_page(api: Asking) -> None:
    first = (await api.get("/notes?limit=2")).json
    assert [row["id"] for row in first["data"]] == ["nte_a", "nte_b"]
    assert first["next"] == "nte_b"
    rest = (await api.get(f"/notes?limit=2&after={first['next']}")).json
    assert [row["id"] for row in rest["data"]] == ["nte_c"]
    assert rest["next"] is None


@given(number=st.integers(0, 12), limit=st.integers(1, 5))
async def test_pages_of_any_size_hold_every_row_once(number: int, limit: int) -> None:
    rows = [Row(f"nte_{each:03}", "acc_one", "x") for each in range(number)]
    api = Asking({"notes": notes.RESOURCE}, [Notes(*rows)])
    found, after = [], ""
    while True:
        page = (await api.get(f"/notes?limit={limit}{after}")).json
        assert len(page["data"]) <= limit
        found += [row["id"] for row in page["data"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    api.pool.close()
    assert found == [row.id for row in rows]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("limit=0", ["`limit`", "`0`"]),
        ("limit=501", ["`limit`", "`501`"]),
        ("limit=many", ["`limit`", "`many`"]),
        ("limit=", ["`limit`"]),
        ("limit=1&limit=2", ["`limit`", "twice"]),
        ("limt=1", ["`limt`", "not a parameter"]),
        ("after=", ["`after`"]),
        ("colour=red&colour=blue", ["`colour[1]`", "blue"]),
        ("since=-1", ["`since`"]),
        ("since=null", ["`since`", "`null`"]),
        ("since=nan", ["`since`"]),
        ("since=1e999", ["`since`"]),
        ("x=" + "y" * 5000, ["4096"]),
        ("after=a%00b", ["`after`", "NUL"]),
    ],
)
async def test_a_query_that_is_wrong_is_told_what_and_how(api: Asking, query: str, words: list[str]) -> None:
    reply = await api.get(f"/notes?{query}")
    assert (reply.status, reply.error["code"], reply.error["fault"]) == (400, "bad_request", "caller")
    for word in words:
        assert word in reply.error["message"]


async def test_the_nearest_parameter_is_told(api: Asking) -> None:
    assert (await api.get("/notes?limt=1")).error["hint"] == "Did you mean `limit`?"
    assert (await api.get("/notes/nte_a?zzz=1")).error["hint"] == "Known here: none."


async def test_a_parameter_that_is_a_list_may_stand_several_times(api: Asking) -> None:
    assert (await api.get("/notes?after=null")).status == 200, "that is a text"
    assert (await api.get("/notes?colour=red&colour=green&since=12.5&account=acc_one")).status == 200


# ------------------------------------------------------------------------------------------------------ one by one
async def test_a_note_is_made_read_changed_and_deleted(api: Asking) -> None:
    made = await api.ask("POST", "/notes", {"text": "new"})
    assert (made.status, made.headers["etag"]) == (201, '"1"')
    path = made.headers["location"]
    assert path == f"/api/v1/notes/{made.json['id']}"
    assert (await api.get(path)).json == made.json
    changed = await api.ask("PATCH", path, {"colour": "red"}, if_match='"1"')
    assert (changed.status, changed.headers["etag"]) == (200, '"2"')
    assert (changed.json["text"], changed.json["colour"]) == ("new", "red"), "what is not named stays"
    cleared = await api.ask("PATCH", path, {"colour": None}, content_type="application/merge-patch+json")
    assert (cleared.json["text"], cleared.json["colour"]) == ("new", None), "null clears"
    gone = await api.ask("DELETE", path, if_match=cleared.headers["etag"])
    assert (gone.status, gone.body) == (204, b"")
    assert "content-length" not in gone.headers
    assert (await api.get(path)).error["code"] == "not_found"


async def test_a_change_that_names_an_old_revision_is_refused(api: Asking) -> None:
    reply = await api.ask("PATCH", "/notes/nte_c", {"text": "mine"}, if_match='"2"')
    assert (reply.status, reply.error["code"]) == (412, "precondition_failed")
    assert (await api.get("/notes/nte_c")).json["text"] == "bye"
    for tag in ('W/"3"', '"x"', '"03"', '""'):
        assert (await api.ask("PATCH", "/notes/nte_c", {"text": "mine"}, if_match=tag)).status == 412, tag
    assert (await api.ask("PATCH", "/notes/nte_c", {"text": "mine"}, if_match='"3"')).status == 200
    assert (await api.ask("PATCH", "/notes/nte_c", {"text": "mine"}, if_match="*")).status == 200
    assert (await api.ask("PATCH", "/notes/nte_c", {"text": "mine"})).status == 200, "it is optional"


@pytest.mark.parametrize("tag", ["3", '"1", "2"', "nonsense", '"'])
async def test_a_tag_that_cannot_be_read_is_told(api: Asking, tag: str) -> None:
    reply = await api.ask("PATCH", "/notes/nte_c", {"text": "mine"}, if_match=tag)
    assert (reply.status, "`If-Match`" in reply.error["message"]) == (400, True)


async def test_where_a_revision_is_required_none_is_428_and_where_none_is_looked_at_one_is_400(api: Asking) -> None:
    assert (await api.ask("DELETE", "/notes/nte_a")).error["code"] == "precondition_required"
    assert (await api.ask("POST", "/notes", {"text": "x"}, if_match='"1"')).status == 400
    assert (await api.get("/notes", if_match='"1"')).status == 400
    assert (await api.get("/notes/nte_c", if_match='"3"')).status == 200
    assert (await api.get("/notes/nte_c", if_match='"1"')).status == 412


async def test_what_has_not_changed_is_not_sent_again(api: Asking) -> None:
    for path in ("/notes/nte_c", "/notes", "/openapi.json", "/docs/api"):
        first = await api.get(path)
        tag = first.headers["etag"]
        for given_tag in (tag, f'"other", {tag}', f"W/{tag}", "*"):
            again = await api.get(path, if_none_match=given_tag)
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert (await api.get(path, if_none_match='"other"')).status == 200
    assert (await api.get("/notes/nte_c")).headers["etag"] == '"3"'


async def test_a_head_is_the_answer_to_get_without_its_body(api: Asking) -> None:
    got, head = await api.get("/notes/nte_a"), await api.ask("HEAD", "/notes/nte_a")
    assert (head.status, head.body) == (200, b"")
    same = {"content-length", "content-type", "etag"}
    assert {name: head.headers[name] for name in same} == {name: got.headers[name] for name in same}


# ------------------------------------------------------------------------------------------------------------ bodies
@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b" ", ["empty"]),
        (b"{", ["not JSON"]),
        (b'{"text": "\xff"}', ["not JSON"]),
        (b"[" * 100_000, ["not JSON"]),
        (b"[]", ["no object"]),
        (b'"text"', ["no object"]),
        (b"{}", ["`text`"]),
        (b'{"text": 7}', ["`text`", "`7`"]),
        (b'{"text": null}', ["`text`", "`null`"]),
        (b'{"text": ""}', ["`text`", '`""`']),
        (b'{"text": "a", "txet": 1}', ["`txet`", "not a field"]),
        (b'{"text": {"a": 1}}', ["`text`"]),
        (b'{"text": "a\\u0000b"}', ["NUL"]),
        (b'{"text": "\\ud800"}', ["not JSON"]),
    ],
    ids=repr,
)
async def test_a_body_that_is_wrong_is_told_what_and_how(api: Asking, raw: bytes, words: list[str]) -> None:
    reply = await api.ask("POST", "/notes", raw=raw, content_type="application/json")
    assert (reply.status, reply.error["code"]) == (400, "bad_request")
    for word in words:
        assert word in reply.error["message"]


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"])
async def test_a_body_has_to_say_that_it_is_json(api: Asking, kind: str) -> None:
    reply = await api.ask("POST", "/notes", {"text": "x"}, content_type=kind)
    assert (reply.status, reply.error["code"]) == (415, "unsupported_media_type")
    assert (await api.ask("POST", "/notes", {"text": "x"}, content_type='Application/JSON; charset="UTF-8"')).status == 201
    assert (await api.ask("POST", "/notes", {"text": "x"}, content_encoding="x-unknown")).error["code"] == "unsupported_encoding"


async def test_what_only_looks_like_a_nul_is_text(api: Asking) -> None:
    assert (await api.ask("POST", "/notes", raw=b'{"text": "a\\\\u0000b"}')).json["text"] == "a\\u0000b"


async def test_a_body_is_bounded(api: Asking) -> None:
    reply = await api.ask("POST", "/notes", raw=b" " * ((1 << 20) + 1))
    assert (reply.status, reply.error["code"]) == (413, "too_large")
    assert "1048576" in reply.error["message"]


# ------------------------------------------------------------------------------------------------------------ who may
async def test_nothing_is_answered_without_a_key(api: Asking) -> None:
    api.door.refuses = Unauthenticated("the request has no key")
    for method in ("GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS", "BREW"):
        for path in ("/notes", "/notes/nte_a", "/nothing", "", "/openapi.json", "/docs/api"):
            reply = await api.ask(method, path)
            assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer"), (method, path)


async def test_the_description_is_open_where_the_operator_wants_that(kept: Notes) -> None:
    api = Asking({"notes": notes.RESOURCE}, [kept], open_documents=True)
    api.door.refuses = Unauthenticated("the request has no key")
    assert (await api.get("/openapi.json")).status == 200
    assert (await api.get("/docs/api")).status == 200
    assert (await api.get("/notes")).status == 401


async def test_a_scope_and_a_role_are_needed(api: Asking) -> None:
    api.caller = replace(member("acc_one"), scopes=frozenset({"inference", "metrics"}))
    reply = await api.get("/notes")
    assert (reply.status, reply.error["hint"]) == (403, "It lacks the scope `account`.")
    api.caller = member("acc_one", "member")
    assert (await api.get("/notes")).status == 200
    reply = await api.get("/notes/nte_a")
    assert (reply.status, "`owner`, `admin`" in reply.error["hint"]) == (403, True)
    api.caller = member("acc_one", "owner")
    assert (await api.get("/notes/nte_a")).status == 200
    assert (await api.ask("POST", "/notes/nte_a/seal", {"secret": "x"})).status == 403, "that is the operator's"
    api.caller = replace(operator(), role="service")
    assert (await api.get("/notes/nte_a")).status == 200, "an operator needs no role"


async def test_another_accounts_row_looks_as_if_it_were_not_there(api: Asking) -> None:
    api.caller = member("acc_one")
    for method, body in (("GET", None), ("PATCH", {"text": "x"}), ("DELETE", None)):
        theirs = await api.ask(method, "/notes/nte_b", body, if_match='"1"')
        nobodys = await api.ask(method, "/notes/nte_z", body, if_match='"1"')
        assert theirs.status == nobodys.status == 404
        assert theirs.error["message"].replace("nte_b", "") == nobodys.error["message"].replace("nte_z", "")
        assert theirs.error["hint"] == nobodys.error["hint"]
    assert [row["id"] for row in (await api.get("/notes")).json["data"]] == ["nte_a", "nte_c"]
    assert (await api.get("/notes?account=acc_two")).status == 404
    assert (await api.get("/notes?account=acc_one")).status == 200
    api.caller = operator()
    assert [row["id"] for row in (await api.get("/notes?account=acc_two")).json["data"]] == ["nte_b"]


async def test_a_row_of_another_account_never_leaves_however_careless_a_route_is(api: Asking) -> None:
    api.caller = member("acc_one")
    assert (await api.get("/notes/nte_a/careless")).status == 200
    reply = await api.get("/notes/nte_b/careless")
    assert (reply.status, reply.error["code"]) == (500, "internal")
    assert b"other" not in reply.body
    [(_, error)] = api.crashes
    assert "another account" in str(error)
    api.crashes.clear()


# ------------------------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize("path", ["", "/", "/nothing", "/notes/", "/notes/nte_a/", "/notes/nte_a/b", "/notesx", "/../notes", "/notes/a\0b"])
async def test_what_is_not_there_is_404_in_the_same_shape(api: Asking, path: str) -> None:
    reply = await api.get(path)
    assert (reply.status, reply.error["code"]) == (404, "not_found")


async def test_a_wrong_method_is_told_the_right_ones(api: Asking) -> None:
    reply = await api.ask("PUT", "/notes")
    assert (reply.status, reply.error["code"]) == (405, "method_not_allowed")
    assert sorted(reply.headers["allow"].split(", ")) == ["GET", "HEAD", "POST"]
    assert (await api.ask("HEAD", "/notes/nte_a/seal")).headers["allow"] == "POST"
    assert (await api.ask("POST", "/openapi.json")).headers["allow"] == "GET, HEAD"


async def test_a_database_that_is_away_is_503_and_only_the_operator_is_told_where_it_is(api: Asking, kept: Notes) -> None:
    kept.broken = StoreUnavailable("the database `/var/lib/x` is locked", hint="Look at `/var/lib/x`.")
    reply = await api.get("/notes")
    assert (reply.status, reply.error["fault"], reply.error["message"]) == (503, "operator", "the database `/var/lib/x` is locked")
    api.caller = member("acc_one")
    reply = await api.get("/notes")
    assert (reply.status, reply.error["code"]) == (503, "store_unavailable")
    assert b"/var/lib" not in reply.body


async def test_a_vault_without_its_key_is_503_and_only_the_operator_is_told_where_that_is(api: Asking, kept: Notes) -> None:
    kept.broken = VaultUnavailable("the file `/var/lib/x` is not there", hint="`chmod 600 /var/lib/x`")
    assert (await api.get("/notes")).error["message"] == "the file `/var/lib/x` is not there"
    api.caller = member("acc_one")
    reply = await api.get("/notes")
    assert (reply.status, reply.error["code"]) == (503, "vault_unavailable")
    assert b"/var/lib" not in reply.body


async def test_a_fault_of_ours_is_500_with_the_id_that_the_log_has(api: Asking, kept: Notes) -> None:
    kept.broken = ZeroDivisionError(CANARY)
    reply = await api.get("/notes")
    assert (reply.status, reply.error["code"]) == (500, "internal")
    [(request_id, _)] = api.crashes
    assert request_id == reply.error["request_id"]
    assert CANARY.encode() not in reply.body
    api.crashes.clear()


@pytest.mark.parametrize(
    "body",
    [
        {"secret": CANARY, "strength": 77},
        {"secret": [CANARY]},
        {"secret": {"a": CANARY}},
        {"secret": "x" * 70_000 + CANARY},
        {"secret": CANARY, "more": CANARY},
        {"secret": CANARY, CANARY: 1},
        {"secret": CANARY, "strength": CANARY},
        [CANARY],
    ],
    ids=lambda body: json.dumps(body)[:40],
)
async def test_an_error_shows_no_secret(api: Asking, body: object) -> None:
    reply = await api.ask("POST", "/notes/nte_a/seal", body)
    assert reply.status == 400
    assert CANARY.encode() not in reply.body


async def test_a_secret_in_a_body_does_not_print_itself(api: Asking, kept: Notes) -> None:
    assert (await api.ask("POST", "/notes/nte_a/seal", {"secret": CANARY})).status == 204
    [secret] = kept.secrets
    assert secret.reveal() == CANARY
    assert CANARY not in repr(notes.NewSeal(secret=secret))


async def test_questions_do_not_pile_up_without_end(kept: Notes) -> None:
    api = Asking({"notes": notes.RESOURCE}, [kept], pool=Pool(threads=1, most=2))
    begun, go_on = threading.Event(), threading.Event()

    def wait(**_: object) -> list[object]:
        begun.set()
        go_on.wait(10)
        return []

    kept.list = wait
    loop = asyncio.get_running_loop()
    first, second = loop.create_task(api.get("/notes")), loop.create_task(api.get("/notes"))
    await asyncio.to_thread(begun.wait, 10)
    third = await api.get("/notes")
    assert (third.status, third.headers["retry-after"]) == (429, "1")
    go_on.set()
    assert [(await each).status for each in (first, second)] == [200, 200]
    assert (await api.get("/notes")).status == 200
    api.pool.close()


async def test_what_waits_for_others_does_not_pile_up_without_end(kept: Notes) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(*_: object) -> None:
        begun.set()
        await go_on.wait()

    route = Route("POST", "", scope="admin", summary="Wait.", do=wait, runs="loop", status=204)
    api = Asking({"notes": Resource(title="Notes", path="/notes", service=Notes, routes=(route,))}, [kept], pool=Pool(most=1))
    first = asyncio.get_running_loop().create_task(api.ask("POST", "/notes"))
    await begun.wait()
    second = await api.ask("POST", "/notes")
    assert (second.status, second.headers["retry-after"]) == (429, "1")
    go_on.set()
    assert ((await first).status, (await api.ask("POST", "/notes")).status) == (204, 204)
    api.pool.close()


async def test_a_database_that_never_answers_is_not_waited_for(kept: Notes) -> None:
    api = Asking({"notes": notes.RESOURCE}, [kept], pool=Pool(wait_seconds=0.01))
    go_on = threading.Event()

    def wait(**_: object) -> list[object]:
        go_on.wait(10)
        return []

    kept.list = wait
    reply = await api.get("/notes")
    assert (reply.status, reply.error["code"]) == (503, "store_unavailable")
    go_on.set()
    api.pool.close()


# ------------------------------------------------------------------------------------------------------- what is one's own
@dataclass(frozen=True)
class Own:
    """What may be one user's alone."""

    id: str
    account: str
    user: str | None


OWN = [Own("own_a", "acc_one", "usr_a"), Own("own_b", "acc_one", "usr_b"), Own("own_c", "acc_one", None), Own("own_d", "acc_two", "usr_a")]
ANN = Caller(id="key_ann", kind="person", name="ann", scopes=frozenset({"inference"}), account="acc_one", user="usr_a", role="member")


async def _waits(_: Notes, ask: Ask[Any, None]) -> Own:
    await asyncio.sleep(0)
    return ask.mine({each.id: each for each in OWN}[ask.path["id"]], "own")


OWNERS = Resource(
    title="Own",
    path="/own",
    service=Notes,
    routes=(
        Route("GET", "/{id}", scope="account", own=True, summary="Read.", do=_waits, answer=notes.Note, runs="loop"),
        Route("GET", "/{id}/careless", scope="account", own=True, summary="Read.", do=lambda _, ask: {each.id: each for each in OWN}[ask.path["id"]], answer=notes.Note),
        Route("GET", "/{id}/theirs", scope="account", summary="Read.", do=lambda *_: None),
    ),
)  # fmt: skip


@pytest.mark.proves("sign-in.owners")
@pytest.mark.parametrize(
    ("caller", "seen"),
    [
        (ANN, ["own_a"]),
        (replace(ANN, account="acc_two"), ["own_d"]),
        (replace(ANN, scopes=frozenset({"inference", "account"}), role="member"), ["own_a"]),
        (member("acc_one"), ["own_a", "own_b", "own_c"]),
        (operator(), ["own_a", "own_b", "own_c", "own_d"]),
    ],
)
async def test_a_person_has_their_own_and_an_administrator_their_accounts(kept: Notes, caller: Caller, seen: list[str]) -> None:
    api = Asking({"own": OWNERS}, [kept])
    api.caller = caller
    for each in OWN:
        assert (await api.get(f"/own/{each.id}")).status == (200 if each.id in seen else 404), each
        careless = await api.get(f"/own/{each.id}/careless")
        assert careless.status == (200 if each.id in seen else 500), "the last net"
    assert len(api.crashes) == len(OWN) - len(seen)
    api.pool.close()


@pytest.mark.proves("deny")
@pytest.mark.parametrize(
    "caller",
    [
        replace(ANN, user=None),
        replace(ANN, scopes=frozenset({"metrics"})),
        replace(ANN, scopes=frozenset({"account"})),
        replace(ANN, user=None, scopes=frozenset({"inference", "account"})),
    ],
)
async def test_what_is_ones_own_is_for_people_who_call_models(kept: Notes, caller: Caller) -> None:
    api = Asking({"own": OWNERS}, [kept])
    api.caller = caller
    for each in OWN:
        for path in (f"/own/{each.id}", f"/own/{each.id}/careless", f"/own/{each.id}/theirs"):
            assert (await api.get(path)).status == 403
    api.caller = ANN
    assert (await api.get("/own/own_a/theirs")).status == 403, "that route does not say so"
    api.pool.close()


# --------------------------------------------------------------------------------------------------------- declaring
def route(**over: object) -> Route[object]:
    return Route("GET", "", **{"scope": "admin", "summary": "Read.", "do": lambda *_: None, **over})


def resource(*routes: Route[object]) -> dict[str, Resource[object]]:
    return {"things": Resource(title="Things", path="/things", service=object, routes=routes)}


@pytest.mark.parametrize("scope", [None, "", "nobody"])
def test_a_route_that_does_not_say_who_may_is_an_error_at_the_start(scope: object) -> None:
    with pytest.raises(ConfigInvalid, match="`GET /api/v1/things` declares the scope"):
        Asking(resource(route(scope=scope)), [object()])


def test_a_route_without_a_scope_cannot_even_be_written() -> None:
    with pytest.raises(TypeError, match="scope"):
        Route("GET", "", summary="Read.", do=lambda *_: None)


def test_what_makes_no_sense_is_an_error_at_the_start() -> None:
    with pytest.raises(ConfigInvalid, match="twice"):
        declared(resource(route(), route()))
    with pytest.raises(ConfigInvalid, match="no role"):
        declared(resource(route(scope="account", roles=())))
    with pytest.raises(ConfigInvalid, match="is a coroutine, and runs in a thread"):
        declared(resource(route(do=_waits)))
    with pytest.raises(ConfigInvalid, match="a body"):
        declared(resource(route(body=notes.NewNote)))
    with pytest.raises(ConfigInvalid, match="needs a `Notes`"):
        Asking({"notes": notes.RESOURCE}, [])
