"""The ASGI application: one table of paths, no framework.

Only health and the page to connect a provider, which knows nothing, answer without a key, so a stranger cannot even learn which paths
exist. Every answer carries a request id, and every error has the shape that the caller's SDK reads.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from trunkline.base.clock import Clock
from trunkline.base.ids import new_id
from trunkline.dialects import Dialect
from trunkline.errors import Denied, Internal, MethodNotAllowed, NotFound, TrunklineError
from trunkline.gateway.exchange import Exchange
from trunkline.gateway.headers import Headers, error_headers, first, request_ids
from trunkline.gateway.pipeline import Access, Call, FollowUpCall, Pipeline
from trunkline.model.caller import Caller, Scope
from trunkline.server.body import Receive, read_body
from trunkline.server.cors import Cors
from trunkline.server.proxies import Proxies
from trunkline.surfaces import Endpoint, FollowUp

Incoming = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LONGEST_ID = 200  # characters of a caller's own request id that the log keeps


@dataclass(frozen=True, slots=True)
class Page:
    """A path that is read by GET.

    Attributes:
        content_type: of the body.
        read: gives status and body for what stands behind the path (`""` for the path itself), for whoever asks (nobody, where it is open).
        scope: what a caller needs to read it; none means that it is open to everybody.
        headers: that its answer has too.
    """

    content_type: bytes
    read: Callable[[str, Caller | None], tuple[int, bytes]]
    scope: Scope | None = None
    headers: Headers = ()


class Apart(Protocol):
    """An application of its own for some of the paths, apart from calls."""

    def serves(self, path: str) -> bool:
        """Whether a path is one of its."""
        ...

    async def answer(self, scope: Incoming, receive: Receive, send: Send, *, path: str, address: str, extra: Headers) -> None:
        """Answer one request; the answer gets the extra headers."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """All that a request meets. A reload builds a new one; requests in flight keep theirs."""

    pipeline: Pipeline
    access: Access
    endpoints: Mapping[str, Endpoint]
    follow_ups: Sequence[FollowUp]
    pages: Mapping[str, Page]
    dialect_of: Callable[[str, Headers], Dialect]
    cors: Cors
    proxies: Proxies
    max_body: int
    api: Apart | None = None

    def follow_up(self, path: str) -> FollowUp | None:
        """What a path is about that stands below one of the follow-ups."""
        return next((each for each in self.follow_ups if path.startswith(each.path)), None)


class Application:
    """The ASGI callable. `site` may be replaced at any time."""

    def __init__(self, site: Site, clock: Clock, crashed: Callable[[str, Exception], None]) -> None:
        self.site = site
        self._clock = clock
        self._crashed = crashed

    async def __call__(self, scope: Incoming, receive: Receive, send: Send) -> None:
        """Answer one request."""
        site = self.site
        path: str = scope["path"]
        if "//" in path:
            path = _single_slashes(path)
        endpoint = site.endpoints.get(path)
        headers: Headers = scope["headers"]
        peer = scope["client"]
        address = site.proxies.caller(peer[0] if peer else "", headers)
        cors = site.cors.headers(first(headers, b"origin"))
        if endpoint is not None and scope["method"] == "POST":
            await self._call(site, endpoint, address, cors, scope, receive, send)
        elif (follow_up := site.follow_up(path)) is not None and scope["method"] != "OPTIONS":
            await self._follow(site, follow_up, path, address, cors, scope, send)
        elif scope["method"] == "OPTIONS" and (allowed := site.cors.preflight(first(headers, b"origin"))):
            await self._preflight(allowed, scope, send)
        elif site.api is not None and site.api.serves(path):
            await site.api.answer(scope, receive, send, path=path, address=address, extra=cors)
        else:
            await self._page(site, path, address, cors, scope, send)

    async def _call(
        self, site: Site, endpoint: Endpoint, address: str, cors: Headers, scope: Incoming, receive: Receive, send: Send
    ) -> None:
        headers: Headers = scope["headers"]
        exchange = self._exchange(endpoint.path, address, scope)
        body = partial(read_body, receive, headers, site.max_body, whole=scope["extensions"]["trunkline.body_whole"])
        await site.pipeline.carry(exchange, Call(endpoint, headers, address, body), Channel(scope, send, cors))

    async def _follow(self, site: Site, endpoint: FollowUp, path: str, address: str, cors: Headers, scope: Incoming, send: Send) -> None:
        told, _, action = path.removeprefix(endpoint.path).partition("/")
        query: bytes = scope["query_string"]
        call = FollowUpCall(
            endpoint=endpoint,
            method=scope["method"],
            told=told,
            action=action,
            query=f"?{query.decode('ascii', 'replace')}" if query else "",
            headers=scope["headers"],
            address=address,
        )
        await site.pipeline.follow(self._exchange(endpoint.path, address, scope), call, Channel(scope, send, cors))

    def _exchange(self, path: str, address: str, scope: Incoming) -> Exchange:
        exchange = Exchange(
            id=new_id("rqe", self._clock),
            path=path,
            started=self._clock.monotonic(),
            address=address,
            client_request_id=(first(scope["headers"], b"x-request-id") or b"")[:LONGEST_ID].decode("latin-1"),
        )
        scope["extensions"]["trunkline.on_disconnect"](exchange.interrupt)
        return exchange

    async def _preflight(self, allowed: Headers, scope: Incoming, send: Send) -> None:
        channel = Channel(scope, send, [])
        await channel.start(204, [*allowed, *request_ids(new_id("rqe", self._clock))])
        await channel.write(b"", more=False)

    async def _page(self, site: Site, path: str, address: str, cors: Headers, scope: Incoming, send: Send) -> None:
        request_id = new_id("rqe", self._clock)
        headers: Headers = scope["headers"]
        channel = Channel(scope, send, cors)
        try:
            page, status, body = await self._read(site, path, address, scope["method"], headers)
            length = (b"content-length", str(len(body)).encode())
            head = [(b"content-type", page.content_type), *page.headers, *request_ids(request_id), length]
        except TrunklineError as error:
            status, head, body = _told(error, site.dialect_of(path, headers), request_id)
        except Exception as error:  # noqa: BLE001 - the border of a request
            self._crashed(request_id, error)
            internal = Internal("something went wrong in Trunkline", hint=f"The log has it under `{request_id}`.")
            status, head, body = _told(internal, site.dialect_of(path, headers), request_id)
        await channel.start(status, head)
        await channel.write(b"" if scope["method"] == "HEAD" else body, more=False)

    async def _read(self, site: Site, path: str, address: str, method: str, headers: Headers) -> tuple[Page, int, bytes]:
        page, rest = _find(site.pages, path)
        caller: Caller | None = None
        if page is None or page.scope is not None:
            caller = await site.access.identify(headers, address)
            if page is not None and page.scope not in caller.scopes:
                raise Denied(f"the key `{caller.name}` may not read `{path}`", hint=f"It lacks the scope `{page.scope}`.")
        if page is None and path not in site.endpoints:
            raise NotFound(f"there is nothing at `{path}`", hint="The README lists what is served.")
        if page is None or method not in {"GET", "HEAD"}:
            allow = "POST" if page is None else "GET, HEAD"
            raise MethodNotAllowed(f"`{path}` does not answer {method}", hint=f"Use {allow}.", allow=allow)
        return page, *page.read(rest, caller)


class Channel:
    """The way back to a caller over ASGI."""

    __slots__ = ("_extra", "_scope", "_send")

    def __init__(self, scope: Incoming, send: Send, extra: Headers) -> None:
        self._scope = scope
        self._send = send
        self._extra = extra

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head."""
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *self._extra] if self._extra else headers})

    async def write(self, data: bytes, *, more: bool) -> None:
        """Send a piece of the body; waits while the caller is slow."""
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    def break_off(self) -> None:
        """End a body that will not be complete so that nobody takes it for whole."""
        self._scope["extensions"]["trunkline.break_off"]()


def _told(error: TrunklineError, dialect: Dialect, request_id: str) -> tuple[int, Headers, bytes]:
    body = dialect.write_error(error, request_id)
    return error.http_status, error_headers(error, request_id, len(body)), body


def _find(pages: Mapping[str, Page], path: str) -> tuple[Page | None, str]:
    """The page at a path, or the one that the path stands below: model ids hold slashes."""
    if (page := pages.get(path)) is not None:
        return page, ""
    for root, page in pages.items():
        if root.endswith("/") and path.startswith(root):
            return page, path[len(root) :]
    return None, ""


def _single_slashes(path: str) -> str:
    """Clients join a base address and a path as text, so `//v1/models` happens (Switchboard contract, A.0)."""
    while "//" in path:
        path = path.replace("//", "/")
    return path
