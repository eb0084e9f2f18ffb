"""All rows of one moment go from either database into either database."""

import io
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Boolean, Column, Engine, Float, Integer, LargeBinary, String, Table, Text, event, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.types import JSON

from tests.services import fresh_database
from tests.store.databases import migrated
from trunkline.base.secret import Secret
from trunkline.errors import BackupUnusable, Conflict, MigrationNeeded
from trunkline.store.backup import BATCH, dump, restore
from trunkline.store.engine import open_engine, reading, sqlite_url, writing
from trunkline.store.schema import schema_state
from trunkline.store.sealed import Seal, unsealed
from trunkline.store.tables import metadata
from trunkline.store.tables.keys import TABLE as KEYS

NEVER = lambda _done, _total: None  # noqa: E731 - nobody looks
New = Callable[..., Engine]
POSTGRES = pytest.param("postgres", marks=pytest.mark.needs("postgres"))
WAYS = [
    pytest.param(*way, marks=[pytest.mark.needs("postgres")] if "postgres" in way else [])
    for way in itertools.product(["sqlite", "postgres"], repeat=2)
]


@pytest.fixture
def new(tmp_path: Path) -> Iterator[New]:
    """Makes a database of a kind, at the newest schema unless it shall be empty."""
    count = itertools.count()
    with ExitStack() as stack:

        def make(kind: str, *, empty: bool = False) -> Engine:
            url = str(sqlite_url(tmp_path / str(next(count)))) if kind == "sqlite" else stack.enter_context(fresh_database())
            engine = open_engine(url if empty else migrated(url), busy_seconds=0.5)
            stack.callback(engine.dispose)
            return engine

        yield make


def value(column: Column[Any], number: int) -> Any:
    """A value that is easily broken."""
    for key in column.foreign_keys:
        return value(key.column, number)
    if column.nullable and number % 3 == 1 and not column.primary_key:
        return None
    match column.type:
        case String(length=length) | Text(length=length):
            text = f'{number}"é\\ud83d\n\t\u2028🦀{{}}[] {column.name} canary'
            return text[:length]
        case Boolean():
            return number % 2 == 0
        case Integer():
            return number + (2**53 + 1 if "big" in type(column.type).__name__.lower() else 0)
        case Float():
            return [0.1 + 0.2, 1e300, 1_800_000_000.123456, -1e-9, 5.0][number % 5]
        case LargeBinary():
            return bytes([number % 256, 0, 255, 10]) * 5
        case JSON():
            return {"a": [number, None, "é", {"b": 0.1}]}
        case _:
            pytest.fail(f"`{column}` is of a type that no backup has been tried with: {column.type!r}")


def fill(engine: Engine, rows: int = 5) -> None:
    with writing(engine) as connection:
        for table in metadata().sorted_tables:
            for number in range(rows):
                connection.execute(insert(table), {column.name: value(column, number) for column in table.columns})


