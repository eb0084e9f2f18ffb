"""What goes on, what stops and what comes back by itself while the database is away, full or read-only."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg
import pytest
from sqlalchemy import Engine, event

from tests.fakes.clock import FakeClock
from tests.fakes.cut import Cut
from trunkline.access.keys import Keys
from trunkline.access.ring import KeyRing
from trunkline.errors import StoreFull, StoreReadOnly, StoreUnavailable
from trunkline.store import postgres as postgres_module
from trunkline.store import writer as writer_module
from trunkline.store.engine import open_engine, reading, writing
from trunkline.store.schema import migrate
from trunkline.store.writer import Writer

HERE = "192.0.2.1"
UNKNOWN = "swb_" + "canary0w" * 4
Trouble = Callable[[Engine], AbstractContextManager[None]]


class Told:
    """What was told of troubles in the background."""

    def __init__(self) -> None:
        self.troubles: list[tuple[str, BaseException]] = []
        self.event = threading.Event()

    def __call__(self, where: str, error: BaseException) -> None:
        self.troubles.append((where, error))
        self.event.set()


@pytest.fixture
def told() -> Told:
    return Told()


# ------------------------------------------------------------------------------------------------------ full, read-only
@contextmanager
def with_pragma(engine: Engine, pragma: str) -> Generator[None]:
    """Each new connection has this pragma, and there are only new ones."""

    def set_it(connection: object, _record: object) -> None:
        connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", set_it)
    engine.dispose()
    yield
    event.remove(engine, "connect", set_it)
    engine.dispose()


@contextmanager
def on_server(engine: Engine, before: str, after: str) -> Generator[None]:
    with psycopg.connect(engine.url.set(drivername="postgresql").render_as_string(), autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(before)
        engine.dispose()
        yield
        connection.execute(after)
        engine.dispose()


@contextmanager
def full(engine: Engine) -> Generator[None]:
    """There is no room for another row."""
    if engine.dialect.name == "sqlite":
        with reading(engine) as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        with with_pragma(engine, f"max_page_count = {pages}"):
            yield
        return
    trigger = """
        CREATE OR REPLACE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE disk_full; END $$;
        CREATE TRIGGER no_room BEFORE INSERT OR UPDATE ON keys FOR EACH ROW EXECUTE FUNCTION no_room();
    """
    with on_server(engine, trigger, "DROP TRIGGER no_room ON keys"):
        yield


@contextmanager
def read_only(engine: Engine) -> Generator[None]:
    """Nothing can be written."""
    if engine.dialect.name == "sqlite":
        with with_pragma(engine, "query_only = ON"):
            yield
        return
    alter = f"ALTER DATABASE {engine.url.database}"
    with on_server(engine, f"{alter} SET default_transaction_read_only = on", f"{alter} RESET default_transaction_read_only"):
        yield


def many(keys: Keys) -> None:
    """So many keys that they need more room."""
    for number in range(200):
        keys.create(f"{number:090}", {"inference"})


@pytest.mark.proves("store-codes")
@pytest.mark.parametrize(
    ("trouble", "kind", "code", "status"), [(full, StoreFull, "store_full", 507), (read_only, StoreReadOnly, "store_read_only", 503)]
)
async def test_a_full_or_read_only_database_has_its_code_and_known_keys_work_on(
    keys: Keys,
    engine: Engine,
    clock: FakeClock,
    told: Told,
    trouble: Trouble,
    kind: type[StoreUnavailable],
    code: str,
    status: int,
) -> None:
    _, secret = keys.create("ci", {"inference"})
    ring = KeyRing(engine, clock, failed=told)
    async with ring.running():
        with trouble(engine):
            with pytest.raises(StoreUnavailable) as caught:
                await asyncio.to_thread(many, keys)
            assert type(caught.value) is kind
            assert (caught.value.code, caught.value.http_status) == (code, status)
            made = len(keys.list())
            clock.advance(60)
            await ring.refresh()
            assert (await ring.identify(secret.reveal(), HERE)).name == "ci"
            assert ring.readable
        keys.create("later", {"inference"})
        assert len(keys.list()) == made + 1


@pytest.mark.parametrize("trouble", [full, read_only])
async def test_a_writer_keeps_what_a_full_or_read_only_database_does_not_take(
    keys: Keys, engine: Engine, told: Told, trouble: Trouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "FIRST_WAIT", 0.001)
    writer = Writer(engine, failed=told)
    with trouble(engine):
        for number in range(50):
            writer.add(row(number, "x" * 1000))
        assert await asyncio.to_thread(told.event.wait, 10)
        assert writer.waiting == 50
    await asyncio.wait_for(writer.flushed(), 20)
    writer.close()
    assert len(keys.list()) == 50
    assert len(told.troubles) == 1


def row(number: int, name: str = "n") -> writer_module.Job:
    return lambda connection: connection.exec_driver_sql(
        f"INSERT INTO keys (id, name, prefix, hash, scopes, created_at) VALUES ('key_{number:04}', '{name}', 'p', 'h{number}', '[]', 0)"
        " ON CONFLICT (id) DO NOTHING"
    )


# ---------------------------------------------------------------------------------------------------------------- lost
@pytest.fixture
def line(postgres: str) -> Iterator[Cut]:
    """The way to a migrated database without rows."""
    direct = open_engine(postgres)
    migrate(direct)
    with writing(direct) as connection:
        connection.exec_driver_sql("DELETE FROM keys")
    direct.dispose()
    with Cut(postgres) as line:
        yield line


@pytest.fixture
def far(line: Cut, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setattr(postgres_module, "GRACE_SECONDS", 0.1)
    engine = open_engine(f"{line.url}?connect_timeout=2", busy_seconds=0.2, answer_seconds=0.3)
    yield engine
    engine.dispose()


@pytest.fixture
async def ring(far: Engine, clock: FakeClock, told: Told) -> AsyncGenerator[KeyRing]:
    ring = KeyRing(far, clock, failed=told)
    async with ring.running():
        await clock.asleep(2)
        yield ring


async def read_by_itself(ring: KeyRing, clock: FakeClock) -> None:
    """Let the ring's own period pass, and what it starts end."""
    read = ring._next_read
    clock.advance(2)
    await asyncio.wait_for(read.wait(), 10)


