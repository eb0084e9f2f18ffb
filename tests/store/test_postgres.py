"""What is PostgreSQL's alone: a server that is somewhere else, and may be away, slow, full or a standby."""

import socket
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from tests.fakes.cut import Cut
from trunkline.errors import StoreFull, StoreReadOnly, StoreUnavailable
from trunkline.store import postgres as postgres_module
from trunkline.store.engine import appending, open_engine, reading, writing

pytestmark = pytest.mark.needs("postgres")

CANARY = "hunter2canary"


@pytest.fixture
def line(postgres: str) -> Iterator[Cut]:
    """The way to the database, which can be cut."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t (x INTEGER)")
        connection.execute("TRUNCATE t")
    with Cut(with_password(postgres)) as line:
        yield line


@pytest.fixture
def engine(line: Cut, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setattr(postgres_module, "GRACE_SECONDS", 0.3)
    engine = open_engine(line.url, busy_seconds=0.2, answer_seconds=0.5)
    yield engine
    engine.dispose()


def with_password(url: str) -> str:
    """The same URL with a password, which the server does not ask for."""
    head, at, tail = url.partition("@")
    return f"{head}:{CANARY}{at}{tail}"


def rows(engine: Engine) -> int:
    with reading(engine) as connection:
        return connection.exec_driver_sql("SELECT count(*) FROM t").scalar_one()


def write_in_two_steps(engine: Engine, between: Callable[[int], None]) -> None:
    """A transaction in whose midst something happens; it is told the session's process."""
    with writing(engine) as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        between(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())
        connection.exec_driver_sql("INSERT INTO t VALUES (2)")


def told(error: BaseException | None) -> str:
    """Everything that a log would show of an error: its causes too."""
    return "" if error is None else f"{error!r} {error} {getattr(error, 'hint', '')} {told(error.__cause__)} {told(error.__context__)}"


def no_secret(error: BaseException) -> None:
    assert CANARY not in told(error)
    assert "postgresql://" not in told(error)


@pytest.mark.parametrize(
    ("state", "kind", "says"),
    [
        ("53100", StoreFull, "disk is full"),
        ("25006", StoreReadOnly, "read-only"),
        ("53300", StoreUnavailable, "no resources left"),
        ("53200", StoreUnavailable, "no resources left"),
        ("55P03", StoreUnavailable, "locked"),
        ("57014", StoreUnavailable, "in time"),
        ("57P01", StoreUnavailable, "cannot be reached"),
        ("57P03", StoreUnavailable, "cannot be reached"),
        ("08006", StoreUnavailable, "cannot be reached"),
        ("40P01", StoreUnavailable, "busy"),
        ("40001", StoreUnavailable, "busy"),
        ("42501", StoreUnavailable, "does not let its user"),
        ("58030", StoreUnavailable, "fails on its server"),
        ("XX001", StoreUnavailable, "damaged"),
    ],
)
def test_what_a_server_says_has_a_code_and_words_of_ours_and_the_next_question_is_answered(
    engine: Engine, state: str, kind: type[StoreUnavailable], says: str
) -> None:
    def fail() -> None:
        with writing(engine) as connection:
            connection.exec_driver_sql("INSERT INTO t VALUES (1)")
            connection.exec_driver_sql(f"DO $$ BEGIN RAISE EXCEPTION 'it''s so' USING ERRCODE = '{state}'; END $$")

    with pytest.raises(StoreUnavailable) as caught:
        fail()
    assert type(caught.value) is kind
    assert says in caught.value.message
    assert caught.value.facts == {"sqlstate": state}
    assert caught.value.hint
    no_secret(caught.value)
    assert rows(engine) == 0


