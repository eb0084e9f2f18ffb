"""Signing in, the product's side (daemon contract, G2; I.14's other end)."""

import asyncio
import base64
import hashlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline_sdk.daemon.messages import Authorization, Caller, Flow, OAuthStartRequest, PollResult, Record, Secrets
from trunkline_sdk.daemon.oauthflow import (
    AccessDenied,
    Answer,
    CodeRequired,
    FlowExpired,
    FlowNotFound,
    InvalidAnswer,
    InvalidStart,
    MemoryFlows,
    OAuthClient,
    Pkce,
    SignIns,
    SlowDown,
    StateMismatch,
    View,
    challenge,
)

ANNA = Caller(id="anna", kind="human")
BERT = Caller(id="bert", kind="human")
REDIRECT = "http://127.0.0.1:1455/cb"
RECORD = Record(access_token="access-1", refresh_token="refresh-1")
DEVICE = Authorization(
    user_code="ABCD",
    verification_uri="https://p.example/d",
    interval=timedelta(seconds=7),
    expires_in=timedelta(minutes=3),
    secrets=Secrets(device_code="device-canary"),
)


class Provider:
    """A driver that answers as its test says."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, tzinfo=UTC)
        self.begins: Authorization | Exception | None = None
        self.polls: list[PollResult | Exception] = []
        self.exchanges: list[tuple[Flow, str]] = []
        self.requests: list[OAuthStartRequest] = []
        self.gives: Record | Exception = RECORD
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None
        self.saved: list[tuple[Flow, Record]] = []
        self.save_fails: Exception | None = None
        self.flows = MemoryFlows(now=lambda: self.now)
        self.product = SignIns(self.flows, driver=lambda instance: self, save=self.save, now=lambda: self.now)

    async def start(self, request: OAuthStartRequest) -> Authorization:
        self.requests.append(request)
        if isinstance(self.begins, Exception):
            raise self.begins
        if self.begins is not None:
            return self.begins
        if request.method == "device":
            return DEVICE
        pkce = Pkce()
        secrets = Secrets(state=pkce.state, verifier=pkce.verifier, driver_data={"d": "1"})
        return Authorization(authorization_url=f"https://p.example/a?state={pkce.state}", secrets=secrets)

    async def poll(self, flow: Flow) -> PollResult:
        result = self.polls.pop(0)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        if isinstance(result, Exception):
            raise result
        return result

    async def exchange(self, flow: Flow, code: str) -> Record:
        self.exchanges.append((flow, code))
        if self.meanwhile is not None:
            await self.meanwhile()
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives

    async def save(self, flow: Flow, record: Record) -> str:
        if self.save_fails is not None:
            raise self.save_fails
        self.saved.append((flow, record))
        return f"key:{flow.instance}"

    def later(self, **time: float) -> None:
        self.now += timedelta(**time)

    async def device(self) -> View:
        return await self.product.start(ANNA, "daemon/p", "device")

    async def manual(self, method: str = "manual") -> tuple[View, str]:
        view = await self.product.start(ANNA, "daemon/p", method, redirect_uri=REDIRECT, params={"a": "b"})
        return view, parse_qs(urlsplit(view.authorization_url).query)["state"][0]

    async def status(self, view: View) -> str:
        return (await self.product.view(ANNA, view.id)).status


@pytest.fixture
def provider() -> Provider:
    return Provider()


# ------------------------------------------------------------------------------------------------------------- start
async def test_a_device_sign_in_says_where_to_go(provider: Provider) -> None:
    view = await provider.device()
    assert (view.status, view.user_code, view.verification_uri, view.interval) == ("pending", "ABCD", "https://p.example/d", 7)
    assert view.expires_at == provider.now + timedelta(minutes=3)
    assert len(base64.urlsafe_b64decode(view.id + "=")) == 32
    assert "canary" not in repr(view)


async def test_what_the_provider_leaves_out_has_defaults(provider: Provider) -> None:
    view, _ = await provider.manual()
    assert (view.interval, view.expires_at) == (5, provider.now + timedelta(minutes=10))
    flow = await provider.flows.load(ANNA, view.id)
    assert (flow.secrets.params, flow.secrets.redirect_uri, flow.secrets.driver_data) == ({"a": "b"}, REDIRECT, {"d": "1"})


@pytest.mark.parametrize(
    ("caller", "instance", "method"),
    [
        (Caller(), "p", "device"),
        (Caller(id=" ", kind="human"), "p", "device"),
        (Caller(id="a", kind="robot"), "p", "device"),
        (ANNA, " ", "device"),
        (ANNA, "p", "password"),
    ],
)
async def test_what_cannot_start(provider: Provider, caller: Caller, instance: str, method: str) -> None:
    with pytest.raises(InvalidStart):
        await provider.product.start(caller, instance, method)
    assert provider.requests == []


async def test_an_anonymous_caller_needs_no_id(provider: Provider) -> None:
    assert (await provider.product.start(Caller(kind="anonymous"), "p", "device")).status == "pending"


@pytest.mark.parametrize(
    ("method", "begun", "lacks"),
    [
        ("device", Authorization(), "device code and the user code and the verification address"),
        ("device", Authorization(user_code="x", verification_uri="y"), "device code"),
        ("manual", Authorization(authorization_url="x", secrets=Secrets(state="s")), "verifier and the redirect address"),
        ("browser", Authorization(secrets=Secrets(state="s", verifier="v", redirect_uri="r")), "authorization address"),
    ],
)
async def test_a_beginning_that_lacks_something_is_none(provider: Provider, method: str, begun: Authorization, lacks: str) -> None:
    provider.begins = begun
    with pytest.raises(InvalidAnswer, match=f"lacks the {lacks}$"):
        await provider.product.start(ANNA, "p", method)


# -------------------------------------------------------------------------------------------------------------- poll
async def test_a_device_sign_in_from_pending_to_approved(provider: Provider) -> None:
    view = await provider.device()
    with pytest.raises(SlowDown):
        await provider.product.poll(ANNA, view.id)  # the first interval
    provider.polls = [PollResult(status="pending"), PollResult(status="approved", record=RECORD)]
    provider.later(seconds=7)
    assert (await provider.product.poll(ANNA, view.id)).status == "pending"
    with pytest.raises(SlowDown):
        await provider.product.poll(ANNA, view.id)
    provider.later(seconds=7)
    done = await provider.product.poll(ANNA, view.id)
    assert (done.status, done.credential_key) == ("complete", "key:daemon/p")
    (flow, record), *more = provider.saved
    assert (record, more, flow.caller, flow.secrets) == (RECORD, [], ANNA, Secrets())
    assert await provider.product.view(ANNA, view.id) == done
    with pytest.raises(FlowNotFound):
        await provider.product.poll(ANNA, view.id)


async def test_slow_down_makes_the_interval_longer(provider: Provider) -> None:
    view = await provider.device()
    provider.polls = [PollResult(status="slow_down"), PollResult(status="pending")]
    provider.later(seconds=7)
    assert (await provider.product.poll(ANNA, view.id)).interval == 12
    provider.later(seconds=11)
    with pytest.raises(SlowDown):
        await provider.product.poll(ANNA, view.id)
    provider.later(seconds=1)
    assert (await provider.product.poll(ANNA, view.id)).interval == 12


@pytest.mark.parametrize(("status", "error", "outcome"), [("denied", AccessDenied, "failed"), ("expired", FlowExpired, "expired")])
async def test_a_sign_in_that_ends_badly(provider: Provider, status: str, error: type[Exception], outcome: str) -> None:
    view = await provider.device()
    provider.polls = [PollResult(status=status, record=RECORD)]
    provider.later(seconds=7)
    with pytest.raises(error):
        await provider.product.poll(ANNA, view.id)
    assert (await provider.status(view), provider.saved) == (outcome, [])
    with pytest.raises(FlowNotFound):
        await provider.product.poll(ANNA, view.id)


@pytest.mark.parametrize("trouble", [OSError("down"), PollResult(status="perhaps"), PollResult()])
async def test_trouble_for_the_moment_leaves_it_pending(provider: Provider, trouble: Any) -> None:
    view = await provider.device()
    provider.polls = [trouble, PollResult(status="approved", record=RECORD)]
    provider.later(seconds=7)
    with pytest.raises((OSError, InvalidAnswer)):
        await provider.product.poll(ANNA, view.id)
    assert await provider.status(view) == "pending"
    provider.later(seconds=7)
    assert (await provider.product.poll(ANNA, view.id)).status == "complete"


async def test_two_polls_at_once_ask_once(provider: Provider) -> None:
    view = await provider.device()
    provider.polls = [PollResult(status="pending")]
    provider.later(seconds=7)
    results = await asyncio.gather(*(provider.product.poll(ANNA, view.id) for _ in range(4)), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["SlowDown", "SlowDown", "SlowDown", "View"]


async def test_an_approval_that_took_longer_than_the_interval_is_kept(provider: Provider) -> None:
    view = await provider.device()
    provider.polls = [PollResult(status="approved", record=RECORD), PollResult(status="pending")]
    provider.later(seconds=7)

    async def another_poll() -> None:
        provider.later(seconds=7)
        await provider.product.poll(ANNA, view.id)

    provider.meanwhile = another_poll
    assert (await provider.product.poll(ANNA, view.id)).status == "complete"


async def test_two_approvals_save_once(provider: Provider) -> None:
    view = await provider.device()
    provider.polls = [PollResult(status="approved", record=RECORD)] * 2
    provider.later(seconds=7)

    async def another_poll() -> None:
        provider.later(seconds=7)
        await provider.product.poll(ANNA, view.id)

    provider.meanwhile = another_poll
    with pytest.raises(FlowNotFound):
        await provider.product.poll(ANNA, view.id)
    assert len(provider.saved) == 1


async def test_a_credential_that_cannot_be_kept_is_a_failure(provider: Provider) -> None:
    view = await provider.device()
    provider.polls, provider.save_fails = [PollResult(status="approved", record=RECORD)], OSError("disk")
    provider.later(seconds=7)
    with pytest.raises(OSError, match="disk"):
        await provider.product.poll(ANNA, view.id)
    assert await provider.status(view) == "failed"


# ------------------------------------------------------------------------------------------------- whose, and until when
async def test_unknown_foreign_and_used_up_look_the_same(provider: Provider) -> None:
    view, state = await provider.manual()
    ways = [
        provider.product.complete(BERT, view.id, "c"),
        provider.product.complete(Caller(id="anna", kind="service"), view.id, "c"),
        provider.product.complete(Caller(id="anna", kind="human", project_id="x"), view.id, "c"),
        provider.product.complete(ANNA, "unknown", "c"),
        provider.product.poll(BERT, view.id),
        provider.product.view(BERT, view.id),
        provider.product.poll(ANNA, view.id),  # no device sign-in
    ]
    results = await asyncio.gather(*ways, return_exceptions=True)
    await provider.product.complete(ANNA, view.id, f"c#{state}")
    results += await asyncio.gather(provider.product.complete(ANNA, view.id, f"c#{state}"), return_exceptions=True)
    assert {(type(result), str(result)) for result in results} == {(FlowNotFound, "there is no such sign-in")}
    assert len(provider.exchanges) == 1


async def test_its_owner_alone_is_told_that_it_has_expired(provider: Provider) -> None:
    device = await provider.device()
    provider.later(minutes=3)
    with pytest.raises(FlowExpired):
        await provider.product.poll(ANNA, device.id)
    with pytest.raises(FlowNotFound):
        await provider.product.poll(BERT, device.id)
    assert await provider.status(device) == "expired"
    provider.later(minutes=15, seconds=1)
    with pytest.raises(FlowNotFound):
        await provider.product.poll(ANNA, device.id)


async def test_one_that_is_used_up_can_be_seen_until_it_expires(provider: Provider) -> None:
    view, state = await provider.manual()
    await provider.product.complete(ANNA, view.id, f"c#{state}")
    assert (await provider.flows.load(ANNA, view.id)).secrets == Secrets()
    provider.later(minutes=9)
    assert await provider.status(view) == "complete"
    provider.later(minutes=1)
    with pytest.raises(FlowNotFound):
        await provider.product.view(ANNA, view.id)


async def test_the_oldest_of_too_many_makes_room(provider: Provider) -> None:
    flows = MemoryFlows(per_caller=2, now=lambda: provider.now)
    product = SignIns(flows, driver=lambda _: provider, save=provider.save, now=lambda: provider.now)
    others = await product.start(BERT, "p", "device")
    mine = [await product.start(ANNA, "p", "device") for _ in range(3)]
    with pytest.raises(FlowNotFound):
        await product.view(ANNA, mine[0].id)
    assert [(await product.view(ANNA, view.id)).status for view in mine[1:]] == ["pending"] * 2
    assert (await product.view(BERT, others.id)).status == "pending"


# ---------------------------------------------------------------------------------------------------------- complete
@pytest.mark.parametrize(
    "pasted",
    [
        "{code}",
        " {code}\n",
        "{code}#{state}",
        "http://127.0.0.1:1455/cb?code={code}&state={state}",
        "http://x/cb#code={code}&state={state}",
        "?code={code}&state={state}",
        "code={code}&state={state}",
    ],
)
async def test_what_an_owner_may_paste(provider: Provider, pasted: str) -> None:
    view, state = await provider.manual()
    done = await provider.product.complete(ANNA, view.id, pasted.format(code="the-code", state=state))
    assert (done.status, done.credential_key) == ("complete", "key:daemon/p")
    (flow, code), *more = provider.exchanges
    assert (code, more, flow.secrets.state, flow.secrets.redirect_uri) == ("the-code", [], state, REDIRECT)
    assert flow.secrets.verifier


@pytest.mark.parametrize("pasted", ["", "  ", "https://p.example/cb", "https://p.example/cb?state={state}", "http://[", "#"])
async def test_without_a_code_it_goes_on(provider: Provider, pasted: str) -> None:
    view, state = await provider.manual()
    with pytest.raises(CodeRequired):
        await provider.product.complete(ANNA, view.id, pasted.format(state=state))
    assert await provider.status(view) == "pending"


@pytest.mark.parametrize(
    "pasted", ["c#wrong", "c#", "http://x/cb?code=c&state=wrong", "http://x/cb?code=c", "http://x/cb?error=access_denied&state=ä"]
)
async def test_with_a_foreign_state_it_goes_on(provider: Provider, pasted: str) -> None:
    view, state = await provider.manual()
    with pytest.raises(StateMismatch):
        await provider.product.complete(ANNA, view.id, pasted)
    assert (await provider.status(view), provider.exchanges) == ("pending", [])
    assert (await provider.product.complete(ANNA, view.id, f"c#{state}")).status == "complete"


async def test_a_refusal_of_the_provider_ends_it(provider: Provider) -> None:
    view, state = await provider.manual()
    with pytest.raises(AccessDenied):
        await provider.product.complete(ANNA, view.id, f"http://x/cb?error=access_denied&state={state}")
    assert (await provider.status(view), provider.exchanges) == ("failed", [])


async def test_a_code_is_tried_once_even_if_that_fails(provider: Provider) -> None:
    view, state = await provider.manual()
    provider.gives = OSError("down")
    with pytest.raises(OSError, match="down"):
        await provider.product.complete(ANNA, view.id, f"c#{state}")
    assert await provider.status(view) == "failed"
    with pytest.raises(FlowNotFound):
        await provider.product.complete(ANNA, view.id, f"c#{state}")
    assert len(provider.exchanges) == 1


async def test_it_is_used_up_before_the_provider_is_asked(provider: Provider) -> None:
    view, state = await provider.manual()

    async def again() -> None:
        with pytest.raises(FlowNotFound):
            await provider.product.complete(ANNA, view.id, f"c#{state}")
        assert await provider.status(view) == "pending"

    provider.meanwhile = again
    assert (await provider.product.complete(ANNA, view.id, f"c#{state}")).status == "complete"


async def test_a_cancelled_exchange_has_failed(provider: Provider) -> None:
    view, state = await provider.manual()
    provider.meanwhile = asyncio.Event().wait
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(provider.product.complete(ANNA, view.id, f"c#{state}"), 0.05)
    assert await provider.status(view) == "failed"


async def test_an_unknown_provider_uses_nothing_up(provider: Provider) -> None:
    view, state = await provider.manual()
    without = SignIns(provider.flows, driver={}.__getitem__, save=provider.save, now=lambda: provider.now)
    with pytest.raises(KeyError):
        await without.complete(ANNA, view.id, f"c#{state}")
    assert await provider.status(view) == "pending"


# ---------------------------------------------------------------------------------------------------------- callback
@pytest.mark.parametrize("caller", [None, ANNA])
async def test_a_redirect_finds_its_sign_in_by_the_state(provider: Provider, caller: Caller | None) -> None:
    view, state = await provider.manual("browser")
    done = await provider.product.callback(Answer(code="c", state=state), REDIRECT, caller=caller)
    assert (done.id, done.status) == (view.id, "complete")
    with pytest.raises(FlowNotFound):
        await provider.product.callback(Answer(code="c", state=state), REDIRECT)


async def test_what_a_redirect_does_not_find(provider: Provider) -> None:
    view, state = await provider.manual("browser")
    _, manual = await provider.manual("manual")
    await provider.device()
    ways = [
        provider.product.callback(Answer(code="c", state="wrong"), REDIRECT),
        provider.product.callback(Answer(code="c", state=""), REDIRECT),
        provider.product.callback(Answer(code="c"), REDIRECT),
        provider.product.callback(Answer(code="c", state=state), REDIRECT + "/other"),
        provider.product.callback(Answer(code="c", state=state), REDIRECT, caller=BERT),
        provider.product.callback(Answer(code="c", state=manual), REDIRECT),
    ]
    results = await asyncio.gather(*ways, return_exceptions=True)
    assert [type(result) for result in results] == [FlowNotFound] * 6
    with pytest.raises(CodeRequired):
        await provider.product.callback(Answer(state=state), REDIRECT)
    assert await provider.status(view) == "pending"
    with pytest.raises(AccessDenied):
        await provider.product.callback(Answer(error="access_denied", state=state), REDIRECT)
    assert await provider.status(view) == "failed"


async def test_a_late_redirect(provider: Provider) -> None:
    _, state = await provider.manual("browser")
    provider.later(minutes=10)
    with pytest.raises(FlowExpired):
        await provider.product.callback(Answer(code="c", state=state), REDIRECT, caller=ANNA)
    with pytest.raises(FlowNotFound):
        await provider.product.callback(Answer(code="c", state=state), REDIRECT)


# -------------------------------------------------------------------------------------------------------------- PKCE
def test_the_challenge_is_that_of_rfc_7636() -> None:
    assert challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"  # its appendix B


def test_each_sign_in_has_its_own_proof() -> None:
    one, other = Pkce(), Pkce()
    assert len({one.verifier, one.state, other.verifier, other.state}) == 4
    assert len(base64.urlsafe_b64decode(one.verifier + "=")) == len(base64.urlsafe_b64decode(one.state + "=")) == 32
    assert one.challenge == base64.urlsafe_b64encode(hashlib.sha256(one.verifier.encode()).digest()).rstrip(b"=").decode()
    assert repr(one) == "Pkce()"


def test_the_address_and_the_forms_of_a_client() -> None:
    client = OAuthClient(client_id="c", authorize_url="https://p.example/a?x=1&x=2", scopes=("a", "b"))
    pkce = Pkce()
    url = client.authorization_url(pkce, REDIRECT, {"prompt": "consent"})
    assert url.startswith("https://p.example/a?x=1&x=2&")
    assert parse_qs(urlsplit(url).query) == {
        "x": ["1", "2"],
        "response_type": ["code"],
        "client_id": ["c"],
        "redirect_uri": [REDIRECT],
        "scope": ["a b"],
        "state": [pkce.state],
        "code_challenge": [pkce.challenge],
        "code_challenge_method": ["S256"],
        "prompt": ["consent"],
    }
    form = {"grant_type": "authorization_code", "code": "k", "redirect_uri": REDIRECT, "code_verifier": "v", "client_id": "c"}
    assert client.exchange_form("k", "v", REDIRECT) == form
    posting = OAuthClient(client_id="c", mode="client_secret_post", client_secret="canary")
    assert posting.exchange_form("k", "v", REDIRECT) == form | {"client_secret": "canary"}
    assert posting.refresh_form("r") == {"grant_type": "refresh_token", "refresh_token": "r", "client_id": "c", "client_secret": "canary"}
    assert "canary" not in repr(posting)


@given(st.text(max_size=60))
def test_whatever_is_pasted_can_be_read(text: str) -> None:
    answer = Answer.pasted(text)
    assert answer.code == answer.code.strip()
    assert repr(answer) == f"Answer(error={answer.error!r})"
