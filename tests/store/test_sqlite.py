import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine

from tests.store.databases import as_nobody
from trunkline.errors import StoreFull, StoreReadOnly, StoreUnavailable
from trunkline.store.engine import appending, open_engine, reading, sqlite_url, writing
from trunkline.store.schema import migrate


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with an empty database."""
    engine = open_engine(sqlite_url(tmp_path))
    migrate(engine)
    engine.dispose()
    return tmp_path


@pytest.fixture
def engine(data: Path) -> Iterator[Engine]:
    engine = open_engine(sqlite_url(data), busy_seconds=0.2)
    yield engine
    engine.dispose()


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


def test_an_append_waits_for_the_writer_before_it(engine: Engine) -> None:
    with writing(engine), pytest.raises(StoreUnavailable, match="locked"), appending(engine):
        pytest.fail("there are two writers")


def test_every_connection_has_foreign_keys_and_a_write_ahead_log(engine: Engine) -> None:
    with reading(engine) as one, reading(engine) as two:
        for connection in (one, two):
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
            assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 200


def test_a_full_disk_has_a_code_of_its_own_and_changes_nothing(engine: Engine, data: Path) -> None:
    with pytest.raises(StoreFull) as caught, writing(engine) as connection:
        run(connection, "PRAGMA max_page_count = 1", "CREATE TABLE t (x)", f"INSERT INTO t VALUES ('{'x' * 100_000}')")
    assert str(data / "trunkline.sqlite") in caught.value.message
    assert "disk is full" in caught.value.message
    assert str(data) in caught.value.hint
    with reading(engine) as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM sqlite_master WHERE name = 't'").scalar_one() == 0


def test_a_read_only_database_has_a_code_of_its_own(engine: Engine, data: Path) -> None:
    with pytest.raises(StoreReadOnly) as caught, writing(engine) as connection:
        run(connection, "PRAGMA query_only = ON", "CREATE TABLE t (x)")
    assert "read-only" in caught.value.message
    assert str(data) in caught.value.hint


@pytest.fixture
def locked_folder() -> Iterator[Path]:
    """A folder that its user may read and not write to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        with as_nobody():
            yield folder


def test_a_folder_that_may_not_be_written_to_is_named(locked_folder: Path) -> None:
    for path in (locked_folder, locked_folder / "data"):
        with pytest.raises(StoreReadOnly) as caught:
            open_engine(sqlite_url(path))
        assert f"`{path / 'trunkline.sqlite'}` cannot be made: Permission denied" in caught.value.message
        assert str(path) in caught.value.hint


@pytest.mark.parametrize("locked", ["folder", "file", "both"])
def test_a_database_in_a_read_only_place_has_a_code_of_its_own_and_works_when_that_is_mended(locked: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        with as_nobody():
            folder = Path(name) / "data"
            engine = open_engine(sqlite_url(folder))
            migrate(engine)
            engine.dispose()
            (folder / "trunkline.sqlite").chmod(0o600 if locked == "folder" else 0o400)
            folder.chmod(0o700 if locked == "file" else 0o500)
            engine = open_engine(sqlite_url(folder))
            with pytest.raises(StoreReadOnly) as caught, writing(engine) as connection:
                run(connection, "CREATE TABLE t (x)")
            assert "read-only" in caught.value.message
            assert str(folder) in caught.value.hint
            folder.chmod(0o700)
            for path in folder.iterdir():  # a log that was made meanwhile is as read-only as the file
                path.chmod(0o600)
            with writing(engine) as connection:
                run(connection, "CREATE TABLE t (x)")
            engine.dispose()


def test_a_file_that_is_no_database_is_unavailable_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "trunkline.sqlite").write_bytes(b"a letter to my aunt " * 200)
    engine = open_engine(sqlite_url(tmp_path))
    with pytest.raises(StoreUnavailable, match="no SQLite database"), reading(engine):
        pass
    engine.dispose()


def test_a_damaged_database_is_worked_with_again_when_a_backup_is_in_its_place(data: Path, engine: Engine) -> None:
    backup = (data / "trunkline.sqlite").read_bytes()
    with reading(engine) as connection:
        connection.exec_driver_sql("SELECT * FROM keys")
    damaged = data / "damaged"
    damaged.write_bytes(backup[:4096] + b"\0" * (len(backup) - 4096))
    damaged.replace(data / "trunkline.sqlite")
    engine.dispose()
    with pytest.raises(StoreUnavailable, match="damaged"), reading(engine) as connection:
        connection.exec_driver_sql("SELECT * FROM keys")
    good = data / "good"
    good.write_bytes(backup)
    good.replace(data / "trunkline.sqlite")
    with reading(engine) as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM keys").scalar_one() == 0


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


@pytest.mark.parametrize("name", ["plain", "with space", "100%", "question?mark#hash", "größe"])
def test_a_data_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    engine = open_engine(sqlite_url(tmp_path / name))
    with reading(engine) as connection:
        connection.exec_driver_sql("SELECT 1")
    engine.dispose()
    assert (tmp_path / name / "trunkline.sqlite").is_file()