@pytest.mark.needs("postgres")
@pytest.mark.proves("store-outage")
@pytest.mark.parametrize("how", ["cut", "stall"])
async def test_a_lost_database_is_outlived_by_known_keys_for_five_seconds_and_all_is_well_when_it_is_back(
    far: Engine, line: Cut, ring: KeyRing, clock: FakeClock, told: Told, how: str
) -> None:
    keys = Keys(far, clock)
    _, secret = await asyncio.to_thread(keys.create, "ci", {"inference"})
    assert (await ring.identify(secret.reveal(), HERE)).name == "ci"
    getattr(line, how)()
    with pytest.raises(StoreUnavailable, match="cannot be checked now"):
        await ring.identify(UNKNOWN, HERE)
    await read_by_itself(ring, clock)
    clock.advance(3)
    assert (await ring.identify(secret.reveal(), HERE)).name == "ci"
    assert not ring.readable
    clock.advance(0.01)
    with pytest.raises(StoreUnavailable) as caught:
        await ring.identify(secret.reveal(), HERE)
    assert caught.value.http_status == 503
    assert [where for where, _ in told.troubles] == ["keys: read"]

    line.mend()
    assert (await ring.identify(secret.reveal(), HERE)).name == "ci"
    assert ring.readable
    _, new = await asyncio.to_thread(keys.create, "new", {"inference"})
    assert (await ring.identify(new.reveal(), HERE)).name == "new"


@pytest.mark.needs("postgres")
@pytest.mark.proves("store-outage")
@pytest.mark.parametrize("how", ["cut", "stall"])
async def test_what_is_given_to_the_writer_before_and_during_an_outage_is_written_after_it(
    far: Engine, line: Cut, told: Told, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "FIRST_WAIT", 0.01)
    writer = Writer(far, failed=told)
    for number in range(100):
        writer.add(row(number))
    await asyncio.wait_for(writer.flushed(), 10)
    getattr(line, how)()
    for number in range(100, 300):
        writer.add(row(number))
    assert await asyncio.to_thread(told.event.wait, 10)
    line.mend()
    await asyncio.wait_for(writer.flushed(), 20)
    writer.close()
    assert [key.id for key in Keys(far, FakeClock()).list()] == [f"key_{number:04}" for number in range(300)]
    assert [type(error) for _, error in told.troubles] == [StoreUnavailable]
