"""The address on this machine to which a provider sends the browser after a sign-in (RFC 8252, section 7.3)."""

import asyncio
import hashlib
import html
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from trunkline_sdk.listen import Listener

_STYLE = (
    ":root{color-scheme:light dark;font:1.1rem/1.5 system-ui,sans-serif}"
    "body{max-width:34rem;margin:20vh auto 0;padding:0 1.5rem}h1{font-size:1.5rem;font-weight:600}"
)
_POLICY = "; ".join(
    [
        "default-src 'none'",
        f"style-src 'sha256-{b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
_SECONDS_TO_READ = 2.0  # that the browser has to take its last page


@dataclass(frozen=True, slots=True)
class Page:
    """What the browser shows. `over`: the sign-in has ended, and nothing more is waited for."""

    title: str
    text: str
    over: bool
    status: int = 200


class Redirect:
    """Listens on 127.0.0.1 while it is entered; each redirect is handed whole to `take`, one after the other, until one is `over`.

    Args:
        take: gets the address that the browser was sent to, and says what it shows.
        port: where; 0 takes a free one.
        path: which alone is answered.
        name: by which the provider knows this machine: `127.0.0.1` or `localhost`.
    """

    def __init__(self, take: Callable[[str], Awaitable[Page]], *, port: int = 0, path: str = "/callback", name: str = "127.0.0.1") -> None:
        self._take = take
        self._path = path
        self._name = name
        self._listener = Listener(self._serve, port=port)
        self._taking = asyncio.Lock()
        self._last: Page | None = None
        self._over = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Raises: `ListenError`, where something else listens there."""
        await self._listener.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            await self._listener.drain(_SECONDS_TO_READ)
        await self._listener.__aexit__(kind, error, trace)

    @property
    def uri(self) -> str:
        """The whole address, without a query."""
        return f"http://{self._name}:{self._port}{self._path}"

    async def over(self) -> None:
        """Return when a redirect has ended the sign-in."""
        await self._over.wait()

    @property
    def _port(self) -> int | None:
        return urlsplit(self._listener.urls[0]).port

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        del receive
        page = await self._page(scope)
        body = (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(page.title)}</title><style>{_STYLE}</style>'
            f"<h1>{html.escape(page.title)}</h1><p>{html.escape(page.text)}</p></html>"
        ).encode()
        fields = {
            "content-type": "text/html; charset=utf-8",
            "content-length": str(len(body)),
            "content-security-policy": _POLICY,
            "referrer-policy": "no-referrer",
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
        }
        headers = [(name.encode(), value.encode()) for name, value in fields.items()]
        await send({"type": "http.response.start", "status": page.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
        if page.over:
            self._over.set()

    async def _page(self, scope: Any) -> Page:
        hosts = {value.decode("latin-1").lower() for name, value in scope["headers"] if name.lower() == b"host"}
        if not hosts or hosts - {f"127.0.0.1:{self._port}", f"localhost:{self._port}"}:  # another name for this machine is an attack
            return Page("Not here", "This address is for one sign-in on this machine.", over=False, status=421)
        if scope["method"] != "GET" or scope["path"] != self._path:
            return Page("Not found", "There is nothing here.", over=False, status=404)
        async with self._taking:
            if self._last is None:
                page = await self._take(f"{self.uri}?{scope['query_string'].decode('latin-1')}")
                if not page.over:
                    return page
                self._last = page
            return self._last
