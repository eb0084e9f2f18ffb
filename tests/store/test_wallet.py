import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, update

from tests.fakes.clock import FakeClock
from tests.fakes.people import settle
from trunkline.access.connections import SIGN_INS
from trunkline.access.credentials import Credentials
from trunkline.access.key_sources import FileSource
from trunkline.access.vault import Vault
from trunkline.access.wallet import CREDENTIALS, READ_SECONDS, Shelf, Wallet
from trunkline.base.secret import Secret
from trunkline.errors import StoreUnavailable, VaultUnavailable
from trunkline.model.credential import INSTALLATION, Credential, Owner
from trunkline.store.engine import reading, writing
from trunkline.store.shared.contract import Callback
from trunkline.store.tables.credentials import TABLE

CANARY = "sk-canary/0123456789+abcdef="


class Told:
    def __init__(self) -> None:
        self.troubles: list[BaseException] = []

    def __call__(self, where: str, error: BaseException) -> None:
        self.troubles.append(error)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def source(tmp_path: Path) -> FileSource:
    return FileSource(tmp_path / "vault.key")


@pytest.fixture
def credentials(engine: Engine, source: FileSource, clock: FakeClock) -> Credentials:
    settle(engine, acc_a=["usr_a"])
    return Credentials(engine, Vault(engine, source), clock)


@pytest.fixture
async def wallet(engine: Engine, source: FileSource, clock: FakeClock, told: Told) -> AsyncGenerator[Wallet]:
    wallet = Wallet(engine, Vault(engine, source), clock, failed=told)
    async with wallet.running():
        await clock.asleep(1)
        yield wallet


async def read(wallet: Wallet, clock: FakeClock) -> None:
    """Let its period pass, and what that starts end."""
    wallet._read_once.clear()
    clock.advance(READ_SECONDS)
    await asyncio.wait_for(wallet._read_once.wait(), 5)
    await clock.asleep(1)


def held(wallet: Wallet, owner: Owner = INSTALLATION, provider: str = "openai") -> list[str]:
    return sorted(each.secret.reveal() for each in wallet.of(provider).get(owner, ()))


async def test_what_is_there_at_the_start_is_known_at_once(
    credentials: Credentials, engine: Engine, source: FileSource, clock: FakeClock
) -> None:
    credentials.create(provider="openai", secret=Secret(CANARY))
    wallet = Wallet(engine, Vault(engine, source), clock, failed=Told())
    async with wallet.running():
        assert held(wallet) == [CANARY]
        assert wallet.of("anthropic") == {}


async def test_credentials_are_found_by_whose_they_are(credentials: Credentials, wallet: Wallet, clock: FakeClock) -> None:
    credentials.create(provider="openai", secret=Secret("for-all"), weight=3)
    credentials.create(provider="openai", secret=Secret("for-all-2"), name="two")
    credentials.create(provider="openai", secret=Secret("for-account"), account="acc_a")
    credentials.create(provider="openai", secret=Secret("for-user"), account="acc_a", user="usr_a")
    credentials.create(provider="anthropic", secret=Secret("elsewhere"))
    await read(wallet, clock)
    assert held(wallet) == ["for-all", "for-all-2"]
    assert {each.secret.reveal(): each.weight for each in wallet.of("openai")[INSTALLATION]} == {"for-all": 3, "for-all-2": 1}
    assert held(wallet, Owner("acc_a")) == ["for-account"]
    assert held(wallet, Owner("acc_a", "usr_a")) == ["for-user"]
    assert held(wallet, provider="anthropic") == ["elsewhere"]


async def test_a_change_is_known_though_it_was_made_where_the_clock_is_behind(
    engine: Engine, source: FileSource, credentials: Credentials, wallet: Wallet, clock: FakeClock
) -> None:
    old = credentials.create(provider="openai", secret=Secret("one-that-goes"), name="old")
    clock.advance(1)
    credentials.create(provider="openai", secret=Secret("one-that-stays"), name="young")
    await read(wallet, clock)
    elsewhere = Credentials(engine, Vault(engine, source), FakeClock(clock.now() - 60))
    elsewhere.delete(old.id)
    elsewhere.create(provider="openai", secret=Secret("one-that-comes"), name="new")
    await read(wallet, clock)
    assert held(wallet) == ["one-that-comes", "one-that-stays"]


