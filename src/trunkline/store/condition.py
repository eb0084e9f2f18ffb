"""How a database is before somebody relies on it: its size, its clock, and what would be in the way of an upgrade."""

import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, text

from trunkline.base.clock import Clock
from trunkline.store.engine import file_of, reading
from trunkline.store.tables import metadata

_ON_SERVER = text(
    """
    SELECT current_setting('server_version') AS version, pg_database_size(current_database()) AS size,
           extract(epoch FROM clock_timestamp())::float AS now, pg_is_in_recovery() AS standby,
           current_setting('default_transaction_read_only') = 'on' AS read_only, current_schema() AS schema,
           coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create,
           (SELECT string_agg(tablename, ', ' ORDER BY tablename) FROM pg_tables
             WHERE schemaname = current_schema() AND tablename = ANY(:tables) AND NOT pg_has_role(tableowner, 'USAGE')) AS foreign_tables
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What was found.

    Attributes:
        server: the software, with its version.
        size: bytes.
        seconds_ahead: of the database's clock before ours; of a file, how far its times lie in the future.
        obstacles: why tables could not be changed, each as the end of a sentence that begins with "the database".
    """

    server: str
    size: int
    seconds_ahead: float
    obstacles: tuple[str, ...]


def condition(engine: Engine, clock: Clock) -> Condition:
    """Look at a database. Raises: `StoreUnavailable`."""
    with reading(engine) as connection:
        file = file_of(engine.url)
        return _of_server(connection, clock) if file is None else _of_file(connection, file, clock)


def _of_file(connection: Connection, file: Path, clock: Clock) -> Condition:
    """A file and what SQLite puts beside it."""
    size = connection.exec_driver_sql("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()").scalar_one()
    version = connection.exec_driver_sql("SELECT sqlite_version()").scalar_one()
    files = [path for path in (file, Path(f"{file}-wal"), Path(f"{file}-shm")) if path.exists()]
    newest = max(path.stat().st_mtime for path in files)
    return Condition(
        server=f"SQLite {version}",
        size=size,
        seconds_ahead=max(0.0, newest - clock.now()),
        obstacles=tuple(_in_the_way([*files, file.parent], file)),
    )


def _in_the_way(paths: list[Path], file: Path) -> Generator[str]:
    for path in paths:
        if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            yield f"cannot be changed, because `{path}` is read-only"
    if file.stat().st_mode & 0o007:
        yield f"can be read by everybody: `{file}`"


def _of_server(connection: Connection, clock: Clock) -> Condition:
    """A database on PostgreSQL, as its user sees it. Half the time of the question is taken for the way there."""
    before = clock.now()
    row = connection.execute(_ON_SERVER, {"tables": ["alembic_version", *metadata().tables]}).one()
    half_way = (before + clock.now()) / 2
    found = {
        "is a standby": row.standby,
        "is read-only by its setting `default_transaction_read_only`": row.read_only,
        "has no schema for this user: see `search_path`": row.schema is None,
        f"does not let its user make tables in the schema `{row.schema}`": row.schema is not None and not row.may_create,
        f"has tables of somebody else ({row.foreign_tables})": row.foreign_tables is not None,
    }
    return Condition(
        server=f"PostgreSQL {row.version}",
        size=row.size,
        seconds_ahead=row.now - half_way,
        obstacles=tuple(what for what, is_so in found.items() if is_so),
    )