def test_a_server_that_is_not_there_is_unavailable_at_once(postgres: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    engine = open_engine(f"postgresql://someone:{CANARY}@127.0.0.1:{port}/trunkline")
    with pytest.raises(StoreUnavailable, match="Connection refused") as caught, reading(engine):
        pytest.fail("it is there")
    assert f"`trunkline at 127.0.0.1:{port}`" in caught.value.message
    assert "someone" not in caught.value.sentence
    no_secret(caught.value)
    engine.dispose()


@pytest.mark.parametrize(("old", "new"), [("trunkline@", f"somebody_else:{CANARY}@"), ("/t_", "/no_such_")])
def test_a_user_or_a_database_that_is_not_there_is_named_by_the_server(postgres: str, old: str, new: str) -> None:
    user = postgres.partition("//")[2].partition("@")[0]
    engine = open_engine(postgres.replace(old.replace("trunkline", user), new))
    with pytest.raises(StoreUnavailable, match="does not exist") as caught, reading(engine):
        pytest.fail("it is there")
    no_secret(caught.value)
    engine.dispose()


def test_a_parameter_that_no_driver_knows_is_told_without_the_rest(postgres: str) -> None:
    engine = open_engine(with_password(postgres) + "?sslmod=require")
    with pytest.raises(StoreUnavailable, match="sslmod") as caught, reading(engine):
        pytest.fail("it is known")
    no_secret(caught.value)
    engine.dispose()


def test_parameters_of_the_url_win_over_ours(postgres: str) -> None:
    engine = open_engine(postgres + "?application_name=mine&options=-csearch_path%3Dpg_catalog")
    with reading(engine) as connection:
        assert connection.exec_driver_sql("SELECT current_setting('application_name')").scalar_one() == "mine"
        assert connection.exec_driver_sql("SHOW search_path").scalar_one() == "pg_catalog"
    engine.dispose()


def test_every_session_has_its_limits_whatever_the_server_s_own(engine: Engine) -> None:
    with writing(engine) as connection:
        shown = [
            connection.exec_driver_sql(f"SHOW {name}").scalar_one()
            for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "transaction_isolation")
        ]
    assert shown == ["500ms", "200ms", "30s", "read committed"]
    with reading(engine) as connection:
        assert connection.exec_driver_sql("SHOW transaction_isolation").scalar_one() == "repeatable read"
        assert connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar_one() == "0"


def test_appends_wait_for_nobody(engine: Engine) -> None:
    with writing(engine) as writer:
        writer.exec_driver_sql("INSERT INTO t VALUES (1)")
        with appending(engine) as connection:
            connection.exec_driver_sql("INSERT INTO t VALUES (2)")
        assert rows(engine) == 1


def test_a_connection_that_broke_while_nobody_used_it_is_replaced(engine: Engine, line: Cut) -> None:
    assert rows(engine) == 0
    line.cut()
    line.mend()
    assert rows(engine) == 0
    assert line.connections == 2


def test_a_session_that_the_server_ends_is_told_and_the_next_one_works(engine: Engine, postgres: str) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
        write_in_two_steps(engine, lambda pid: ended(pid, postgres))
    no_secret(caught.value)
    assert rows(engine) == 0


def ended(pid: int, url: str) -> None:
    """A session that its server has ended, and nobody told the client."""
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


def test_a_line_that_is_cut_in_the_midst_of_a_transaction_undoes_it_and_is_used_again(engine: Engine, line: Cut) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        write_in_two_steps(engine, lambda _pid: line.cut())
    no_secret(caught.value)
    with pytest.raises(StoreUnavailable, match="Connection refused"):
        rows(engine)
    line.mend()
    assert rows(engine) == 0


def test_a_server_that_falls_silent_is_given_up_in_time(engine: Engine, line: Cut) -> None:
    assert rows(engine) == 0
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="did not answer within") as caught:
        write_in_two_steps(engine, lambda _pid: line.stall())
    assert time.monotonic() - began < 5
    no_secret(caught.value)
    line.mend()
    assert rows(engine) == 0


def test_a_server_that_takes_a_connection_and_says_nothing_is_given_up_in_time(line: Cut) -> None:
    line.stall()
    engine = open_engine(f"{line.url}?connect_timeout=2")
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="timeout expired"):
        rows(engine)
    assert time.monotonic() - began < 10
    line.mend()
    assert rows(engine) == 0
    engine.dispose()


def test_a_statement_that_takes_too_long_is_ended_by_the_server(engine: Engine) -> None:
    with pytest.raises(StoreUnavailable, match="in time"), reading(engine) as connection:
        connection.exec_driver_sql("SELECT pg_sleep(20)")
    assert rows(engine) == 0


def test_a_standby_that_becomes_the_primary_is_written_to_without_a_restart(engine: Engine, postgres: str) -> None:
    def set_up(setting: str) -> None:
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER DATABASE {postgres.rpartition('/')[2]} {setting}")

    set_up("SET default_transaction_read_only = on")
    assert rows(engine) == 0
    with pytest.raises(StoreReadOnly) as caught, writing(engine) as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    assert "standby" in caught.value.hint
    set_up("RESET default_transaction_read_only")
    with writing(engine) as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    assert rows(engine) == 1


def test_what_cannot_be_read_as_its_type_is_our_mistake_and_not_repeated(engine: Engine) -> None:
    with pytest.raises(DBAPIError, match="SQLSTATE 22P02") as caught, reading(engine) as connection:
        connection.execute(text("SELECT CAST(CAST(:value AS text) AS integer)"), {"value": CANARY})
    no_secret(caught.value)


def test_an_old_server_is_refused_with_what_is_needed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_module, "OLDEST", 999)
    with pytest.raises(StoreUnavailable) as caught, reading(engine):
        pytest.fail("it is taken")
    assert "999" in caught.value.hint
