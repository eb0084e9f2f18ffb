"""PostgreSQL, by psycopg 3.

No wait is without an end: for a connection, for a lock, for a statement (which the server ends), and for a server that does not
answer at all (where the connection is given up). Statements are not prepared on the server, so that a pooler may stand in between.
"""

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from sqlalchemy import URL, Connection, Dialect, Engine, ExceptionContext, create_engine, event
from sqlalchemy.pool import ConnectionPoolEntry

from trunkline.base.secret import scrub
from trunkline.errors import ConfigInvalid, StoreFull, StoreReadOnly, StoreUnavailable

OLDEST = 15
"""The oldest server that this works with."""

CONNECT_SECONDS = 3
GRACE_SECONDS = 2.0
"""So much later than the server's own end of a statement, it is taken for dead."""

LONGEST_WORDS = 300

GONE = ("08", "57P", "25006")
"""The SQLSTATEs of a session that is of no more use: it has ended, or it is with a standby, and the next one may be with the primary."""

_TCP = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 10_000}

T = TypeVar("T")


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is given up when an answer takes too long; psycopg itself would wait for ever.

    Attributes:
        patience: seconds for one answer; `None` waits for as long as the network says that the server is there.
    """

    patience: float | None = None

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Wait for one answer. Raises: `psycopg.OperationalError`, and then the connection is closed."""
        return super().wait(gen if self.patience is None else self._bounded(gen, self.patience), *args, **kwargs)

    def _bounded(self, answer: PQGen[T], seconds: float) -> PQGen[T]:
        """The same steps, until nothing has come by the end. The waiting loop takes one at least every tenth of a second, with nothing."""
        end = time.monotonic() + seconds
        try:
            wanted = next(answer)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > end:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the server did not answer within {seconds:g} seconds")
                wanted = answer.send(ready)
        except StopIteration as ended:
            return ended.value


def open_server(url: URL, busy_seconds: float, answer_seconds: float) -> Engine:
    """A server's database; see `trunkline.store.engine.open_engine`. Raises: `ConfigInvalid`."""
    if not url.database:
        raise ConfigInvalid("the database's URL names no database", hint="Write `postgresql://user@host/database`.")
    if "password" in url.query:
        raise ConfigInvalid("the database's URL has a parameter `password`", hint="Write `postgresql://user:password@host/database`.")
    database, secrets = _named(url), [str(secret) for secret in (url.password, url.query.get("sslpassword")) if secret]
    defaults = {"connect_timeout": CONNECT_SECONDS, "application_name": "trunkline", **_TCP}
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        hide_parameters=True,
        isolation_level="READ COMMITTED",  # whatever the server's default is
        pool_pre_ping=True,
        pool_timeout=busy_seconds,
        use_native_hstore=False,
        connect_args={"prepare_threshold": None, **{name: value for name, value in defaults.items() if name not in url.query}},
    )

    def connect(_dialect: Dialect, _record: ConnectionPoolEntry, args: list[Any], kwargs: dict[str, Any]) -> BoundedConnection:
        connection = BoundedConnection.connect(*args, **kwargs)
        try:
            connection.patience = answer_seconds + GRACE_SECONDS
            _check_version(connection, database)
            connection.execute(
                "SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false)",
                [f"{answer_seconds:f}s", f"{busy_seconds:f}s"],
            )
            connection.commit()
        except BaseException:
            connection.close()
            raise
        return connection

    def translate(context: ExceptionContext) -> StoreUnavailable | None:
        return _translated(context, database, secrets)

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "handle_error", translate)
    return engine


@contextmanager
def unhurried(connection: Connection) -> Generator[None]:
    """No statement of the rest of this transaction is ended for taking long."""
    connection.exec_driver_sql(
        "SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)"
    )
    driver = connection.connection.driver_connection
    assert isinstance(driver, BoundedConnection)
    patience, driver.patience = driver.patience, None
    try:
        yield
    finally:
        driver.patience = patience


def _named(url: URL) -> str:
    """A database's name for messages: without user and password."""
    host = url.host or url.query.get("host") or "the local server"
    return f"{url.database} at {host if isinstance(host, str) else ', '.join(host)}{f':{url.port}' if url.port else ''}"


