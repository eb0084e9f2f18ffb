"""What the database says of who may come in, kept in memory by reading what changed.

A change of an account, a user or a key gives its row the next `version` of its table (`trunkline.access.rows`), so that what is new is found by
an index, and nobody's clock is asked.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine, Row, Table, func, select

from trunkline.access.key_rows import models_from_text
from trunkline.access.scopes import ROLES, from_text, granted, most, role_of
from trunkline.model.caller import Caller, Role
from trunkline.store.engine import reading
from trunkline.store.tables.accounts import TABLE as ACCOUNTS
from trunkline.store.tables.keys import TABLE as KEYS
from trunkline.store.tables.users import TABLE as USERS

_TABLES = (ACCOUNTS, USERS, KEYS)
_MARK = select(*(select(func.coalesce(func.max(table.c.version), 0)).scalar_subquery().label(table.name) for table in _TABLES))

Mark = tuple[int, int, int]
"""The latest version of accounts, users and keys."""

Rows = Sequence[Row[Any]]
Label = tuple[str, str]
"""An account's id, and what that account calls one of its users."""


@dataclass(slots=True)
class Known:
    """A valid key: who has it, until when, and when its use was last noted."""

    caller: Caller
    expires_at: float | None
    used_at: float


@dataclass(frozen=True, slots=True)
class EndUser:
    """Somebody for whom a key may call."""

    id: str
    disabled: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different since the reading before.

    Attributes:
        keys: by the hash of a key, what is known of it; `None` where it is not valid any more.
        end_users: by account and external id; `None` where there is nobody of that name any more.
        gone: ids of keys and users that were taken before, and are not any more.
    """

    keys: dict[bytes, Known | None] = field(default_factory=dict[bytes, "Known | None"])
    end_users: dict[Label, EndUser | None] = field(default_factory=dict[Label, "EndUser | None"])
    gone: set[str] = field(default_factory=set[str])


class Mirror:
    """The accounts, users and keys of a database. Blocking, and for one thread at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: Mark = (-1, -1, -1)
        self._state = _State()

    def read(self) -> Changes | None:
        """What has changed, if anything has. Raises: `StoreUnavailable`, and what has changed is told by the next reading."""
        with reading(self._engine) as connection:
            mark = connection.execute(_MARK).one()
            now: Mark = (mark.accounts, mark.users, mark.keys)
            if now == self._seen:
                return None
            anew = any(version < seen for version, seen in zip(now, self._seen, strict=True))  # a backup was put back
            since = (-1, -1, -1) if anew else self._seen
            # A key is read after its user, and that after its account: what is missing here was made since, and is told next time.
            found = [_since(connection, table, version) for table, version in zip(_TABLES, since, strict=True)]
        before = self._state
        if anew:
            self._state = _State()
        changes = self._state.take(*found)
        if anew:
            before.compare(self._state, changes)
        self._seen = now
        return changes


@dataclass(frozen=True, slots=True)
class _User:
    account: str
    external_id: str | None
    role: Role
    disabled: bool


