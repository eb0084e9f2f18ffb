"""Each call leaves a row in the database, and waits for none: rows gather in memory, and the store's writer takes them together."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from sqlalchemy import Connection

from trunkline.base.codec import text
from trunkline.base.ids import time_of
from trunkline.base.log import Logger, mask
from trunkline.base.metrics import Registry, Tally
from trunkline.gateway.exchange import Attempt, Exchange
from trunkline.gateway.losses import wire
from trunkline.model.caller import Caller
from trunkline.store.tables.exchanges import TABLE

MOST = 10_000
"""Rows that may wait for a database that is away, before further ones are left out and counted."""

MOST_LOSSES = 50
LONGEST = 200
"""Characters of a name that a caller gave."""

SIZES = (256, 64, 16, 4, 1)
"""Rows of one statement."""

Job = Callable[[Connection], None]
Row = tuple[Any, ...]

_COLUMNS = tuple(column.name for column in TABLE.columns)


class Recorder:
    """Takes note of calls that have ended. Used in the event loop's thread.

    Args:
        add: hands a job to the store's writer, without waiting; false where that is full.
        log: told once of each time that rows are left out.
        registry: of the metrics.
        most: rows that may wait.
    """

    def __init__(self, add: Callable[[Job], bool], *, log: Logger, registry: Registry, most: int = MOST) -> None:
        self.keeps = True  # whether rows are wanted at all
        self._add = add
        self._log = log
        self._most = most
        self._rows: deque[Row] = deque()
        self._asked = False
        self._leaving_out = False
        self._lost = Tally(
            "trunkline_exchange_rows_lost", "Calls whose row was not kept, since the database was too slow.", (), registry=registry
        )

    def note(self, exchange: Exchange, seconds: float) -> None:
        """Keep a row of a call. One without a caller leaves none: strangers fill no disk."""
        if exchange.caller is None or not self.keeps:
            return
        if len(self._rows) < self._most:
            self._leaving_out = False
            self._rows.append(row_of(exchange, exchange.caller, seconds))  # of values alone: it may have to wait, and the call not
        else:
            self._leave_out()
        if not self._asked:
            # In this order: the batch puts it back, at once maybe, before it takes what waits; so it finds whatever was not asked for.
            self._asked = True
            if not self._add(_Batch(self._take)):
                self._asked = False

    def _leave_out(self) -> None:
        self._lost.add()
        if not self._leaving_out:
            self._leaving_out = True
            self._log.warning("rows of calls are left out: the database does not keep up", waiting=self._most)

    def _take(self) -> Sequence[Row]:
        """All that waits; in the writer's thread."""
        self._asked = False
        return [self._rows.popleft() for _ in range(len(self._rows))]


class _Batch:
    """Writes what waits when its turn comes; the same again where it has to be repeated."""

    def __init__(self, take: Callable[[], Sequence[Row]]) -> None:
        self._take = take
        self._rows: Sequence[Row] | None = None

    def __call__(self, connection: Connection) -> None:
        if self._rows is None:
            self._rows = self._take()
        if self._rows:
            _insert(connection, self._rows)


def _insert(connection: Connection, rows: Sequence[Row]) -> None:
    """Write rows by the driver itself, many to a statement.

    SQLAlchemy's work on each would cost as much as the database's; and with a statement for each, SQLite takes the interpreter's lock
    from the event loop each time. There are few sizes, so that drivers know the statements again.
    """
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    at = 0
    for size in SIZES:
        while len(rows) - at >= size:
            connection.exec_driver_sql(_insertion(size, mark), tuple(chain.from_iterable(rows[at : at + size])))
            at += size


@lru_cache(16)
def _insertion(rows: int, mark: str) -> str:
    """Doing it twice is as doing it once: a writer that lost its connection cannot know whether it was done."""
    names = ", ".join(f'"{name}"' for name in _COLUMNS)
    row = f"({', '.join([mark] * len(_COLUMNS))})"
    return f'INSERT INTO "{TABLE.name}" ({names}) VALUES {", ".join([row] * rows)} ON CONFLICT DO NOTHING'  # noqa: S608 - names of ours alone


def row_of(exchange: Exchange, caller: Caller, seconds: float) -> Row:
    """The row of a call, in the order of the table's columns."""
    attempts = exchange.attempts
    target = _name(attempts[-1].target) if attempts else None
    clean = all(_name(each.target) == each.target for each in attempts)
    return (
        exchange.id,
        time_of(exchange.id),
        caller.account,
        caller.id,
        caller.user,
        _name(exchange.end_user) if exchange.end_user else None,
        exchange.path,
        _name(exchange.model),
        target,
        exchange.status,
        exchange.outcome,
        exchange.stream,
        text(attempts if clean else [Attempt(_name(each.target), each.outcome, each.seconds, each.credential) for each in attempts]),
        text(wire(exchange.losses[:MOST_LOSSES])) if exchange.losses else "[]",
        text(exchange.usage) if exchange.usage else None,
        exchange.tool_calls,
        exchange.sent,
        seconds,
        exchange.first_byte,
    )


def _name(name: str) -> str:
    """A caller's word as a database takes it: neither endless, nor a credential, nor with what PostgreSQL has no room for."""
    return _clean(name[:LONGEST])


@lru_cache(1024)
def _clean(name: str) -> str:
    return mask(name).replace("\0", "\ufffd").encode("utf-8", "replace").decode()
