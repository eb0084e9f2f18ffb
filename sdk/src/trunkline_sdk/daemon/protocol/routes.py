"""Where things are: base URL, paths, provider ids, and the sizes and times of each route (daemon contract, A1, A2, A6, A8)."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from trunkline_sdk.daemon.errors import AddressRefused

PREFIX = "/extension/v1/"
"""The version of the protocol is in it and nowhere else."""

MIB = 1024 * 1024
ERROR_BYTES = MIB
RECORD_BYTES = 4 * MIB
"""One record of a stream: comments before it, line ends and the blank line included."""

_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}", re.ASCII)
_HOST = re.compile(r"[a-z0-9._-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route. `path` stands behind `PREFIX`, and behind the provider's id except for `info`.

    `accept` is the header of that name, None for none. `credential`: the credential headers go along. `operation`: model, surface and
    timeout do too. `answer_bytes`: the most that a success may hold, None for a stream.
    """

    name: Literal["info", "models", "invoke", "stream", "refresh", "oauth/start", "oauth/poll", "oauth/exchange"]
    method: Literal["GET", "POST"] = "POST"
    accept: bytes | None = b"application/json"
    credential: bool = False
    operation: bool = False
    answer_bytes: int | None = MIB

    def path(self, provider: str = "") -> str:
        """The path that a daemon sees."""
        return PREFIX + (f"{provider}/{self.name}" if provider else self.name)

    def url(self, base: str, provider: str = "") -> str:
        """`base` is what `base_url` gave."""
        return base + self.path(provider)


INFO = Route(name="info", method="GET")
MODELS = Route(name="models", method="GET", credential=True, answer_bytes=16 * MIB)
INVOKE = Route(name="invoke", accept=None, credential=True, operation=True, answer_bytes=64 * MIB)
STREAM = Route(name="stream", accept=b"text/event-stream", credential=True, operation=True, answer_bytes=None)
REFRESH = Route(name="refresh")
OAUTH_START = Route(name="oauth/start")
OAUTH_POLL = Route(name="oauth/poll")
OAUTH_EXCHANGE = Route(name="oauth/exchange")

ROUTES = (INFO, MODELS, INVOKE, STREAM, REFRESH, OAUTH_START, OAUTH_POLL, OAUTH_EXCHANGE)
_OF_PROVIDER: dict[str, Route] = {route.name: route for route in ROUTES[1:]}


def match(path: str) -> tuple[Route, str] | None:
    """The route and the provider's id (empty for `info`) that a path means; each path has one method, `Route.method`."""
    if not path.startswith(PREFIX):
        return None
    rest = path[len(PREFIX) :]
    if rest == INFO.name:
        return INFO, ""
    provider, _, name = rest.partition("/")
    route = _OF_PROVIDER.get(name)
    return (route, provider) if route is not None and is_provider_id(provider) else None


def is_provider_id(text: str) -> bool:
    """One segment of a path: 1 to 128 letters, digits, `_`, `.`, `-`, and none of `.`, `..`, `info`."""
    return _ID.fullmatch(text) is not None and text not in {".", "..", "info"}


def base_url(text: str) -> str:
    """The base without white space around it and slashes behind it; a path is kept.

    Raises:
        AddressRefused: It says the rule, and nothing of the URL.
    """
    text = text.strip()
    if not (text.isascii() and text.isprintable()) or " " in text or "\\" in text:
        raise AddressRefused("the daemon's base URL holds a space, a control character or a letter beyond ASCII")
    if "?" in text or "#" in text:
        raise AddressRefused("the daemon's base URL must have no query and no fragment")
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        _ = parts.port
        valid = ipaddress.IPv6Address(host).scope_id is None if "[" in parts.netloc else _HOST.fullmatch(host) is not None
    except ValueError:  # its text would repeat the URL
        parts, valid = None, False
    if parts is None or parts.scheme not in {"http", "https"}:
        raise AddressRefused("the daemon's base URL must begin with http:// or https:// and have a readable host and port")
    if "@" in parts.netloc:
        raise AddressRefused("the daemon's base URL must have no user name and no password")
    if not valid:
        raise AddressRefused("the daemon's base URL must have a host")
    return text.rstrip("/")
