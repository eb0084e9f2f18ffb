"""A page of a list is found by an index, however many rows there are, and however many others have."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from tests.fakes.clock import FakeClock
from tests.fakes.people import settle
from trunkline.access.accounts import Accounts
from trunkline.access.connection_rows import ConnectionRows
from trunkline.access.credentials import Credentials
from trunkline.access.key_sources import FileSource
from trunkline.access.keys import Keys
from trunkline.access.users import Users
from trunkline.access.vault import Vault
from trunkline.store.engine import open_engine, reading, sqlite_url
from trunkline.store.schema import migrate

Page = Callable[[Engine, FakeClock, Vault], object]

PAGES: dict[str, tuple[Page, str]] = {
    "accounts": (lambda engine, clock, _: Accounts(engine, clock).list(after="acc_", limit=50), "(id>?)"),
    "users": (
        lambda engine, clock, _: Users(engine, clock).list(account="acc_a", after="usr_", limit=50),
        "(account_id=? AND id>?)",
    ),
    "all users": (lambda engine, clock, _: Users(engine, clock).list(after="usr_", limit=50), "(id>?)"),
    "keys": (
        lambda engine, clock, _: Keys(engine, clock).list(account="acc_a", after="key_", limit=50),
        "(account_id=? AND id>?)",
    ),
    "all keys": (lambda engine, clock, _: Keys(engine, clock).list(after="key_", limit=50), "(id>?)"),
    "a user's connections": (
        lambda *at: _connections(*at).list(account="acc_a", user="usr_a", after="con_", limit=50),
        "(account=? AND user=? AND id>?)",
    ),
    "all connections": (lambda *at: _connections(*at).list(after="con_", limit=50), "(id>?)"),
    "all credentials": (lambda engine, clock, vault: Credentials(engine, vault, clock).list(after="cred_", limit=50), "(id>?)"),
}
"""What is listed, and by what it is to be found."""


def _connections(engine: Engine, clock: FakeClock, vault: Vault) -> ConnectionRows:
    return ConnectionRows(engine, vault, clock)


@pytest.mark.parametrize(("page", "by"), PAGES.values(), ids=PAGES)
def test_a_page_is_found_by_an_index(tmp_path: Path, clock: FakeClock, page: Page, by: str) -> None:
    engine = open_engine(sqlite_url(tmp_path))  # whose plans do not depend on how many rows there are
    migrate(engine)
    settle(engine, acc_a=["usr_a"])
    asked: list[tuple[str, object]] = []
    event.listen(engine, "before_cursor_execute", lambda _connection, _cursor, statement, values, *_: asked.append((statement, values)))
    page(engine, clock, Vault(engine, FileSource(tmp_path / "vault.key")))
    statement, values = asked[-1]
    with reading(engine) as connection:
        plan = [row[-1] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)]
    engine.dispose()
    assert len(plan) == 1, "nothing is sorted"
    assert plan[0].endswith(by)


def test_what_a_deleted_user_had_is_found_by_an_index(tmp_path: Path, clock: FakeClock) -> None:
    engine = open_engine(sqlite_url(tmp_path))
    migrate(engine)
    settle(engine, acc_a=["usr_a"])
    asked: list[tuple[str, object]] = []
    event.listen(engine, "before_cursor_execute", lambda _connection, _cursor, statement, values, *_: asked.append((statement, values)))
    Users(engine, clock).delete("usr_a")
    with reading(engine) as connection:
        plans = {
            row[-1]
            for statement, values in asked.copy()
            if statement.startswith(("DELETE", "UPDATE"))
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        }
    engine.dispose()
    assert not [plan for plan in plans if plan.startswith("SCAN")]
