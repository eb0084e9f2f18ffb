"""A sign-in from a terminal, step by step, against a server that does what it is told."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.fakes.clock import FakeClock
from trunkline.cli.connect import Joinable, Method, provider_named, signed_in
from trunkline.cli.redirect import Page, Redirect
from trunkline.cli.sign_in import SignIn, Steps
from trunkline.errors import BadRequest, LimitReached, NotFound, SignInNeeded, TrunklineError, UpstreamDown, UpstreamRefused
from trunkline_sdk.listen import Listener

AUTHORIZE = "https://provider.example/authorize"
DAEMON = Joinable(id="ext/signed", credential="oauth", methods=["device", "browser", "manual"])


def sign_in(status: str = "pending", **fields: Any) -> dict[str, Any]:
    connection = "con_a" if status == "complete" else None
    made = {"id": "sgn_a", "provider": "ext/signed", "method": "device", "status": status, "interval": 5, "expires_at": 600.0}
    return {**made, "connection": connection, **fields}


@dataclass
class Rest:
    """A server: each path answers what was put there, in order."""

    answers: dict[str, deque[Any]] = field(default_factory=dict)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)

    def will(self, path: str, *answers: Any) -> None:
        self.answers[path] = deque(answers)

    async def __call__(self, method: str, path: str, body: object = None) -> bytes:
        self.asked.append((method, path, body))
        answer = self.answers[path].popleft()
        if callable(answer):
            answer = answer(body)
        if isinstance(answer, TrunklineError):
            raise answer
        return json.dumps(answer).encode()

    def pasted(self) -> list[str]:
        return [body["pasted"] for _, path, body in self.asked if path.endswith("/complete")]


@dataclass
class Person:
    """Somebody who pastes lines, and whose browser does what a test says."""

    lines: list[str] = field(default_factory=list)
    browser: Callable[[str], None] | None = None
    said: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.said.append(text)

    def visit(self, url: str) -> bool:
        if self.browser is None:
            return False
        self.browser(url)
        return True

    def paste(self) -> str | None:
        return self.lines.pop(0) if self.lines else None

    @contextmanager
    def waiting(self, words: str, until: float) -> Generator[Callable[[str], None]]:
        self.said.append(f"{words} until {until}")
        yield self.told.append


@dataclass
class Clock(FakeClock):
    """Time that passes by itself whenever somebody waits for it."""

    def __init__(self) -> None:
        super().__init__(now=0.0)

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)


@dataclass
class Scene:
    rest: Rest = field(default_factory=Rest)
    person: Person = field(default_factory=Person)
    clock: Clock = field(default_factory=Clock)

    def connect(self, method: Method | None = None, provider: Joinable = DAEMON, **owner: str) -> SignIn:
        return signed_in(Steps(self.rest, self.person, self.clock), provider, method, owner)


@pytest.fixture
def scene() -> Scene:
    return Scene()


# ------------------------------------------------------------------------------------------------------------ device
DEVICE = {"user_code": "AB-12", "verification_uri": "https://p.example/d", "verification_uri_complete": "https://p.example/d?c=AB-12"}


@pytest.mark.proves("connect.device")
def test_a_device_shows_its_code_and_waits_as_long_as_it_is_told_to(scene: Scene) -> None:
    slower = sign_in(interval=10)
    scene.rest.will("/api/v1/sign-ins", sign_in(**DEVICE))
    scene.rest.will("/api/v1/sign-ins/sgn_a/poll", sign_in(), LimitReached("too soon"), slower, sign_in("complete"))
    assert scene.connect(account="acc_a", user="usr_a").connection == "con_a"
    assert scene.rest.asked[0][2] == {"provider": "ext/signed", "method": "device", "account": "acc_a", "user": "usr_a"}
    assert scene.clock.asked == [5, 5, 5, 10]
    assert scene.person.said == [
        "Go to     https://p.example/d",
        "and type  AB-12",
        "or open   https://p.example/d?c=AB-12",
        "Waiting for you to sign in there until 600.0",
    ]


@pytest.mark.proves("connect.device")
def test_a_servers_hiccup_is_told_and_the_wait_goes_on_until_the_code_is_too_old(scene: Scene) -> None:
    down = UpstreamDown("the daemon cannot be reached")
    scene.rest.will("/api/v1/sign-ins", sign_in(**DEVICE), sign_in(**DEVICE, expires_at=20.0))
    scene.rest.will("/api/v1/sign-ins/sgn_a/poll", down, sign_in(), sign_in("complete"), *[down] * 9)
    assert scene.connect().status == "complete"
    assert scene.person.told == ["the daemon cannot be reached", ""]
    with pytest.raises(UpstreamDown):
        scene.connect()
    assert scene.clock.now() == 20.0


def test_a_provider_that_names_no_pause_is_not_asked_without_one(scene: Scene) -> None:
    scene.rest.will("/api/v1/sign-ins", sign_in(**DEVICE, interval=0))
    scene.rest.will("/api/v1/sign-ins/sgn_a/poll", sign_in("complete"))
    scene.connect()
    assert scene.clock.asked == [1]


@pytest.mark.parametrize(("status", "words"), [("failed", "was refused"), ("expired", "has expired")])
def test_what_is_refused_or_too_late_says_how_to_begin_anew(scene: Scene, status: str, words: str) -> None:
    scene.rest.will("/api/v1/sign-ins", sign_in(**DEVICE))
    scene.rest.will("/api/v1/sign-ins/sgn_a/poll", sign_in(status))
    with pytest.raises(SignInNeeded, match=f"the sign-in to `ext/signed` {words}") as raised:
        scene.connect()
    assert raised.value.hint == "`trunkline connect ext/signed` starts anew."


# ------------------------------------------------------------------------------------------------------------ manual
@pytest.mark.proves("connect.manual")
def test_what_is_pasted_is_handed_in_and_a_slip_is_asked_for_again(scene: Scene) -> None:
    scene.rest.will("/api/v1/sign-ins", sign_in(method="manual", authorization_url=AUTHORIZE))
    scene.rest.will("/api/v1/sign-ins/sgn_a/complete", BadRequest("it belongs to another sign-in"), sign_in("complete", method="manual"))
    scene.person.lines = ["code-1#wrong", "code-1#right"]
    assert scene.connect("manual").connection == "con_a"
    assert scene.rest.pasted() == ["code-1#wrong", "code-1#right"]
    assert scene.person.said[0] == f"Sign in at  {AUTHORIZE}"
    assert scene.person.said[2] == "it belongs to another sign-in. Try again, or end with Ctrl-C."


def test_nothing_pasted_and_a_refused_code_end_it(scene: Scene) -> None:
    begun = sign_in(method="manual", authorization_url=AUTHORIZE)
    scene.rest.will("/api/v1/sign-ins", begun, begun)
    scene.rest.will("/api/v1/sign-ins/sgn_a/complete", UpstreamRefused("the code was refused"))
    with pytest.raises(BadRequest, match="no code was given"):
        scene.connect("manual")
    scene.person.lines = ["code-2"]
    with pytest.raises(UpstreamRefused, match="the code was refused"):
        scene.connect("manual")


# ----------------------------------------------------------------------------------------------------------- browser
def get(url: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    """Status, headers and body."""
    parts = urlsplit(url)
    connection = HTTPConnection("127.0.0.1", parts.port, timeout=20)
    try:
        connection.request(method, f"{parts.path}?{parts.query}", headers=headers)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read().decode()
    finally:
        connection.close()


class Browser:
    """Is sent to these addresses, one after the other; `{redirect}` is the one that the authorization's address names."""

    def __init__(self, *urls: str) -> None:
        self._urls = urls
        self._thread = Thread()
        self._pages: list[tuple[int, str]] = []

    def __call__(self, authorization_url: str) -> None:
        redirect = parse_qs(urlsplit(authorization_url).query)["redirect_uri"][0]
        self._thread = Thread(target=self._visit, args=(redirect,))
        self._thread.start()

    @property
    def pages(self) -> list[tuple[int, str]]:
        """What it was shown."""
        self._thread.join(20)
        return self._pages

    def _visit(self, redirect: str) -> None:
        for url in self._urls:
            status, _, body = get(url.format(redirect=redirect))
            self._pages.append((status, body))


