"""`/connect/PROVIDER`: where people without a terminal sign in to a provider behind an extension daemon.

The page is open, and the same for everybody and for every name: whatever it knows it asks the admin API, with the key that the person types
into it and that it keeps nowhere. Nothing of it comes from elsewhere, and it talks to nobody but this server.
"""

import base64
import re
from hashlib import sha256
from importlib.resources import files
from urllib.parse import quote

from trunkline.errors import NotFound
from trunkline.model.caller import Caller
from trunkline.server.asgi import Page

PATH = "/connect/"

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}(/[A-Za-z0-9_.-]{1,128})?")  # `ID`, or `DAEMON/ID` (daemon contract, A1)


def page() -> Page:
    """The page, below `PATH`."""
    return Page(b"text/html; charset=utf-8", _read, headers=HEADERS)


def link(root: str, provider: str) -> str:
    """Where a person signs in to a provider, on the server at a URL."""
    return f"{root.rstrip('/')}{PATH}{quote(provider)}"


def policy() -> str:
    """The `Content-Security-Policy` under which the page works: its own style and script, and this server."""
    return (
        f"default-src 'none'; style-src {_digest(STYLE)}; script-src {_digest(SCRIPT)}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _read(provider: str, _: Caller | None) -> tuple[int, bytes]:
    """The page for one provider. Raises: `NotFound`, where that can be the name of none."""
    if not _NAME.fullmatch(provider):
        raise NotFound(f"there is nothing at `{PATH}{provider[:100]}`", hint=f"A provider is connected at `{PATH}DAEMON/ID`.")
    return 200, PAGE.replace("{{ provider }}", provider).encode()  # no letter of a name means anything in HTML


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def _file(name: str) -> str:
    return files("trunkline.server.connect").joinpath(name).read_text(encoding="utf-8")


STYLE = _file("page.css")
SCRIPT = _file("page.js")
PAGE = _file("page.html").replace("{{ style }}", STYLE).replace("{{ script }}", SCRIPT)
HEADERS = (
    (b"content-security-policy", policy().encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
