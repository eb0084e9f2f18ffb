"""A running Trunkline as the tests meet it: where it is, what its callers got, what it wrote into its log.

Whatever a test does, `Gateway.check` holds every answer and every line of the log to what is promised of all of them.
"""

import asyncio
import contextlib
import io
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, unquote_plus

import anthropic
import openai
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from tests.fakes.upstream import Upstream
from tests.wire.grammar import openai_speech
from tests.wire.sides import SIDES, Side
from trunkline.access.accounts import Accounts
from trunkline.access.keys import KeyRow, Keys
from trunkline.access.users import Users
from trunkline.server.asgi import Application, Site
from trunkline_sdk import http1

PROMPT = "canary prompt: kåş 🛰 東"
"""What the tests ask by default; it stands in no line of the log."""

HOP_BY_HOP = {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}
NEVER_SENT = HOP_BY_HOP | {"server", "set-cookie", "authorization", "x-api-key", "via"}

LONG = 1 << 20
"""Characters of a text that is searched only as it is."""


def forms(text: str) -> set[str]:
    """A text as it is, and with what hides a secret from a plain search undone: percent signs, plus signs, JSON's escapes."""
    if len(text) > LONG:
        return {text}
    bare = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text).replace("\\/", "/").replace('\\"', '"')
    return {reading for each in (text, bare) for reading in (each, unquote(each), unquote_plus(each))}


class Lines(io.StringIO):
    """A log that can be waited for. Written to by the log's own thread."""

    def __init__(self) -> None:
        super().__init__()
        self.exchanges: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def write(self, text: str) -> int:
        for line in filter(None, text.split("\n")):
            if (record := json.loads(line))["event"] == "exchange":
                self._loop.call_soon_threadsafe(self.exchanges.put_nowait, record)
        return super().write(text)

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().split("\n")[:-1]]


