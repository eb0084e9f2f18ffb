"""Keys: made, listed and revoked. The key itself is seen once, by whoever makes it; what is kept is its SHA-256.

A key is 190 random bits, so a fast hash is enough: there is nothing to guess.
"""

import re
import secrets
import string
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import ColumnElement, Connection, Engine, insert, or_, select, update

from trunkline.access.scopes import from_text, to_text
from trunkline.base.clock import Clock
from trunkline.base.codec import nearest
from trunkline.base.ids import new_id
from trunkline.base.secret import Secret
from trunkline.errors import BadRequest, Conflict, NotFound
from trunkline.model.caller import Scope
from trunkline.store.engine import reading, writing
from trunkline.store.tables.keys import TABLE

KEY = re.compile(r"swb_[A-Za-z0-9]{32}")
KEY_LENGTH = 36
SHOWN = 8
"""So many characters of a key are kept in clear, for people to know it by."""

ADMIN_NAME = "admin"
"""The name of the keys that the server makes itself; nobody else's."""

LONGEST_NAME = 100
LATEST = 253_402_300_799.0  # the last second of the year 9999, which is where calendars end

_CHARACTERS = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """What is known of a key. Times are seconds since the Unix epoch.

    Attributes:
        id: `key_` and letters.
        name: for people; several keys may share one.
        prefix: the key's first eight characters.
        scopes: as given; what `admin` includes is not spelled out.
        last_used_at: to the minute.
    """

    id: str
    name: str
    prefix: str
    scopes: frozenset[Scope]
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    last_used_at: float | None


def new_key() -> Secret:
    """A new key: `swb_` and 32 letters and digits."""
    return Secret("swb_" + "".join(secrets.choice(_CHARACTERS) for _ in range(KEY_LENGTH - 4)))


def digest(key: str) -> bytes:
    """SHA-256 of a key as presented, whatever it holds."""
    return sha256(key.encode("utf-8", "replace")).digest()


