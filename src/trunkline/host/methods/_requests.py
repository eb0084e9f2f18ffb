"""A worker's request of HTTP: what it may say, and where a redirect takes it. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import quote, urljoin

from trunkline.host.grants import network
from trunkline_sdk.api import Fetch, Headers
from trunkline_sdk.http1 import InvalidRequest
from trunkline_sdk.http1.urls import Target, split
from trunkline_sdk.rpc.errors import RpcError

MOST_URL, MOST_HEADER_NAME = 8192, 256
"""Letters: the client remembers those that it has read last."""
MOST_HEADER_BYTES = 32 * 1024

OURS = frozenset({"host", "content-length", "transfer-encoding", "accept-encoding", "expect"})
"""What the host writes itself, or leaves away: whom it asks, how the body is framed, and which encodings it undoes."""

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""What belongs to a connection, not to a request (RFC 9110, section 7.6.1)."""

HARMLESS = frozenset(
    {
        "accept",
        "accept-language",
        "cache-control",
        "content-language",
        "content-type",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-unmodified-since",
        "range",
        "user-agent",
    }
)
"""What goes along when a redirect leads to another origin: no header that may hold a credential, by whatever name."""

_METHOD = re.compile(r"[A-Z][A-Z-]*")
_REFUSED_METHODS = frozenset({"CONNECT", "TRACE", "TRACK"})  # a tunnel, and what hands headers back (Fetch, "forbidden method")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_URL_LETTERS = "!#$%&'()*+,/:;=?@[]~"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it goes out; a `body` of `None` comes from a stream, and can be sent once."""

    method: str
    url: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes | None


def where(url: str) -> Target:
    """Whom a URL asks. Raises: `RpcError`, which never repeats it: its query may be secret."""
    try:
        return _split(url)
    except InvalidRequest as error:
        raise RpcError("invalid_params", str(error)) from None


def permission(fetch: Fetch) -> str:
    """What a request takes to begin with. Raises: `RpcError`."""
    target = where(fetch.url)
    return network(target.host, target.port)


def first(fetch: Fetch, agent: str) -> Request:
    """The request that a worker asks for.

    Raises:
        RpcError: a method or a header that it may not say, or both a body and an upload.
    """
    if _METHOD.fullmatch(fetch.method) is None or fetch.method in _REFUSED_METHODS:
        raise RpcError("invalid_params", "the method is no token in capitals, or one that the host does not send")
    if fetch.body and fetch.upload is not None:
        raise RpcError("invalid_params", "there is a body and an upload")
    headers = [(name.lower(), value) for name, value in fetch.headers]
    for name, _ in headers:
        if len(name) > MOST_HEADER_NAME:
            raise RpcError("invalid_params", f"a header's name has more than {MOST_HEADER_NAME} letters")
        if name in OURS or name in HOP_BY_HOP:
            raise RpcError("invalid_params", f"the header `{name}` is the host's own")
    if sum(len(name) + len(value) for name, value in headers) > MOST_HEADER_BYTES:
        raise RpcError("payload_too_large", f"more than {MOST_HEADER_BYTES} bytes of headers")
    if not any(name == "user-agent" for name, _ in headers):
        headers.append(("user-agent", agent))
    try:
        pairs = tuple((name.encode("ascii"), value.encode("latin-1")) for name, value in headers)
    except UnicodeEncodeError:
        raise RpcError("invalid_params", "a header holds letters beyond Latin-1, or its name some beyond ASCII") from None
    return Request(fetch.method, fetch.url, pairs, None if fetch.upload is not None else fetch.body or b"")


def after(request: Request, status: int, headers: Iterable[tuple[bytes, bytes]]) -> Request | None:
    """The request that follows an answer, where it is a redirect that names a place (RFC 9110, section 15.4).

    Raises:
        RpcError: it leads where no request can go, or would repeat a body that is gone.
    """
    location = next((value for name, value in headers if name.lower() == b"location"), None)
    if status not in _REDIRECTS or not location:
        return None
    try:
        url = urljoin(request.url, quote(location, safe=_URL_LETTERS)).partition("#")[0]
        before, target = _split(request.url), _split(url)
    except (InvalidRequest, ValueError):
        raise _broken("invalid_redirect", "a redirect leads to what is no URL of http or https") from None
    if before.scheme == "https" and target.scheme == "http":
        raise _broken("insecure_redirect", "a redirect leads from https to http")
    kept = request.headers
    if (before.scheme, before.host, before.port) != (target.scheme, target.host, target.port):
        kept = tuple((name, value) for name, value in kept if name.decode() in HARMLESS)
    if (status == 303 and request.method not in {"GET", "HEAD"}) or (status in {301, 302} and request.method == "POST"):
        bare = tuple((name, value) for name, value in kept if not name.startswith(b"content-"))
        return Request("GET", url, bare, b"")
    if request.body is None:
        raise _broken("unrepeatable_redirect", "a redirect asks for the body once more, and it came as a stream")
    return replace(request, url=url, headers=kept)


def told(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers of an answer, for the worker."""
    pairs = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)
    return tuple((name, value) for name, value in pairs if name not in HOP_BY_HOP)


def _split(url: str) -> Target:
    if len(url) > MOST_URL:
        raise InvalidRequest(f"the URL has more than {MOST_URL} letters")
    return split(url)


def _broken(reason: str, message: str) -> RpcError:
    return RpcError("failed", message, details={"reason": reason})
