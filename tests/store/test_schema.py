import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine

from trunkline.errors import MigrationNeeded, StoreUnavailable
from trunkline.store.engine import open_engine, reading, sqlite_url, writing
from trunkline.store.schema import SchemaState, migrate, schema_state
from trunkline.store.tables import metadata

MIGRATE = """
import sys
from pathlib import Path
from trunkline.store.engine import open_engine, sqlite_url
from trunkline.store.schema import migrate
import alembic.command, alembic.migration

print("ready", flush=True)
sys.stdin.readline()
engine = open_engine(sqlite_url(Path(sys.argv[1])))
print(migrate(engine))
engine.dispose()
"""


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(sqlite_url(tmp_path), busy_seconds=0.2)
    yield engine
    engine.dispose()


def test_the_migrations_build_exactly_the_declared_tables(engine: Engine) -> None:
    with reading(engine) as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, metadata()) == []


def test_a_new_database_is_behind_until_it_is_migrated(empty: Engine) -> None:
    before = schema_state(empty)
    after = migrate(empty)
    assert (before.current, before.ready) == (None, False)
    assert after == schema_state(empty) == SchemaState(current=after.head, head=before.head, known=True)
    assert after.ready


def test_migrating_again_changes_nothing_and_waits_for_no_writer(engine: Engine) -> None:
    with writing(engine) as connection:
        connection.exec_driver_sql("INSERT INTO keys (id, name, prefix, hash, scopes, created_at) VALUES ('a', '', '', '', '', 0)")
    with writing(engine):
        assert migrate(engine).ready
    with reading(engine) as connection:
        assert connection.exec_driver_sql("SELECT id FROM keys").scalar_one() == "a"


def test_a_migration_that_fails_leaves_the_database_as_it_was(empty: Engine) -> None:
    with writing(empty) as connection:
        connection.exec_driver_sql("CREATE TABLE keys (in_the_way)")
    with pytest.raises(Exception, match="already exists"):
        migrate(empty)
    assert schema_state(empty).current is None


def test_a_newer_database_is_refused_with_what_to_do(engine: Engine) -> None:
    with writing(engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    state = schema_state(engine)
    assert (state.current, state.known, state.ready) == ("9999", False, False)
    with pytest.raises(MigrationNeeded) as caught:
        migrate(engine)
    assert "9999" in caught.value.message
    assert state.head in caught.value.message
    assert "newer" in caught.value.hint


def test_a_database_that_stays_locked_is_unavailable_to_a_migration(empty: Engine) -> None:
    with writing(empty), pytest.raises(StoreUnavailable, match="locked"):
        migrate(empty)


@pytest.mark.parametrize("attempt", range(3))
def test_two_processes_may_migrate_the_same_new_folder_at_once(tmp_path: Path, attempt: int) -> None:
    data = tmp_path / "data"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATE, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=30) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], answers
    assert len({out for out, _ in answers}) == 1
    engine = open_engine(sqlite_url(data))
    assert schema_state(engine).ready
    engine.dispose()


@pytest.mark.parametrize("module", ["trunkline.store", "trunkline.store.schema", "trunkline.access.ring"])
def test_alembic_is_not_imported_before_it_is_needed(module: str) -> None:
    code = f"import sys, {module}; sys.exit('alembic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_store_s_own_name_imports_no_database_library() -> None:
    code = "import sys, trunkline.store; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_migration_follows_the_one_before_by_number() -> None:
    versions = Path(sys.modules[migrate.__module__].__file__).parent / "migrations" / "versions"
    numbers = sorted(path.name[:4] for path in versions.glob("*.py"))
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
