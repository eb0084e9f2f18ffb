import asyncio
import json
import re
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.fakes.scripted import Answer, Door, Gateway, Pause
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.errors import Unauthenticated
from trunkline.model.caller import Caller, Scope
from trunkline.providers.compatible import PROVIDER as COMPATIBLE_KIND
from trunkline.server import pages
from trunkline.server.asgi import Application, Page, Site
from trunkline.server.cors import Cors
from trunkline.server.proxies import Proxies
from trunkline.surfaces import Endpoint, FollowUp, Listed
from trunkline.surfaces.models import SURFACE

PAGE = b"https://chat.example"
CALL = b'{"model":"one","messages":[]}'
WHOLE = b'{"choices":[{"index":0,"message":{"content":"hello"},"finish_reason":"stop"}]}'
ENDPOINT = Endpoint("/v1/chat/completions", "chat", OPENAI_CHAT)
FOLLOW_UP = FollowUp("/v1/kept/", OPENAI_CHAT, {"": frozenset({"GET", "DELETE"}), "items": frozenset({"GET"})})


@dataclass
class Reply:
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        found = [value for key, value in self.headers if key == name]
        assert len(found) < 2, f"{name!r} twice"
        return found[0] if found else None

    @property
    def error(self) -> dict[str, object]:
        return json.loads(self.body)["error"]


class Place:
    """An application, its gateway, and what a client does with it."""

    def __init__(self) -> None:
        self.gateway = Gateway(COMPATIBLE_KIND, ENDPOINT)
        self.door = Door()
        self.gateway.door = self.door
        self.gateway.pipeline._access = self.door
        self.addresses: list[str] = []
        self.crashes: list[tuple[str, Exception]] = []
        self.left: Callable[[], None] = lambda: None
        [listing] = SURFACE.listings
        self.site = Site(
            pipeline=self.gateway.pipeline,
            access=self,
            endpoints={ENDPOINT.path: ENDPOINT},
            follow_ups=[FOLLOW_UP],
            pages={
                "/healthz": pages.health(),
                "/metrics": pages.metrics(lambda: b"# none"),
                "/broken": Page(b"text/plain", lambda _, __: 1 / 0, "inference"),
                **pages.listing(lambda _: [Listed("home/org/qwen3", "home", "openai_chat")], listing),
            },
            dialect_of=lambda path, headers: OPENAI_CHAT,
            cors=Cors([PAGE.decode()]),
            proxies=Proxies(["127.0.0.1"]),
            max_body=1000,
        )
        self.app = Application(self.site, self.gateway.clock, lambda request_id, error: self.crashes.append((request_id, error)))

    async def identify(self, headers: object, address: str) -> Caller:
        self.addresses.append(address)
        return await self.door.identify([], address)

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        query: bytes = b"",
        peer: tuple[str, int] | None = ("127.0.0.1", 4711),
        **headers: bytes,
    ) -> Reply:
        messages: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            messages.append(message)

        def register(callback: Callable[[], None]) -> None:
            self.left = callback

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query,
            "client": peer,
            "headers": [(name.replace("_", "-").encode(), value) for name, value in headers.items()],
            "extensions": {"trunkline.on_disconnect": register, "trunkline.body_whole": lambda: False},
        }
        await self.app(scope, receive, send)
        start, *rest = messages
        assert start["type"] == "http.response.start"
        assert [part["more_body"] for part in rest][-1] is False
        return Reply(start["status"], list(start["headers"]), b"".join(part["body"] for part in rest))


@pytest.fixture
def place() -> Place:
    return Place()


EVERY_METHOD = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"]
EVERY_PATH = [
    "/",
    "/v1/models",
    "/v1/models/x",
    "/v1/chat/completions",
    "/v1/kept/",
    "/v1/kept/resp_a~1",
    "/metrics",
    "/broken",
    "/nothing",
    "/v1",
    "",
    "*",
    "/healthz/",
    "/healthzz",
]


@pytest.mark.proves("deny")
@pytest.mark.parametrize("method", EVERY_METHOD)
@pytest.mark.parametrize("path", EVERY_PATH)
async def test_a_stranger_learns_of_no_path_whether_it_exists(place: Place, method: str, path: str) -> None:
    place.door.refuses = Unauthenticated("the request has no key")
    reply = await place.ask(method, path, b"canary")
    assert reply.status == 401
    if method != "HEAD":
        assert reply.error == {
            "message": "the request has no key",
            "type": "authentication_error",
            "param": None,
            "code": "unauthenticated",
        }
    assert reply.header(b"www-authenticate") == b"Bearer"


async def test_health_answers_a_stranger(place: Place) -> None:
    place.door.refuses = Unauthenticated("the request has no key")
    assert (await place.ask("GET", "/healthz")).status == 200
    assert (await place.ask("HEAD", "/healthz")).status == 200
    assert place.addresses == []


