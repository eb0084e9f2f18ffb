"""Who may do what: every route of the whole server, walked with every role and with none.

`DECLARED` is the list that a person has read. A route that is not on it fails here, and so does one that lets in whom it should not.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest

from tests.fakes.scripted import Door
from tests.wire.gateway import Gateway
from trunkline.access.scopes import SCOPES
from trunkline.app import compose
from trunkline.errors import Unauthenticated
from trunkline.model.caller import Caller, Role
from trunkline.server.asgi import Page, Site
from trunkline.server.rest.api import Api

OPEN, ANY_KEY = "nobody needs a key", "any key"
ADMINISTRATORS = "account: owner, admin"
OWN = f"{ADMINISTRATORS}; a user's own key: inference"

DECLARED = {
    # ------------------------------------------------------------------------------------------------------------ calls
    "POST /v1/chat/completions": "inference",
    "POST /v1/responses": "inference",
    "POST /v1/embeddings": "inference",
    "POST /v1/audio/speech": "inference",
    "POST /v1/messages": "inference",
    "POST /v1/messages/count_tokens": "inference",
    "GET /v1/responses/{id}": "inference",
    "DELETE /v1/responses/{id}": "inference",
    "POST /v1/responses/{id}/cancel": "inference",
    "GET /v1/responses/{id}/input_items": "inference",
    # ------------------------------------------------------------------------------------------------------------ pages
    "GET /healthz": OPEN,
    "GET /readyz": OPEN,
    "GET /metrics": "metrics",
    "GET /connect/{id}": OPEN,
    "GET /v1/models": "inference",
    "GET /v1/models/{id}": "inference",
    "GET /openapi.json": ANY_KEY,
    "GET /docs/api": ANY_KEY,
    # -------------------------------------------------------------------------------------------------------- admin API
    "GET /api/v1/accounts": ADMINISTRATORS,
    "POST /api/v1/accounts": "admin",
    "GET /api/v1/accounts/{id}": ADMINISTRATORS,
    "PATCH /api/v1/accounts/{id}": ADMINISTRATORS,
    "DELETE /api/v1/accounts/{id}": "admin",
    "GET /api/v1/users": ADMINISTRATORS,
    "POST /api/v1/users": ADMINISTRATORS,
    "GET /api/v1/users/{id}": ADMINISTRATORS,
    "PATCH /api/v1/users/{id}": ADMINISTRATORS,
    "DELETE /api/v1/users/{id}": ADMINISTRATORS,
    "GET /api/v1/keys": ADMINISTRATORS,
    "POST /api/v1/keys": ADMINISTRATORS,
    "GET /api/v1/keys/{id}": ADMINISTRATORS,
    "PATCH /api/v1/keys/{id}": ADMINISTRATORS,
    "DELETE /api/v1/keys/{id}": ADMINISTRATORS,
    "POST /api/v1/keys/{id}/rotate": ADMINISTRATORS,
    "GET /api/v1/credentials": ADMINISTRATORS,
    "POST /api/v1/credentials": ADMINISTRATORS,
    "GET /api/v1/credentials/{id}": ADMINISTRATORS,
    "PATCH /api/v1/credentials/{id}": ADMINISTRATORS,
    "DELETE /api/v1/credentials/{id}": ADMINISTRATORS,
    "GET /api/v1/connections": OWN,
    "POST /api/v1/connections": OWN,
    "GET /api/v1/connections/{id}": OWN,
    "DELETE /api/v1/connections/{id}": OWN,
    "POST /api/v1/connections/{id}/recover": OWN,
    "GET /api/v1/catalog/overrides": "admin",
    "POST /api/v1/catalog/overrides": "admin",
    "GET /api/v1/catalog/overrides/{id}": "admin",
    "PATCH /api/v1/catalog/overrides/{id}": "admin",
    "DELETE /api/v1/catalog/overrides/{id}": "admin",
    "GET /api/v1/exchanges": ADMINISTRATORS,
    "GET /api/v1/exchanges/{id}": ADMINISTRATORS,
    "GET /api/v1/explain": "admin",
    "GET /api/v1/extensions": "admin",
    "GET /api/v1/extensions/{id}": "admin",
    "GET /api/v1/providers": "admin",
    "GET /api/v1/providers/{name}": "admin",
    "GET /api/v1/routes": "admin",
    "GET /api/v1/routes/{name}": "admin",
    "GET /api/v1/sign-ins/providers": OWN,
    "POST /api/v1/sign-ins": OWN,
    "GET /api/v1/sign-ins/{id}": OWN,
    "POST /api/v1/sign-ins/{id}/poll": OWN,
    "POST /api/v1/sign-ins/{id}/complete": OWN,
}

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")

NOWHERE = [
    *("/", "/v1", "/v1/", "/api", "/api/v1", "/api/v1/", "/api/v2/keys", "/docs", "/docs/", "/docs/api/", "/openapi", "/openapi.yaml"),
    *("/admin", "/console", "/login", "/static", "/favicon.ico", "/ws", "/healthz/", "/metrics/", "/debug", "/.env", "/api/v1/nothing"),
]


@dataclass(frozen=True)
class Walker:
    """Somebody, and what of the table is for them."""

    name: str
    caller: Caller | None

    def may(self, need: str) -> bool:
        if need == OPEN:
            return True
        if self.caller is None:
            return False
        if need == ANY_KEY or "admin" in self.caller.scopes:
            return True
        need, _, own = need.partition("; a user's own key: ")
        if own and self.caller.user is not None and own in self.caller.scopes:
            return True
        scope, _, roles = need.partition(": ")
        return scope in self.caller.scopes and (not roles or self.caller.role in roles.split(", "))


def walkers() -> Iterator[Walker]:
    somebody = Caller(id="key_a", kind="service", name="ann", scopes=frozenset(), account="acc_one")
    yield Walker("a stranger", None)
    yield Walker("a key without scopes", somebody)
    for role in get_args(Role):
        yield Walker(f"inference, {role}", replace(somebody, scopes=frozenset({"inference"}), role=role))
        yield Walker(f"inference, {role}, a person", replace(somebody, scopes=frozenset({"inference"}), role=role, user="usr_a"))
        yield Walker(f"metrics, {role}", replace(somebody, scopes=frozenset({"metrics"}), role=role))
        yield Walker(f"account, {role}", replace(somebody, scopes=frozenset({"account"}), role=role))
        yield Walker(f"operator, {role}", replace(somebody, scopes=frozenset(SCOPES), role=role))


def served(site: Site) -> dict[str, str]:
    """Everything that a site answers, with what each says it needs."""
    found = {f"POST {path}": "inference" for path in site.endpoints}
    for each in site.follow_ups:
        for action, methods in each.actions.items():
            found.update({f"{method} {each.path}{{id}}{action and '/'}{action}": "inference" for method in methods})
    for path, page in site.pages.items():
        found[f"GET {path}{{id}}" if path.endswith("/") else f"GET {path}"] = page.scope or OPEN
    assert isinstance(site.api, Api)
    for path in site.api.documents:
        found[f"GET {path}"] = OPEN if site.api.open_documents else ANY_KEY
    for each in site.api.routes:
        route, path = each.route, re.sub(r":path}", "}", each.path)
        own = "; a user's own key: inference" if route.own else ""
        found[f"{route.method} {path}"] = f"account: {', '.join(route.roles)}{own}" if route.scope == "account" else route.scope
    return found


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Door:
    """Stands where the server finds out who asks."""
    door = Door()
    monkeypatch.setattr(compose, "Identity", lambda *_, **__: door)
    return door


@pytest.fixture
def gateway(door: Door, gateway: Gateway) -> Iterator[Gateway]:  # the door has to be there first
    yield gateway
    door.refuses, door.caller = None, list(walkers())[-1].caller or door.caller


@pytest.fixture
def enters(door: Door) -> Callable[[Walker], None]:
    def enter(walker: Walker) -> None:
        door.refuses = Unauthenticated("the request has no key") if walker.caller is None else None
        door.caller = walker.caller or door.caller

    return enter


@pytest.mark.proves("admin.routes")
async def test_every_route_is_declared(gateway: Gateway) -> None:
    assert served(gateway.recording.site) == DECLARED, "a route came, went or changed: is it on the list of who may?"


async def test_a_route_that_nobody_declared_is_found(gateway: Gateway) -> None:
    site = gateway.recording.site
    more = replace(site, pages={**site.pages, "/secret": Page(b"text/plain", lambda _: (200, b"x"))})
    assert served(more).items() - DECLARED.items() == {("GET /secret", OPEN)}


@pytest.mark.proves("admin.routes", "deny")
@pytest.mark.parametrize("walker", list(walkers()), ids=lambda walker: walker.name)
async def test_every_route_lets_in_whom_it_says_and_nobody_else(gateway: Gateway, enters: Callable[[Walker], None], walker: Walker) -> None:
    enters(walker)
    wrong: list[str] = []
    for route, need in DECLARED.items():
        method, path = route.split(" ")
        status, error = await asked(gateway, method, filled(path))
        if walker.may(need):
            fine = status not in {401, 403, 405} and "there is nothing at" not in error
        else:
            fine = status == (401 if walker.caller is None else 403)
        if not fine:
            wrong.append(f"{route} needs {need}: {status} {error}")
    assert wrong == []


@pytest.mark.proves("admin.routes", "deny")
async def test_no_path_answers_a_method_that_it_does_not_declare(gateway: Gateway, enters: Callable[[Walker], None]) -> None:
    paths: dict[str, set[str]] = {}
    for route in DECLARED:
        method, path = route.split(" ")
        paths.setdefault(path, set()).update({method, "HEAD"} if method == "GET" else {method})
    for walker in (next(walkers()), next(each for each in walkers() if each.name == "operator, owner")):
        enters(walker)
        for path, methods in paths.items():
            for method in set(METHODS) - methods - ({"HEAD"} if "/v1/responses/" in path else set()):
                status, _ = await asked(gateway, method, filled(path))
                is_open = DECLARED.get(f"GET {path}") == OPEN
                assert status == (405 if walker.caller or is_open else 401), f"{method} {path}"


@pytest.mark.proves("admin.routes", "deny")
async def test_nothing_is_anywhere_else(gateway: Gateway, enters: Callable[[Walker], None]) -> None:
    for walker in (next(walkers()), next(each for each in walkers() if each.name == "operator, owner")):
        enters(walker)
        for path in NOWHERE:
            for method in METHODS:
                status, _ = await asked(gateway, method, path)
                assert status == (404 if walker.caller else 401), f"{method} {path}"


def filled(path: str) -> str:
    return re.sub(r"{\w+}", "thing", path)


async def asked(gateway: Gateway, method: str, path: str) -> tuple[int, str]:
    response = await gateway.open(method, path, b"" if method in {"GET", "HEAD", "DELETE"} else b"{}")
    body = await response.read()
    error: Any = body.decode() if response.status >= 400 else ""
    return response.status, error
