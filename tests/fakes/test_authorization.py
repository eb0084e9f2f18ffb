"""The fake OAuth server refuses what a real one refuses."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from tests.fakes.authorization import AuthorizationServer, Refused
from tests.fakes.clock import FakeClock
from trunkline_sdk.daemon.oauthflow import Pkce
from trunkline_sdk.daemon.oauthflow.pkce import OAuthClient
from trunkline_sdk.http1 import Client

REDIRECT = "http://127.0.0.1:40123/callback"
FORM = [(b"content-type", b"application/x-www-form-urlencoded")]


@dataclass
class Asking:
    """A client of the server."""

    auth: AuthorizationServer
    clock: FakeClock
    http: Client

    async def post(self, url: str, **form: str) -> tuple[int, Any]:
        async with await self.http.request("POST", url, FORM, urlencode(form).encode()) as response:
            body = await response.read()
            return response.status, json.loads(body) if body else None

    @property
    def oauth(self) -> OAuthClient:
        return OAuthClient(client_id=self.auth.client_id, authorize_url=self.auth.authorize_url)

    async def refreshed(self, token: str) -> tuple[int, Any]:
        return await self.post(self.auth.token_url, **self.oauth.refresh_form(token))

    async def exchanged(self, pkce: Pkce, *, verifier: str = "", redirect: str = REDIRECT) -> tuple[int, Any]:
        code = parameters(self.auth.allow(self.oauth.authorization_url(pkce, REDIRECT)))["code"]
        return await self.post(self.auth.token_url, **self.oauth.exchange_form(code, verifier or pkce.verifier, redirect))

    async def device(self) -> tuple[str, str]:
        status, told = await self.post(self.auth.device_url, client_id=self.auth.client_id)
        assert status == 200
        return told["device_code"], told["user_code"]

    async def poll(self, device_code: str, after: float = 1.0) -> str:
        """How it stands: the error's code, or the account."""
        self.clock.advance(after)
        grant = "urn:ietf:params:oauth:grant-type:device_code"
        _, told = await self.post(self.auth.token_url, grant_type=grant, device_code=device_code, client_id=self.auth.client_id)
        return told.get("error") or told["account_id"]


@pytest.fixture
async def asking() -> AsyncIterator[Asking]:
    clock = FakeClock()
    async with AuthorizationServer(now=clock.monotonic) as auth, Client() as http:
        yield Asking(auth, clock, http)


def parameters(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


async def test_a_code_is_exchanged_for_the_tokens_of_an_account(asking: Asking) -> None:
    pkce = Pkce()
    redirect = asking.auth.allow(asking.oauth.authorization_url(pkce, REDIRECT))
    assert redirect.startswith(REDIRECT)
    assert parameters(redirect)["state"] == pkce.state
    form = asking.oauth.exchange_form(parameters(redirect)["code"], pkce.verifier, REDIRECT)
    status, told = await asking.post(asking.auth.token_url, **form)
    assert (status, told["account_id"]) == (200, "account-1")
    assert asking.auth.account_of(told["access_token"]) == "account-1"
    assert await asking.post(asking.auth.token_url, **form) == (400, {"error": "invalid_grant"})
    assert asking.auth.violations == []


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"redirect_uri": "http://127.0.0.1:40123/other"}, "redirect_uri"),
        ({"redirect_uri": "http://localhost:40123/callback"}, "redirect_uri"),
        ({"redirect_uri": "http://127.0.0.1:40123/callback?x=1"}, "redirect_uri"),
        ({"code_challenge_method": "plain"}, "code_challenge_method"),
        ({"code_challenge": "short"}, "code_challenge"),
        ({"state": ""}, "state"),
        ({"client_id": "another"}, "client_id"),
        ({"response_type": "token"}, "response_type"),
        ({"scope": "more"}, "scope"),
    ],
)
async def test_what_is_not_as_registered_is_not_sent_back(asking: Asking, changed: dict[str, str], wrong: str) -> None:
    asked = parameters(asking.oauth.authorization_url(Pkce(), REDIRECT)) | changed
    with pytest.raises(Refused):
        asking.auth.allow(f"{asking.auth.authorize_url}?{urlencode(asked)}")
    assert asking.auth.violations == [f"authorize: `{wrong}`"]


async def test_another_verifier_or_redirect_is_no_exchange(asking: Asking) -> None:
    assert await asking.exchanged(Pkce(), verifier=Pkce().verifier) == (400, {"error": "invalid_grant"})
    assert await asking.exchanged(Pkce(), redirect="http://127.0.0.1:40124/callback") == (400, {"error": "invalid_grant"})
    assert asking.auth.violations == ["token: `code_verifier`", "token: `redirect_uri`"]


async def test_a_refresh_token_is_used_once_and_a_second_time_ends_the_sign_in(asking: Asking) -> None:
    _, first = await asking.exchanged(Pkce())
    _, second = await asking.refreshed(first["refresh_token"])
    assert asking.auth.account_of(second["access_token"]) == "account-1"
    assert await asking.refreshed(first["refresh_token"]) == (400, {"error": "invalid_grant"})
    assert await asking.refreshed(second["refresh_token"]) == (400, {"error": "invalid_grant"})
    assert asking.auth.account_of(second["access_token"]) is None
    assert (asking.auth.refreshes, asking.auth.violations) == (1, ["a refresh token was used twice"])


async def test_access_tokens_end_with_their_time_or_at_once(asking: Asking) -> None:
    _, told = await asking.exchanged(Pkce())
    asking.clock.advance(asking.auth.lifetime)
    assert asking.auth.account_of(told["access_token"]) is None
    _, told = await asking.refreshed(told["refresh_token"])
    assert asking.auth.account_of(told["access_token"]) == "account-1"
    asking.auth.expire_tokens()
    assert asking.auth.account_of(told["access_token"]) is None


async def test_a_device_waits_for_its_person(asking: Asking) -> None:
    code, user_code = await asking.device()
    assert await asking.poll(code) == "authorization_pending"
    assert await asking.poll(code, after=0.5) == "slow_down"
    assert await asking.poll(code, after=5.0) == "slow_down"
    asking.auth.approve(user_code)
    assert await asking.poll(code, after=20.0) == "account-1"
    assert await asking.poll(code, after=20.0) == "invalid_grant"


async def test_a_device_is_refused_and_is_late(asking: Asking) -> None:
    refused, user_code = await asking.device()
    asking.auth.deny(user_code)
    assert await asking.poll(refused) == "access_denied"
    late, user_code = await asking.device()
    asking.auth.expire(user_code)
    assert await asking.poll(late) == "expired_token"
    with pytest.raises(Refused):
        asking.auth.approve("0000-0000")


async def test_an_answer_is_held_back_after_the_token_was_rotated(asking: Asking) -> None:
    _, told = await asking.exchanged(Pkce())
    asking.auth.hold()
    waiting = asyncio.ensure_future(asking.refreshed(told["refresh_token"]))
    async with asyncio.timeout(10):
        while not asking.auth.held:
            await asyncio.sleep(0)
    assert (asking.auth.refreshes, waiting.done()) == (1, False)
    asking.auth.release()
    assert (await waiting)[0] == 200


async def test_a_revoked_sign_in_is_void(asking: Asking) -> None:
    _, told = await asking.exchanged(Pkce())
    assert (await asking.post(f"{asking.auth.base_url}/revoke", token=told["refresh_token"], client_id="client-1"))[0] == 200
    assert asking.auth.account_of(told["access_token"]) is None
    assert await asking.refreshed(told["refresh_token"]) == (400, {"error": "invalid_grant"})
