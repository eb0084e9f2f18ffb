"""Asks a daemon to the byte, as no well-behaved client would."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import urlsplit

from trunkline_sdk.daemon.client import Client, Options, Request
from trunkline_sdk.daemon.gojson import Unreadable, parse
from trunkline_sdk.daemon.messages import InfoResponse, ProviderInfo
from trunkline_sdk.daemon.protocol import failures, headers
from trunkline_sdk.daemon.protocol.routes import Route
from trunkline_sdk.http1 import Client as Http
from trunkline_sdk.http1 import Limits, Timeouts

Headers = Sequence[tuple[bytes, bytes]]

CHAT_BODY = b'{"messages":[{"role":"user","content":"hi"}]}'


class Missed(Exception):
    """The daemon does not do what it should; the text says what it did."""


class NotHere(Exception):
    """The daemon has nothing that this could be seen on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`run` gives a detail for the report, or raises `Missed` or `NotHere`."""

    group: str
    name: str
    level: Literal["must", "should"]
    run: Callable[["Probe"], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """Which daemon, and which of its providers. `seconds` bounds what should come at once."""

    base: str
    secret: str = field(default="", repr=False)
    provider: str = ""
    speech: str = "conf_speech"
    seconds: float = 5.0


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        """The first of that lower-case name."""
        return headers.find(self.headers, name)

    @property
    def reason(self) -> str:
        """What the daemon says, if it says it in one of the two shapes of A5."""
        return failures.reason(self.body)


class Probe:
    """One daemon under test: `client` sees it as the original's users do, `send` and `bare_head` see the bytes."""

    def __init__(self, daemon: Daemon, client: Client, http: Http) -> None:
        self.daemon = daemon
        self.client = client
        self._http = http
        self.info = InfoResponse()

    @property
    def provider(self) -> ProviderInfo:
        """The one to ask: the named one, or the first that takes no credential, or the first."""
        served = self.info.providers
        if not served:
            raise NotHere("the daemon serves no provider")
        if self.daemon.provider:
            named = next((one for one in served if one.id == self.daemon.provider), None)
            if named is None:
                raise NotHere(f"the daemon serves no provider `{self.daemon.provider}`")
            return named
        return next((one for one in served if one.credential_kind == "none"), served[0])

    def path(self, route: Route, provider: str | None = None) -> str:
        """Of a route of `provider`, by default the one to ask."""
        return route.path() if route.name == "info" else route.path(self.provider.id if provider is None else provider)

    def authorized(self, secret: str | None = None) -> list[tuple[bytes, bytes]]:
        """The header that shows the secret, or another one."""
        return headers.authorization(self.daemon.secret if secret is None else secret)

    async def send(
        self, method: str, path: str, body: bytes = b"", fields: Headers = (), *, secret: str | None = None, seconds: float | None = None
    ) -> Answer:
        """One exchange; the answer is expected within `seconds`."""
        wait = seconds or self.daemon.seconds
        try:
            async with asyncio.timeout(wait):
                pairs = [*self.authorized(secret), *fields]
                async with await self._http.request(method, self.daemon.base + path, pairs, body, timeouts=_waits(wait)) as answer:
                    return Answer(answer.status, answer.headers, await answer.read())
        except TimeoutError:
            raise Missed(f"no answer to {method} {path} within {wait:g} s") from None

    async def bare_head(self, route: Route, *, secret: str) -> int:
        """The status in answer to a head that announces a body which never comes."""
        parts = urlsplit(self.daemon.base)
        context = ssl.create_default_context() if parts.scheme == "https" else None
        fields = [(b"Host", parts.netloc.encode()), *self.authorized(secret)]
        if route.method == "POST":
            fields += [(b"Content-Type", b"application/json"), (b"Content-Length", b"1000000")]
        path = (parts.path + self.path(route)).encode()
        head = b"%b %b HTTP/1.1\r\n" % (route.method.encode(), path) + b"".join(b"%b: %b\r\n" % pair for pair in fields) + b"\r\n"
        port = parts.port or (443 if context else 80)
        try:
            async with asyncio.timeout(self.daemon.seconds):
                reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
                try:
                    writer.write(head)
                    line = await reader.readline()
                finally:
                    writer.transport.abort()
        except TimeoutError:
            raise Missed(f"{route.method} {route.name}: no answer before the body") from None
        words = line.split()
        if len(words) < 2 or not words[1].isdigit():
            raise Missed(f"{route.method} {route.name}: no HTTP answer")
        return int(words[1])


def operation(model: str, surface: str = "chat_completions", **more: bytes) -> list[tuple[bytes, bytes]]:
    """The headers of an operation; further ones by name, `_` for `-`."""
    fields = [(headers.SURFACE, surface.encode()), (headers.MODEL, model.encode()), (b"content-type", b"application/json")]
    return fields + [(name.replace("_", "-").encode(), value) for name, value in more.items()]


def request(model: str, surface: str = "chat_completions", timeout: float | None = None) -> Request:
    """The same for the client."""
    return Request(surface, model, CHAT_BODY, timeout=timeout)


def tree(data: bytes) -> dict[str, Any]:
    """The JSON object that a body is.

    Raises:
        Missed: It is none.
    """
    try:
        value = parse(data)
    except Unreadable:
        value = None
    if not isinstance(value, dict):
        raise Missed("the answer is no JSON object")
    return cast(dict[str, Any], value)


def refused(answer: Answer, what: str, *statuses: int) -> str:
    """What is refused has a 4xx status (one of `statuses`, if any are named) and says why.

    Raises:
        Missed: Otherwise.
    """
    if not 400 <= answer.status < 500 or (statuses and answer.status not in statuses):
        wanted = " or ".join(map(str, statuses)) or "4xx"
        raise Missed(f"{what}: HTTP {answer.status}, not {wanted}")
    if not answer.reason:
        raise Missed(f"{what}: HTTP {answer.status} without a reason in either shape")
    return f"{answer.status} {answer.reason}"


def client_for(daemon: Daemon) -> tuple[Client, Http]:
    """The original's client, and one for bytes."""
    options = Options(control_seconds=30.0, invoke_seconds=60.0)
    return Client(daemon.base, secret=daemon.secret, options=options, strict_original=True), Http(limits=Limits(head_bytes=1024 * 1024))


def _waits(seconds: float) -> Timeouts:
    return Timeouts(connect=seconds, first_byte=seconds, silence=seconds, pool=seconds)
