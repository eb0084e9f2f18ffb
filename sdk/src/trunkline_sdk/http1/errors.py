"""What can go wrong with one exchange.

```text
HttpError
├── InvalidRequest        the request itself is wrong; names the header, never its value
├── ClientClosed          asked after the client was closed
├── PoolFull              as many requests wait for a connection as may
├── ConnectFailed         no address of the host could be reached
│   └── CertificateRejected
├── ConnectionLost        the connection ended before any byte of the answer
├── Garbled               the answer is no HTTP/1.1 (RFC 9112), or broke off inside its head
├── BodyCut               the body ended before its end
├── BodyTooLarge          more than the caller or the limits allow
├── UndecodableBody       a content encoding nobody can undo, or a broken one
└── HttpTimeout           `seconds` passed in one wait
    ├── PoolTimeout       for a free connection
    ├── ConnectTimeout    for name, TCP and TLS together
    ├── FirstByteTimeout  for the answer's first byte
    └── SilenceTimeout    between two reads, or for the peer to take the request
```

Texts name the host and what was waited for. They hold no path, query, header value or body.
"""

from typing import ClassVar


class HttpError(Exception):
    """The exchange with `host` failed.

    `sent` says whether a byte of the request may have reached the peer: where it is false, asking again repeats nothing.
    """

    sent: ClassVar[bool] = True

    def __init__(self, message: str, *, host: str = "") -> None:
        super().__init__(f"{host}: {message}" if host else message)
        self.host = host


class InvalidRequest(HttpError):
    """The caller's method, URL, headers or body cannot be written as a request."""

    sent = False


class ClientClosed(HttpError):
    """The client was closed before this request began."""

    sent = False


class PoolFull(HttpError):
    """`Limits.connections` are in use and `Limits.waiters` wait already."""

    sent = False


class ConnectFailed(HttpError):
    """The name does not resolve, no address answers, or TLS cannot be agreed on."""

    sent = False


class CertificateRejected(ConnectFailed):
    """The peer's certificate is for another name, expired, or from nobody we trust."""


class ConnectionLost(HttpError):
    """The connection ended before any byte of the answer."""


class Garbled(HttpError):
    """The answer breaks RFC 9112 or our limits for heads; nothing of it may be trusted."""


class BodyCut(HttpError):
    """The body ended early: too few bytes, no last chunk, a TLS stream without its goodbye, or closed by its reader."""


class BodyTooLarge(HttpError):
    """The body passes the caller's `max_body` or `Limits.unfolded_bytes`."""


class UndecodableBody(HttpError):
    """The `Content-Encoding` has no decoder here, or its stream is broken."""


class HttpTimeout(HttpError):
    """`seconds` passed while waiting for `what`."""

    def __init__(self, host: str, what: str, seconds: float) -> None:
        super().__init__(f"waited {seconds:g} s for {what}", host=host)
        self.what = what
        self.seconds = seconds


class PoolTimeout(HttpTimeout):
    """All connections to the origin stayed in use."""

    sent = False


class ConnectTimeout(HttpTimeout):
    """Resolving, connecting and the TLS handshake took too long together."""

    sent = False


class FirstByteTimeout(HttpTimeout):
    """The request was sent and no byte of its answer came."""


class SilenceTimeout(HttpTimeout):
    """The peer fell silent: between two reads of its answer, or while it should have taken the request."""
