"""Users: who is in an account. People and programs hold keys; end users are those for whom an account's own product calls."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import ColumnElement, Connection, Engine, RowMapping, and_, or_, select, tuple_

from trunkline.access import accounts, rows
from trunkline.access.authority import check_role, is_operator, sees
from trunkline.base.clock import Clock
from trunkline.base.codec import UNSET, UnsetType, nearest
from trunkline.base.ids import new_id
from trunkline.errors import Conflict, NotFound
from trunkline.model import external_id as external_ids
from trunkline.model.caller import DEFAULT_ACCOUNT, Caller, Role
from trunkline.store.engine import reading, writing
from trunkline.store.tables.keys import TABLE as KEYS
from trunkline.store.tables.users import TABLE

BATCH = 200
"""So many end users are made in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRow:
    """What is known of a user. Times are seconds since the Unix epoch.

    Attributes:
        id: `usr_` and letters.
        account: the account's id.
        name: for people; several may share one.
        external_id: what the account's own systems call them, once in an account.
        role: what they are in the account, and so what their keys may hold.
        disabled_at: since when their keys are not taken, and nobody acts for them.
        revision: one more with every change.
    """

    id: str
    account: str
    name: str
    external_id: str | None
    role: Role
    disabled_at: float | None
    created_at: float
    updated_at: float
    revision: int