async def test_every_reply_has_a_request_id_of_letters_under_both_names(place: Place) -> None:
    place.gateway.upstream.script("a/m", Answer(WHOLE))
    place.gateway.upstream.script("a", Answer(b"{}"))
    replies = [
        await place.ask("GET", "/healthz"),
        await place.ask("GET", "/nothing", x_request_id=b"mine"),
        await place.ask("POST", "/v1/chat/completions", CALL, x_request_id=b"mine"),
        await place.ask("POST", "/v1/chat/completions", b"nope"),
        await place.ask("GET", "/broken"),
        await place.ask("GET", "/v1/kept/resp_a~1"),
        await place.ask("OPTIONS", "/v1/models", origin=PAGE),
    ]
    ids = {reply.header(b"x-request-id") for reply in replies}
    assert len(ids) == len(replies)
    for reply in replies:
        assert reply.header(b"x-request-id") == reply.header(b"request-id")
        assert re.fullmatch(rb"rqe_[a-z]{24}", reply.header(b"x-request-id") or b"")


async def test_a_callers_own_request_id_is_kept_for_the_log_cut_to_a_length(place: Place) -> None:
    await place.ask("POST", "/v1/chat/completions", b"nope", x_request_id=b"mine\xff" * 100)
    [exchange] = place.gateway.told
    assert exchange.client_request_id == ("mine\xff" * 100)[:200]


