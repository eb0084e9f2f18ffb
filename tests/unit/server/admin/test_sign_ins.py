"""Signing in over REST, step by step, and who may."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, select

from tests.fakes.admin import Asking, member, operator
from tests.fakes.clock import FakeClock
from tests.fakes.joining import CANARIES, DEVICE, PAGE, RECORD, STATE, VERIFIER, Desk
from tests.fakes.people import settle
from trunkline.model.caller import Caller
from trunkline.model.credential import INSTALLATION, Owner
from trunkline.server.admin.connections import RESOURCE as CONNECTIONS
from trunkline.server.admin.sign_ins import RESOURCE as SIGN_INS
from trunkline.store.engine import reading
from trunkline.store.tables.connections import TABLE as KEPT
from trunkline_sdk.daemon.errors import AGAIN, CallFailed, StepRefused
from trunkline_sdk.daemon.messages import Authorization, Flow, PollResult, Record, Secrets

REDIRECT = "http://127.0.0.1:5001/cb"
PENDING, APPROVED = PollResult(status="pending"), PollResult(status="approved", record=RECORD)


def person(user: str = "usr_a", account: str = "acc_one") -> Caller:
    """Somebody with a key of their own."""
    return Caller(id=f"key_{user}", kind="person", name=user, scopes=frozenset({"inference"}), account=account, user=user, role="member")


@pytest.fixture
def desk(database: Engine, tmp_path: Path) -> Desk:
    settle(database, acc_one=["usr_a", "usr_b"], acc_two=["usr_c"])
    return Desk(database, tmp_path, FakeClock())


@pytest.fixture
def api(desk: Desk) -> Iterator[Asking]:
    asking = Asking({"sign_ins": SIGN_INS, "connections": CONNECTIONS}, [desk.sign_ins, desk.connecting], clock=desk.clock)
    asking.caller = person()
    yield asking
    asking.pool.close()
    assert asking.crashes == []


async def begun(api: Asking, method: str = "device", provider: str = "home/plan", **more: object) -> dict[str, Any]:
    if method == "browser":
        more.setdefault("redirect_uri", REDIRECT)
    reply = await api.ask("POST", "/sign-ins", {"provider": provider, "method": method, **more})
    assert reply.status == 201, reply.body
    assert reply.headers["location"] == f"/api/v1/sign-ins/{reply.json['id']}"
    return reply.json


# ---------------------------------------------------------------------------------------------------------- the methods
@pytest.mark.proves("sign-in.methods")
async def test_a_person_signs_in_with_a_code(api: Asking, desk: Desk) -> None:
    made = await begun(api)
    assert made == {
        "id": made["id"],
        "provider": "home/plan",
        "method": "device",
        "status": "pending",
        "account": "acc_one",
        "user": "usr_a",
        "authorization_url": None,
        "user_code": "ABCD-EFGH",
        "verification_uri": "https://vendor.test/device",
        "verification_uri_complete": "https://vendor.test/device?code=ABCD-EFGH",
        "interval": 7,
        "expires_at": desk.clock.now() + 180,
        "connection": None,
    }
    at = f"/sign-ins/{made['id']}"
    early = await api.ask("POST", f"{at}/poll")
    assert (early.status, early.error["code"], early.headers["retry-after"], desk.script.polled) == (429, "limit_reached", "7", [])
    desk.script.polls = [PENDING, PollResult(status="slow_down"), APPROVED]
    for status, interval, wait in (("pending", 7, 7), ("pending", 12, 7), ("complete", 12, 12)):
        desk.clock.advance(wait)
        polled = await api.ask("POST", f"{at}/poll")
        assert (polled.status, polled.json["status"], polled.json["interval"]) == (200, status, interval)
    assert polled.json["user_code"] is None, "what is over leads nowhere"
    [row] = (await api.get("/connections")).json["data"]
    assert (row["id"], row["provider"], row["user"], row["label"]) == (polled.json["connection"], "home/plan", "usr_a", "ann@vendor.test")
    assert (await api.get(at)).json == (await api.ask("POST", f"{at}/poll")).json == polled.json
    assert len(desk.script.polled) == 3, "what is complete is asked about no more"


@pytest.mark.proves("sign-in.methods")
async def test_a_person_signs_in_with_a_browser(api: Asking, desk: Desk) -> None:
    made = await begun(api, "browser", params={"plan": "max"})
    assert (made["authorization_url"], made["user_code"]) == (PAGE.authorization_url, None)
    [request] = desk.script.started
    assert (request.method, request.redirect_uri, request.params) == ("browser", REDIRECT, {"plan": "max"})
    done = await api.ask("POST", f"/sign-ins/{made['id']}/complete", {"pasted": f"{REDIRECT}?code=code-1&state={STATE}"})
    assert (done.status, done.json["status"]) == (200, "complete")
    [(code, flow)] = desk.script.exchanged
    assert (code, flow.secrets.verifier, flow.secrets.driver_data, flow.secrets.params) == (
        "code-1",
        VERIFIER,
        {"step": "one"},
        {"plan": "max"},
    )
    assert flow == Flow(method="browser", secrets=flow.secrets), "a daemon learns nothing of who signs in"


@pytest.mark.proves("sign-in.methods")
@pytest.mark.parametrize(
    "pasted", ["code-1", f"code-1#{STATE}", f"https://vendor.test/shown?code=code-1&state={STATE}", f"#code=code-1&state={STATE}"]
)
async def test_a_person_pastes_what_the_provider_shows(api: Asking, desk: Desk, pasted: str) -> None:
    made = await begun(api, "manual", "home/coder")
    done = await api.ask("POST", f"/sign-ins/{made['id']}/complete", {"pasted": f" {pasted}\n"})
    assert (done.status, done.json["status"]) == (200, "complete")
    [(code, flow)] = desk.script.exchanged
    assert (code, flow.secrets.redirect_uri) == ("code-1", "https://vendor.test/shown")


@pytest.mark.parametrize(("provider", "method"), [("home/plan", "device"), ("home/coder", "manual"), ("home/old", "device")])
async def test_who_does_not_say_how_gets_what_the_provider_has(api: Asking, provider: str, method: str) -> None:
    assert (await api.ask("POST", "/sign-ins", {"provider": provider})).json["method"] == method


async def test_a_short_name_is_enough_where_one_daemon_has_it(api: Asking) -> None:
    assert (await begun(api, "manual", "coder"))["provider"] == "home/coder"
    twice = await api.ask("POST", "/sign-ins", {"provider": "plan"})
    assert (twice.status, twice.error["hint"]) == (400, "Say which one: home/plan, other/plan.")


async def test_what_can_be_connected_is_listed(api: Asking) -> None:
    first = (await api.get("/sign-ins/providers?limit=2")).json
    assert first["data"][1] == {
        "id": "home/key", "title": "Key", "credential": "token", "methods": [], "refreshable": True,
    }  # fmt: skip
    rest = (await api.get(f"/sign-ins/providers?after={first['next']}")).json
    assert [each["id"] for each in (*first["data"], *rest["data"])] == ["home/coder", "home/key", "home/old", "home/plan", "other/plan"]


# ------------------------------------------------------------------------------------------------------ what goes wrong
@pytest.mark.proves("sign-in.methods")
@pytest.mark.parametrize(("status", "shown"), [("denied", "failed"), ("expired", "expired")])
async def test_a_refusal_ends_a_sign_in(api: Asking, desk: Desk, status: str, shown: str) -> None:
    made = await begun(api)
    desk.script.polls = [PollResult(status=status)]
    desk.clock.advance(7)
    polled = await api.ask("POST", f"/sign-ins/{made['id']}/poll")
    assert (polled.status, polled.json["status"], polled.json["connection"]) == (200, shown, None)
    assert (await api.get("/connections")).json["data"] == []
    assert [line["event"] for line in desk.log.lines] == ["refused"]


@pytest.mark.proves("sign-in.methods")
async def test_a_refusal_that_is_pasted_ends_it_too(api: Asking, desk: Desk) -> None:
    made = await begun(api, "browser")
    done = await api.ask("POST", f"/sign-ins/{made['id']}/complete", {"pasted": f"{REDIRECT}?error=access_denied&state={STATE}"})
    assert (done.status, done.json["status"], desk.script.exchanged) == (200, "failed", [])


@pytest.mark.proves("sign-in.methods")
@pytest.mark.parametrize("method", ["device", "manual"])
async def test_one_that_took_too_long_has_expired(api: Asking, desk: Desk, method: str) -> None:
    made = await begun(api, method)
    desk.clock.advance(601)
    step = ("poll", None) if method == "device" else ("complete", {"pasted": "code-1"})
    late = await api.ask("POST", f"/sign-ins/{made['id']}/{step[0]}", step[1])
    assert (late.status, late.json["status"]) == (200, "expired")
    assert (desk.script.polled, desk.script.exchanged) == ([], [])


@pytest.mark.proves("sign-in.once")
async def test_a_sign_in_is_completed_once(api: Asking, desk: Desk) -> None:
    made = await begun(api, "manual")
    first = await api.ask("POST", f"/sign-ins/{made['id']}/complete", {"pasted": "code-1"})
    again = await api.ask("POST", f"/sign-ins/{made['id']}/complete", {"pasted": "code-1"})
    assert (first.status, again.status, again.error["code"], len(desk.script.exchanged)) == (200, 404, "not_found", 1)


@pytest.mark.proves("sign-in.once")
async def test_a_code_is_tried_once_even_where_it_is_refused(api: Asking, desk: Desk) -> None:
    made = await begun(api, "manual")
    desk.script.gives = StepRefused(
        "extension plan oauth/exchange failed: bad code", provider="plan", step="exchange", status=400, reason="bad code"
    )
    first = await api.ask("POST", f"/sign-ins/{made['id']}/complete", {"pasted": "wrong"})
    assert (first.status, first.error["code"], first.error["fault"]) == (400, "upstream_refused", "upstream")
    assert "bad code" in first.error["message"]
    assert (await api.get(f"/sign-ins/{made['id']}")).json["status"] == "failed"
    assert (await api.ask("POST", f"/sign-ins/{made['id']}/complete", {"pasted": "code-1"})).status == 404


@pytest.mark.proves("sign-in.methods")
@pytest.mark.parametrize("pasted", [" ", "https://vendor.test/shown?state=" + STATE, "code-1#other-state", f"{REDIRECT}?code=code-1", "#"])
async def test_what_is_no_answer_to_it_leaves_it_open(api: Asking, desk: Desk, pasted: str) -> None:
    made = await begun(api, "browser")
    wrong = await api.ask("POST", f"/sign-ins/{made['id']}/complete", {"pasted": pasted})
    assert (wrong.status, wrong.error["code"]) == (400, "bad_request")
    assert (await api.get(f"/sign-ins/{made['id']}")).json["status"] == "pending"
    assert (await api.ask("POST", f"/sign-ins/{made['id']}/complete", {"pasted": f"code-1#{STATE}"})).json["status"] == "complete"


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (CallFailed("extension plan oauth/start was refused", "configuration"), 503, "daemon_refused"),
        (StepRefused("no", provider="plan", step="start", status=401, reason=""), 503, "daemon_refused"),
        (StepRefused("no", provider="plan", step="start", status=400, reason="no such method"), 400, "upstream_refused"),
        (StepRefused("no", provider="plan", step="start", status=200, reason="no"), 400, "upstream_refused"),
        (StepRefused("no", provider="plan", step="start", status=429, reason=""), 429, "upstream_busy"),
        (StepRefused("no", provider="plan", step="start", status=502, reason=""), 502, "upstream_down"),
        (CallFailed("did not answer", "transport", AGAIN), 502, "upstream_down"),
        (CallFailed("unusable", "upstream"), 502, "upstream_garbled"),
        (replace(DEVICE, user_code=""), 502, "upstream_garbled"),
        (replace(DEVICE, verification_uri="javascript:alert(1)"), 502, "upstream_garbled"),
        (replace(DEVICE, verification_uri_complete="https://vendor.test/\nx"), 502, "upstream_garbled"),
    ],
)
async def test_a_daemon_that_does_not_begin_is_told_by_whose_fault_it_is(
    api: Asking, desk: Desk, raised: Exception | Authorization, status: int, code: str
) -> None:
    desk.script.begins = raised
    reply = await api.ask("POST", "/sign-ins", {"provider": "home/plan", "method": "device"})
    assert (reply.status, reply.error["code"]) == (status, code)
    [line] = desk.log.lines
    assert (line["event"], line["why"]) == ("refused", code)


async def test_trouble_while_it_is_polled_leaves_it_open(api: Asking, desk: Desk) -> None:
    made = await begun(api)
    desk.script.polls = [CallFailed("did not answer", "transport", AGAIN), PollResult(status="odd"), APPROVED]
    for status in (502, 502, 200):
        desk.clock.advance(7)
        assert (await api.ask("POST", f"/sign-ins/{made['id']}/poll")).status == status


async def test_an_approval_without_a_token_is_none(api: Asking, desk: Desk) -> None:
    made = await begun(api)
    desk.script.polls = [PollResult(status="approved", record=Record(refresh_token="refresh"))]
    desk.clock.advance(7)
    assert (await api.ask("POST", f"/sign-ins/{made['id']}/poll")).error["code"] == "upstream_garbled"
    assert (await api.get(f"/sign-ins/{made['id']}")).json["status"] == "failed"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"provider": "nothing/here"}, 404, "no extension daemon has a provider `nothing/here`"),
        ({"provider": "home/open"}, 400, "needs no credential"),
        ({"provider": "home/key"}, 400, "one does not sign in to `home/key`"),
        ({"provider": "home/coder", "method": "device"}, 400, "no sign-in by `device`"),
        ({"provider": "home/plan", "method": "magic"}, 400, "`method`"),
        ({"provider": "home/plan", "method": "browser"}, 400, "`redirect_uri` is missing"),
        ({"provider": "home/plan", "params": {"oauth_client_secret": 5}}, 400, "`params"),
        *(
            ({"provider": "home/plan", "method": "browser", "redirect_uri": uri}, 400, "is no place for a code")
            for uri in (
                "http://evil.test/cb", "javascript:alert(1)", "https://", "https://a@b/", "http://127.0.0.1/#x", "http://[::1", "https://ä.test/", "ftp://127.0.0.1/"
            )
        ),
    ],
)  # fmt: skip
async def test_what_cannot_begin(api: Asking, desk: Desk, body: dict[str, object], status: int, words: str) -> None:
    reply = await api.ask("POST", "/sign-ins", body)
    assert reply.status == status
    assert words in reply.error["message"]
    assert (desk.script.started, desk.log.lines) == ([], [])


@pytest.mark.parametrize("uri", ["http://localhost:1/x", "http://[::1]:1/x?y=z", "https://gateway.test/connect"])
async def test_where_an_answer_may_be_waited_for(api: Asking, uri: str) -> None:
    await begun(api, "browser", redirect_uri=uri)


@pytest.mark.parametrize("wanted", ["sgn_", "sgn_unknown", "con_x", "sgn_" + "x" * 300])
async def test_what_is_no_sign_in_is_not_found(api: Asking, wanted: str) -> None:
    for method, step, body in (("GET", "", None), ("POST", "/poll", None), ("POST", "/complete", {"pasted": "x"})):
        reply = await api.ask(method, f"/sign-ins/{wanted}{step}", body)
        assert (reply.status, reply.error["message"], reply.error["hint"]) == (404, f"there is no sign-in `{wanted}`", "")


async def test_a_code_is_not_polled_and_a_device_not_completed(api: Asking) -> None:
    assert (await api.ask("POST", f"/sign-ins/{(await begun(api, 'manual'))['id']}/poll")).status == 404
    assert (await api.ask("POST", f"/sign-ins/{(await begun(api))['id']}/complete", {"pasted": "code-1"})).status == 404


# ------------------------------------------------------------------------------------------------------------- whose it is
@pytest.mark.proves("sign-in.owners")
@pytest.mark.parametrize(
    ("caller", "given", "owner"),
    [
        (person(), {}, Owner("acc_one", "usr_a")),
        (person(), {"account": "acc_one", "user": "usr_a"}, Owner("acc_one", "usr_a")),
        (member("acc_one"), {}, Owner("acc_one")),
        (member("acc_one", "owner"), {"user": "usr_b"}, Owner("acc_one", "usr_b")),
        (operator(), {}, INSTALLATION),
        (operator(), {"account": "acc_two"}, Owner("acc_two")),
        (operator(), {"account": "acc_two", "user": "usr_c"}, Owner("acc_two", "usr_c")),
    ],
)
async def test_whose_a_connection_is(api: Asking, desk: Desk, caller: Caller, given: dict[str, str], owner: Owner) -> None:
    api.caller = caller
    made = await begun(api, "manual", **given)
    done = await api.ask("POST", f"/sign-ins/{made['id']}/complete", {"pasted": "code-1"})
    assert (made["account"], made["user"]) == (owner.account or None, owner.user or None)
    row = (await api.get(f"/connections/{done.json['connection']}")).json
    assert Owner(row["account"] or "", row["user"] or "") == owner
    [credential] = desk.connections.of("home/plan")[owner]
    assert credential.secret.reveal() == RECORD.access_token


@pytest.mark.proves("sign-in.owners", "deny")
@pytest.mark.parametrize(
    ("caller", "given", "status"),
    [
        (person(), {"user": "usr_b"}, 403),
        (person(), {"account": "acc_two"}, 404),
        (person(), {"account": "acc_two", "user": "usr_a"}, 404),
        (member("acc_one"), {"account": "acc_two"}, 404),
        (member("acc_one"), {"user": "usr_c"}, 404),
        (operator(), {"account": "acc_none"}, 404),
        (member("acc_one", "member"), {}, 403),
        (Caller(id="key_p", kind="service", name="p", scopes=frozenset({"inference"}), account="acc_one"), {}, 403),
        (Caller(id="key_m", kind="person", name="m", scopes=frozenset({"metrics"}), account="acc_one", user="usr_a"), {}, 403),
    ],
)
async def test_for_whom_nobody_else_signs_in(api: Asking, desk: Desk, caller: Caller, given: dict[str, str], status: int) -> None:
    api.caller = caller
    for path, body in (("/sign-ins", {"provider": "home/plan"}), ("/connections", {"provider": "home/key", "token": "a-token"})):
        assert (await api.ask("POST", path, {**body, **given})).status == status
    assert desk.script.started == []


@pytest.mark.proves("sign-in.owners", "sign-in.once")
async def test_somebody_elses_sign_in_is_not_there(api: Asking, desk: Desk) -> None:
    made = await begun(api, "manual")
    for other in (person("usr_b"), person("usr_c", "acc_two"), member("acc_two")):
        api.caller = other
        for method, step, body in (("GET", "", None), ("POST", "/poll", None), ("POST", "/complete", {"pasted": "code-1"})):
            reply = await api.ask(method, f"/sign-ins/{made['id']}{step}", body)
            assert (reply.status, reply.error["message"], reply.error["hint"]) == (404, f"there is no sign-in `{made['id']}`", "")
    assert desk.script.exchanged == []
    for may in (member("acc_one"), operator(), person()):
        api.caller = may
        assert (await api.get(f"/sign-ins/{made['id']}")).status == 200


# ------------------------------------------------------------------------------------------------------------ what is told
@pytest.mark.proves("sign-in.audit", "sign-in.sealed")
async def test_who_did_what_is_logged_and_no_secret_is_told(api: Asking, desk: Desk) -> None:
    seen: list[bytes] = []
    made = await begun(api, "browser", params={"oauth_client_secret": "client-canary-0123"})
    seen += [(await api.ask("POST", f"/sign-ins/{made['id']}/complete", {"pasted": f"pasted-canary#{STATE}"})).body]
    seen += [(await api.get(path)).body for path in ("/connections", f"/sign-ins/{made['id']}", f"/sign-ins/{made['id']}x")]
    [line] = desk.log.lines
    assert line == {
        "event": "connected",
        "provider": "home/plan",
        "account": "acc_one",
        "user": "usr_a",
        "by": "key_usr_a",
        "by_account": "acc_one",
        "by_user": "usr_a",
        "method": "browser",
        "connection": line["connection"],
    }
    with reading(desk.engine) as connection:
        rows = [tuple(row) for row in connection.execute(select(KEPT))]
    told = f"{desk.log.lines}{seen}{rows}"
    for secret in (*CANARIES, "client-canary-0123", "pasted-canary"):
        assert secret not in told


async def test_a_reason_that_holds_what_was_pasted_is_told_without_it(api: Asking, desk: Desk) -> None:
    made = await begun(api, "manual")
    wrong = await api.ask("POST", f"/sign-ins/{made['id']}/complete", {"pasted": ["pasted-canary"]})
    assert (wrong.status, b"pasted-canary" in wrong.body) == (400, False)


async def test_a_provider_without_an_interval_is_asked_every_five_seconds(api: Asking, desk: Desk) -> None:
    desk.script.begins = replace(DEVICE, interval=timedelta(), expires_in=timedelta(), secrets=Secrets(device_code="code"))
    made = await begun(api)
    assert (made["interval"], made["expires_at"]) == (5, desk.clock.now() + 600)