@pytest.mark.parametrize("shelf", [CREDENTIALS, SIGN_INS], ids=lambda shelf: shelf.name)
def test_a_look_goes_through_no_secrets(engine: Engine, source: FileSource, clock: FakeClock, shelf: Shelf) -> None:
    wallet = Wallet(engine, Vault(engine, source), clock, failed=Told(), shelf=shelf)
    with reading(engine) as connection:
        if engine.dialect.name == "sqlite":
            plan = str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {wallet._mark}").all())
        else:
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")  # the table has no rows
            plan = str(connection.exec_driver_sql(f"EXPLAIN {wallet._mark}").all())
    assert f"ix_{shelf.name}_id_revision_created_at" in plan
    assert "COVERING INDEX" in plan or "Index Only Scan" in plan


async def test_every_change_is_known_within_five_seconds(credentials: Credentials, wallet: Wallet, clock: FakeClock) -> None:
    assert READ_SECONDS <= 5
    row = credentials.create(provider="openai", secret=Secret(CANARY))
    await read(wallet, clock)
    assert held(wallet) == [CANARY]
    credentials.change(row.id, secret=Secret("another"))
    await read(wallet, clock)
    assert held(wallet) == ["another"]
    credentials.change(row.id, enabled=False)
    await read(wallet, clock)
    assert wallet.of("openai") == {}
    credentials.change(row.id, enabled=True)
    await read(wallet, clock)
    assert held(wallet) == ["another"]
    credentials.delete(row.id)
    await read(wallet, clock)
    assert wallet.of("openai") == {}


async def test_one_that_is_removed_while_another_is_added_is_noticed(credentials: Credentials, wallet: Wallet, clock: FakeClock) -> None:
    row = credentials.create(provider="openai", secret=Secret(CANARY))
    await read(wallet, clock)
    credentials.delete(row.id)
    clock.advance(0.001)
    credentials.create(provider="openai", secret=Secret("another"))
    await read(wallet, clock)
    assert held(wallet) == ["another"]


async def test_a_word_is_enough_to_look_at_once(engine: Engine, source: FileSource, clock: FakeClock) -> None:
    wallet = Wallet(engine, Vault(engine, source), clock, failed=Told())
    credentials = Credentials(engine, Vault(engine, source), clock, changed=wallet.changed)
    wallet.changed()  # nobody is there yet
    async with wallet.running():
        await asyncio.to_thread(credentials.create, provider="openai", secret=Secret(CANARY))
        await until(wallet, [CANARY])
    wallet.changed()  # nobody is there any more


async def until(wallet: Wallet, secrets: list[str]) -> None:
    """Wait until it has read that it holds these."""
    async with asyncio.timeout(5):
        while held(wallet) != secrets:
            wallet._read_once.clear()
            await wallet._read_once.wait()


class Bus:
    """Between two processes, here two wallets."""

    def __init__(self) -> None:
        self.ears: list[Callback] = []
        self.away = False

    async def publish(self, channel: str, message: bytes) -> None:
        assert (channel, message) == (CREDENTIALS.name, b"")
        if self.away:
            raise StoreUnavailable("away")
        for ear in self.ears:
            ear(message)

    def subscribe(self, channel: str, callback: Callback) -> Callable[[], None]:
        assert channel == CREDENTIALS.name
        self.ears.append(callback)
        return lambda: self.ears.remove(callback)


async def test_other_processes_hear_of_a_change_over_the_bus(engine: Engine, source: FileSource, clock: FakeClock, told: Told) -> None:
    bus = Bus()
    here, there = (Wallet(engine, Vault(engine, source), clock, failed=told, bus=bus) for _ in range(2))
    credentials = Credentials(engine, Vault(engine, source), clock, changed=here.changed)
    async with here.running(), there.running():
        row = await asyncio.to_thread(credentials.create, provider="openai", secret=Secret(CANARY))
        await until(there, [CANARY])
        bus.away = True
        await asyncio.to_thread(credentials.delete, row.id)
        await until(here, [])
        assert held(there) == [CANARY]
        bus.ears[1].on_gap()
        await until(there, [])
    assert bus.ears == []
    assert [type(trouble) for trouble in told.troubles] == [StoreUnavailable]


