"""A running server as the command line asks it: where it is, with which key, and what it answers."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from cyclopts import Parameter

from trunkline.app.folder import Place, place_of
from trunkline.base.codec import Wire, decode, encode
from trunkline.base.secret import Secret
from trunkline.cli.places import data_folder
from trunkline.errors import BadRequest, EgressDenied, NotFound, TrunklineError, Unauthenticated, UpstreamDown
from trunkline.net.pins import PinnedDial, pins_alone
from trunkline_sdk import http1

URL, KEY, INSECURE = "TRUNKLINE_URL", "TRUNKLINE_KEY", "TRUNKLINE_INSECURE_HTTP"

Server = Annotated[
    str | None,
    Parameter(name="--server", env_var=URL, help="Where the server is; by default the one that runs on the data folder."),
]
KeyFile = Annotated[
    Path | None,
    Parameter(name="--key-file", help=f"A file with the key; by default the data folder's `admin.key` for its own server, else `{KEY}`."),
]


class Told(Wire, frozen=True):
    """An error as the server tells it."""

    code: str
    message: str
    hint: str = ""


class Envelope(Wire, frozen=True):
    """The shape of every error."""

    error: Told


@dataclass(frozen=True, slots=True)
class Answer:
    """A good answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, read; None where there is none."""
        return decode(self.body, object) if self.body else None


def ask(
    method: str,
    path: str,
    *,
    server: str | None,
    key_file: Path | None,
    data: Path | None,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Ask a server one thing.

    Args:
        method: of HTTP.
        path: with its query.
        server: where it is, if that was said.
        key_file: where the key is, if that was said.
        data: the data folder, if that was said.
        body: JSON.
        headers: further ones.

    Raises:
        NotFound: no server runs there.
        Unauthenticated: there is no key to send.
        TrunklineError: what the server answered.
    """
    return asyncio.run(asking(method, path, server=server, key_file=key_file, data=data, body=body, headers=headers))


async def asking(
    method: str,
    path: str,
    *,
    server: str | None,
    key_file: Path | None,
    data: Path | None,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """The same for who waits for something else meanwhile. Raises: as `ask`."""
    place, key = _place(server, data), _key(key_file, data, local=server is None)
    named = {"authorization": f"Bearer {key.reveal()}", **(headers or {})}
    if body:
        named.setdefault("content-type", "application/json")
    raw = [(name.encode(), value.encode("latin-1", "replace")) for name, value in named.items()]
    try:
        answer = await _ask(method, place, path, raw, body)
    except (http1.HttpError, EgressDenied) as error:
        raise UpstreamDown(f"no Trunkline answers at `{place.url}`: {error}", hint="Is it running, and is this its address?") from None
    if answer.status >= 400:
        raise _refused(answer)
    return answer


def send(value: object) -> bytes:
    """A body."""
    return encode(value)


async def _ask(method: str, place: Place, path: str, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer:
    # The data folder says which certificate its own server shows: that is made out to the name that others know, and not to its address.
    dial, tls = (PinnedDial(http1.dial, [place.pin]), pins_alone()) if place.pin else (http1.dial, None)
    async with http1.Client(dial=dial, tls=tls, timeouts=http1.Timeouts(connect=10, first_byte=60, silence=60)) as client:
        response = await client.request(method, place.url + path, headers, body, max_body=64 << 20)
        found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        return Answer(response.status, found, await response.read())


def _place(server: str | None, data: Path | None) -> Place:
    if server is None:
        folder = data_folder(data)
        place = place_of(folder)
        if place is None:
            raise NotFound(
                f"no Trunkline runs on the data folder `{folder}`",
                hint=f"`trunkline serve` starts one; `--server` or `{URL}` names another.",
            )
        return place
    parts = urlsplit(server)
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise BadRequest("`--server` is not the address of a server", hint="Write `https://gateway.example`.")
    if parts.scheme == "http" and not _is_loopback(parts.hostname) and os.environ.get(INSECURE) != "1":
        raise BadRequest(
            f"`{parts.hostname}` is not this machine, and `http` would send the key for all to read",
            hint=f"Use `https`, or set `{INSECURE}=1`.",
        )
    return Place(server.rstrip("/"))


def _key(file: Path | None, data: Path | None, *, local: bool) -> Secret:
    """The key. The data folder's server is asked with the data folder's own, which goes to no other."""
    own = data_folder(data) / "admin.key" if local else None
    path = file or (own if own is not None and own.exists() else None)
    if path is None:
        if value := os.environ.get(KEY, "").strip():
            return Secret(value)
        raise Unauthenticated(
            "there is no key to send", hint=f"Name a file with `--key-file`, or set `{KEY}`; `trunkline keys reset-admin` makes a key."
        )
    try:
        found = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "it is not text"
        raise Unauthenticated(
            f"the key cannot be read from `{path}`: {reason}", hint=f"Name another file with `--key-file`, or set `{KEY}`."
        ) from None
    if not found or not found.isprintable():
        raise Unauthenticated(f"`{path}` holds no key", hint="A key is one line: `swb_` and 32 letters and digits.")
    return Secret(found)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refused(answer: Answer) -> TrunklineError:
    """The server's error, as one of ours."""
    try:
        told = decode(answer.body, Envelope).error
    except BadRequest:
        return UpstreamDown(f"the server answered with status {answer.status}, and not as Trunkline does", hint="Is this its address?")
    kinds = {kind.code: kind for kind in _concrete(TrunklineError)}
    return kinds.get(told.code, UpstreamDown)(told.message, hint=told.hint)


def _concrete(root: type[TrunklineError]) -> list[type[TrunklineError]]:
    return [kind for sub in root.__subclasses__() for kind in ([sub] if "code" in vars(sub) else []) + _concrete(sub)]
