import threading

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from trunkline.errors import ConfigInvalid, StoreUnavailable
from trunkline.store.engine import appending, open_engine, reading, writing

ROW = text("INSERT INTO keys (id, name, prefix, hash, scopes, created_at) VALUES (:id, 'n', 'swb_aaaa', :id, '[]', 0)")


def count(connection: Connection, table: str = "keys") -> int:
    return connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()


def test_a_reader_sees_one_state_while_another_connection_writes(engine: Engine) -> None:
    with reading(engine) as reader:
        assert count(reader) == 0
        with writing(engine) as writer:
            writer.execute(ROW, {"id": "a"})
        assert count(reader) == 0
    with reading(engine) as reader:
        assert count(reader) == 1


@pytest.mark.parametrize("way", [writing, appending])
def test_a_transaction_that_fails_leaves_nothing_not_even_a_table(engine: Engine, way: type[writing]) -> None:
    def change() -> None:
        with way(engine) as connection:
            connection.execute(ROW, {"id": "a"})
            for _ in range(2):
                connection.exec_driver_sql("CREATE TABLE half (x INTEGER)")

    with pytest.raises(DBAPIError, match="already exists"):
        change()
    with reading(engine) as connection:
        assert count(connection) == 0
    with pytest.raises(DBAPIError, match="half"), reading(engine) as connection:
        count(connection, "half")


def test_what_is_only_read_changes_nothing(engine: Engine) -> None:
    with reading(engine) as connection:
        connection.execute(ROW, {"id": "a"})
    with reading(engine) as connection:
        assert count(connection) == 0


def test_a_reader_that_turned_writer_is_no_writer_for_the_next_user_of_its_connection(engine: Engine) -> None:
    with writing(engine):
        pass
    with reading(engine) as one, reading(engine) as two:  # the first comes from the pool; two write locks at once would be refused
        assert (count(one), count(two)) == (0, 0)


def test_a_database_that_another_process_writes_to_is_unavailable_and_says_so(engine: Engine) -> None:
    with writing(engine), pytest.raises(StoreUnavailable) as caught, writing(engine):
        pytest.fail("there are two writers")
    assert "locked" in caught.value.message
    assert caught.value.hint
    with writing(engine) as connection:
        connection.execute(ROW, {"id": "a"})


def test_what_a_writer_read_still_holds_when_it_writes(engine: Engine) -> None:
    """Writers that count first never write the same number, however their statements meet, and whatever their connections did before."""
    begin = threading.Barrier(4)
    patient = open_engine(engine.url)

    def write() -> None:
        begin.wait(10)
        for _ in range(5):
            with reading(patient) as connection:
                count(connection)
            with writing(patient) as connection:
                connection.execute(ROW, {"id": f"row {count(connection)}"})

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    with reading(patient) as connection:
        assert count(connection) == 20
    patient.dispose()


def test_when_all_connections_are_in_use_the_next_one_is_not_waited_for_long(engine: Engine) -> None:
    held = [engine.connect() for _ in range(15)]
    with pytest.raises(StoreUnavailable, match="in use"), reading(engine):
        pytest.fail("there is one more")
    for connection in held:
        connection.close()
    with reading(engine) as connection:
        assert count(connection) == 0


def test_our_own_mistakes_are_not_the_operator_s(engine: Engine) -> None:
    with pytest.raises(DBAPIError, match="nowhere"), reading(engine) as connection:
        count(connection, "nowhere")
    with writing(engine) as connection:
        connection.execute(ROW, {"id": "a"})
    with pytest.raises(IntegrityError), writing(engine) as connection:
        connection.execute(ROW, {"id": "a"})


def told(error: BaseException | None) -> str:
    """Everything that a log would show of an error: its causes too."""
    return "" if error is None else f"{error!r} {error} {told(error.__cause__)} {told(error.__context__)}"


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO keys (id, name, prefix, hash, scopes, created_at) VALUES (:canary, 'n', 'p', :canary, '[]', 0), ('b', 'n', 'p', :canary, '[]', 0)",
        "INSERT INTO keys (id, name, prefix, hash, scopes, created_at) VALUES (:canary, NULL, 'p', :canary, '[]', 0)",
        "SELECT * FROM nowhere WHERE x = :canary",
    ],
)
def test_a_value_stays_out_of_every_database_error(engine: Engine, statement: str) -> None:
    with pytest.raises(DBAPIError) as caught, writing(engine) as connection:
        connection.execute(text(statement), {"canary": "tweety"})
    assert "tweety" not in told(caught.value)
    assert "keys" in told(caught.value) or "nowhere" in told(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://trunkline:hunter2@db/trunkline",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:////data/x.sqlite?password=hunter2",
        "sqlite://hunter2/x.sqlite",
        "postgresql://trunkline:hunter2@db",
        "postgresql://trunkline@db/trunkline?password=hunter2",
        "postgresql://trunkline:hunter2@db:port/trunkline",
        "hunter2",
        "",
    ],
)
def test_a_url_of_something_else_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        open_engine(url)
    assert "hunter2" not in told(caught.value)
    assert "sqlite" in caught.value.hint or "postgresql" in caught.value.hint
