"""A backup: all rows of our tables, of one moment, in a form that either database takes.

    {"format":1,"schema":"0005","made_at":…,"version":"0.1.0","rows":{"keys":2}}
    {"table":"keys","columns":["id","name",…]}
    ["key_…","ann",…]
    …
    {"end":2}

One JSON text for each line: a head, then for each table its columns, its rows and how many those were. Tables come after those that
they refer to; bytes are in base64. A restore builds the schema of the backup, puts the rows in, and migrates to this version's.
"""

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, LargeBinary, MetaData, Table, func, inspect, select
from sqlalchemy.types import TypeEngine

from trunkline.base.codec import Decoder, Malformed, Wire, decode_raw, encode
from trunkline.errors import BackupUnusable, Conflict, MigrationNeeded
from trunkline.store.engine import reading, unhurried, writing
from trunkline.store.schema import revisions, state_of, upgrade
from trunkline.store.tables import GIVEN, metadata

T = TypeVar("T")

FORMAT = 1
BATCH = 500
"""Rows that are read, written and told of at once."""

Progress = Callable[[int, int], None]
"""Is told the rows so far and in all."""


class Head(Wire, frozen=True):
    """What a backup is of.

    Attributes:
        format: of these lines.
        schema: the migration that its tables have.
        made_at: when, in seconds since the epoch.
        version: of the Trunkline that made it.
        rows: how many, by table.
    """

    format: int
    schema: str
    made_at: float
    version: str
    rows: dict[str, int]


class _TableHead(Wire, frozen=True):
    table: str
    columns: list[str]


class _End(Wire, frozen=True):
    end: int


def dump(engine: Engine, write: Callable[[bytes], None], *, made_at: float, version: str, progress: Progress) -> Head:
    """Write all rows of one moment, while others go on reading and writing.

    Raises:
        MigrationNeeded: the database is not at this version's schema.
        StoreUnavailable: it cannot be read.
    """
    with reading(engine) as connection, unhurried(connection):
        state = state_of(connection)
        if not state.ready:
            raise MigrationNeeded(
                f"the database's schema is `{state.current}`, and this version's is `{state.head}`",
                hint="Make the backup with the version that works on this database.",
            )
        tables = metadata().sorted_tables
        rows = {str(table.name): connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables}
        head = Head(format=FORMAT, schema=state.head, made_at=made_at, version=version, rows=rows)
        _write(write, head)
        done, total = 0, sum(rows.values())
        progress(done, total)
        for table in tables:
            _write(write, _TableHead(table=str(table.name), columns=[str(column.name) for column in table.columns]))
            found = connection.execution_options(yield_per=BATCH).execute(select(table).order_by(*table.primary_key.columns))
            for batch in found.partitions():
                write(b"".join(encode(list(row)) + b"\n" for row in batch))
                done += len(batch)
                progress(done, total)
            _write(write, _End(end=rows[table.name]))
    return head


def restore(engine: Engine, pieces: Iterable[bytes], *, replace: bool, progress: Progress) -> Head:
    """Make the database what it was when the backup was made, at this version's schema: all of it or nothing.

    Args:
        engine: the database, which nobody else may use meanwhile.
        pieces: what `dump` wrote, cut anywhere.
        replace: what is in the database goes.
        progress: is told the rows so far and in all.

    Raises:
        BackupUnusable: the pieces are not what `dump` wrote.
        Conflict: there are rows, and they are not to be replaced.
        MigrationNeeded: the backup, or the database, is newer than this version.
        StoreUnavailable: the database cannot be written.
    """
    lines = _lines(pieces)
    head = _decoded(next(lines, b""), Head)
    if head.format != FORMAT or head.schema not in revisions():
        raise MigrationNeeded(
            f"the backup is of schema `{head.schema}`, made by version {head.version}, and this version knows none later than "
            f"`{revisions()[0]}`",
            hint="Restore it with that version of Trunkline, or a later one.",
        )
    with writing(engine) as connection, unhurried(connection):
        _clear(connection, replace=replace)
        upgrade(connection, head.schema)
        _forget(connection)
        done, total = 0, sum(head.rows.values())
        progress(done, total)
        tables: dict[str, int] = {}
        for line in lines:
            start = _decoded(line, _TableHead)
            for rows in _rows(connection, start, lines, tables):
                done += rows
                progress(done, total)
        if tables != head.rows:
            raise BackupUnusable("the backup has other rows than it says", hint="Take another copy of it.")
        upgrade(connection)
    return head


