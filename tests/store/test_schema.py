import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Engine, text

from tests.fakes.clock import FakeClock
from tests.store.databases import Databases
from trunkline.access.accounts import Accounts
from trunkline.access.keys import Keys
from trunkline.access.ring import KeyRing
from trunkline.errors import MigrationNeeded, StoreUnavailable
from trunkline.store import postgres as postgres_module
from trunkline.store.engine import open_engine, reading, writing
from trunkline.store.schema import SchemaState, migrate, schema_state, upgrade
from trunkline.store.tables import metadata

MIGRATE = """
import sys
from trunkline.store.engine import open_engine
from trunkline.store.schema import migrate
import alembic.command, alembic.migration, psycopg

print("ready", flush=True)
sys.stdin.readline()
engine = open_engine(sys.argv[1])
print(migrate(engine))
engine.dispose()
"""

KEY_OF_0001 = text(
    "INSERT INTO keys (id, name, prefix, hash, scopes, created_at, expires_at, revoked_at, last_used_at) "
    "VALUES (:id, :name, :prefix, :hash, :scopes, 1700000000.5, NULL, :revoked_at, 1700000001)"
)


@pytest.fixture
def empty_url(databases: Databases) -> Iterator[str]:
    with databases.fresh(empty=True) as url:
        yield url


@pytest.fixture
def empty(empty_url: str) -> Iterator[Engine]:
    engine = open_engine(empty_url, busy_seconds=0.2)
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
        connection.exec_driver_sql("CREATE TABLE keys (in_the_way INTEGER)")
    with pytest.raises(Exception, match="already exists"):
        migrate(empty)
    assert schema_state(empty).current is None
    with reading(empty) as connection:
        assert not empty.dialect.has_table(connection, "alembic_version")


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
def test_any_number_of_processes_may_migrate_the_same_new_database_at_once(databases: Databases, attempt: int) -> None:
    with databases.fresh(empty=True) as url:
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", MIGRATE, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for _ in range(3)
        ]
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=30) for process in processes]
        assert [process.returncode for process in processes] == [0, 0, 0], answers
        assert len({out for out, _ in answers}) == 1
        engine = open_engine(url)
        assert schema_state(engine).ready
        engine.dispose()


async def test_the_keys_of_the_first_schema_work_at_the_newest_one(empty: Engine) -> None:
    def made(number: int, revoked_at: float | None = None) -> str:
        key = f"swb_{number:032}"
        connection.execute(
            KEY_OF_0001,
            {
                "id": f"key_{'abc'[number] * 24}",
                "name": f"number {number}",
                "prefix": key[:8],
                "hash": sha256(key.encode()).hexdigest(),
                "scopes": '["inference"]' if number else '["admin"]',
                "revoked_at": revoked_at,
            },
        )
        return key

    with writing(empty) as connection:
        upgrade(connection, "0001")
        live = [made(0), made(1)]
        revoked = made(2, 1700000002.0)
    assert schema_state(empty).current == "0001"
    assert migrate(empty).ready

    clock = FakeClock()
    rows = Keys(empty, clock).list()
    assert [(row.name, row.created_at, row.revoked_at, row.last_used_at) for row in rows] == [
        ("number 0", 1700000000.5, None, 1700000001.0),
        ("number 1", 1700000000.5, None, 1700000001.0),
        ("number 2", 1700000000.5, 1700000002.0, 1700000001.0),
    ]
    assert {(row.account, row.user, row.models, row.end_users, row.updated_at, row.revision) for row in rows} == {
        ("acc_default", None, None, "key", 1700000000.5, 1)
    }
    assert [(row.id, row.name, row.created_at) for row in Accounts(empty, clock).list()] == [("acc_default", "default", 1700000000.5)]
    ring = KeyRing(empty, clock, failed=lambda where, error: pytest.fail(f"{where}: {error}"))
    async with ring.running():
        callers = [await ring.identify(key, "192.0.2.1") for key in live]
        assert [caller.name for caller in callers] == ["number 0", "number 1"]
        assert ["admin" in caller.scopes for caller in callers] == [True, False]
        assert sha256(revoked.encode()).digest() not in ring._known


def test_each_migration_is_a_step_of_its_own(empty: Engine) -> None:
    for number in range(1, int(schema_state(empty).head) + 1):
        with writing(empty) as connection:
            upgrade(connection, f"{number:04}")
    assert schema_state(empty).ready


@pytest.mark.needs("postgres")
def test_a_migration_may_take_longer_than_any_other_statement(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def take_long(config: Config, _revision: str) -> None:
        config.attributes["connection"].exec_driver_sql("SELECT pg_sleep(0.8)")

    monkeypatch.setattr(postgres_module, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr("alembic.command.upgrade", take_long)
    engine = open_engine(postgres, answer_seconds=0.5)
    with writing(engine) as connection:
        upgrade(connection)
    with pytest.raises(StoreUnavailable, match="in time"), writing(engine) as connection:
        connection.exec_driver_sql("SELECT pg_sleep(10)")
    engine.dispose()


@pytest.mark.parametrize("module", ["trunkline.store", "trunkline.store.schema", "trunkline.access.ring", "trunkline.store.writer"])
def test_alembic_is_not_imported_before_it_is_needed(module: str) -> None:
    code = f"import sys, {module}; sys.exit('alembic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_driver_of_a_server_is_not_imported_for_a_file(tmp_path: Path) -> None:
    code = f"import sys; from trunkline.store.engine import open_engine; open_engine('sqlite:///{tmp_path}/x'); sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_store_s_own_name_imports_no_database_library() -> None:
    code = "import sys, trunkline.store; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_migration_follows_the_one_before_by_number() -> None:
    versions = Path(sys.modules[migrate.__module__].__file__).parent / "migrations" / "versions"
    numbers = sorted(path.name[:4] for path in versions.glob("*.py"))
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
