import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import IntegrityError, OperationalError

from trunkline.errors import ConfigInvalid, StoreUnavailable
from trunkline.store.engine import open_engine, reading, sqlite_url, writing

ROW = text("INSERT INTO keys (id, name, prefix, hash, scopes, created_at) VALUES (:id, 'n', 'swb_aaaa', :id, '[]', 0)")


def run(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.exec_driver_sql(statement)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_database_and_its_folder_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    engine = open_engine(sqlite_url(folder))
    with writing(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE t (x)")
    files = {path.name: mode(path) for path in folder.iterdir()}
    engine.dispose()
    assert mode(folder) == 0o700
    assert files == {"trunkline.sqlite": 0o600, "trunkline.sqlite-wal": 0o600, "trunkline.sqlite-shm": 0o600}


def test_opening_a_database_again_leaves_its_rights_and_its_rows(data: Path) -> None:
    (data / "trunkline.sqlite").chmod(0o640)
    for _ in range(2):
        engine = open_engine(sqlite_url(data))
        with writing(engine) as connection:
            connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS t (x)")
            connection.exec_driver_sql("INSERT INTO t VALUES (1)")
            count = connection.exec_driver_sql("SELECT count(*) FROM t").scalar_one()
        engine.dispose()
    assert count == 2
    assert mode(data / "trunkline.sqlite") == 0o640


def test_every_connection_has_foreign_keys_and_a_write_ahead_log(engine: Engine) -> None:
    with reading(engine) as one, reading(engine) as two:
        for connection in (one, two):
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
            assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 200


def test_a_reader_sees_one_state_while_another_connection_writes(engine: Engine) -> None:
    with reading(engine) as reader:
        assert reader.exec_driver_sql("SELECT count(*) FROM keys").scalar_one() == 0
        with writing(engine) as writer:
            writer.execute(ROW, {"id": "a"})
        assert reader.exec_driver_sql("SELECT count(*) FROM keys").scalar_one() == 0
    with reading(engine) as reader:
        assert reader.exec_driver_sql("SELECT count(*) FROM keys").scalar_one() == 1


def test_a_transaction_that_fails_leaves_nothing_not_even_a_table(engine: Engine) -> None:
    with pytest.raises(OperationalError), writing(engine) as connection:
        run(connection, "CREATE TABLE half (x)", "CREATE TABLE half (x)")
    with reading(engine) as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM sqlite_master WHERE name = 'half'").scalar_one() == 0


def test_a_reader_that_turned_writer_is_no_writer_for_the_next_user_of_its_connection(engine: Engine) -> None:
    with writing(engine):
        pass
    with reading(engine) as one, reading(engine) as two:  # the first comes from the pool; two write locks at once would be refused
        one.exec_driver_sql("SELECT 1")
        two.exec_driver_sql("SELECT 1")


def test_a_database_that_another_process_writes_to_is_unavailable_and_says_so(engine: Engine, data: Path) -> None:
    with writing(engine), pytest.raises(StoreUnavailable) as caught, writing(engine):
        pytest.fail("there are two writers")
    assert str(data / "trunkline.sqlite") in caught.value.message
    assert "locked" in caught.value.message
    assert caught.value.hint


def test_a_full_disk_is_unavailable_and_says_so(engine: Engine, data: Path) -> None:
    with pytest.raises(StoreUnavailable) as caught, writing(engine) as connection:
        run(connection, "PRAGMA max_page_count = 1", "CREATE TABLE t (x)", f"INSERT INTO t VALUES ('{'x' * 100_000}')")
    assert str(data / "trunkline.sqlite") in caught.value.message
    assert "disk is full" in caught.value.message
    assert str(data) in caught.value.hint


def test_a_read_only_database_is_unavailable_and_says_so(engine: Engine, data: Path) -> None:
    with pytest.raises(StoreUnavailable) as caught, writing(engine) as connection:
        run(connection, "PRAGMA query_only = ON", "CREATE TABLE t (x)")
    assert "read-only" in caught.value.message
    assert str(data) in caught.value.hint


@pytest.fixture
def locked_folder() -> Iterator[Path]:
    """A folder that its user may read and not write to; root becomes somebody else meanwhile, for root may do everything."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        if user == 0:
            os.seteuid(65534)
        yield folder
        os.seteuid(user)


def test_a_folder_that_may_not_be_written_to_is_named(locked_folder: Path) -> None:
    for path in (locked_folder, locked_folder / "data"):
        with pytest.raises(StoreUnavailable) as caught:
            open_engine(sqlite_url(path))
        assert f"`{path / 'trunkline.sqlite'}` cannot be made: Permission denied" in caught.value.message
        assert str(path) in caught.value.hint


def test_a_file_that_is_no_database_is_unavailable_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "trunkline.sqlite").write_bytes(b"a letter to my aunt " * 200)
    engine = open_engine(sqlite_url(tmp_path))
    with pytest.raises(StoreUnavailable, match="no SQLite database"), reading(engine):
        pass
    engine.dispose()


def test_a_folder_in_the_file_s_place_is_unavailable_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "trunkline.sqlite").mkdir()
    engine = open_engine(sqlite_url(tmp_path))
    with pytest.raises(StoreUnavailable, match="cannot be opened"), reading(engine):
        pass
    engine.dispose()


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable) as caught:
        open_engine(sqlite_url(tmp_path / "file" / "data"))
    assert str(tmp_path / "file" / "data" / "trunkline.sqlite") in caught.value.message
    assert caught.value.hint


def test_our_own_mistakes_are_not_the_operator_s(engine: Engine) -> None:
    with pytest.raises(OperationalError), reading(engine) as connection:
        connection.exec_driver_sql("SELECT * FROM nowhere")
    with writing(engine) as connection:
        connection.execute(ROW, {"id": "a"})
    with pytest.raises(IntegrityError), writing(engine) as connection:
        connection.execute(ROW, {"id": "a"})


def test_a_value_stays_out_of_every_database_error(engine: Engine) -> None:
    with pytest.raises(IntegrityError) as caught, writing(engine) as connection:
        connection.execute(ROW, [{"id": "canary"}, {"id": "canary"}])
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://trunkline:hunter2@db/trunkline",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:////data/x.sqlite?password=hunter2",
        "hunter2",
        "",
    ],
)
def test_a_url_of_something_else_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        open_engine(url)
    assert "hunter2" not in caught.value.sentence
    assert "sqlite" in caught.value.hint


@pytest.mark.parametrize("name", ["plain", "with space", "100%", "question?mark#hash", "größe"])
def test_a_data_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    engine = open_engine(sqlite_url(tmp_path / name))
    with reading(engine) as connection:
        connection.exec_driver_sql("SELECT 1")
    engine.dispose()
    assert (tmp_path / name / "trunkline.sqlite").is_file()
