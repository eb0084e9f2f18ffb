"""One request in flight: its way back to the product, and the means to stop it."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from trunkline_sdk.daemon.protocol import headers as fields
from trunkline_sdk.daemon.protocol.headers import Headers
from trunkline_sdk.daemon.server.failures import Failure
from trunkline_sdk.daemon.server.redaction import Redaction

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_ID_LETTERS = 128
_ON_DISCONNECT = "trunkline.on_disconnect"  # of `trunkline_sdk.listen`, which is not imported: any ASGI server will do
_BREAK_OFF = "trunkline.break_off"


class Stopped(Exception):
    """The product left, or the daemon ends: the work was cancelled at whatever it waited for."""


class Exchange:
    """One request.

    Attributes:
        request_id: the product's, if it may stand in a header and a log line, else a new one.
        status: of the answer; 0 until it has begun.
        whole: the answer is complete.
        left: the product went away before that.
        outcome: for the log: `ok`, `left`, `broken`, or a failure's type.
        sent: bytes of the answer's body.
        wrote: when the product was last sent something, by the loop's clock.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.headers: Headers = scope["headers"]
        self.receive = receive
        self.request_id = _request_id(fields.find(self.headers, fields.REQUEST_ID))
        self.status = 0
        self.whole = False
        self.left = False
        self.outcome = "ok"
        self.sent = 0
        self.wrote = 0.0
        self._secrets: list[str] = []
        self._send = send
        self._started = time.monotonic()
        self._extensions: MutableMapping[str, Any] = scope.get("extensions") or {}
        self._stop: asyncio.Timeout | None = None
        self._cause: Failure | None = None
        self._listening: asyncio.Task[None] | None = None

    @property
    def seconds(self) -> float:
        """Since it came."""
        return time.monotonic() - self._started

    def guard_secrets(self, secrets: Iterable[str]) -> None:
        """Keep these out of whatever is told or logged of this request."""
        self._secrets += secrets

    @property
    def redaction(self) -> Redaction:
        """Takes out the secrets of this request: those of its headers, and what `guard_secrets` was told."""
        credential = fields.read_credential(self.headers)
        secrets = [] if credential is None else [credential.token, credential.api_key, *credential.metadata.values()]
        return Redaction([*secrets, *self._secrets])

    @property
    def unix(self) -> bool:
        """Whether it came by a Unix socket."""
        server = self.scope.get("server")
        return server is not None and server[1] is None

    # --------------------------------------------------------------------------------------------------------- stopping

    @asynccontextmanager
    async def stoppable(self) -> AsyncGenerator[None]:
        """The part of the work that ends when the product leaves or the daemon does.

        Raises:
            Stopped: the product left.
            Failure: what `interrupt` was called with.
        """
        stop = asyncio.timeout(None)
        try:
            async with stop:
                self._stop = stop
                if (register := self._extensions.get(_ON_DISCONNECT)) is not None:
                    register(self._leave)
                yield
        except TimeoutError:
            if not stop.expired():
                raise
            raise self._cause or Stopped from None
        finally:
            self._stop = None
            if self._listening is not None:
                self._listening.cancel()

    def listen(self) -> None:
        """Notice a product that leaves; the body is read by now. The listener of this package tells by itself, others when asked."""
        if _ON_DISCONNECT not in self._extensions:
            self._listening = asyncio.get_running_loop().create_task(self._watch(), name="a product that may leave")

    def interrupt(self, cause: Failure) -> None:
        """End it from outside: with the failure if the answer has not begun, else by breaking it off."""
        if not self.whole:
            self._cause = self._cause or cause
            self._halt()

    def _leave(self) -> None:
        self.left = True
        self._halt()

    def _halt(self) -> None:
        if self._stop is not None and not self._stop.expired():
            self._stop.reschedule(-1)

    async def _watch(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        if not self.whole:
            self._leave()

    # -------------------------------------------------------------------------------------------------------- answering

    async def begin(self, status: int, headers: Headers) -> None:
        """Send the head now."""
        self.status = status
        own = [(fields.REQUEST_ID, self.request_id.encode()), (b"cache-control", b"no-store")]
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *own]})
        self.wrote = asyncio.get_running_loop().time()

    async def write(self, data: bytes) -> None:
        """Send a piece of the body now; waits while the product is slow."""
        self.sent += len(data)
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        self.wrote = asyncio.get_running_loop().time()

    async def end(self, data: bytes = b"") -> None:
        """Send the last piece of the body."""
        self.whole = True
        self.sent += len(data)
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer."""
        await self.begin(status, [*headers, (b"content-length", str(len(body)).encode())])
        await self.end(body)

    def break_off(self) -> None:
        """End an answer that has begun so that no product takes it for whole (daemon contract, C4)."""
        if (break_off := self._extensions.get(_BREAK_OFF)) is not None:
            break_off()  # other servers do it when the app returns before the end of the body


def _request_id(given: bytes | None) -> str:
    if given is not None and len(given) <= _ID_LETTERS and given.isascii() and given.decode().isprintable() and given:
        return given.decode()
    return secrets.token_hex(12)