# ------------------------------------------------------------------------------------------------------------- rows
def _rows(connection: Connection, start: _TableHead, lines: Iterator[bytes], counted: dict[str, int]) -> Iterator[int]:
    """Put the rows of one table in; says how many, batch by batch."""
    table = Table(start.table, MetaData(), autoload_with=connection)
    decode: Callable[[bytes], list[Any]] = Decoder(list[Any]).decode
    takes = [_reader(table.columns[name].type) for name in start.columns]
    batch: list[dict[str, Any]] = []
    count = 0
    for line in lines:
        ended = line.startswith(b"{")
        if not ended:
            batch.append({name: take(value) for name, take, value in zip(start.columns, takes, _row(line, decode), strict=True)})
        if batch and (ended or len(batch) == BATCH):
            connection.execute(table.insert(), batch)
            count += len(batch)
            yield len(batch)
            batch = []
        if ended:
            if _decoded(line, _End).end != count:
                raise BackupUnusable(f"the backup lacks rows of `{start.table}`", hint="Take another copy of it.")
            counted[start.table] = count
            return
    raise BackupUnusable(f"the backup ends within `{start.table}`", hint="Take another copy of it.")


def _row(line: bytes, decode: Callable[[bytes], list[Any]]) -> list[Any]:
    try:
        return decode(line)
    except Malformed as error:
        raise _garbled(error) from None


def _reader(kind: TypeEngine[Any]) -> Callable[[Any], Any]:
    """How a value of JSON becomes one of a column."""
    return (lambda value: None if value is None else b64decode(value)) if isinstance(kind, LargeBinary) else lambda value: value


def _clear(connection: Connection, *, replace: bool) -> None:
    """Leave nothing of ours in the database. Raises: `Conflict`, `MigrationNeeded`."""
    state = state_of(connection)
    if not state.known:
        raise MigrationNeeded(
            f"the database's schema is `{state.current}`, and this version knows it only up to `{state.head}`",
            hint="A newer Trunkline has worked on it. Restore with that version, or into another database.",
        )
    if state.current is None:
        return
    upgrade(connection)  # so that the tables are those that this version knows
    tables = metadata().sorted_tables
    filled = [table.name for table in tables if _is_filled(connection, table)]
    if filled and not replace:
        raise Conflict(
            f"the database has rows already: {', '.join(filled)}",
            hint="`--replace` deletes all that it has, and puts the backup in its place.",
        )
    metadata().drop_all(connection)
    Table("alembic_version", MetaData(), autoload_with=connection).drop(connection)


def _forget(connection: Connection) -> None:
    """Delete the rows that migrations gave: the backup has them as they were."""
    there = inspect(connection).get_table_names()
    for table in reversed(metadata().sorted_tables):
        if table.name in there:
            connection.execute(table.delete())


def _is_filled(connection: Connection, table: Table) -> bool:
    """Whether a table has rows beside those that migrations gave."""
    query = select(table).limit(1)
    if given := table.info.get(GIVEN):
        query = query.where(table.c.id.not_in(given))
    return connection.execute(query).first() is not None


# ------------------------------------------------------------------------------------------------------------ lines
def _write(write: Callable[[bytes], None], line: Wire) -> None:
    write(encode(line) + b"\n")


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    if rest:
        raise BackupUnusable("the backup ends within a line", hint="Take another copy of it.")


def _decoded(line: bytes, kind: type[T]) -> T:
    try:
        return decode_raw(line, kind)
    except Malformed as error:
        raise _garbled(error) from None


def _garbled(error: Exception) -> BackupUnusable:
    return BackupUnusable(f"the backup cannot be read: {error}", hint="It may be of another version of Trunkline.")