def authorizing(redirect: str | None = None, **fields: Any) -> Callable[[Any], dict[str, Any]]:
    """A beginning that sends the browser where it is asked to, or to another address."""

    def begin(body: Any) -> dict[str, Any]:
        url = f"{AUTHORIZE}?{urlencode({'redirect_uri': redirect or body['redirect_uri'], 'state': 's'})}"
        return sign_in(method="browser", authorization_url=url, **fields)

    return begin


@pytest.mark.proves("connect.browser")
def test_a_browser_comes_back_and_its_whole_address_is_judged_by_the_server(scene: Scene) -> None:
    scene.person.browser = browser = Browser("{redirect}?code=wrong&state=other", "{redirect}?code=c%2B1&state=s")
    scene.rest.will("/api/v1/sign-ins", authorizing())
    scene.rest.will("/api/v1/sign-ins/sgn_a/complete", BadRequest("it belongs to another sign-in"), sign_in("complete"))
    assert scene.connect("browser").connection == "con_a"
    redirect: str = scene.rest.asked[0][2]["redirect_uri"]
    assert urlsplit(redirect).hostname == "127.0.0.1"
    assert scene.rest.pasted() == [f"{redirect}?code=wrong&state=other", f"{redirect}?code=c%2B1&state=s"]
    [(status, foreign), (good, signed)] = browser.pages
    assert (status, good) == (400, 200)
    assert "another sign-in" in foreign
    assert "You are signed in" in signed


