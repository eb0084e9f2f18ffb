"""Where a Valkey or Redis server is, read from its URL."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from trunkline.base.secret import Secret
from trunkline.errors import ConfigInvalid

PORT = 6379
PREFIX = "trunkline"
SCHEMES: dict[str, Literal["tcp", "tls", "unix"]] = {
    "redis": "tcp",
    "valkey": "tcp",
    "rediss": "tls",
    "valkeys": "tls",
    "unix": "unix",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server is, and as whom to go there.

    Attributes:
        kind: how it is reached.
        host: its name or address; the path of its socket, where that is the way.
        port: its port.
        db: the number of the database.
        username: as whom; `None` for the default user.
        password: with which password.
        prefix: what all keys and channels begin with, so that two installations may share a server.
        authority: the path of a PEM file with the authority that signed its certificate; `None` for the system's.
    """

    kind: Literal["tcp", "tls", "unix"]
    host: str
    port: int = PORT
    db: int = 0
    username: str | None = None
    password: Secret | None = None
    prefix: str = PREFIX
    authority: str | None = None

    @property
    def place(self) -> str:
        """Where it is, in words that hold no secret."""
        return self.host if self.kind == "unix" else f"{self.host}:{self.port}"


def address(url: Secret) -> Address:
    """Read a URL, such as `redis://host:6379/0?prefix=acme`.

    Raises:
        ConfigInvalid: it is not one of a server that this version works with; what may hold a password is not repeated.
    """
    try:
        parts = urlsplit(url.reveal())
        port = parts.port
    except ValueError:
        raise _invalid("cannot be read") from None
    kind = SCHEMES.get(parts.scheme)
    host = parts.path if kind == "unix" else parts.hostname
    if kind is None or not host:
        raise _invalid("names no server")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    prefix, authority = query.pop("prefix", PREFIX), query.pop("ca", None)
    if query:
        raise _invalid("has something after the `?` that is not known", "There may be `prefix` and, with `rediss`, `ca`.")
    if not prefix or not prefix.isascii() or not all(letter.isalnum() or letter in "-_.:" for letter in prefix):
        raise _invalid(f"has the prefix `{prefix}`", "It is of letters, digits, `-`, `_`, `.` and `:`.")
    if authority is not None and (kind != "tls" or not Path(authority).is_file()):
        raise _invalid(f"has the authority `{authority}`", "`ca` is the path of a PEM file, and goes with `rediss`.")
    return Address(
        kind=kind,
        host=host,
        port=port or PORT,
        db=0 if kind == "unix" else _database(parts),
        username=unquote(parts.username) if parts.username else None,
        password=Secret(unquote(parts.password)) if parts.password else None,
        prefix=prefix,
        authority=authority,
    )


def _database(parts: SplitResult) -> int:
    text = parts.path.strip("/")
    if text and not (text.isascii() and text.isdigit()):
        raise _invalid("names a database that is no number", "A database of Valkey and Redis is one: `redis://host:6379/0`.")
    return int(text or 0)


def _invalid(what: str, hint: str = "Write `redis://host:6379/0`, with `rediss` for TLS.") -> ConfigInvalid:
    return ConfigInvalid(f"`store.shared`: the URL {what}", hint=hint)
