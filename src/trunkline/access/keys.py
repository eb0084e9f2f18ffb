"""Keys: made, listed, changed, rotated and revoked. The key itself is seen once, by whoever makes it; what is kept is its SHA-256.

A key is 190 random bits, so a fast hash is enough: there is nothing to guess.
"""

import re
import secrets
import string
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from sqlalchemy import Connection, Engine, or_, select

from trunkline.access import accounts, rows, users
from trunkline.access.authority import check_gift, check_operator, check_role
from trunkline.access.key_rows import IN_FORCE, KeyRow, checked_models, draft_of, find, kept, not_found, of_account, select_rows
from trunkline.access.rows import LATEST
from trunkline.access.scopes import most, role_of
from trunkline.base.clock import Clock
from trunkline.base.codec import UNSET, UnsetType
from trunkline.base.ids import new_id
from trunkline.base.secret import Secret
from trunkline.errors import BadRequest, Conflict
from trunkline.model.caller import DEFAULT_ACCOUNT, Caller, EndUsers, Role, Scope
from trunkline.store.engine import reading, writing
from trunkline.store.tables.keys import TABLE

KEY = re.compile(r"swb_[A-Za-z0-9]{32}")
KEY_LENGTH = 36
SHOWN = 8
"""So many characters of a key are kept in clear, for people to know it by."""

ADMIN_NAME = "admin"
"""The name of the keys that the server makes itself; nobody else's."""

GRACE_SECONDS = 86_400.0
"""How long a key that was replaced goes on working, unless somebody says otherwise."""

_CHARACTERS = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """A key in place of another.

    Attributes:
        key: the new one.
        secret: itself, shown this once.
        before: the old one.
        until: when the old one ends, seconds since the Unix epoch.
    """

    key: KeyRow
    secret: Secret
    before: KeyRow
    until: float


def new_key() -> Secret:
    """A new key: `swb_` and 32 letters and digits."""
    return Secret("swb_" + "".join(secrets.choice(_CHARACTERS) for _ in range(KEY_LENGTH - 4)))


def digest(key: str) -> bytes:
    """SHA-256 of a key as presented, whatever it holds."""
    return sha256(key.encode("utf-8", "replace")).digest()


