"""What accounts, users and keys have in common as rows: an id, a revision that tells of each change, and pages.

`version` is one more, with every change, than any in the table: who has seen a number finds what changed since by it. Writers wait for one
another (`trunkline.store.engine.writing`), so numbers become visible in their order; no clock is asked.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, Table, delete, func, insert, select, update

from trunkline.base.clock import Clock
from trunkline.base.codec import UNSET
from trunkline.errors import BadRequest, PreconditionFailed
from trunkline.store.tables.connections import TABLE as CONNECTIONS
from trunkline.store.tables.credentials import TABLE as CREDENTIALS
from trunkline.store.tables.sign_ins import TABLE as SIGN_INS

LATEST = 253_402_300_799.0  # the last second of the year 9999, which is where calendars end
LONGEST_NAME = 100
MOST = 1000
"""So many rows a page has at most."""


def add(connection: Connection, table: Table, clock: Clock, *rows: Mapping[str, object]) -> None:
    """New rows, of revision 1; at least one."""
    now = clock.now()
    same = {"created_at": now, "updated_at": now, "revision": 1, "version": connection.execute(select(_next(table))).scalar_one()}
    connection.execute(insert(table), [{**row, **same} for row in rows])


def change(connection: Connection, table: Table, clock: Clock, where: ColumnElement[bool], values: Mapping[str, object]) -> None:
    """The next revision of some rows. What is `UNSET` stays."""
    given = {name: value for name, value in values.items() if value is not UNSET}
    revised = {"updated_at": clock.now(), "revision": table.c.revision + 1, "version": _next(table)}
    connection.execute(update(table).where(where).values(**given, **revised))


def check_revision(expected: int | None, current: int, what: str) -> None:
    """Raises: `PreconditionFailed`, if a row is not what whoever changes it has seen."""
    if expected is not None and expected != current:
        raise PreconditionFailed(
            f"{what} has changed: its revision is {current}, not {expected}", hint="Read it again, and change what it is now."
        )


def forget(connection: Connection, account: str, user: str | None = None) -> None:
    """Delete what an account, or one of its users, keeps for providers: credentials, sign-ins, and those that have begun."""
    for table in (CREDENTIALS, CONNECTIONS, SIGN_INS):
        mine = table.c.account == account
        connection.execute(delete(table).where(mine if user is None else mine & (table.c.user == user)))


def page(connection: Connection, query: Select[Any], table: Table, after: str | None, limit: int | None) -> list[RowMapping]:
    """Rows in the order of their ids, which is that of their making, behind one of them. Raises: `BadRequest`, if the limit is none."""
    if limit is not None and not 1 <= limit <= MOST:
        raise BadRequest(f"`limit` is {limit}", hint=f"It is 1 to {MOST}.")
    if after is not None:
        query = query.where(table.c.id > after)
    return [*connection.execute(query.order_by(table.c.id).limit(limit)).mappings()]


def check_name(name: str, what: str, *, prefixes: tuple[str, ...]) -> None:
    """Raises: `BadRequest`, if a name says nothing, or would be taken for an id."""
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise BadRequest(f"the name of {what} is a line of 1 to {LONGEST_NAME} characters", hint="Name it so that people know it.")
    for prefix in prefixes:
        if name.startswith(prefix):
            raise BadRequest(f"the name of {what} does not begin with `{prefix}`", hint="It would be taken for an id, or for a key.")


def _next(table: Table) -> Any:
    return select(func.coalesce(func.max(table.c.version), 0) + 1).scalar_subquery()
