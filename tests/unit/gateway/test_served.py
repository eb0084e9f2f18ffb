"""Providers behind daemons on the path of a call: what rests when they fail, which credentials they get, what is told of them."""

from typing import Literal

import pytest

from tests.fakes.scripted import Answer, Gateway
from tests.fakes.wallet import credential
from tests.unit.gateway.test_choice import caller, choice
from trunkline.base.secret import Secret
from trunkline.errors import SignInNeeded, UpstreamBusy, UpstreamDenied, UpstreamGarbled
from trunkline.gateway.attempts import after
from trunkline.gateway.health import DENIED, FAILURES
from trunkline.gateway.stored import find, tell
from trunkline.model.credential import Credential, Owner
from trunkline.model.target import Target
from trunkline.providers import Kind, Provider, Served, Settings
from trunkline.providers.compatible import PROVIDER as COMPATIBLE
from trunkline.providers.daemon import PROVIDER as DAEMON
from trunkline.providers.openai import PROVIDER as OPENAI
from trunkline.surfaces.openai import SURFACE

CHAT, RESPONSES = SURFACE.endpoints[0], SURFACE.follow_ups[0]
BODY = b'{"model": "%b", "messages": [{"role": "user", "content": "hi"}]}'
GOOD = b'{"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}'


Needs = Literal["oauth", "token", "none", ""]


def gateway(needs: Needs = "none", kind: Kind = COMPATIBLE) -> Gateway:
    behind = Served(daemon="x", id="inner", surfaces=("chat_completions", "responses"), credential=needs)
    return Gateway(kind, CHAT, kinds={"a": DAEMON}, served={"a": behind})


def served(needs: Needs) -> Provider:
    behind = Served(daemon="x", id="inner", credential=needs)
    return Provider(name="x/inner", kind=DAEMON, settings=Settings(kind="x"), base_url="http://daemon.test", api_key=None, served=behind)


@pytest.mark.proves("daemon.circuit")
async def test_a_provider_behind_a_daemon_rests_with_all_its_models() -> None:
    here = gateway()
    here.upstream.script("a/one", UpstreamGarbled("no"))
    for _ in range(FAILURES):
        await here.carry(BODY % b"a/one")
    here.upstream.script("b/m", Answer(GOOD))
    assert (await here.carry(BODY % b"fast")).status == 200
    assert here.upstream.calls == ["a/one"] * FAILURES + ["b/m"]
    [resting] = here.health.resting("a")
    assert (resting.target, resting.why) == (Target("a", ""), "failing")


@pytest.mark.proves("daemon.circuit")
async def test_a_model_of_any_other_provider_rests_alone() -> None:
    here = gateway()
    here.upstream.script("b/one", UpstreamGarbled("no"))
    here.upstream.script("b/m", Answer(GOOD))
    for _ in range(FAILURES):
        await here.carry(BODY % b"b/one")
    assert [each.target for each in here.health.resting("b")] == [Target("b", "one")]


@pytest.mark.proves("daemon.circuit")
async def test_a_busy_sign_in_rests_for_all_models_of_its_provider() -> None:
    here = gateway("oauth")
    here.wallet.put("a", credential("one"))
    here.upstream.script("a/one", UpstreamBusy("later", retry_after=7))
    await here.carry(BODY % b"a/one")
    reply = await here.carry(BODY % b"a/two")
    assert (reply.status, reply.headers[b"retry-after"]) == (429, b"7")
    assert here.upstream.calls == ["a/one"]


@pytest.mark.proves("daemon.renewal")
async def test_a_refusal_rests_the_sign_in_that_it_was_said_to() -> None:
    here = gateway("oauth")
    old, new = credential("one"), credential("one", secret="canary-newer")
    here.wallet.put("a", old)
    refusal = UpstreamDenied("no", upstream_status=401)
    refusal.said_to = new
    here.upstream.script("a/m", refusal)
    await here.carry(BODY % b"a/m")
    assert here.health.rest_of(old, Target("a", "")) == 0
    assert here.health.rest_of(new, Target("a", "")) == DENIED