def _check_version(connection: BoundedConnection, database: str) -> None:
    version = connection.info.server_version
    if version < OLDEST * 10_000:
        raise StoreUnavailable(
            f"the database `{database}` is on PostgreSQL {version // 10_000}", hint=f"This version works with {OLDEST} and later."
        )


# ---------------------------------------------------------------------------------------------------------- errors
def _translated(context: ExceptionContext, database: str, secrets: Sequence[str]) -> StoreUnavailable | None:
    """What the driver's error is for an operator; an error in our own SQL stays what it is, without the values in it."""
    error = context.original_exception
    if context.is_pre_ping or not isinstance(error, psycopg.Error):
        return None  # a connection that broke while nobody used it is replaced
    if (error.sqlstate or "").startswith(GONE):
        context.is_disconnect = True  # the server has ended the session; the socket may not know yet
    lost = context.connection is None or context.is_disconnect
    told = _unavailable(error, database, lost=lost, words=_words(error, secrets))
    if told is None:
        _take_values_out(error, context)
    return told


_MEANINGS: tuple[tuple[str, type[StoreUnavailable], str, str], ...] = (
    ("53100", StoreFull, "cannot be written: the server's disk is full", "Free space there; nothing was changed."),
    (
        "25006",
        StoreReadOnly,
        "cannot be written: it is read-only",
        "Name the primary server, and not a standby; `default_transaction_read_only` has to be off.",
    ),
    ("42501", StoreUnavailable, "does not let its user do that", "Let the user own the database's tables, and create in its schema."),
    (
        "55P03",
        StoreUnavailable,
        "is locked: another process is writing to it",
        "Try again; `pg_stat_activity` on the server shows who holds it.",
    ),
    ("57014", StoreUnavailable, "did not answer in time", "Look at the server's load, and at `pg_stat_activity`."),
    ("40", StoreUnavailable, "is busy: two writers were in each other's way", "Try again."),
    ("53", StoreUnavailable, "has no resources left: {words}", "Give the server more connections or memory, or fewer clients."),
    ("58", StoreUnavailable, "fails on its server: {words}", "Look at the server's log."),
    ("XX001", StoreUnavailable, "is damaged: {words}", "Look at the server's log, and put a backup in its place."),
    ("XX002", StoreUnavailable, "is damaged: {words}", "Look at the server's log, and put a backup in its place."),
)
"""What the beginning of a SQLSTATE means (https://www.postgresql.org/docs/current/errcodes-appendix.html), and what to do."""

_UNREACHABLE = (("", StoreUnavailable, "cannot be reached: {words}", "Look whether the server runs, and whether `store.url` is right."),)


def _unavailable(error: psycopg.Error, database: str, *, lost: bool, words: str) -> StoreUnavailable | None:
    """An error for the operator, or none if it is ours; libpq has no SQLSTATE for what fails before a session."""
    code = error.sqlstate or ""
    for beginning, kind, what, hint in (*_MEANINGS, *(_UNREACHABLE if lost else ())):
        if code.startswith(beginning):
            return kind(f"the database `{database}` {what.format(words=words)}", hint=hint, sqlstate=error.sqlstate)
    return None


def _words(error: psycopg.Error, secrets: Sequence[str]) -> str:
    """What the server or libpq says, in a line, without the address that we name ourselves, and without secrets."""
    line = (error.diag.message_primary or str(error)).partition("\n")[0].rpartition("failed: ")[2]
    return scrub(line.removeprefix("FATAL:").strip()[:LONGEST_WORDS].encode(), secrets).decode(errors="replace")


def _take_values_out(error: psycopg.Error, context: ExceptionContext) -> None:
    """A server quotes the row that it refuses ("Key (hash)=(…) already exists"): its first sentence names what is needed, and no row.

    Of class 22, data that cannot be read as what it should be, the first sentence quotes, too.
    """
    code, sentence = error.sqlstate, error.diag.message_primary
    if code is None or sentence is None:
        return
    error.args = (f"SQLSTATE {code}" if code.startswith("22") else f"{sentence} (SQLSTATE {code})",)
    if context.sqlalchemy_exception is not None:
        context.sqlalchemy_exception.args = (f"({type(error).__module__}.{type(error).__qualname__}) {error.args[0]}",)