class Keys:
    """The keys of an installation. Blocking; raises `StoreUnavailable` where the database does not answer.

    Args:
        engine: the database.
        clock: the time.
        changed: called after each change.

    In all methods `by` is who asks; without it, whoever sits at the command line of the installation.
    """

    def __init__(self, engine: Engine, clock: Clock, *, changed: Callable[[], None] = lambda: None) -> None:
        self._engine = engine
        self._clock = clock
        self._changed = changed

    def create(
        self,
        name: str,
        scopes: Collection[Scope],
        expires_at: float | None = None,
        *,
        account: str = DEFAULT_ACCOUNT,
        user: str | None = None,
        models: Sequence[str] | None = None,
        end_users: EndUsers = "key",
        by: Caller | None = None,
    ) -> tuple[KeyRow, Secret]:
        """A new key, and all that is known of it.

        Raises:
            NotFound: there is no such account, or no such user in it.
            BadRequest: a name that is empty, too long or looks like a key or an id; no scope, or one that the key's role may not hold; a
                time that has passed, or that no calendar has; a model that is no name.
            Conflict: the name is the server's own.
            Denied: whoever asks does not look after the account, stands below the user, or has less than the key would.
        """
        _check_name(name)
        draft = draft_of(
            name=name,
            scopes=frozenset(scopes),
            account=account,
            user=user,
            models=checked_models(models),
            end_users=end_users,
            expires_at=expires_at,
        )
        self._check_time(expires_at)
        with writing(self._engine) as connection:
            accounts.find(connection, account, by)
            check_role(by, "admin")
            self._check(connection, draft, by)
            row, secret = self._insert(connection, draft)
        self._changed()
        return row, secret

    def get(self, key_id: str, *, by: Caller | None = None) -> KeyRow:
        """One key by its id. Raises: `NotFound`."""
        with reading(self._engine) as connection:
            return find(connection, key_id, by)

    def list(
        self, *, account: str | None = None, after: str | None = None, limit: int | None = None, by: Caller | None = None
    ) -> Sequence[KeyRow]:
        """Keys, revoked and expired ones included, the oldest first. Raises: `NotFound`, if there is no such account."""
        with reading(self._engine) as connection:
            return select_rows(connection, *of_account(connection, account, by), after=after, limit=limit)

    def named(self, wanted: str) -> KeyRow:
        """One live key by its id, its name, its first eight characters, or itself, as people name them.

        Raises:
            NotFound: there is none; the hint has the nearest.
            Conflict: several live keys answer to it, or the only ones that do are revoked already.
        """
        labels = or_(TABLE.c.id == wanted, TABLE.c.name == wanted, TABLE.c.prefix == wanted, TABLE.c.hash == digest(wanted).hex())
        shown = re.sub(r"(swb_\w{4})\w+", r"\1…", wanted)  # somebody may have passed a whole key
        with reading(self._engine) as connection:
            found = select_rows(connection, labels)
            match [row for row in found if row.revoked_at is None]:
                case [row]:
                    return row
                case [] if found:
                    raise _is_revoked(shown)
                case []:
                    raise not_found(shown, select_rows(connection, TABLE.c.revoked_at.is_(None)))
                case several:
                    ids = ", ".join(f"`{row.id}`" for row in several)
                    raise Conflict(f"{len(several)} live keys answer to `{shown}`", hint=f"Name one by its id: {ids}.")

    def change(
        self,
        key_id: str,
        *,
        revision: int | None = None,
        name: str | UnsetType = UNSET,
        scopes: Collection[Scope] | UnsetType = UNSET,
        models: Sequence[str] | UnsetType | None = UNSET,
        end_users: EndUsers | UnsetType = UNSET,
        expires_at: float | UnsetType | None = UNSET,
        by: Caller | None = None,
    ) -> KeyRow:
        """Change what a key may do, or until when.

        Raises:
            NotFound: there is none.
            BadRequest: a value is none.
            PreconditionFailed: the revision is not the current one.
            Conflict: the key is revoked, or the name is the server's own.
            Denied: whoever asks has less than the key has, or would have.
        """
        if name is not UNSET:
            _check_name(name)
        if expires_at is not UNSET:
            self._check_time(expires_at)
        with writing(self._engine) as connection:
            row = self._touched(connection, key_id, revision, by)
            self._check(connection, row, by)
            after = replace(
                row,
                scopes=row.scopes if scopes is UNSET else frozenset(scopes),
                models=row.models if models is UNSET else checked_models(models),
                end_users=row.end_users if end_users is UNSET else end_users,
                expires_at=row.expires_at if expires_at is UNSET else expires_at,
            )
            self._check(connection, after, by)
            rows.change(connection, TABLE, self._clock, TABLE.c.id == row.id, {"name": name, **kept(after)})
            row = find(connection, row.id, by)
        self._changed()
        return row

    def rotate(
        self,
        key_id: str,
        *,
        grace: float = GRACE_SECONDS,
        expires_at: float | UnsetType | None = UNSET,
        revision: int | None = None,
        by: Caller | None = None,
    ) -> Rotation:
        """A new key that may do the same, in place of one that goes on working for a grace time.

        Args:
            key_id: the old one's.
            grace: seconds; 0 ends the old one now. One that expires earlier does so.
            expires_at: when the new one expires; by default when the old one would have.
            revision: the old one's, as whoever asks has seen it.
            by: who asks.

        Raises:
            NotFound: there is none.
            BadRequest: the grace time, or the time of expiry, is none.
            PreconditionFailed: the revision is not the current one.
            Conflict: the key is revoked, has expired, or was replaced already.
            Denied: whoever asks has less than the key.
        """
        if not 0 <= grace <= LATEST:
            raise BadRequest(f"`grace` is {grace}", hint="Give seconds for which the old key goes on working; 0 ends it now.")
        if expires_at is not UNSET:
            self._check_time(expires_at)
        with writing(self._engine) as connection:
            row = self._touched(connection, key_id, revision, by)
            now = self._clock.now()
            if row.replaced_by is not None:
                raise Conflict(f"the key `{row.name}` was replaced already", hint=f"Rotate `{row.replaced_by}`, which took its place.")
            if row.expires_at is not None and row.expires_at <= now:
                raise Conflict(f"the key `{row.name}` has expired", hint="Make a new one.")
            draft = row if expires_at is UNSET else replace(row, expires_at=expires_at)
            self._check(connection, draft, by)
            key, secret = self._insert(connection, draft)
            until = min(now + grace, LATEST if row.expires_at is None else row.expires_at)
            ended = {"expires_at": until} if until > now else {"revoked_at": now}
            rows.change(connection, TABLE, self._clock, TABLE.c.id == row.id, {"replaced_by": key.id, **ended})
            before = find(connection, row.id, by)
        self._changed()
        return Rotation(key=key, secret=secret, before=before, until=until)

    def revoke(self, key_id: str, *, revision: int | None = None, by: Caller | None = None) -> KeyRow:
        """Revoke one key by its id.

        Raises:
            NotFound: there is none.
            PreconditionFailed: the revision is not the current one.
            Conflict: the key is revoked already.
            Denied: whoever asks does not look after the account, or stands below whose the key is.
        """
        with writing(self._engine) as connection:
            row = self._revoke(connection, self._touched(connection, key_id, revision, by))
        self._changed()
        return row

    def first_admin(self) -> tuple[KeyRow, Secret] | None:
        """An admin key, where no live key has the scope `admin`. Of several processes that ask at once, one gets it."""
        with writing(self._engine) as connection:
            now = self._clock.now()
            live = select_rows(
                connection, TABLE.c.revoked_at.is_(None), or_(TABLE.c.expires_at.is_(None), TABLE.c.expires_at > now), IN_FORCE
            )
            if any("admin" in row.scopes for row in live):
                return None
            made = self._insert(connection, _admin())
        self._changed()
        return made

    def reset_admin(self) -> tuple[KeyRow, Secret]:
        """A new admin key in place of all that the server made before; admin keys that people made stay."""
        with writing(self._engine) as connection:
            for row in select_rows(connection, TABLE.c.name == ADMIN_NAME, TABLE.c.revoked_at.is_(None)):
                self._revoke(connection, row)
            made = self._insert(connection, _admin())
        self._changed()
        return made

    def _insert(self, connection: Connection, draft: KeyRow) -> tuple[KeyRow, Secret]:
        secret, key_id = new_key(), new_id("key", self._clock)
        whose = {"id": key_id, "name": draft.name, "account_id": draft.account, "user_id": draft.user}
        itself = {"prefix": secret.reveal()[:SHOWN], "hash": digest(secret.reveal()).hex()}
        rows.add(connection, TABLE, self._clock, {**whose, **itself, **kept(draft)})
        return find(connection, key_id, None), secret

    def _revoke(self, connection: Connection, row: KeyRow) -> KeyRow:
        rows.change(connection, TABLE, self._clock, TABLE.c.id == row.id, {"revoked_at": self._clock.now()})
        return find(connection, row.id, None)

    def _touched(self, connection: Connection, key_id: str, revision: int | None, by: Caller | None) -> KeyRow:
        """A live key that somebody may change."""
        row = find(connection, key_id, by)
        check_role(by, "admin")
        rows.check_revision(revision, row.revision, f"the key `{row.name}`")
        if row.revoked_at is not None:
            raise _is_revoked(row.name)
        if "admin" in row.scopes:
            check_operator(by, "change a key that has the scope `admin`")
        check_role(by, _role(connection, row))
        return row

    def _check(self, connection: Connection, row: KeyRow, by: Caller | None) -> None:
        """Whether a key may be, and may be of somebody's making."""
        if not row.scopes:
            raise BadRequest("a key without a scope could do nothing", hint="Give at least one of inference, metrics, account, admin.")
        role = _role(connection, row)
        for scope in sorted(row.scopes - most(role, row.account)):
            where = " of the operators' account" if scope == "admin" else ""
            raise BadRequest(
                f"a key of the role `{role}` may not hold the scope `{scope}`", hint=f"Only keys of owners and admins{where} may."
            )
        check_role(by, role)
        check_gift(by, row.scopes, row.models)
        self._check_outlives(connection, row, by)

    def _check_outlives(self, connection: Connection, row: KeyRow, by: Caller | None) -> None:
        """Whether a key ends when the one does that makes it: else a key that is lent for a day could be kept for ever."""
        if by is None:
            return
        end = connection.scalar(select(TABLE.c.expires_at).where(TABLE.c.id == by.id))
        if end is not None and (row.expires_at is None or row.expires_at > end):
            raise BadRequest(
                "`expires_at` is later than the end of the key that asks",
                hint=f"Give {end} or earlier, or ask with a key that lasts longer.",
            )

    def _check_time(self, expires_at: float | None) -> None:
        if expires_at is not None and not expires_at > self._clock.now():
            raise BadRequest(f"`expires_at` is {expires_at}, which has passed", hint="Give seconds since the Unix epoch, in the future.")
        if expires_at is not None and expires_at > LATEST:
            raise BadRequest("`expires_at` is later than the year 9999", hint="Leave it out for a key that is valid for ever.")


def _admin() -> KeyRow:
    scopes: frozenset[Scope] = frozenset({"admin"})
    return draft_of(name=ADMIN_NAME, scopes=scopes, account=DEFAULT_ACCOUNT, user=None, models=None, end_users="key", expires_at=None)


def _role(connection: Connection, row: KeyRow) -> Role:
    """What a key makes its holder. Raises: `NotFound`, if its account has no such user."""
    if row.user is None:
        return role_of(None, row.scopes)
    user = users.find(connection, row.user, None)
    if user.account != row.account:
        raise users.not_found(row.user, "")
    return user.role


def _check_name(name: str) -> None:
    rows.check_name(name, "a key", prefixes=("swb_", "key_"))
    if name == ADMIN_NAME:
        raise Conflict(
            f"`{ADMIN_NAME}` is the name of the key that the server makes itself",
            hint="Take another name, or replace that key with `trunkline keys reset-admin`.",
        )


def _is_revoked(shown: str) -> Conflict:
    return Conflict(f"the key `{shown}` is revoked already", hint="There is nothing left to do.")
