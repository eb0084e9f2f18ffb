"""SQLite, in write-ahead mode: readers see a snapshot and wait for nobody, writers wait for one another.

A transaction begins when we say so, data definition included, and not where the driver guesses
(https://docs.sqlalchemy.org/en/21/dialects/sqlite.html).
"""

import errno
import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, ExceptionContext, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from trunkline.errors import ConfigInvalid, StoreFull, StoreReadOnly, StoreUnavailable

WRITES = "trunkline_writes"
"""The execution option of a connection whose transactions begin with the write lock."""

PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL}
"""After any other trouble with the file it is opened anew: its rights may have been mended, or a backup have taken its place."""


def open_file(url: URL, busy_seconds: float) -> Engine:
    """The database in a file; see `trunkline.store.engine.open_engine`. Raises: `ConfigInvalid`, `StoreUnavailable`."""
    if not url.database or url.database == ":memory:" or url.query or url.host:
        raise ConfigInvalid("the database's URL has to name a file, and nothing more", hint="Write `sqlite:////path/to/trunkline.sqlite`.")
    path = Path(url.database)
    _make(path)
    engine = create_engine(
        URL.create("sqlite", database=str(path)), hide_parameters=True, pool_timeout=busy_seconds, connect_args={"timeout": busy_seconds}
    )

    def prepare(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
        try:
            _prepare(connection, busy_seconds)
        except BaseException:
            connection.close()  # nobody else would, before this error and its traceback are gone
            raise

    def translate(context: ExceptionContext) -> StoreUnavailable | None:
        return _translated(context, path)

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", translate)
    return engine


# --------------------------------------------------------------------------------------------------------- opening
def _make(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Only ever opened when it is new: closing a second descriptor would drop the locks that SQLite holds in this process
        # (https://sqlite.org/howtocorrupt.html, 2.2).
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        match error.errno:
            case errno.ENOSPC | errno.EDQUOT:
                kind, hint = StoreFull, f"Free space where `{path.parent}` is."
            case errno.EROFS | errno.EACCES | errno.EPERM:
                kind, hint = StoreReadOnly, _writable(path)
            case _:
                kind, hint = StoreUnavailable, _writable(path)
        raise kind(f"the database `{path}` cannot be made: {error.strerror}", hint=hint) from error


def _writable(path: Path) -> str:
    return f"Make `{path.parent}` a folder that the user of this process may write to, or name another one."


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
            told = _unavailable(_primary(code), path)
        case _:
            return None
    if told is not None and _primary(code) not in PASSING:
        context.is_disconnect = True
    return told


def _unavailable(code: int, path: Path) -> StoreUnavailable | None:
    kind = StoreUnavailable
    match code:
        case sqlite3.SQLITE_FULL:
            kind = StoreFull
            what, hint = "cannot be written: the disk is full", f"Free space where `{path.parent}` is; nothing was changed."
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            what = "is locked: another process is writing to it"
            hint = "Try again; if it stays locked, look for another `trunkline` that works on the same data folder."
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            kind = StoreReadOnly
            what = "cannot be written: it is read-only"
            hint = (
                f"Let the user of this process write to the file, to those that begin with its name, and to their folder, `{path.parent}`."
            )
        case sqlite3.SQLITE_CANTOPEN if _is_read_only(path):
            kind = StoreReadOnly  # its write-ahead log would stand beside it
            what = "cannot be opened: its folder is read-only"
            hint = f"Let the user of this process write to the folder, `{path.parent}`."
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
    return kind(f"the database `{path}` {what}", hint=hint, sqlite_code=code)


def _is_read_only(path: Path) -> bool:
    """Whether the file may be read, and its folder not be written to."""
    as_now = os.access in os.supports_effective_ids
    return os.access(path, os.R_OK, effective_ids=as_now) and not os.access(path.parent, os.W_OK, effective_ids=as_now)