def test_a_refusal_in_the_browser_is_told_in_both_places(scene: Scene) -> None:
    scene.person.browser = browser = Browser("{redirect}?error=access_denied&state=s")
    scene.rest.will("/api/v1/sign-ins", authorizing())
    scene.rest.will("/api/v1/sign-ins/sgn_a/complete", sign_in("failed"))
    with pytest.raises(SignInNeeded, match="was refused"):
        scene.connect("browser")
    assert "You are not signed in" in browser.pages[0][1]


def test_an_exchange_that_fails_is_told_in_both_places(scene: Scene) -> None:
    scene.person.browser = browser = Browser("{redirect}?code=c&state=s")
    scene.rest.will("/api/v1/sign-ins", authorizing())
    scene.rest.will("/api/v1/sign-ins/sgn_a/complete", UpstreamRefused("<b>no</b>"))
    with pytest.raises(UpstreamRefused):
        scene.connect("browser")
    assert "&lt;b&gt;no&lt;/b&gt;" in browser.pages[0][1]


def test_a_browser_that_never_comes_is_waited_for_until_it_is_too_late(scene: Scene) -> None:
    scene.rest.will("/api/v1/sign-ins", authorizing(expires_at=0.05))
    with pytest.raises(SignInNeeded, match="has expired"):
        scene.connect("browser")
    assert scene.person.said[0].startswith(f"Open in a browser on this machine  {AUTHORIZE}")


async def free_port() -> int:
    async with Listener(nothing) as listener:
        port = urlsplit(listener.urls[0]).port
    assert port is not None
    return port


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """An app that nobody asks."""


def test_a_provider_that_knows_another_port_is_listened_for_there(scene: Scene) -> None:
    redirect = f"http://localhost:{asyncio.run(free_port())}/auth/callback"
    scene.person.browser = Browser("{redirect}?code=c&state=s")
    scene.rest.will("/api/v1/sign-ins", authorizing(redirect))
    scene.rest.will("/api/v1/sign-ins/sgn_a/complete", sign_in("complete"))
    assert scene.connect("browser").connection == "con_a"
    assert scene.rest.pasted() == [f"{redirect}?code=c&state=s"]


