"""Accounts: each has its users and keys, and nothing of another's. The operators' own is there from the start."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Engine, RowMapping, and_, select

from trunkline.access import rows
from trunkline.access.authority import check_operator, check_role, is_operator, sees
from trunkline.base.clock import Clock
from trunkline.base.codec import UNSET, UnsetType, nearest
from trunkline.base.ids import new_id
from trunkline.errors import Conflict, NotFound
from trunkline.model.caller import DEFAULT_ACCOUNT, Caller
from trunkline.store.engine import reading, writing
from trunkline.store.tables.accounts import TABLE
from trunkline.store.tables.keys import TABLE as KEYS
from trunkline.store.tables.users import TABLE as USERS


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """What is known of an account. Times are seconds since the Unix epoch.

    Attributes:
        id: `acc_` and letters.
        name: for people; no other account has it.
        disabled_at: since when its keys are not taken.
        revision: one more with every change.
    """

    id: str
    name: str
    disabled_at: float | None
    created_at: float
    updated_at: float
    revision: int


class Accounts:
    """The accounts of an installation. Blocking; raises `StoreUnavailable` where the database does not answer.

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

    def create(self, name: str, *, by: Caller | None = None) -> AccountRow:
        """A new account.

        Raises:
            BadRequest: the name is none.
            Conflict: another account has it.
            Denied: only operators make accounts.
        """
        check_operator(by, "make accounts")
        account = new_id("acc", self._clock)
        with writing(self._engine) as connection:
            _check_name(connection, name, account)
            rows.add(connection, TABLE, self._clock, {"id": account, "name": name})
            row = find(connection, account, by)
        self._changed()
        return row

    def get(self, account_id: str, *, by: Caller | None = None) -> AccountRow:
        """One account. Raises: `NotFound`."""
        with reading(self._engine) as connection:
            return find(connection, account_id, by)

    def named(self, wanted: str) -> AccountRow:
        """One account by its name or its id, as people name it. Raises: `NotFound`, with the nearest."""
        with reading(self._engine) as connection:
            known = _select(connection)
        if (row := next((row for row in known if wanted in {row.name, row.id}), None)) is not None:
            return row
        raise not_found(wanted, nearest(wanted, [row.name for row in known]))

    def list(self, *, after: str | None = None, limit: int | None = None, by: Caller | None = None) -> Sequence[AccountRow]:
        """Accounts, the oldest first: all of them for operators, else the asker's own."""
        mine = () if by is None or is_operator(by) else (TABLE.c.id == by.account,)
        with reading(self._engine) as connection:
            return _select(connection, *mine, after=after, limit=limit)

    def change(
        self,
        account_id: str,
        *,
        revision: int | None = None,
        name: str | UnsetType = UNSET,
        disabled: bool | UnsetType = UNSET,
        by: Caller | None = None,
    ) -> AccountRow:
        """Rename an account, or stop and start taking its keys.

        Raises:
            NotFound: there is none.
            BadRequest: the name is none.
            PreconditionFailed: the revision is not the current one.
            Conflict: another account has the name, or it is the operators' own, which is never disabled.
            Denied: owners and admins rename an account, only operators disable it.
        """
        with writing(self._engine) as connection:
            row = find(connection, account_id, by)
            check_role(by, "admin")
            rows.check_revision(revision, row.revision, f"the account `{row.name}`")
            if name is not UNSET:
                _check_name(connection, name, row.id)
            if disabled is not UNSET:
                check_operator(by, "disable accounts")
                _check_mortal(row)
            at = disabled if disabled is UNSET else (row.disabled_at or self._clock.now()) if disabled else None
            rows.change(connection, TABLE, self._clock, TABLE.c.id == row.id, {"name": name, "disabled_at": at})
            row = find(connection, row.id, by)
        self._changed()
        return row

    def delete(self, account_id: str, *, revision: int | None = None, by: Caller | None = None) -> None:
        """Delete an account: its keys are revoked, its users forgotten, its credentials and sign-ins for providers deleted; only ids remain.

        Raises:
            NotFound: there is none.
            PreconditionFailed: the revision is not the current one.
            Conflict: it is the operators' own.
            Denied: only operators do this.
        """
        check_operator(by, "delete accounts")
        with writing(self._engine) as connection:
            row = find(connection, account_id, by)
            rows.check_revision(revision, row.revision, f"the account `{row.name}`")
            _check_mortal(row)
            now = self._clock.now()
            rows.change(connection, KEYS, self._clock, and_(KEYS.c.account_id == row.id, KEYS.c.revoked_at.is_(None)), {"revoked_at": now})
            forgotten = {"name": "", "external_id": None, "deleted_at": now}
            rows.change(connection, USERS, self._clock, and_(USERS.c.account_id == row.id, USERS.c.deleted_at.is_(None)), forgotten)
            rows.change(connection, TABLE, self._clock, TABLE.c.id == row.id, {"name": "", "deleted_at": now})
            rows.forget(connection, row.id)
        self._changed()


def find(connection: Connection, account_id: str, by: Caller | None) -> AccountRow:
    """One account within a transaction. Raises: `NotFound`."""
    found = _select(connection, TABLE.c.id == account_id) if sees(by, account_id) else []
    if not found:
        raise not_found(account_id, "")
    return found[0]


def among(connection: Connection, wanted: Collection[str]) -> set[str]:
    """Those of some ids whose accounts are there."""
    return set(connection.execute(select(TABLE.c.id).where(TABLE.c.id.in_(wanted), TABLE.c.deleted_at.is_(None))).scalars())


def not_found(wanted: str, close: str) -> NotFound:
    """There is no such account."""
    return NotFound(
        f"there is no account `{wanted}`", hint=f"Did you mean `{close}`?" if close else "`trunkline accounts list` shows them all."
    )


def _select(connection: Connection, *where: ColumnElement[bool], after: str | None = None, limit: int | None = None) -> list[AccountRow]:
    query = select(TABLE).where(TABLE.c.deleted_at.is_(None), *where)
    return [_row(found) for found in rows.page(connection, query, TABLE, after, limit)]


def _row(found: RowMapping) -> AccountRow:
    return AccountRow(
        id=found["id"],
        name=found["name"],
        disabled_at=found["disabled_at"],
        created_at=found["created_at"],
        updated_at=found["updated_at"],
        revision=found["revision"],
    )


def _check_name(connection: Connection, name: str, account_id: str) -> None:
    rows.check_name(name, "an account", prefixes=("acc_",))
    if any(row.name == name and row.id != account_id for row in _select(connection, TABLE.c.name == name)):
        raise Conflict(f"there is an account `{name}` already", hint="Take another name.")


def _check_mortal(row: AccountRow) -> None:
    if row.id == DEFAULT_ACCOUNT:
        raise Conflict(f"`{row.name}` is the operators' own account, which stays", hint="Revoke single keys instead.")