@dataclass(frozen=True, slots=True)
class _State:
    """All that counts.

    Attributes:
        accounts: those that are in force.
        users: those that are there, by id.
        keys: the rows of those that are not revoked, by id.
        keys_of: the ids of keys, by the ids of their accounts and of their users.
        labels: the ids of users, by what their accounts call them.
        valid: the hashes of keys that are to be taken, by id.
    """

    accounts: set[str] = field(default_factory=set[str])
    users: dict[str, _User] = field(default_factory=dict[str, _User])
    keys: dict[str, Row[Any]] = field(default_factory=dict[str, Row[Any]])
    keys_of: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict[str, set[str]](set))
    labels: dict[Label, str] = field(default_factory=dict[Label, str])
    valid: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def take(self, accounts: Rows, users: Rows, keys: Rows) -> Changes:
        """Take rows as they are now, and tell what they change."""
        changes = Changes()
        for row in accounts:
            if row.disabled_at is None and row.deleted_at is None:
                self.accounts.add(row.id)
            else:
                self.accounts.discard(row.id)
        labels = {label for row in users for label in self._take_user(row, changes)}
        for row in keys:
            self._take_key(row)
        for label in labels:
            changes.end_users[label] = self._end_user(label)
        owners = [row.id for row in (*accounts, *users)]
        for key in {row.id for row in keys}.union(*(self.keys_of[owner] for owner in owners if owner in self.keys_of)):
            self._judge(key, changes)
        return changes

    def compare(self, after: "_State", changes: Changes) -> None:
        """Tell what another state lacks that this one had."""
        for key, hashed in self.valid.items():
            if key not in after.valid:
                changes.keys[hashed] = None
                changes.gone.add(key)
        for label in self.labels.keys() - after.labels.keys():
            changes.end_users[label] = None
        changes.gone.update(self.users.keys() - after.users.keys())

    def _take_user(self, row: Row[Any], changes: Changes) -> Iterable[Label]:
        """Take a user's row; gives what they were called and are called."""
        before = self.users.pop(row.id, None)
        if before is not None and before.external_id is not None:
            label = (before.account, before.external_id)
            if self.labels.get(label) == row.id:  # else somebody else is called so by now
                del self.labels[label]
            yield label
        if row.deleted_at is None:
            self.users[row.id] = _User(row.account_id, row.external_id, _role(row.role), row.disabled_at is not None)
            if row.external_id is not None:
                self.labels[row.account_id, row.external_id] = row.id
                yield row.account_id, row.external_id
        if before is not None and not (row.deleted_at is None and row.disabled_at is None):
            changes.gone.add(row.id)

    def _take_key(self, row: Row[Any]) -> None:
        for owner in filter(None, (row.account_id, row.user_id)):
            (self.keys_of[owner].add if row.revoked_at is None else self.keys_of[owner].discard)(row.id)
        if row.revoked_at is None:
            self.keys[row.id] = row
        else:
            self.keys.pop(row.id, None)

    def _judge(self, key: str, changes: Changes) -> None:
        """Tell whether a key is valid now."""
        row = self.keys.get(key)
        known = None if row is None else self._known(row)
        if row is not None and known is not None:
            self.valid[key] = bytes.fromhex(row.hash)
            changes.keys[self.valid[key]] = known
        elif (hashed := self.valid.pop(key, None)) is not None:
            changes.keys[hashed] = None
            changes.gone.add(key)

    def _known(self, row: Row[Any]) -> Known | None:
        """What is known of a key, if its account and its user are in force."""
        user = self.users.get(row.user_id) if row.user_id is not None else None
        if row.account_id not in self.accounts or (row.user_id is not None and (user is None or user.disabled)):
            return None
        scopes = from_text(row.scopes)
        role = role_of(user.role if user else None, scopes)
        caller = Caller(
            id=row.id,
            kind="service" if role == "service" or user is None else "person",
            name=row.name,
            scopes=granted(scopes & most(role, row.account_id)),
            account=row.account_id,
            user=row.user_id,
            role=role,
            models=models_from_text(row.models),
            end_users="request" if row.end_users == "request" else "key",
        )
        return Known(caller, row.expires_at, row.last_used_at or 0.0)

    def _end_user(self, label: Label) -> EndUser | None:
        user = self.labels.get(label)
        return None if user is None else EndUser(user, self.users[user].disabled)


def _role(text: str) -> Role:
    """A role as the database keeps it; what this version does not know is the least."""
    known: dict[str, Role] = {role: role for role in ROLES}
    return known.get(text, "service")


def _since(connection: Connection, table: Table, version: int) -> Rows:
    """The rows that changed after a version; of all keys, those that are not revoked."""
    query = select(table).where(table.c.version > version)
    if version < 0 and table is KEYS:
        query = query.where(KEYS.c.revoked_at.is_(None))
    return connection.execute(query).all()