@pytest.mark.parametrize("taken", [True, False])
def test_where_nobody_can_listen_the_address_is_pasted(scene: Scene, taken: bool) -> None:
    """The provider sends browsers to a port that something else has, or to a page of its own."""

    @asynccontextmanager
    async def elsewhere() -> AsyncGenerator[str]:
        async with Listener(nothing) as listener:
            yield listener.urls[0] if taken else "https://provider.example"

    async def connect() -> SignIn:
        async with elsewhere() as base:
            scene.rest.will("/api/v1/sign-ins", authorizing(f"{base}/cb"))
            steps = Steps(scene.rest, scene.person, scene.clock)
            return await asyncio.to_thread(signed_in, steps, DAEMON, "browser", {})

    scene.person.lines = ["https://provider.example/cb?code=c&state=s"]
    scene.rest.will("/api/v1/sign-ins/sgn_a/complete", sign_in("complete"))
    assert asyncio.run(connect()).connection == "con_a"
    assert any("something else listens" in said for said in scene.person.said) is taken
    assert scene.rest.pasted() == ["https://provider.example/cb?code=c&state=s"]


@pytest.mark.proves("connect.browser")
async def test_the_loopback_address_answers_nothing_but_its_redirect() -> None:
    taken: list[str] = []

    async def take(url: str) -> Page:
        taken.append(url)
        return Page("Done", "Well.", over=True)

    async with Redirect(take) as redirect:
        for method, url, host, expected in [
            ("GET", redirect.uri.replace("/callback", "/favicon.ico"), None, 404),
            ("POST", redirect.uri, None, 404),
            ("HEAD", redirect.uri, None, 404),
            ("GET", f"{redirect.uri}?code=evil", "attacker.example", 421),
            ("GET", f"{redirect.uri}?code=c", None, 200),
            ("GET", f"{redirect.uri}?code=again", None, 200),
        ]:
            status, headers, _ = await asyncio.to_thread(get, url, method, **({"host": host} if host else {}))
            assert (url, status) == (url, expected)
            assert (headers["referrer-policy"], headers["cache-control"]) == ("no-referrer", "no-store")
            assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
        await redirect.over()
    assert taken == [f"{redirect.uri}?code=c"]


# -------------------------------------------------------------------------------------------------------- the choice
@pytest.mark.parametrize(
    ("methods", "asked", "sent"),
    [
        (["manual", "device"], None, "device"),
        (["manual"], None, "manual"),
        ([], None, None),
        ([], "manual", "manual"),
    ],
)
def test_the_first_way_that_the_provider_has_is_taken(scene: Scene, methods: list[str], asked: Method | None, sent: str | None) -> None:
    scene.rest.will("/api/v1/sign-ins", sign_in("complete"))
    scene.connect(asked, Joinable(id="ext/signed", credential="oauth", methods=methods))
    assert scene.rest.asked[0][2].get("method") == sent


def test_a_way_that_it_has_not_is_refused_before_anything_is_asked(scene: Scene) -> None:
    with pytest.raises(BadRequest, match="has no sign-in `browser`") as raised:
        scene.connect("browser", Joinable(id="ext/signed", credential="oauth", methods=["device", "manual"]))
    assert raised.value.hint == "It has device, manual."
    assert scene.rest.asked == []


@pytest.mark.parametrize(
    ("name", "found"),
    [("a/codex", "a/codex"), ("signed", "a/signed"), ("codex", "several daemons serve `codex`"), ("signd", "Did you mean `a/signed`?")],
)
async def test_a_provider_is_named_in_full_or_by_its_id(scene: Scene, name: str, found: str) -> None:
    first = {"data": [{"id": "a/codex"}, {"id": "a/signed", "more": 1}], "next": "a/signed"}
    scene.rest.will("/api/v1/sign-ins/providers?limit=500", first)
    scene.rest.will("/api/v1/sign-ins/providers?limit=500&after=a%2Fsigned", {"data": [{"id": "b/codex"}], "next": None})
    try:
        said = (await provider_named(scene.rest, name)).id
    except (BadRequest, NotFound) as error:
        said = error.message if isinstance(error, BadRequest) else error.hint
    assert said == found