@pytest.mark.parametrize(("method", "path"), [("GET", "/nothing"), ("POST", "/nothing"), ("DELETE", "/v1/chat"), ("OPTIONS", "/nothing")])
async def test_what_is_not_there_is_404_for_who_has_a_key(place: Place, method: str, path: str) -> None:
    reply = await place.ask(method, path)
    assert (reply.status, reply.error["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v1/chat/completions", b"POST"),
        ("HEAD", "/v1/chat/completions", b"POST"),
        ("POST", "/v1/models", b"GET, HEAD"),
        ("PUT", "/healthz", b"GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_told_the_right_one(place: Place, method: str, path: str, allow: bytes) -> None:
    reply = await place.ask(method, path)
    assert reply.status == 405
    assert reply.header(b"allow") == allow


async def test_a_head_is_the_answer_to_get_without_its_body(place: Place) -> None:
    get, head = await place.ask("GET", "/v1/models"), await place.ask("HEAD", "/v1/models")
    assert head.body == b""
    assert head.header(b"content-length") == get.header(b"content-length") == str(len(get.body)).encode()


@pytest.mark.parametrize(("scopes", "status"), [({"inference"}, 403), ({"metrics"}, 200)])
async def test_a_page_wants_its_own_scope(place: Place, scopes: set[Scope], status: int) -> None:
    place.door.caller = Caller(id="key_a", kind="service", name="ann", scopes=frozenset(scopes))
    reply = await place.ask("GET", "/metrics")
    assert reply.status == status
    if status == 403:
        assert "`metrics`" in str(reply.error["message"])


@pytest.mark.parametrize("path", ["/v1/models/home/org/qwen3", "//v1/models/home/org/qwen3", "/v1//models///home/org/qwen3"])
async def test_a_model_is_found_by_an_id_with_slashes_and_doubled_ones_do_no_harm(place: Place, path: str) -> None:
    reply = await place.ask("GET", path)
    assert (reply.status, json.loads(reply.body)["id"]) == (200, "home/org/qwen3")


async def test_a_call_with_doubled_slashes_is_carried(place: Place) -> None:
    place.gateway.upstream.script("a/m", Answer(WHOLE))
    reply = await place.ask("POST", "//v1//chat/completions", CALL)
    assert (reply.status, reply.body) == (200, WHOLE)


@pytest.mark.parametrize(
    ("method", "path", "query", "asked"),
    [
        ("GET", "/v1/kept/resp_a~resp_1", b"", "a GET resp_1"),
        ("DELETE", "/v1//kept/resp_a~resp_1", b"", "a DELETE resp_1"),
        ("GET", "/v1/kept/resp_a~resp_1/items", b"limit=2", "a GET resp_1/items?limit=2"),
    ],
)
async def test_what_a_provider_keeps_is_asked_about_at_its_home(place: Place, method: str, path: str, query: bytes, asked: str) -> None:
    place.gateway.upstream.script("a", Answer(b'{"id":"x"}', headers=[(b"content-type", b"application/json")]))
    reply = await place.ask(method, path, query=query)
    assert (reply.status, reply.body, reply.header(b"content-type")) == (200, b'{"id":"x"}', b"application/json")
    assert place.gateway.upstream.calls == [asked]
    [exchange] = place.gateway.told
    assert (exchange.path, exchange.status, exchange.outcome, exchange.sent) == ("/v1/kept/", 200, "ok", 10)


@pytest.mark.parametrize(
    ("method", "path", "allow"), [("POST", "/v1/kept/resp_a~1", b"DELETE, GET"), ("DELETE", "/v1/kept/resp_a~1/items", b"GET")]
)
async def test_a_wrong_method_for_what_is_kept_is_told_the_right_one(place: Place, method: str, path: str, allow: bytes) -> None:
    reply = await place.ask(method, path)
    assert (reply.status, reply.header(b"allow")) == (405, allow)
    assert place.gateway.upstream.calls == []


@pytest.mark.parametrize(
    "path",
    [
        "/v1/kept/",
        "/v1/kept/resp_1",
        "/v1/kept/resp_nobody~1",
        "/v1/kept/resp_a~",
        "/v1/kept/resp_a~1/nothing",
        "/v1/kept/resp_a~1/items/more",
        "/v1/kept/resp_a~..",
        "/v1/kept/resp_a~.",
        "/v1/kept/resp_a~../items",
        "/v1/kept/resp_a~1/../../admin",
    ],
)
async def test_what_nobody_keeps_is_404_and_no_provider_is_asked(place: Place, path: str) -> None:
    reply = await place.ask("GET", path)
    assert (reply.status, reply.error["code"]) == (404, "not_found")
    assert place.gateway.upstream.calls == []


async def test_an_id_is_one_step_of_a_path_whatever_stands_in_it(place: Place) -> None:
    place.gateway.upstream.script("a", Answer(b"{}"))
    assert (await place.ask("GET", "/v1/kept/resp_a~1?x=1#y z\r\n%2fş")).status == 200
    assert place.gateway.upstream.calls == ["a GET 1%3Fx%3D1%23y%20z%0D%0A%252f%C5%9F"]


async def test_a_large_body_is_413_with_the_number(place: Place) -> None:
    reply = await place.ask("POST", "/v1/chat/completions", b"x" * 1001)
    assert reply.status == 413
    assert "1000" in str(reply.error["message"])


async def test_the_callers_address_is_what_a_trusted_proxy_says(place: Place) -> None:
    await place.ask("GET", "/v1/models", x_forwarded_for=b"192.0.2.7")
    await place.ask("GET", "/v1/models", x_forwarded_for=b"192.0.2.7", peer=("203.0.113.9", 1))
    await place.ask("GET", "/v1/models", x_forwarded_for=b"192.0.2.7", peer=None)
    assert place.addresses == ["192.0.2.7", "203.0.113.9", ""]


async def test_a_page_that_breaks_is_500_with_an_id_that_the_log_has(place: Place) -> None:
    reply = await place.ask("GET", "/broken")
    assert (reply.status, reply.error["code"]) == (500, "internal")
    [(request_id, error)] = place.crashes
    assert request_id.encode() == reply.header(b"x-request-id")
    assert request_id in str(reply.error["message"])
    assert isinstance(error, ZeroDivisionError)
    assert b"division" not in reply.body


async def test_a_page_on_the_list_gets_its_headers_with_answers_errors_and_preflights(place: Place) -> None:
    place.gateway.upstream.script("a/m", Answer(WHOLE))
    for reply in [
        await place.ask("POST", "/v1/chat/completions", CALL, origin=PAGE),
        await place.ask("POST", "/v1/chat/completions", b"nope", origin=PAGE),
        await place.ask("GET", "/nothing", origin=PAGE),
    ]:
        assert reply.header(b"access-control-allow-origin") == PAGE
    place.door.refuses = Unauthenticated("a browser sends no key with its question")
    reply = await place.ask("OPTIONS", "/v1/chat/completions", origin=PAGE, access_control_request_method=b"POST")
    assert (reply.status, reply.body) == (204, b"")
    assert reply.header(b"access-control-allow-origin") == PAGE
    assert reply.header(b"access-control-allow-methods") is not None
    assert reply.header(b"content-length") is None


async def test_other_pages_get_none(place: Place) -> None:
    place.gateway.upstream.script("a/m", Answer(WHOLE))
    reply = await place.ask("POST", "/v1/chat/completions", CALL, origin=b"https://evil.example")
    assert not [name for name, _ in reply.headers if name.startswith(b"access-control")]
    place.door.refuses = Unauthenticated("no key")
    reply = await place.ask("OPTIONS", "/v1/chat/completions", origin=b"https://evil.example", access_control_request_method=b"POST")
    assert reply.status == 401
    assert not [name for name, _ in reply.headers if name.startswith(b"access-control")]


async def test_a_client_that_leaves_ends_its_call(place: Place) -> None:
    pause = Pause()
    place.gateway.upstream.script("a/m", pause)
    call = asyncio.get_running_loop().create_task(place.ask("POST", "/v1/chat/completions", CALL))
    await asyncio.wait_for(pause.reached.wait(), 5)
    place.left()
    with pytest.raises(ValueError, match="unpack"):  # nothing was sent
        await asyncio.wait_for(call, 5)
    assert place.gateway.told[0].outcome == "interrupted"
    assert len(place.gateway.exchanges) == 0


async def test_a_new_site_is_met_by_new_requests_only(place: Place) -> None:
    pause = Pause()
    place.gateway.upstream.script("a/m", Answer(WHOLE[:5], pause, WHOLE[5:]))
    call = asyncio.get_running_loop().create_task(place.ask("POST", "/v1/chat/completions", CALL))
    await asyncio.wait_for(pause.reached.wait(), 5)
    other = Place()
    place.app.site = other.site
    assert (await place.ask("GET", "/v1/models")).status == 200
    assert (place.addresses, other.addresses) == ([], ["127.0.0.1"])
    pause.over.set()
    assert (await asyncio.wait_for(call, 5)).body == WHOLE
