import tempfile
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine

from tests.fakes.clock import FakeClock
from tests.services import fresh_database
from tests.store.databases import as_nobody, migrated
from trunkline.base.clock import SystemClock
from trunkline.store.condition import condition
from trunkline.store.engine import file_of, open_engine


def test_a_database_that_is_well_has_nothing_in_the_way_of_an_upgrade(engine: Engine) -> None:
    found = condition(engine, SystemClock())
    assert found.server.partition(" ")[0] == {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[engine.dialect.name]
    assert found.size > 4096
    assert abs(found.seconds_ahead) < 2
    assert found.obstacles == ()


def test_a_clock_that_is_behind_the_database_is_seen(engine: Engine) -> None:
    real = SystemClock()
    assert condition(engine, FakeClock(real.now() - 100)).seconds_ahead == pytest.approx(100, abs=5)


def test_a_clock_that_is_ahead_is_seen_where_the_database_has_one(engine: Engine) -> None:
    ahead = condition(engine, FakeClock(SystemClock().now() + 100)).seconds_ahead
    assert ahead == pytest.approx(-100 if engine.dialect.name == "postgresql" else 0, abs=5)


def test_a_file_that_all_may_read_is_an_obstacle(tmp_path: Path) -> None:
    engine = open_engine(migrated(f"sqlite:///{tmp_path}/data/x.sqlite"))
    file = file_of(engine.url)
    file.chmod(0o604)
    assert condition(engine, SystemClock()).obstacles == (f"can be read by everybody: `{file}`",)
    engine.dispose()


def test_what_may_not_be_written_to_is_an_obstacle() -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        with as_nobody():
            engine = open_engine(migrated(f"sqlite:///{name}/data/x.sqlite"))
            file = file_of(engine.url)
            file.chmod(0o400)
            obstacles = condition(engine, SystemClock()).obstacles
            engine.dispose()
    assert f"cannot be changed, because `{file}` is read-only" in obstacles


@pytest.mark.needs("postgres")
def test_a_server_that_does_not_let_tables_be_changed_says_why() -> None:
    with fresh_database() as url, psycopg.connect(url, autocommit=True) as connection:
        migrated(url)

        def obstacles(more: str = "") -> tuple[str, ...]:
            engine = open_engine(url + more)
            try:
                return condition(engine, SystemClock()).obstacles
            finally:
                engine.dispose()

        assert obstacles() == ()
        assert obstacles("?options=-cdefault_transaction_read_only%3Don") == (
            "is read-only by its setting `default_transaction_read_only`",
        )
        assert obstacles("?options=-csearch_path%3Dnowhere") == ("has no schema for this user: see `search_path`",)
        role = f"guest_{url[-8:]}"
        connection.execute(f"CREATE ROLE {role} LOGIN")
        try:
            connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
            head, _, tail = url.partition("://")
            guest = open_engine(f"{head}://{role}@{tail.partition('@')[2]}")
            found = condition(guest, SystemClock()).obstacles
            guest.dispose()
        finally:
            connection.execute(f"DROP ROLE {role}")
        assert found[0] == "does not let its user make tables in the schema `public`"
        assert found[1].startswith("has tables of somebody else (")
        assert {"alembic_version", "keys"} <= set(found[1].partition("(")[2].rstrip(")").split(", "))
