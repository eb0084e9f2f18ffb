"""The daemon contract's store and coordinator, kept in either database."""

import io
import os
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, update

from sdk.tests.daemon.renewal_contract import EXPIRED, RenewalContract
from sdk.tests.daemon.store_contract import StoreContract
from tests.fakes.clock import FakeClock
from tests.fakes.people import settle
from tests.services import REDIS
from tests.store.shared.places import Failures, link_to
from trunkline.access.connection_rows import ConnectionRows, Place
from trunkline.access.key_sources import FileSource
from trunkline.access.token_store import TokenStore
from trunkline.access.vault import Vault
from trunkline.base.clock import SystemClock
from trunkline.errors import NotFound, VaultUnavailable
from trunkline.store.backup import dump, restore
from trunkline.store.engine import open_engine, reading, sqlite_url, writing
from trunkline.store.shared.contract import Leases
from trunkline.store.shared.file_lease import FileLeases
from trunkline.store.shared.leases import TtlLeases
from trunkline.store.shared.redis import RedisTable
from trunkline.store.tables.connections import TABLE
from trunkline_sdk.daemon.messages import Record
from trunkline_sdk.daemon.tokenstore import Conflict

pytestmark = pytest.mark.proves("connections.store")


@pytest.fixture
def vault(engine: Engine, tmp_path: Path) -> Vault:
    return Vault(engine, FileSource(tmp_path / "vault.key"))


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.fixture
async def leases(engine: Engine, tmp_path: Path, redis_prefix: str) -> AsyncGenerator[Leases]:
    """By files beside SQLite; beside PostgreSQL on the other server, as installations have it, where there is one."""
    if engine.dialect.name == "sqlite" or REDIS not in os.environ:
        yield FileLeases(tmp_path / "leases", SystemClock())
        return
    link = link_to(os.environ[REDIS], redis_prefix)
    yield TtlLeases(RedisTable(link), SystemClock(), failed=Failures(), ttl=5)
    await link.aclose()


@pytest.fixture
def store(engine: Engine, vault: Vault, clock: FakeClock, leases: Leases, threads: ThreadPoolExecutor) -> TokenStore:
    return TokenStore(ConnectionRows(engine, vault, clock), leases, threads, clock)


class TestTokenStore(StoreContract, RenewalContract):
    """I.13, store suite and coordinator."""


def rows(engine: Engine) -> list[dict[str, object]]:
    with reading(engine) as connection:
        return [dict(row) for row in connection.execute(select(TABLE).order_by(TABLE.c.id)).mappings()]


async def test_all_of_a_record_comes_back_and_its_row_tells_no_token(store: TokenStore, engine: Engine) -> None:
    settle(engine, acc_a=["usr_a"])
    place = Place("acc_a", "usr_a", "up/signed")
    given = Record(
        access_token="canary-access",
        refresh_token="canary-refresh-é",
        id_token="canary-id",
        token_type="Bearer",
        expiry=EXPIRED.expiry,
        account_id="ann@example.test",
        metadata={"oauth_client_secret": "canary-client", "account_label": "Ann\n"},
    )
    kept = await store.save(place.key, given)
    assert kept == await store.load(place.key) != given
    assert {name: getattr(kept, name) for name in kept.__struct_fields__ if name != "revision"} == {
        name: getattr(given, name) for name in given.__struct_fields__ if name != "revision"
    }
    [row] = rows(engine)
    assert "canary" not in repr(row)
    assert [row[name] for name in ("provider", "account", "user", "token_type", "label", "refreshable")] == [
        *("up/signed", "acc_a", "usr_a", "Bearer", "Ann", True)
    ]
    assert EXPIRED.expiry is not None
    assert row["expires_at"] == EXPIRED.expiry.timestamp()


@pytest.mark.parametrize("change", [{"account": "acc_b"}, {"user": ""}, {"provider": "up/other"}])
async def test_a_record_that_was_moved_does_not_open(store: TokenStore, engine: Engine, change: dict[str, str]) -> None:
    settle(engine, acc_a=["usr_a"], acc_b=[])
    place = Place("acc_a", "usr_a", "up/signed")
    await store.save(place.key, Record(access_token="canary"))
    with writing(engine) as connection:
        connection.execute(update(TABLE).values(**change))
    with pytest.raises(VaultUnavailable) as caught:
        await store.load(place._replace(**change).key)
    assert "canary" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("place", [Place("acc_x", "", "p"), Place("acc_a", "usr_x", "p"), Place("acc_b", "usr_a", "p")])
async def test_nothing_is_kept_for_who_is_not_there(store: TokenStore, engine: Engine, place: Place) -> None:
    settle(engine, acc_a=["usr_a"], acc_b=[])
    with pytest.raises(NotFound):
        await store.save(place.key, Record(access_token="a"))
    assert rows(engine) == []


async def test_a_revision_never_comes_back(store: TokenStore, engine: Engine, vault: Vault, clock: FakeClock) -> None:
    first = await store.save("k", Record(access_token="a"))
    [row] = rows(engine)
    ConnectionRows(engine, vault, clock).delete(str(row["id"]))
    assert (await store.save("k", Record(access_token="b"))).revision != first.revision
    with pytest.raises(Conflict):
        await store.replace_if_current("k", first.revision, Record(access_token="c"))


async def test_a_backup_brings_it_back_for_who_has_the_vaults_key(store: TokenStore, engine: Engine, tmp_path: Path) -> None:
    kept = await store.save("k", Record(access_token="canary-access", refresh_token="canary-refresh"))
    backup = io.BytesIO()
    dump(engine, backup.write, made_at=0, version="", progress=lambda _done, _of: None)
    assert b"canary" not in backup.getvalue()
    there = open_engine(sqlite_url(tmp_path / "there"))
    restore(there, [backup.getvalue()], replace=False, progress=lambda _done, _of: None)
    place = Place.of("k")
    assert ConnectionRows(there, Vault(there, FileSource(tmp_path / "vault.key")), FakeClock()).load(place) == kept
    (tmp_path / "vault.key").unlink()
    with pytest.raises(VaultUnavailable):
        ConnectionRows(there, Vault(there, FileSource(tmp_path / "vault.key")), FakeClock()).load(place)
    there.dispose()


@pytest.mark.parametrize("place", [Place("acc_a", "usr_a", "up/signed"), Place("acc_a", "", "up/signed"), Place("", "", "up/signed")])
def test_a_place_is_read_back_from_its_key(place: Place) -> None:
    assert Place.of(place.key) == place