async def test_a_sign_in_that_has_ended_leaves_the_call_to_another_one_of_its_owner() -> None:
    here = gateway("oauth")
    here.wallet.put("a", credential("one"), credential("two"))
    here.upstream.script("a/m", SignInNeeded("it has ended"), Answer(GOOD))
    assert (await here.carry(BODY % b"a/m")).status == 200
    assert here.upstream.sent == [["cred_one"], ["cred_one", "cred_two"]]
    assert after(SignInNeeded("it has ended"), tried=1, left=1, again=False) == "next"


async def test_an_attempt_is_told_with_the_whole_name_of_its_provider() -> None:
    here = gateway()
    here.upstream.script("a/m", UpstreamGarbled("no"))
    here.upstream.script("b/m", Answer(GOOD))
    await here.carry(BODY % b"fast")
    [exchange] = here.told
    assert [(each.served, each.provider) for each in exchange.attempts] == [("a", "a"), ("", "b")]


# ------------------------------------------------------------------------------------------------------------ credentials
@pytest.mark.proves("daemon.missing")
@pytest.mark.parametrize("kind", ["oauth", "token"])
def test_who_has_to_sign_in_is_told_where(kind: Needs) -> None:
    needs = served(kind)
    missing = choice(wallet := gateway().wallet, needs).missing(needs, caller())
    assert isinstance(missing, SignInNeeded)
    assert (missing.code, missing.http_status) == ("sign_in_needed", 403)
    assert "`x/inner`" in missing.message
    assert "https://gw.test/connect/x/inner" in missing.hint
    assert "`trunkline connect x/inner`" in missing.hint
    wallet.put("x/inner", owner=Owner("acc_a"))
    locked = choice(wallet, needs).missing(needs, caller("acc_a"))
    assert locked is not None
    assert "trunkline vault status" in locked.hint


@pytest.mark.proves("daemon.missing", "connections.revoked")
@pytest.mark.parametrize("kind", ["oauth", "token", ""])
def test_whose_sign_in_was_revoked_is_told_where_to_sign_in(kind: Needs) -> None:
    wallet, needs = gateway().wallet, served(kind)
    wallet.put("x/inner", owner=Owner("acc_a"))
    wallet.put("x/inner", credential("shared"))
    wallet.revoked.add(("x/inner", Owner("acc_a")))
    chosen = choice(wallet, needs)
    assert chosen.of(needs, caller("acc_a")) == ()
    missing = chosen.missing(needs, caller("acc_a"))
    assert isinstance(missing, SignInNeeded)
    assert "https://gw.test/connect/x/inner" in missing.hint


@pytest.mark.proves("daemon.missing")
@pytest.mark.parametrize("kind", ["none", ""])
def test_nothing_is_missing_where_a_provider_needs_none_or_its_daemon_does_not_say(kind: Needs) -> None:
    needs = served(kind)
    assert choice(gateway().wallet, needs).missing(needs, caller()) is None


@pytest.mark.proves("daemon.missing")
def test_a_provider_that_needs_no_credential_gets_none_to_see() -> None:
    wallet = gateway().wallet
    wallet.put("x/inner", one := credential("one"))
    assert choice(wallet, served("none")).of(served("none"), caller()) == ()
    assert choice(wallet, served("none")).missing(served("none"), caller()) is None
    assert choice(wallet, served("")).of(served(""), caller()) == (one,)


# ------------------------------------------------------------------------------------------------------------------- kept
def test_the_id_of_a_kept_reply_holds_the_sign_in_that_asked_for_it() -> None:
    signed_in = Credential(id="con_abc", weight=1, secret=Secret("s"), key="k")
    told = tell("x/inner", signed_in.id, "resp_1")
    assert find(told) == ("x/inner", "resp_1", "con_abc")


async def test_what_a_daemon_keeps_cannot_be_asked_for_since_the_protocol_has_no_route_for_it() -> None:
    here = gateway(kind=OPENAI)
    here.upstream.script("b", Answer(b'{"id": "resp_1"}'))
    assert (await here.follow(RESPONSES, "GET", "resp_b~resp_1")).status == 200
    assert (await here.follow(RESPONSES, "GET", "resp_a~resp_1")).status == 404
    assert here.upstream.calls == ["b GET resp_1"]