class Clock:
    """The machine's time, which a test may hurry on."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._asked: set[float] = set()
        self._more = asyncio.Event()
        self._asleep: dict[float, asyncio.Event] = {}

    def now(self) -> float:
        return time.time() + self._ahead

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead

    async def sleep(self, seconds: float) -> None:
        self._asked.add(seconds)
        self._more.set()
        woken = self._asleep.setdefault(seconds, asyncio.Event())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await woken.wait()

    def advance(self, seconds: float) -> None:
        """Let so much time have passed; whoever sleeps sleeps on."""
        self._ahead += seconds

    def wake(self, seconds: float) -> None:
        """Wake whoever went to sleep for exactly so long."""
        if woken := self._asleep.pop(seconds, None):
            woken.set()

    async def asked(self, seconds: float, *, timeout: float = 5) -> None:
        """Wait until somebody goes to sleep for exactly so long."""
        async with asyncio.timeout(timeout):
            while seconds not in self._asked:
                self._more.clear()
                await self._more.wait()


@dataclass
class Answer:
    """What the application said to one caller. `ended` says whether it said that this was all, `broken` that there is more and will not come."""

    method: str
    path: str
    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)
    ended: bool = False
    broken: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def header(self, name: str) -> str:
        return dict(self.headers).get(name, "")

    def check(self) -> None:
        """Hold it to what is promised of every answer."""
        names = [name for name, _ in self.headers]
        assert len(set(names)) == len(names), f"a header comes twice among {names}"
        assert NEVER_SENT.isdisjoint(names)
        assert re.fullmatch("rqe_[a-z]{24}", self.header("x-request-id"))
        assert self.header("x-request-id") == self.header("request-id")
        assert not (self.ended and self.broken)
        if not self.ended or self.method == "HEAD":
            return
        if self.path in {"/api", "/openapi.json", "/docs/api"} or self.path.startswith("/api/"):
            if self.status >= 400:
                assert sorted(json.loads(self.body)["error"]) == ["code", "fault", "hint", "message", "request_id"]
            return
        side = next(side for side in SIDES if side.owns(self.path))
        if self.header("content-type").startswith("text/event-stream"):
            (openai_speech.check if self.path == "/v1/audio/speech" else side.grammar)(self.body)
        elif self.status >= 400:
            side.error(json.loads(self.body))


class Recording:
    """Stands before the application and writes down what it says."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self.answers: list[Answer] = []

    @property
    def site(self) -> Site:
        return self._application.site

    @site.setter
    def site(self, site: Site) -> None:  # a reload replaces it
        self._application.site = site

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        answer = Answer(scope["method"], scope["path"])
        self.answers.append(answer)

        async def write_down(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = [(name.decode(), value.decode("latin-1")) for name, value in message["headers"]]
            else:
                answer.pieces.append(message["body"])
                answer.ended = not message.get("more_body", False)
            await send(message)

        def break_off() -> None:
            answer.broken = True
            extensions["trunkline.break_off"]()

        extensions = scope["extensions"]
        scope["extensions"] = extensions | {"trunkline.break_off": break_off}
        await self._application(scope, receive, write_down)


@dataclass
class Got:
    """A whole answer as a caller without an SDK got it."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Gateway:
    """A running Trunkline.

    Attributes:
        base_url: without a path.
        key: may call models.
        metrics_key: may read metrics too.
        secrets: what must never leave it, by a name for it.
        stored: what may be sent to a provider, and must leave it by no other way.
        upstreams: the fakes behind it.
        clock: its time.
        accounts: its accounts, as the command line changes them.
        users: its users.
        made_keys: its keys.
    """

    base_url: str
    key: str
    metrics_key: str
    secrets: dict[str, str]
    upstreams: dict[str, Upstream]
    log: Lines
    recording: Recording
    clock: Clock
    accounts: Accounts
    users: Users
    made_keys: Keys
    http: http1.Client = field(default_factory=lambda: http1.Client(timeouts=http1.Timeouts(connect=5, first_byte=10, silence=10)))
    stored: dict[str, str] = field(default_factory=dict[str, str])
    sdks: list[AsyncOpenAI | AsyncAnthropic] = field(default_factory=list)

    # ------------------------------------------------------------------------------------------------------ callers

    def openai(self, **settings: Any) -> AsyncOpenAI:
        """OpenAI's SDK, pointed here."""
        plain = openai.DefaultAsyncHttpxClient(verify=False)  # reading all certificates takes longer than a call
        given = {"base_url": f"{self.base_url}/v1", "api_key": self.key, "max_retries": 0, "timeout": 10, "http_client": plain}
        self.sdks.append(AsyncOpenAI(**given | settings))
        return self.sdks[-1]

    def anthropic(self, **settings: Any) -> AsyncAnthropic:
        """Anthropic's SDK, pointed here."""
        plain = anthropic.DefaultAsyncHttpxClient(verify=False)
        given = {"base_url": self.base_url, "api_key": self.key, "max_retries": 0, "timeout": 10, "http_client": plain}
        self.sdks.append(AsyncAnthropic(**given | settings))
        return self.sdks[-1]

    async def open(self, method: str, path: str, body: bytes = b"", headers: Iterable[tuple[str, str]] = ()) -> http1.Response:
        """A request by a client that adds nothing but the key; returns with the head of the answer."""
        given = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        if not any(name.lower() in {b"authorization", b"x-api-key"} for name, _ in given):
            given.append((b"authorization", f"Bearer {self.key}".encode()))
        return await self.http.request(method, self.base_url + path, given, body)

    async def get(self, path: str, headers: Iterable[tuple[str, str]] = ()) -> Got:
        return await _whole(await self.open("GET", path, headers=headers))

    async def post(self, path: str, body: Any, headers: Iterable[tuple[str, str]] = ()) -> Got:
        """A body that is not bytes goes out as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await _whole(await self.open("POST", path, content, headers))

    async def ask(self, side: Side, *, headers: Iterable[tuple[str, str]] = (), **over: Any) -> Got:
        """A call in one dialect, whole or streamed."""
        return await self.post(side.path, question(side, **over), headers)

    async def begin(self, side: Side, **over: Any) -> http1.Response:
        """A streamed call, up to the head of its answer."""
        return await self.open("POST", side.path, json.dumps(question(side, stream=True, **over)).encode())

    def makes(self, name: str = "made", **given: Any) -> tuple[KeyRow, str]:
        """A key that the command line makes; it is a secret like the others."""
        row, secret = self.made_keys.create(name, {"inference"}, **given)
        self.secrets[f"made {row.id}"] = secret.reveal()
        return row, secret.reveal()

    # ---------------------------------------------------------------------------------------------------- afterwards

    async def told(self, timeout: float = 5) -> dict[str, Any]:
        """The line of the log about the next exchange that ended."""
        async with asyncio.timeout(timeout):
            return await self.log.exchanges.get()

    async def in_flight(self) -> float:
        """How many calls are under way, by the metrics."""
        metrics = await self.get("/metrics", [("authorization", f"Bearer {self.metrics_key}")])
        [value] = re.findall(r"^trunkline_exchanges_in_flight (\S+)$", metrics.body.decode(), re.MULTILINE)
        return float(value)

    async def aclose(self) -> None:
        """Close the callers."""
        await self.http.aclose()
        for sdk in self.sdks:
            await sdk.close()

    def check(self) -> None:
        """Hold all that was said to what is promised of everything that is said. Called when the log is complete."""
        secrets = self.secrets | self.stored
        outcomes = {record["request_id"]: record["outcome"] for record in self.log.records() if record["event"] == "exchange"}
        for answer in self.recording.answers:
            if answer.status:
                answer.check()
                outcome = outcomes.get(answer.header("x-request-id"))
                assert answer.ended or outcome == "interrupted" or (answer.broken and outcome != "ok"), "an answer has no end"
            said = f"{answer.headers} {answer.body.decode(errors='replace')}"
            assert [name for name, secret in secrets.items() if any(secret in form for form in forms(said))] == [], f"in {said}"
        for line in self.log.getvalue().split("\n")[:-1]:
            assert [name for name, secret in secrets.items() if any(secret in form for form in forms(line))] == [], f"in {line}"
            assert json.loads(line)["level"] in {"info", "warning"}, line
            assert "canary prompt" not in line, "prompts are not logged"
        for name, upstream in self.upstreams.items():
            assert upstream.violations == [], name
            for call in upstream.calls:
                strangers = [
                    other for other, secret in self.secrets.items() if other != name and any(secret in form for form in forms(str(call)))
                ]
                assert strangers == [], f"{name} was told another's secret"


def question(side: Side, **over: Any) -> dict[str, Any]:
    """The body of a call in one dialect, as short as it may be; a response is not kept, since its id would be another."""
    needed: dict[str, Any] = {"anthropic": {"max_tokens": 64}, "openai_responses": {"store": False}}.get(side.dialect, {})
    return {"model": side.model, **needed, **side.asking(PROMPT)} | over


async def _whole(response: http1.Response) -> Got:
    body = await response.read()
    return Got(response.status, {name.decode().lower(): value.decode("latin-1") for name, value in response.headers}, body)
