"""Where a request goes, read from its URL once."""

import functools
import ipaddress
import string
from dataclasses import dataclass
from urllib.parse import urlsplit

from trunkline_sdk.http1.errors import InvalidRequest

_PORTS = {"http": 80, "https": 443}
_NAME = frozenset(string.ascii_lowercase + string.digits + "-._")


@dataclass(frozen=True, slots=True)
class Target:
    """`host` is lower case and without brackets; `authority` is the Host field (RFC 9110, 7.2); `path` holds the query too."""

    scheme: str
    host: str
    port: int
    authority: bytes
    path: bytes


@functools.lru_cache(maxsize=1024)
def split(url: str) -> Target:
    """An absolute `http` or `https` URL, percent-encoded by its author; the fragment is dropped.

    Raises:
        InvalidRequest: The text never holds the URL, since its query may be secret.
    """
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise InvalidRequest("the URL holds a space, a control character or a letter beyond ASCII; percent-encode it")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text would repeat the URL
        parts, port = None, None
    if parts is None:
        raise InvalidRequest("the URL has no readable host and port")
    if parts.scheme not in _PORTS:
        raise InvalidRequest("the URL must begin with http:// or https://")
    if "@" in parts.netloc:
        raise InvalidRequest("the URL holds a user name; credentials belong in a header")
    host = parts.hostname or ""
    bracketed = "[" in parts.netloc
    if not (_is_ipv6(host) if bracketed else _is_name(host)):
        raise InvalidRequest("the URL's host must be a name (`xn--` form beyond ASCII) or an address")
    default = _PORTS[parts.scheme]
    shown = f"[{host}]" if bracketed else host
    authority = shown if port in {None, default} else f"{shown}:{port}"
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return Target(parts.scheme, host, default if port is None else port, authority.encode(), path.encode())


def _is_name(host: str) -> bool:
    """Also where it is a number: no resolver takes an empty label, or one of more than 63 letters (RFC 1035, 2.3.4)."""
    return _NAME.issuperset(host) and all(0 < len(label) < 64 for label in host.removesuffix(".").split("."))


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.IPv6Address(host).scope_id is None
    except ValueError:
        return False
