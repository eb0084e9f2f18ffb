"""The database: opened, with its errors told in words of ours.

SQLite in write-ahead mode: readers see a snapshot and wait for nobody, writers wait for one another. A transaction begins when we
say so, data definition included, and not where the driver guesses (https://docs.sqlalchemy.org/en/21/dialects/sqlite.html).
"""

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, ExceptionContext, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry

from trunkline.errors import ConfigInvalid, StoreUnavailable

BUSY_SECONDS = 5.0
"""How long a writer waits for another one."""

WRITES = "trunkline_writes"
"""The execution option of a connection whose transactions begin with the write lock."""


def sqlite_url(folder: Path) -> URL:
    """Where the database of a data folder is."""
    return URL.create("sqlite", database=str(folder / "trunkline.sqlite"))


def open_engine(url: URL | str, *, busy_seconds: float = BUSY_SECONDS) -> Engine:
    """The database at a URL such as `sqlite:////var/lib/trunkline/trunkline.sqlite`; the caller disposes of it.

    A file that is not there yet is made for its owner alone (0600), and so is its folder (0700). What the engine's connections cannot do
    because of the file, the disk or a lock is `StoreUnavailable`, wherever it happens.

    Raises:
        ConfigInvalid: the URL is not one of a database that this version works with.
        StoreUnavailable: the folder or the file cannot be made.
    """
    path = _path(url)
    _make(path)
    engine = create_engine(URL.create("sqlite", database=str(path)), hide_parameters=True, connect_args={"timeout": busy_seconds})

    def prepare(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
        _prepare(connection, busy_seconds)

    def translate(context: ExceptionContext) -> StoreUnavailable | None:
        return _translated(context, path)

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", translate)
    return engine


@contextmanager
def reading(engine: Engine) -> Generator[Connection]:
    """A connection that sees one state of the database throughout. Raises: `StoreUnavailable`."""
    with engine.connect() as connection:
        yield connection


@contextmanager
def writing(engine: Engine) -> Generator[Connection]:
    """One transaction that has the write lock from its beginning: what it read still holds when it writes. Raises: `StoreUnavailable`."""
    with engine.connect() as connection, connection.execution_options(**{WRITES: True}).begin():
        yield connection


# --------------------------------------------------------------------------------------------------------- opening
def _path(url: URL | str) -> Path:
    """The file that a URL names; the URL itself may hold a password and is not repeated."""
    try:
        url = make_url(url)
    except ArgumentError:
        raise ConfigInvalid("the database's URL cannot be read", hint="It looks like `sqlite:////path/to/trunkline.sqlite`.") from None
    if url.drivername != "sqlite":
        raise ConfigInvalid(f"the database's URL begins with `{url.drivername}`", hint="This version works with `sqlite`.")
    if not url.database or url.database == ":memory:" or url.query:
        raise ConfigInvalid("the database's URL has to name a file, and nothing more", hint="Write `sqlite:////path/to/trunkline.sqlite`.")
    return Path(url.database)


def _make(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Only ever opened when it is new: closing a second descriptor would drop the locks that SQLite holds in this process
        # (https://sqlite.org/howtocorrupt.html, 2.2).
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreUnavailable(
            f"the database `{path}` cannot be made: {error.strerror}",
            hint=f"Make `{path.parent}` a folder that the user of this process may write to, or name another one.",
        ) from error


def _prepare(connection: DBAPIConnection, busy_seconds: float) -> None:
    """Set up one new connection of the pool."""
    with closing(connection.cursor()) as cursor:
        cursor.execute("PRAGMA foreign_keys = ON")
        # Entering write-ahead mode (once in the life of a file) does not wait for the lock as everything else does, because it
        # turns a read lock into a write lock; two first starts at once meet here.
        end = time.monotonic() + busy_seconds
        while True:
            try:
                cursor.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if _primary(error.sqlite_errorcode) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
                time.sleep(0.01)


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get(WRITES) else "BEGIN")


# ---------------------------------------------------------------------------------------------------------- errors
def _primary(code: int) -> int:
    """The primary result code within an extended one (https://sqlite.org/rescode.html)."""
    return code & 0xFF


def _translated(context: ExceptionContext, path: Path) -> StoreUnavailable | None:
    """What the driver's error is for an operator; an error in our own SQL stays what it is."""
    match context.original_exception:
        case sqlite3.Error(sqlite_errorcode=int() as code):
            return _unavailable(_primary(code), path)
        case _:
            return None


def _unavailable(code: int, path: Path) -> StoreUnavailable | None:
    match code:
        case sqlite3.SQLITE_FULL:
            what, hint = "cannot be written: the disk is full", f"Free space where `{path.parent}` is; nothing was changed."
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            what = "is locked: another process is writing to it"
            hint = "Try again; if it stays locked, look for another `trunkline` that works on the same data folder."
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            what = "cannot be written: it is read-only"
            hint = f"Let the user of this process write to the file and to its folder, `{path.parent}`."
        case sqlite3.SQLITE_CANTOPEN:
            what = "cannot be opened"
            hint = f"Let the user of this process read and write the file and its folder, `{path.parent}`."
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            what, hint = "is damaged, or is no SQLite database", "Move it away and put a backup in its place."
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_PROTOCOL | sqlite3.SQLITE_NOLFS:
            what = "cannot be read or written: the file system fails"
            hint = f"Look at the system's log for `{path.parent}`; it has to be a local file system."
        case _:
            return None
    return StoreUnavailable(f"the database `{path}` {what}", hint=hint, sqlite_code=code)
