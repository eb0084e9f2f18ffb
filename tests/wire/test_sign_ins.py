"""People sign in over the server itself, to providers behind a real daemon in front of a strict authorization server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.authorization import AuthorizationServer
from tests.fakes.daemon import FakeDaemon
from tests.fakes.upstream import Upstream
from tests.wire.gateway import Gateway
from trunkline.server.connect import policy

DAEMON_SECRET = "daemon-secret-canary-0123456789"
TOKEN = "token-canary/0123456789+abcdef="
LISTENED = "http://127.0.0.1:5123/callback"
NOBODY = [("x-api-key", "")]


@pytest.fixture
async def auth() -> AsyncIterator[AuthorizationServer]:
    async with AuthorizationServer(interval=0) as auth:
        yield auth
    assert auth.violations == []


@pytest.fixture
async def daemon(auth: AuthorizationServer, upstreams: dict[str, Upstream]) -> AsyncIterator[FakeDaemon]:
    async with FakeDaemon(upstreams["home"].base_url, auth, secret=DAEMON_SECRET) as daemon:
        yield daemon


@pytest.fixture
def config(config: dict[str, Any], daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("DAEMON_SECRET", DAEMON_SECRET)
    config["providers"]["ext"] = {"kind": "daemon", "base_url": daemon.url, "secret": "env:DAEMON_SECRET"}
    return config


@pytest.fixture
def stored() -> dict[str, str]:
    return {"the daemon's": DAEMON_SECRET, "pasted": TOKEN}


class Person:
    """Asks the admin API with a key of one's own, which may call models and no more."""

    def __init__(self, gateway: Gateway, name: str) -> None:
        self._gateway = gateway
        self.user = gateway.users.create(name).id
        self._key = gateway.makes(f"{name}'s", user=self.user)[1]

    async def asks(self, method: str, path: str, body: object = None) -> Any:
        headers = [("authorization", f"Bearer {self._key}"), ("content-type", "application/json")]
        if method == "POST" and body is not None:
            return await self._gateway.post(f"/api/v1{path}", body, headers)
        response = await self._gateway.open(method, f"/api/v1{path}", b"", headers)
        await response.read()
        return response


@pytest.fixture
def ann(gateway: Gateway) -> Person:
    return Person(gateway, "ann")


async def logged(gateway: Gateway, event: str) -> dict[str, Any]:
    """The line about an event, which a thread writes soon."""
    async with asyncio.timeout(5):
        while not (found := [each for each in gateway.log.records() if each["event"] == event]):
            await asyncio.sleep(0.01)
    [line] = found
    return line


def keep(gateway: Gateway, auth: AuthorizationServer) -> None:
    """Hold the server to it that it tells none of these."""
    for number, each in enumerate(auth.sign_ins):
        gateway.stored.update({f"access {number} {index}": token for index, token in enumerate(each.access)})
        gateway.stored[f"refresh {number}"] = each.refresh


@pytest.mark.proves("sign-in.methods", "sign-in.sealed", "sign-in.audit")
@pytest.mark.parametrize("method", ["browser", "manual"])
async def test_an_address_that_is_visited_ends_in_a_connection(
    gateway: Gateway, auth: AuthorizationServer, ann: Person, method: str
) -> None:
    begin = {"provider": "signed", "method": method, **({"redirect_uri": LISTENED} if method == "browser" else {})}
    made = (await ann.asks("POST", "/sign-ins", begin)).json()
    redirect = auth.allow(made["authorization_url"])
    slip = await ann.asks("POST", f"/sign-ins/{made['id']}/complete", {"pasted": "code#of-another"})
    assert slip.status == 400
    done = await ann.asks("POST", f"/sign-ins/{made['id']}/complete", {"pasted": redirect})
    assert (done.status, done.json()["status"], done.json()["user"]) == (200, "complete", ann.user)
    line = await logged(gateway, "connected")
    assert (line["provider"], line["user"], line["by_user"], line["method"]) == ("ext/signed", ann.user, ann.user, method)
    keep(gateway, auth)


