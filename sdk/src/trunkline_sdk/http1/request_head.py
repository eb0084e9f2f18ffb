"""The head of a request: its line, its fields, and the framing of the body that follows (RFC 9112, 3 and 6)."""

import functools
import string
from collections.abc import Iterable
from typing import NoReturn

from trunkline_sdk.http1.errors import InvalidRequest
from trunkline_sdk.http1.urls import Target

_TOKEN = (string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~").encode()
_OURS = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection", b"upgrade"})
_COMMON_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


def render(method: str, target: Target, headers: Iterable[tuple[bytes, bytes]], length: int | None) -> bytes:
    r"""The head's bytes, its last empty line included; `length` is the body's in bytes, None for chunked.

    `Accept-Encoding: identity` is added unless the caller names encodings. What frames the message or steers the connection is
    this client's own: a caller's `Host`, `Content-Length`, `Transfer-Encoding`, `Connection` or `Upgrade` is refused.

    Raises:
        InvalidRequest: A name that is no token, or a CR, LF or NUL in a value; the text names the header.
    """
    if method not in _COMMON_METHODS:
        _check_method(method)
    lines = [b"%b %b HTTP/1.1\r\nHost: %b\r\n" % (method.encode(), target.path, target.authority)]
    as_is = True
    for name, value in headers:
        low = _judged(name)
        if low in _OURS or not low:
            _refuse(name.lower(), target.host)
        if low == b"accept-encoding":
            as_is = False
        lines.append(b"%b: %b\r\n" % (name, value))
    if as_is:
        lines.append(b"Accept-Encoding: identity\r\n")
    if length is None:
        lines.append(b"Transfer-Encoding: chunked\r\n")
    elif length or method in _WITH_BODY:
        lines.append(b"Content-Length: %d\r\n" % length)
    lines.append(b"\r\n")
    head = b"".join(lines)
    # one pass over the whole instead of one per value: each line and none but these ends in CRLF
    expected = len(lines) + 1
    if head.count(b"\n") != expected or head.count(b"\r") != expected or b"\0" in head:
        _refuse_value(lines, target.host)
    return head


@functools.lru_cache(maxsize=1024)
def _judged(name: bytes) -> bytes:
    """The name in lower case; nothing where it is no token. Names are few, and the same again and again."""
    low = name.lower()
    return b"" if low.translate(None, _TOKEN) else low


def _check_method(method: str) -> None:
    if not method or not method.isascii() or method.encode().translate(None, _TOKEN):
        raise InvalidRequest("the method is no token")
    if method == "CONNECT":
        raise InvalidRequest("CONNECT makes a tunnel; this client makes requests")


def _refuse(name: bytes, host: str) -> NoReturn:
    if name in _OURS:
        raise InvalidRequest(f"the header `{name.decode()}` is written by the client itself", host=host)
    raise InvalidRequest("a header's name is no token", host=host)


def _refuse_value(lines: list[bytes], host: str) -> NoReturn:
    bad = next(line for line in lines[1:] if b"\0" in line or b"\r" in line[:-2] or b"\n" in line[:-2])
    name = bad.partition(b":")[0].decode()
    raise InvalidRequest(f"the header `{name}` holds a CR, LF or NUL", host=host)
