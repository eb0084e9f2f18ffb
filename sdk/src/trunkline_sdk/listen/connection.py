"""One client's connection: uvicorn's httptools protocol, made strict.

llhttp, as httptools sets it up, refuses by itself: a bare LF or CR, NUL, folded headers, a space before the colon, any second or malformed
``Content-Length``, ``Content-Length`` beside ``Transfer-Encoding``, codings that do not end in ``chunked``, malformed chunks. What it lets
pass is refused here. Reliance on uvicorn's inside: the callback methods of `HttpToolsProtocol`, its `connections`, `cycle`, `flow`, `headers`,
`loop`, `parser`, `pipeline`, `scope`, `transport`, `url`, `_start_asgi_task` and `_unset_keepalive_if_required`; `chunked_encoding`,
`disconnected`, `expected_content_length`, `keep_alive`, `message_event`, `more_body` and `response_started` of its cycle; `default_headers`
and `tasks` of its state. The tests fail when one of them changes its meaning.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from weakref import ref

import httptools
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from trunkline_sdk.deadline import Deadline
from trunkline_sdk.listen.limits import ListenLimits
from trunkline_sdk.outbox import Gathered, Outbox

ON_DISCONNECT = "trunkline.on_disconnect"
BODY_WHOLE = "trunkline.body_whole"
BREAK_OFF = "trunkline.break_off"
_PIPELINED = 16  # requests of one connection that may wait for their turn while more are read


class Shared(ServerState):
    """What the connections of one listener share."""

    def __init__(self) -> None:
        super().__init__()
        self.draining = False
        self.outbox: Outbox  # set when the listener starts
        self.empty = asyncio.Event()  # no connection is open
        self.empty.set()


class _Refused(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Unknown(int):
    """The length of a body that ends with its connection: no piece is too long for it, and nothing is ever missing."""

    def __lt__(self, other: int) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return False

    def __sub__(self, other: int) -> "_Unknown":
        return self


_UNKNOWN = _Unknown()


class Connection(HttpToolsProtocol):
    """Counts and times heads, refuses what is ambiguous, tells of a client that leaves."""

    def __init__(self, config: Config, shared: Shared, limits: ListenLimits) -> None:
        super().__init__(config, shared, {})
        self._shared = shared
        self._limits = limits
        self._open: list[RequestResponseCycle] = []  # answers not complete: the first one runs, the others are pipelined behind it
        self._callback: Callable[[], object] | None = None  # of the one that runs
        self._lost = False
        self._unbroken = 0  # bytes read since the parser last completed a head, a part of a body or a message
        self._in_body = False
        self._deaf = False  # what still comes is dropped
        self._verdict: int | None = None  # a status to refuse with once the answers before it are complete
        self._timer: asyncio.TimerHandle | None = None  # of a head, or of lingering
        self._idle = Deadline(self.loop, self.timeout_keep_alive_handler)  # uvicorn makes a timer after each answer

    # ------------------------------------------------------------------------------------------- from the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn
        """Time the first head."""
        super().connection_made(Gathered(transport, self._shared.outbox))
        self._shared.empty.clear()
        if self._shared.draining:
            transport.close()
        else:
            self._timer = self.loop.call_later(self._limits.head_seconds, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the app, if an answer was under way."""
        self._stop_timers()
        super().connection_lost(exc)
        if not self.connections:
            self._shared.empty.set()
        self._lose()
        self.scope = self.cycle = None  # pyright: ignore[reportAttributeAccessIssue] - as uvicorn begins; they hold methods of this one

    def eof_received(self) -> None:
        """Take it for leaving: the transport closes now. A client that only half-closes gets no answer, so that none is waited for."""
        self._stop_timers()
        self._lose()

    def data_received(self, data: bytes) -> None:
        """Parse, count, and time what is not a whole head yet."""
        if self._deaf:
            return
        self._unset_keepalive_if_required()
        self._unbroken += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._decline_upgrade(data[offer.args[0] :])
        except httptools.HttpParserError as error:
            verdict = error.__context__
            self._refuse(verdict.status if isinstance(verdict, _Refused) else HTTPStatus.BAD_REQUEST)
        else:
            if self._unbroken > self._limits.head_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            elif self._unbroken and self._timer is None and not self._in_body:
                self._timer = self.loop.call_later(self._limits.head_seconds, self._head_is_late)

    # ---------------------------------------------------------------------------------------------- from the parser

    def on_headers_complete(self) -> None:
        """Start the app, unless the head is refused or an upgrade is offered, which ends the parser's work on this read."""
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise _Refused(HTTPStatus.BAD_REQUEST)
            return
        self._judge_head()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._in_body = True
        self._unbroken = 0
        extensions: dict[str, Any] = {ON_DISCONNECT: self._register, BREAK_OFF: self._break_off}
        self.scope["extensions"] = extensions
        super().on_headers_complete()
        self._open.append(self.cycle)
        if self.parser.get_http_version() == "1.0":  # it knows no chunks (RFC 9112, section 6.1), which uvicorn sends all the same
            self.cycle.chunked_encoding, self.cycle.expected_content_length = False, _UNKNOWN
        cycle = ref(self.cycle)  # which holds the scope: a circle for each request would be left to the garbage collector
        extensions[BODY_WHOLE] = lambda: (live := cycle()) is None or not live.more_body
        self.headers = []  # trailers end here: the app has judged the headers that it has

    def on_body(self, body: bytes) -> None:
        """Buffer for the app; uvicorn pauses reading at 64 KiB."""
        self._unbroken = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self.parser.should_upgrade():
            return
        self._in_body = False
        self._unbroken = 0
        super().on_message_complete()
        if len(self._open) < _PIPELINED:
            self.flow.resume_reading()  # a large body or a pipelined head paused it; a client that leaves is only seen while we read

    # ------------------------------------------------------------------------------------------------ from the cycle

    def on_response_complete(self) -> None:
        """Start what is pipelined, or say what was held back, or wait for the next request."""
        self._open.pop(0)
        self._callback = None
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
            else:
                self._idle.set(self._limits.idle_seconds)
        if self._in_body or self._verdict is not None:
            self._last_words()

    # --------------------------------------------------------------------------------------------- from the listener

    def shutdown(self) -> None:
        """Close now if nothing is under way, else after the answers, which say so."""
        for cycle in self._open:
            cycle.keep_alive = False
        if not self._open:
            self.transport.close()

    # -------------------------------------------------------------------------------------------------------- inside

    def _register(self, callback: Callable[[], object]) -> None:
        if self._lost:
            callback()
        else:
            self._callback = callback

    def _break_off(self) -> None:
        self._deaf = True
        self._stop_timers()
        self._callback = None  # the app knows
        old = self._open and self._open[0].expected_content_length is _UNKNOWN
        self._lose()
        if old:  # the connection's end would be the body's: only a reset says that it was cut
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        else:
            self.transport.close()

    def _judge_head(self) -> None:
        version = self.parser.get_http_version()
        if version not in {"1.1", "1.0"}:
            raise _Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
        names = [name for name, _ in self.headers]
        values = [value for _, value in self.headers]
        size = len(self.url) + len(b"".join(names)) + len(b"".join(values)) + 4 * len(names)  # 4: colon, space, line end
        if size > self._limits.head_bytes:
            raise _Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        hosts = names.count(b"host")
        if hosts > 1 or (not hosts and version == "1.1"):
            raise _Refused(HTTPStatus.BAD_REQUEST)  # RFC 9112, section 3.2
        if b"transfer-encoding" in names and (version == "1.0" or values[names.index(b"transfer-encoding")].strip().lower() != b"chunked"):
            raise _Refused(HTTPStatus.BAD_REQUEST)  # RFC 9112, section 6.1

    def _decline_upgrade(self, rest: bytes) -> None:
        """Read the request again without its offer (RFC 9110, section 7.8); llhttp took its body for bytes of the other protocol.

        Java's and Ktor's clients offer ``h2c`` with every request; uvicorn loses the body (github.com/Kludex/uvicorn/issues/2722, 2025-10-09).
        """
        head = [b"%s %s HTTP/%s\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        head += [b"%s: %s\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self._unbroken = 0
        self.data_received(b"".join([*head, b"\r\n", rest]))

    def _head_is_late(self) -> None:
        self._timer = None
        if self._unbroken:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self.transport.close()

    def _refuse(self, status: int) -> None:
        self._deaf = True
        self._stop_timers()
        self.flow.resume_reading()
        if not self._open:
            self._say(status)
        elif not self._in_body:
            self._verdict = status
        else:
            silent = len(self._open) == 1 and not self.cycle.response_started
            self._lose()
            if silent:
                self._say(status)
            else:
                self.transport.close()

    def _last_words(self) -> None:
        """End a connection that cannot be used again once its answers are complete."""
        if self._open or self.transport.is_closing():
            return
        if self._verdict is not None:
            self._say(self._verdict)
        else:
            self._linger()

    def _say(self, status: int) -> None:
        phrase = HTTPStatus(status).phrase
        self.transport.write(
            f"HTTP/1.1 {status} {phrase}\r\ncontent-type: text/plain\r\ncontent-length: {len(phrase)}\r\nconnection: close\r\n\r\n{phrase}".encode()
        )
        self._linger()

    def _linger(self) -> None:
        """Close so that the client can read our last words: our side first, all of it later; TLS does so by itself."""
        self._deaf = True
        self._stop_timers()
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._timer = self.loop.call_later(self._limits.linger_seconds, self.transport.abort)
        else:
            self.transport.close()

    def _lose(self) -> None:
        self._lost = True
        lost, self._open = self._open, []
        for cycle in lost:
            cycle.disconnected = True
            cycle.message_event.set()
        self.flow.resume_writing()
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def _unset_keepalive_if_required(self) -> None:
        self._idle.clear()

    def _stop_timers(self) -> None:
        self._idle.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