@pytest.mark.proves("sign-in.methods")
async def test_a_code_that_is_typed_ends_in_a_connection(gateway: Gateway, auth: AuthorizationServer, ann: Person) -> None:
    made = (await ann.asks("POST", "/sign-ins", {"provider": "ext/signed"})).json()
    assert made["method"] == "device"
    early = await ann.asks("POST", f"/sign-ins/{made['id']}/poll", {})
    assert early.status == 429
    auth.approve(made["user_code"])
    gateway.clock.advance(made["interval"])
    done = await ann.asks("POST", f"/sign-ins/{made['id']}/poll", {})
    assert (done.status, done.json()["status"]) == (200, "complete")
    keep(gateway, auth)


@pytest.mark.proves("sign-in.methods", "sign-in.once")
@pytest.mark.parametrize(("ends", "status"), [("deny", "failed"), ("expire", "expired")])
async def test_a_code_that_is_refused_or_too_old_ends_in_none(
    gateway: Gateway, auth: AuthorizationServer, ann: Person, ends: str, status: str
) -> None:
    made = (await ann.asks("POST", "/sign-ins", {"provider": "ext/signed", "method": "device"})).json()
    getattr(auth, ends)(made["user_code"])
    gateway.clock.advance(made["interval"])
    done = await ann.asks("POST", f"/sign-ins/{made['id']}/poll", {})
    assert (done.status, done.json()["status"], done.json()["connection"]) == (200, status, None)
    assert auth.sign_ins == []


@pytest.mark.proves("sign-in.once")
async def test_a_code_that_was_used_is_no_second_sign_in(gateway: Gateway, auth: AuthorizationServer, ann: Person) -> None:
    first, second = [(await ann.asks("POST", "/sign-ins", {"provider": "signed", "method": "manual"})).json() for _ in range(2)]
    redirect = auth.allow(first["authorization_url"])
    crossed = await ann.asks("POST", f"/sign-ins/{second['id']}/complete", {"pasted": redirect})
    assert (crossed.status, auth.sign_ins) == (400, []), "its state is the other's"
    assert (await ann.asks("POST", f"/sign-ins/{first['id']}/complete", {"pasted": redirect})).status == 200
    again = await ann.asks("POST", f"/sign-ins/{first['id']}/complete", {"pasted": redirect})
    assert (again.status, len(auth.sign_ins)) == (404, 1)
    keep(gateway, auth)


@pytest.mark.proves("sign-in.owners")
async def test_what_is_hers_is_hers_alone(gateway: Gateway, auth: AuthorizationServer, ann: Person) -> None:
    ben = Person(gateway, "ben")
    made = (await ann.asks("POST", "/sign-ins", {"provider": "signed", "method": "manual"})).json()
    redirect = auth.allow(made["authorization_url"])
    foreign = await ben.asks("POST", f"/sign-ins/{made['id']}/complete", {"pasted": redirect})
    assert (foreign.status, auth.sign_ins) == (404, [])
    pasted = (await ann.asks("POST", "/connections", {"provider": "pasted", "token": TOKEN})).json()
    assert (await ben.asks("GET", f"/connections/{pasted['id']}")).status == 404
    assert (await ben.asks("DELETE", f"/connections/{pasted['id']}")).status == 404
    assert (await ann.asks("DELETE", f"/connections/{pasted['id']}")).status == 204


@pytest.mark.proves("sign-in.page", "deny")
async def test_the_page_is_open_and_the_rest_is_not(gateway: Gateway) -> None:
    shown = await gateway.open("GET", "/connect/ext/signed", b"", NOBODY)
    body = await shown.read()
    headers = {name.decode(): value.decode() for name, value in shown.headers}
    assert (shown.status, headers["content-type"], headers["content-security-policy"]) == (200, "text/html; charset=utf-8", policy())
    assert b'data-provider="ext/signed"' in body
    nothing = await gateway.open("GET", "/connect/nothing/there", b"", NOBODY)
    assert (nothing.status, (await nothing.read()).replace(b"nothing/there", b"ext/signed")) == (200, body), "a stranger learns nothing"
    for method, path, status in (
        ("POST", "/connect/ext/signed", 405),
        ("GET", "/connect/a/b/c", 404),
        ("GET", "/api/v1/sign-ins/providers", 401),
    ):
        refused = await gateway.open(method, path, b"", NOBODY)
        await refused.read()
        assert refused.status == status