async def test_a_credential_that_did_not_change_stays_the_same_object(credentials: Credentials, wallet: Wallet, clock: FakeClock) -> None:
    first = credentials.create(provider="openai", secret=Secret(CANARY))
    await read(wallet, clock)
    [before] = wallet.of("openai")[INSTALLATION]
    clock.advance(0.001)
    credentials.create(provider="openai", secret=Secret("another"), name="two")
    await read(wallet, clock)
    assert wallet.of("openai")[INSTALLATION][0] is before
    credentials.change(first.id, weight=2)
    await read(wallet, clock)
    assert wallet.of("openai")[INSTALLATION][0] is not before


@pytest.mark.proves("vault.rotation")
async def test_a_rotation_is_noticed_without_a_restart(
    credentials: Credentials, wallet: Wallet, engine: Engine, source: FileSource, clock: FakeClock, told: Told
) -> None:
    credentials.create(provider="openai", secret=Secret(CANARY))
    await read(wallet, clock)
    await asyncio.to_thread(Vault(engine, source).rotate)
    credentials.create(provider="openai", secret=Secret("another"), name="two")
    await read(wallet, clock)
    assert held(wallet) == ["another", CANARY]
    assert told.troubles == []


@pytest.mark.proves("vault.bound", "vault.unread")
async def test_what_does_not_open_is_told_once_and_its_owner_does_not_fall_back_on_anothers(
    credentials: Credentials, wallet: Wallet, engine: Engine, clock: FakeClock, told: Told
) -> None:
    row = credentials.create(provider="openai", secret=Secret(CANARY), account="acc_a")
    credentials.create(provider="openai", secret=Secret("for-all"))
    with writing(engine) as connection:
        connection.execute(update(TABLE).where(TABLE.c.id == row.id).values(name="other"))
    for _ in range(3):
        await read(wallet, clock)
    assert wallet.of("openai")[Owner("acc_a")] == ()
    assert held(wallet) == ["for-all"]
    [trouble] = told.troubles
    assert isinstance(trouble, VaultUnavailable)
    assert "canary" not in f"{trouble} {trouble.hint}"


async def test_a_key_that_is_put_back_opens_again(
    credentials: Credentials, wallet: Wallet, clock: FakeClock, tmp_path: Path, told: Told
) -> None:
    credentials.create(provider="openai", secret=Secret(CANARY))
    (tmp_path / "vault.key").rename(tmp_path / "away")
    await read(wallet, clock)
    assert wallet.of("openai") == {INSTALLATION: ()}
    (tmp_path / "away").rename(tmp_path / "vault.key")
    await read(wallet, clock)
    assert held(wallet) == [CANARY]
    assert len(told.troubles) == 1


async def test_an_outage_keeps_what_is_known_and_is_told_once(
    credentials: Credentials, wallet: Wallet, engine: Engine, clock: FakeClock, told: Told
) -> None:
    credentials.create(provider="openai", secret=Secret(CANARY))
    await read(wallet, clock)
    with writing(engine) as connection:
        connection.exec_driver_sql("ALTER TABLE credentials RENAME TO gone")
    for _ in range(3):
        await read(wallet, clock)
    assert held(wallet) == [CANARY]
    assert len(told.troubles) == 1
    assert not isinstance(told.troubles[0], StoreUnavailable | VaultUnavailable)
    with writing(engine) as connection:
        connection.exec_driver_sql("ALTER TABLE gone RENAME TO credentials")
    credentials.create(provider="openai", secret=Secret("another"), name="two")
    await read(wallet, clock)
    assert held(wallet) == ["another", CANARY]


@pytest.mark.proves("vault.unread")
async def test_nothing_prints_a_secret(credentials: Credentials, wallet: Wallet, clock: FakeClock) -> None:
    credentials.create(provider="openai", secret=Secret(CANARY))
    await read(wallet, clock)
    [one] = wallet.of("openai")[INSTALLATION]
    assert isinstance(one, Credential)
    for thing in (one, wallet.of("openai"), wallet._contents):
        assert "canary" not in f"{thing!r} {thing}"
