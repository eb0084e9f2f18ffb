"""The database: opened, read and written, with its errors told in words of ours.

SQLite and PostgreSQL behind one interface. All of it blocks, for as long as a lock, an answer or a connection is waited for and no longer,
so it belongs into a thread. A database that was away is used again as soon as it is back.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from trunkline.errors import ConfigInvalid, StoreUnavailable
from trunkline.store import sqlite

BUSY_SECONDS = 5.0
"""How long a writer waits for another one."""

ANSWER_SECONDS = 10.0
"""How long one statement may take on a server."""

EXAMPLES = "It looks like `sqlite:////path/to/trunkline.sqlite` or `postgresql://user@host/database`."

WRITES_LOCK = 0x7472756E6B6C696E  # `trunklin`: nobody else's number
_LOCK = f"SELECT set_config('idle_in_transaction_session_timeout', '30s', true), pg_advisory_xact_lock({WRITES_LOCK})"
_SNAPSHOT = {"postgresql": {"isolation_level": "REPEATABLE READ"}}


def sqlite_url(folder: Path) -> URL:
    """Where the database of a data folder is."""
    return URL.create("sqlite", database=str(folder / "trunkline.sqlite"))


def open_engine(url: URL | str, *, busy_seconds: float = BUSY_SECONDS, answer_seconds: float = ANSWER_SECONDS) -> Engine:
    """The database at a URL; the caller disposes of it.

    `sqlite:////var/lib/trunkline/trunkline.sqlite` is a file. One that is not there yet is made for its owner alone (0600), and so is its
    folder (0700). `postgresql://user:password@host:5432/database` is a server's, 15 or later; parameters of libpq may follow, such as
    `?sslmode=verify-full`. It is connected to by the first use.

    What the engine's connections cannot do because of the file, the disk, the server, the way there or a lock is `StoreUnavailable`,
    `StoreFull` or `StoreReadOnly`, wherever it happens. No error repeats the URL, a password, or a value of a row.

    Args:
        url: the database's.
        busy_seconds: how long a lock is waited for.
        answer_seconds: how long a statement may take on a server; a little later the connection is given up.

    Raises:
        ConfigInvalid: the URL is not one of a database that this version works with.
        StoreUnavailable: the folder or the file cannot be made.
    """
    url = _read(url)
    match url.drivername:
        case "sqlite":
            return sqlite.open_file(url, busy_seconds)
        case "postgresql" | "postgresql+psycopg":
            from trunkline.store import postgres  # its driver is for those who use it

            return postgres.open_server(url, busy_seconds, answer_seconds)
        case other:
            raise _unknown(other)


def file_of(url: URL | str) -> Path | None:
    """The file of a database that is one. Raises: `ConfigInvalid`, where the URL is of no database that this version works with."""
    url = _read(url)
    match url.drivername:
        case "sqlite" if url.database:
            return Path(url.database)
        case "sqlite" | "postgresql" | "postgresql+psycopg":
            return None
        case other:
            raise _unknown(other)


@contextmanager
def reading(engine: Engine) -> Generator[Connection]:
    """A connection that sees one state of the database throughout. Raises: `StoreUnavailable`."""
    with _connected(engine) as connection:
        yield connection.execution_options(**_SNAPSHOT.get(engine.dialect.name, {}))


@contextmanager
def writing(engine: Engine) -> Generator[Connection]:
    """One transaction that has the write lock from its beginning: what it read still holds when it writes.

    There is one at a time, among all processes that work on the database. Raises: `StoreUnavailable`.
    """
    with appending(engine) as connection:
        if engine.dialect.name == "postgresql":  # SQLite has one writer at a time anyway
            connection.exec_driver_sql(_LOCK)
        yield connection


@contextmanager
def appending(engine: Engine) -> Generator[Connection]:
    """One transaction for rows that depend on no others: it waits for no other writer where the database can do without.

    Raises: `StoreUnavailable`.
    """
    with _connected(engine) as connection, connection.execution_options(**{sqlite.WRITES: True}).begin():
        yield connection


@contextmanager
def unhurried(connection: Connection) -> Generator[None]:
    """The rest of this transaction may take its time: a change of the schema, a copy of everything."""
    if connection.dialect.name != "postgresql":
        yield
        return
    from trunkline.store import postgres

    with postgres.unhurried(connection):
        yield


def _read(url: URL | str) -> URL:
    try:
        return make_url(url)
    except (ArgumentError, ValueError):  # the URL may hold a password, and is not repeated
        raise ConfigInvalid("the database's URL cannot be read", hint=EXAMPLES) from None


def _unknown(scheme: str) -> ConfigInvalid:
    return ConfigInvalid(f"the database's URL begins with `{scheme}`", hint=EXAMPLES)


@contextmanager
def _connected(engine: Engine) -> Generator[Connection]:
    try:
        connection = engine.connect()
    except PoolTimeout:
        raise StoreUnavailable("all connections to the database are in use", hint="Try again in a moment.") from None
    with connection:
        yield connection