def content(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    with reading(engine) as connection:
        return {table.name: sorted(map(tuple, connection.execute(select(table))), key=repr) for table in metadata().sorted_tables}


def dumped(engine: Engine) -> bytes:
    file = io.BytesIO()
    dump(engine, file.write, made_at=1.5, version="0.1.0", progress=NEVER)
    return file.getvalue()


def many(engine: Engine, count: int, prefix: str = "k") -> None:
    with writing(engine) as connection:
        connection.execute(insert(KEYS), [row(f"{prefix}{number:05}") for number in range(count)])


def row(name: str) -> dict[str, Any]:
    return {
        **{column.name: value(column, 0) for column in KEYS.columns if not column.nullable and column.server_default is None},
        "id": name,
        "hash": name,
    }


@pytest.mark.proves("backup.whole")
@pytest.mark.parametrize(("source", "target"), WAYS)
def test_everything_goes_from_either_database_into_either(new: New, source: str, target: str) -> None:
    here, there = new(source), new(target, empty=True)
    fill(here)
    file = io.BytesIO()
    seal = Seal(file, Secret("a passphrase"), cost=2)
    head = dump(here, seal.write, made_at=1.5, version="0.1.0", progress=NEVER)
    seal.finish()
    file.seek(0)
    assert restore(there, unsealed(file, Secret("a passphrase")), replace=False, progress=NEVER) == head
    assert content(there) == content(here)
    assert schema_state(there).ready
    assert sorted(dumped(there).splitlines()) == sorted(dumped(here).splitlines())
    assert head.rows == {name: len(rows) for name, rows in content(here).items()}
    assert min(head.rows.values()) >= 5
    assert b"canary" in dumped(here)
    assert b"canary" not in file.getvalue()


@pytest.mark.parametrize("kind", ["sqlite", POSTGRES])
def test_a_backup_is_of_one_moment_though_others_write(new: New, kind: str) -> None:
    here, there = new(kind), new("sqlite", empty=True)
    many(here, 2 * BATCH + 1)
    before = content(here)
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        told.append((done, total))
        many(here, 1, f"late{len(told)}-")

    file = io.BytesIO()
    dump(here, file.write, made_at=0, version="", progress=progress)
    assert len(told) >= 4
    total = sum(map(len, before.values()))
    assert (told[0], told[-1]) == ((0, total), (total, total))
    restore(there, [file.getvalue()], replace=False, progress=NEVER)
    assert content(there)["keys"] == before["keys"]
    assert len(content(here)["keys"]) == 2 * BATCH + 1 + len(told)


@pytest.mark.parametrize("pieces", [1, 7, 1000, 10**9])
def test_a_backup_may_come_in_any_pieces(new: New, pieces: int) -> None:
    here, there = new("sqlite"), new("sqlite", empty=True)
    many(here, 20)
    data = dumped(here)
    told: list[tuple[int, int]] = []
    restore(
        there,
        (data[at : at + pieces] for at in range(0, len(data), pieces)),
        replace=False,
        progress=lambda done, total: told.append((done, total)),
    )
    assert content(there) == content(here)
    total = sum(map(len, content(here).values()))
    assert (told[0], told[-1]) == ((0, total), (total, total))


# ------------------------------------------------------------------------------------------------------------ refused
@pytest.mark.parametrize("kind", ["sqlite", POSTGRES])
@pytest.mark.proves("backup.whole")
def test_a_database_with_rows_is_left_alone_unless_it_shall_be_replaced(new: New, kind: str) -> None:
    here, there = new("sqlite"), new(kind)
    many(here, 3)
    many(there, 2, "other")
    before = content(there)
    with pytest.raises(Conflict, match="keys") as caught:
        restore(there, [dumped(here)], replace=False, progress=NEVER)
    assert "--replace" in caught.value.hint
    assert content(there) == before
    restore(there, [dumped(here)], replace=True, progress=NEVER)
    assert content(there) == content(here)


@pytest.mark.parametrize("kind", ["sqlite", POSTGRES])
def test_a_database_without_rows_is_filled(new: New, kind: str) -> None:
    here, there = new("sqlite"), new(kind)
    many(here, 3)
    restore(there, [dumped(here)], replace=False, progress=NEVER)
    assert content(there) == content(here)


@pytest.mark.needs("postgres")
def test_tables_of_others_in_the_same_database_stay(new: New) -> None:
    here, there = new("sqlite"), new("postgres")
    many(here, 3)
    with writing(there) as connection:
        connection.exec_driver_sql("CREATE TABLE mine AS SELECT 1 AS x")
    restore(there, [dumped(here)], replace=True, progress=NEVER)
    with reading(there) as connection:
        assert connection.exec_driver_sql("SELECT x FROM mine").scalar_one() == 1


def test_a_newer_backup_is_refused_and_names_both_schemas(new: New) -> None:
    here, there = new("sqlite"), new("sqlite", empty=True)
    data = dumped(here)
    newest = schema_state(here).head
    for changed in (data.replace(f'"schema":"{newest}"'.encode(), b'"schema":"9999"'), data.replace(b'"format":1', b'"format":2')):
        with pytest.raises(MigrationNeeded) as caught:
            restore(there, [changed], replace=True, progress=NEVER)
        assert newest in caught.value.message
    assert schema_state(there).current is None


def test_a_database_that_a_newer_version_has_worked_on_is_neither_read_nor_written(new: New) -> None:
    here, there = new("sqlite"), new("sqlite")
    data = dumped(here)
    with writing(there) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(MigrationNeeded, match="9999"):
        restore(there, [data], replace=True, progress=NEVER)
    with pytest.raises(MigrationNeeded, match="9999"):
        dumped(there)


@pytest.mark.parametrize("kind", ["sqlite", POSTGRES])
def test_an_older_backup_is_brought_to_this_version_s_schema(new: New, kind: str) -> None:
    there = new(kind, empty=True)
    old = b"\n".join(
        [
            b'{"format":1,"schema":"0001","made_at":1.5,"version":"0.0.1","rows":{"keys":1}}',
            b'{"table":"keys","columns":["id","name","prefix","hash","scopes","created_at"]}',
            b'["key_a","ann","swb_aaaa","00","[\\"inference\\"]",7.5]',
            b'{"end":1}',
            b"",
        ]
    )
    restore(there, [old], replace=False, progress=NEVER)
    assert schema_state(there).ready
    with reading(there) as connection:
        assert connection.execute(select(KEYS.c.id, KEYS.c.name, KEYS.c.created_at)).all() == [("key_a", "ann", 7.5)]


def broken(data: bytes) -> dict[str, bytes]:
    lines = data.splitlines(keepends=True)
    keys = next(number for number, line in enumerate(lines) if line.startswith(b'{"table":"keys"'))
    return {
        "nothing": b"",
        "no head": b"".join(lines[1:]),
        "only a head": lines[0],
        "a line is cut": data[:-3],
        "a row is missing": b"".join(lines[: keys + 1] + lines[keys + 2 :]),
        "a row is there twice": b"".join([*lines[: keys + 2], lines[keys + 1], *lines[keys + 2 :]]),
        "a table is missing": b"".join(lines[:keys] + lines[keys + 5 :]),
        "the end of a table is missing": b"".join(lines[: keys + 4]),
        "a row is no list": b"".join([*lines[: keys + 1], b"7\n", *lines[keys + 2 :]]),
        "no JSON": b"".join([*lines[: keys + 1], b"[\n", *lines[keys + 2 :]]),
    }


@pytest.mark.parametrize("how", broken(b'{"table":"keys"\n[]\n'))
def test_what_is_no_whole_backup_leaves_the_database_as_it_was(new: New, how: str) -> None:
    here, there = new("sqlite"), new("sqlite")
    many(here, 3)
    many(there, 2, "other")
    before = content(there)
    data = broken(dumped(here))[how]
    with pytest.raises(IntegrityError if how == "a row is there twice" else BackupUnusable):  # the database itself refuses that
        restore(there, [data], replace=True, progress=NEVER)
    assert content(there) == before


@pytest.mark.proves("backup.sealed")
def test_a_backup_whose_last_chunk_was_changed_leaves_the_database_as_it_was(new: New) -> None:
    """All but the last rows have been written by then."""
    here, there = new("sqlite"), new("sqlite")
    many(here, 3000)
    many(there, 2, "other")
    before = content(there)
    file = io.BytesIO()
    seal = Seal(file, Secret("a passphrase"), cost=2)
    dump(here, seal.write, made_at=0, version="", progress=NEVER)
    seal.finish()
    data = bytearray(file.getvalue())
    data[-1] ^= 1
    written: list[int] = []
    event.listen(there, "after_cursor_execute", lambda *given: written.append(1) if "INSERT INTO keys" in given[2] else None)
    with pytest.raises(BackupUnusable):
        restore(there, unsealed(io.BytesIO(data), Secret("a passphrase")), replace=True, progress=NEVER)
    assert written
    assert content(there) == before


def test_every_column_is_of_a_type_that_a_backup_carries() -> None:
    for table in metadata().sorted_tables:
        assert isinstance(table, Table)
        for column in table.columns:
            value(column, 0)