class Users:
    """The users of an installation. Blocking; raises `StoreUnavailable` where the database does not answer.

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
        *,
        account: str = DEFAULT_ACCOUNT,
        role: Role = "member",
        external_id: str | None = None,
        by: Caller | None = None,
    ) -> UserRow:
        """A new user.

        Raises:
            NotFound: there is no such account.
            BadRequest: the name or the external id is none.
            Conflict: another user of the account has the external id.
            Denied: whoever asks does not look after the account, or stands below the role.
        """
        rows.check_name(name, "a user", prefixes=("usr_",))
        with writing(self._engine) as connection:
            accounts.find(connection, account, by)
            check_role(by, "admin")
            check_role(by, role)
            _check_external_id(connection, account, external_id, "")
            new = self._new(name, account, role, external_id)
            rows.add(connection, TABLE, self._clock, new)
            row = _select(connection, TABLE.c.id == new["id"])[0]
        self._changed()
        return row

    def get(self, user_id: str, *, by: Caller | None = None) -> UserRow:
        """One user. Raises: `NotFound`."""
        with reading(self._engine) as connection:
            return find(connection, user_id, by)

    def named(self, wanted: str, *, account: str) -> UserRow:
        """One user of an account by their id, external id or name, as people name them.

        Raises:
            NotFound: there is none; the hint has the nearest.
            Conflict: several answer to it.
        """
        labels = or_(TABLE.c.id == wanted, TABLE.c.external_id == wanted, TABLE.c.name == wanted)
        with reading(self._engine) as connection:
            match _select(connection, TABLE.c.account_id == account, labels):
                case [row]:
                    return row
                case []:
                    known = _select(connection, TABLE.c.account_id == account, limit=rows.MOST)
                    raise not_found(wanted, nearest(wanted, [row.name for row in known]))
                case several:
                    ids = ", ".join(f"`{row.id}`" for row in several)
                    raise Conflict(f"{len(several)} users answer to `{wanted}`", hint=f"Name one by its id: {ids}.")

    def list(
        self, *, account: str | None = None, after: str | None = None, limit: int | None = None, by: Caller | None = None
    ) -> Sequence[UserRow]:
        """Users, the oldest first. Raises: `NotFound`, if there is no such account."""
        with reading(self._engine) as connection:
            return _select(connection, *_of(connection, account, by), after=after, limit=limit)

    def change(
        self,
        user_id: str,
        *,
        revision: int | None = None,
        name: str | UnsetType = UNSET,
        role: Role | UnsetType = UNSET,
        external_id: str | UnsetType | None = UNSET,
        disabled: bool | UnsetType = UNSET,
        by: Caller | None = None,
    ) -> UserRow:
        """Change a user; their keys hold at once no more than the new role may.

        Raises:
            NotFound: there is none.
            BadRequest: a value is none.
            PreconditionFailed: the revision is not the current one.
            Conflict: another user has the external id, or the account would lose its last owner.
            Denied: whoever asks does not look after the account, or stands below the user, or below the new role.
        """
        if name is not UNSET:
            rows.check_name(name, "a user", prefixes=("usr_",))
        with writing(self._engine) as connection:
            row = find(connection, user_id, by)
            check_role(by, "admin")
            check_role(by, row.role)
            if role is not UNSET:
                check_role(by, role)
            rows.check_revision(revision, row.revision, f"the user `{row.name}`")
            if external_id is not UNSET:
                _check_external_id(connection, row.account, external_id, row.id)
            if disabled is True or (role is not UNSET and role != "owner"):
                _check_owner_left(connection, row)
            at = disabled if disabled is UNSET else (row.disabled_at or self._clock.now()) if disabled else None
            values = {"name": name, "role": role, "external_id": external_id, "disabled_at": at}
            rows.change(connection, TABLE, self._clock, TABLE.c.id == row.id, values)
            row = find(connection, row.id, by)
        self._changed()
        return row

    def delete(self, user_id: str, *, revision: int | None = None, by: Caller | None = None) -> None:
        """Delete a user: their keys are revoked, their credentials and sign-ins for providers deleted, their name forgotten; the id remains.

        Raises:
            NotFound: there is none.
            PreconditionFailed: the revision is not the current one.
            Conflict: the account would lose its last owner.
            Denied: whoever asks does not look after the account, or stands below the user.
        """
        with writing(self._engine) as connection:
            row = find(connection, user_id, by)
            check_role(by, "admin")
            check_role(by, row.role)
            rows.check_revision(revision, row.revision, f"the user `{row.name}`")
            _check_owner_left(connection, row)
            now = self._clock.now()
            rows.change(connection, KEYS, self._clock, and_(KEYS.c.user_id == row.id, KEYS.c.revoked_at.is_(None)), {"revoked_at": now})
            rows.change(connection, TABLE, self._clock, TABLE.c.id == row.id, {"name": "", "external_id": None, "deleted_at": now})
            rows.forget(connection, row.account, row.id)
        self._changed()

    def ensure(self, wanted: Collection[tuple[str, str]]) -> None:
        """Members for end users, each an account's id and an external id, where there are none yet, and the account is there.

        Other writers wait for a few at a time.
        """
        left = iter(wanted)
        while batch := [*islice(left, BATCH)]:
            with writing(self._engine) as connection:
                labels = select(TABLE.c.account_id, TABLE.c.external_id).where(tuple_(TABLE.c.account_id, TABLE.c.external_id).in_(batch))
                known = {tuple(row) for row in connection.execute(labels)}
                there = accounts.among(connection, {account for account, _ in batch})
                new = [
                    self._new(name, account, "member", name) for account, name in batch if account in there and (account, name) not in known
                ]
                if new:
                    rows.add(connection, TABLE, self._clock, *new)
        self._changed()

    def _new(self, name: str, account: str, role: Role, external_id: str | None) -> dict[str, object]:
        return {"id": new_id("usr", self._clock), "account_id": account, "name": name, "role": role, "external_id": external_id}


def find(connection: Connection, user_id: str, by: Caller | None) -> UserRow:
    """One user within a transaction. Raises: `NotFound`."""
    found = _select(connection, TABLE.c.id == user_id)
    if not found or not sees(by, found[0].account):
        raise not_found(user_id, "")
    return found[0]


def _select(connection: Connection, *where: ColumnElement[bool], after: str | None = None, limit: int | None = None) -> list[UserRow]:
    query = select(TABLE).where(TABLE.c.deleted_at.is_(None), *where)
    return [_row(found) for found in rows.page(connection, query, TABLE, after, limit)]


def _of(connection: Connection, account: str | None, by: Caller | None) -> tuple[ColumnElement[bool], ...]:
    """The users of one account, or of all that somebody sees."""
    if account is not None:
        return (TABLE.c.account_id == accounts.find(connection, account, by).id,)
    return () if by is None or is_operator(by) else (TABLE.c.account_id == by.account,)


def _row(found: RowMapping) -> UserRow:
    return UserRow(
        id=found["id"],
        account=found["account_id"],
        name=found["name"],
        external_id=found["external_id"],
        role=found["role"],
        disabled_at=found["disabled_at"],
        created_at=found["created_at"],
        updated_at=found["updated_at"],
        revision=found["revision"],
    )


def not_found(wanted: str, close: str) -> NotFound:
    """There is no such user."""
    return NotFound(f"there is no user `{wanted}`", hint=f"Did you mean `{close}`?" if close else "`trunkline users list` shows them all.")


def _check_external_id(connection: Connection, account: str, external_id: str | None, user: str) -> None:
    if external_id is None:
        return
    external_ids.check(external_id, "`external_id`")
    if any(row.id != user for row in _select(connection, TABLE.c.account_id == account, TABLE.c.external_id == external_id)):
        raise Conflict(f"another user of the account has the external id `{external_id}`", hint="Each stands for one user.")


def _check_owner_left(connection: Connection, row: UserRow) -> None:
    """Raises: `Conflict`, if an account would be without an owner that it has."""
    if row.role != "owner" or row.disabled_at is not None:
        return
    owners = (TABLE.c.account_id == row.account, TABLE.c.role == "owner", TABLE.c.disabled_at.is_(None), TABLE.c.id != row.id)
    if not _select(connection, *owners, limit=1):
        raise Conflict(f"`{row.name}` is the account's last owner", hint="Make another user an owner first.")