class Keys:
    """The keys of an installation. Blocking; raises `StoreUnavailable` where the database does not answer."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def create(self, name: str, scopes: Collection[Scope], expires_at: float | None = None) -> tuple[KeyRow, Secret]:
        """A new key, and all that is known of it.

        Raises:
            BadRequest: a name that is empty, too long or looks like a key or an id; no scope; a time that has passed, or that no calendar has.
            Conflict: the name is the server's own.
        """
        _check_name(name)
        if not scopes:
            raise BadRequest("a key without a scope could do nothing", hint="Give at least one of inference, metrics, admin.")
        if expires_at is not None and not expires_at > self._clock.now():
            raise BadRequest(f"`expires_at` is {expires_at}, which has passed", hint="Give seconds since the Unix epoch, in the future.")
        if expires_at is not None and expires_at > LATEST:
            raise BadRequest("`expires_at` is later than the year 9999", hint="Leave it out for a key that is valid for ever.")
        with writing(self._engine) as connection:
            return self._insert(connection, name, scopes, expires_at)

    def list(self) -> Sequence[KeyRow]:
        """All keys, revoked and expired ones included, the oldest first."""
        with reading(self._engine) as connection:
            return _select(connection)

    def revoke(self, wanted: str) -> KeyRow:
        """Revoke one key, named by its id, its name, its first eight characters, or itself.

        Raises:
            NotFound: there is none; the hint has the nearest.
            Conflict: several live keys answer to it, or the only ones that do are revoked already.
        """
        named = or_(TABLE.c.id == wanted, TABLE.c.name == wanted, TABLE.c.prefix == wanted, TABLE.c.hash == digest(wanted).hex())
        shown = re.sub(r"(swb_\w{4})\w+", r"\1…", wanted)  # somebody may have passed a whole key
        with writing(self._engine) as connection:
            rows = _select(connection, named)
            match [row for row in rows if row.revoked_at is None]:
                case [row]:
                    return self._revoke(connection, row)
                case [] if rows:
                    raise Conflict(f"the key `{shown}` is revoked already", hint="There is nothing left to do.")
                case []:
                    raise _not_found(shown, _select(connection, TABLE.c.revoked_at.is_(None)))
                case several:
                    ids = ", ".join(f"`{row.id}`" for row in several)
                    raise Conflict(f"{len(several)} live keys answer to `{shown}`", hint=f"Name one by its id: {ids}.")

    def first_admin(self) -> tuple[KeyRow, Secret] | None:
        """An admin key, where no live key has the scope `admin`. Of several processes that ask at once, one gets it."""
        with writing(self._engine) as connection:
            now = self._clock.now()
            live = _select(connection, TABLE.c.revoked_at.is_(None), or_(TABLE.c.expires_at.is_(None), TABLE.c.expires_at > now))
            if any("admin" in row.scopes for row in live):
                return None
            return self._insert(connection, ADMIN_NAME, {"admin"}, None)

    def reset_admin(self) -> tuple[KeyRow, Secret]:
        """A new admin key in place of all that the server made before; admin keys that people made stay."""
        with writing(self._engine) as connection:
            for row in _select(connection, TABLE.c.name == ADMIN_NAME, TABLE.c.revoked_at.is_(None)):
                self._revoke(connection, row)
            return self._insert(connection, ADMIN_NAME, {"admin"}, None)

    def _insert(self, connection: Connection, name: str, scopes: Collection[Scope], expires_at: float | None) -> tuple[KeyRow, Secret]:
        secret = new_key()
        row = KeyRow(
            id=new_id("key", self._clock),
            name=name,
            prefix=secret.reveal()[:SHOWN],
            scopes=frozenset(scopes),
            created_at=self._clock.now(),
            expires_at=expires_at,
            revoked_at=None,
            last_used_at=None,
        )
        connection.execute(
            insert(TABLE).values(
                id=row.id,
                name=row.name,
                prefix=row.prefix,
                hash=digest(secret.reveal()).hex(),
                scopes=to_text(row.scopes),
                created_at=row.created_at,
                expires_at=row.expires_at,
            )
        )
        return row, secret

    def _revoke(self, connection: Connection, row: KeyRow) -> KeyRow:
        connection.execute(update(TABLE).where(TABLE.c.id == row.id).values(revoked_at=self._clock.now()))
        return _select(connection, TABLE.c.id == row.id)[0]


def _select(connection: Connection, *where: ColumnElement[bool]) -> list[KeyRow]:
    rows = connection.execute(select(TABLE).where(*where).order_by(TABLE.c.id)).all()
    return [
        KeyRow(
            id=row.id,
            name=row.name,
            prefix=row.prefix,
            scopes=from_text(row.scopes),
            created_at=row.created_at,
            expires_at=row.expires_at,
            revoked_at=row.revoked_at,
            last_used_at=row.last_used_at,
        )
        for row in rows
    ]


def _check_name(name: str) -> None:
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise BadRequest(f"a key's name is a line of 1 to {LONGEST_NAME} characters", hint="Name it for who will hold it.")
    if name.startswith(("swb_", "key_")):
        raise BadRequest("a key's name does not begin with `swb_` or `key_`", hint="It would be taken for a key or an id.")
    if name == ADMIN_NAME:
        raise Conflict(
            f"`{ADMIN_NAME}` is the name of the key that the server makes itself",
            hint="Take another name, or replace that key with `trunkline keys reset-admin`.",
        )


def _not_found(shown: str, live: Sequence[KeyRow]) -> NotFound:
    close = nearest(shown, [label for row in live for label in (row.name, row.id, row.prefix)])
    return NotFound(
        f"there is no key `{shown}`",
        hint=f"Did you mean `{close}`? `trunkline keys list` shows them all." if close else "`trunkline keys list` shows them all.",
    )
