import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Column, Connection, Engine, Integer, MetaData, Table, select, text

from trunkline.errors import StoreUnavailable
from trunkline.store import writer as writer_module
from trunkline.store.engine import appending, reading, writing
from trunkline.store.writer import Writer

WRITTEN = Table("written", MetaData(), Column("seq", Integer, primary_key=True), Column("job", Integer, unique=True))
INSERT = text("INSERT INTO written (job) VALUES (:job) ON CONFLICT DO NOTHING")


class Told:
    """What a writer told of its troubles."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.event = threading.Event()

    def __call__(self, where: str, error: BaseException) -> None:
        assert where == "store: write"
        self.errors.append(error)
        self.event.set()


class Faults:
    """A database that is away at chosen transactions: at the beginning, before it commits, or after that and before it says so."""

    def __init__(self) -> None:
        self.plan: deque[str] = deque()
        self.always = False
        self.transactions = 0

    @contextmanager
    def appending(self, engine: Engine) -> Iterator[Connection]:
        self.transactions += 1
        fault = "at the beginning" if self.always else self.plan.popleft() if self.plan else "none"
        if fault == "at the beginning":
            raise StoreUnavailable("it is away")
        with appending(engine) as connection:
            yield connection
            if fault == "before it commits":
                raise StoreUnavailable("it went away")
        if fault == "before it answers":
            raise StoreUnavailable("it went away, and nobody knows")


@pytest.fixture
def table(engine: Engine) -> None:
    with writing(engine) as connection:
        WRITTEN.metadata.create_all(connection)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    faults = Faults()
    monkeypatch.setattr(writer_module, "appending", faults.appending)
    monkeypatch.setattr(writer_module, "FIRST_WAIT", 0.001)
    return faults


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def writer(engine: Engine, told: Told, table: None, faults: Faults) -> Iterator[Writer]:
    writer = Writer(engine, failed=told)
    yield writer
    writer.close()


def written(engine: Engine) -> list[int]:
    """The jobs that were done, in their order."""
    with reading(engine) as connection:
        return list(connection.scalars(select(WRITTEN.c.job).order_by(WRITTEN.c.seq)))


def job(number: int) -> Callable[[Connection], None]:
    return lambda connection: connection.execute(INSERT, {"job": number})


def failing(number: int) -> Callable[[Connection], None]:
    def fail(connection: Connection) -> None:
        connection.execute(INSERT, {"job": number})
        raise ValueError(number)

    return fail


class Held:
    """A job that holds up the thread until it may go on."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.goes_on = threading.Event()

    def __call__(self, connection: Connection) -> None:
        self.begun.set()
        assert self.goes_on.wait(10)


async def flushed(writer: Writer) -> None:
    await asyncio.wait_for(writer.flushed(), 20)


async def test_what_was_taken_is_written_in_its_order(writer: Writer, engine: Engine, told: Told) -> None:
    assert all(writer.add(job(number)) for number in range(1200))
    await flushed(writer)
    assert written(engine) == list(range(1200))
    assert writer.waiting == 0
    assert told.errors == []


async def test_many_jobs_are_few_transactions(writer: Writer, faults: Faults) -> None:
    held = Held()
    writer.add(held)
    assert held.begun.wait(10)
    for number in range(writer_module.BATCH * 3):
        writer.add(job(number))
    held.goes_on.set()
    await flushed(writer)
    assert faults.transactions <= 1 + 3


async def test_a_full_queue_takes_nothing_and_takes_again_when_it_has_room(engine: Engine, told: Told, table: None) -> None:
    writer, held = Writer(engine, failed=told, most=3), Held()
    writer.add(held)
    assert held.begun.wait(10)
    assert [writer.add(job(number)) for number in range(4)] == [True, True, False, False]
    held.goes_on.set()
    await flushed(writer)
    assert writer.add(job(9))
    writer.close()
    assert written(engine) == [0, 1, 9]


async def test_a_job_that_fails_is_reported_once_and_takes_no_other_with_it(writer: Writer, engine: Engine, told: Told) -> None:
    for number in range(50):
        writer.add(failing(number) if number in {7, 8, 49} else job(number))
    await flushed(writer)
    assert written(engine) == [number for number in range(50) if number not in {7, 8, 49}]
    assert [error.args for error in told.errors] == [(7,), (8,), (49,)]


async def test_a_job_whose_statement_the_database_refuses_takes_no_other_with_it(writer: Writer, engine: Engine, told: Told) -> None:
    for number in range(3):
        writer.add(job(number))
        writer.add(lambda connection: connection.exec_driver_sql("INSERT INTO nowhere VALUES (1)"))
    await flushed(writer)
    assert written(engine) == [0, 1, 2]
    assert len(told.errors) == 3


@pytest.mark.parametrize("fault", ["at the beginning", "before it commits", "before it answers"])
async def test_an_outage_is_told_once_and_loses_and_repeats_nothing(
    writer: Writer, engine: Engine, told: Told, faults: Faults, fault: str
) -> None:
    faults.plan.extend([fault] * 4)
    for number in range(10):
        writer.add(job(number))
    await flushed(writer)
    assert written(engine) == list(range(10))
    assert [type(error) for error in told.errors] == [StoreUnavailable]


async def test_the_queue_fills_during_an_outage_and_is_kept(engine: Engine, told: Told, table: None, faults: Faults) -> None:
    writer = Writer(engine, failed=told, most=5)
    faults.always = True
    assert [writer.add(job(number)) for number in range(6)] == [True] * 5 + [False]
    assert told.event.wait(10)
    assert writer.waiting == 5
    faults.always = False
    await flushed(writer)
    writer.close()
    assert written(engine) == list(range(5))


async def test_closing_writes_what_is_left_and_takes_no_more(writer: Writer, engine: Engine) -> None:
    for number in range(1000):
        writer.add(job(number))
    await asyncio.to_thread(writer.close)
    assert not writer.add(job(1001))
    assert written(engine) == list(range(1000))


async def test_closing_during_an_outage_says_how_much_is_lost(writer: Writer, told: Told, faults: Faults, engine: Engine) -> None:
    writer.add(job(1))
    await flushed(writer)
    faults.always = True
    for number in range(2, 5):
        writer.add(job(number))
    waiting = asyncio.get_running_loop().create_task(writer.flushed())
    await asyncio.sleep(0)
    await asyncio.to_thread(writer.close)
    with pytest.raises(StoreUnavailable, match="closed"):
        await asyncio.wait_for(waiting, 10)
    assert told.errors[-1].facts == {"lost": 3}
    assert written(engine) == [1]


async def test_closing_does_not_wait_for_a_database_that_hangs(engine: Engine, told: Told, table: None) -> None:
    writer, held = Writer(engine, failed=told), Held()
    writer.add(held)
    writer.add(job(1))
    assert held.begun.wait(10)
    writer.close(seconds=0.01)
    assert told.errors[-1].facts == {"lost": 2}
    held.goes_on.set()
    writer._thread.join(10)
    assert not writer._thread.is_alive()


async def test_a_writer_that_nobody_used_closes_and_is_flushed(writer: Writer) -> None:
    await flushed(writer)
    writer.close()
    await flushed(writer)


async def test_one_who_no_longer_waits_disturbs_nothing(writer: Writer, engine: Engine) -> None:
    held = Held()
    writer.add(held)
    writer.add(job(1))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(writer.flushed(), 0.01)
    held.goes_on.set()
    await flushed(writer)
    assert written(engine) == [1]


async def test_jobs_of_several_threads_keep_the_order_of_each(writer: Writer, engine: Engine) -> None:
    def add(first: int) -> None:
        for number in range(first, first + 200):
            assert writer.add(job(number))

    await asyncio.gather(*(asyncio.to_thread(add, 1000 * thread) for thread in range(4)))
    await flushed(writer)
    done = written(engine)
    assert len(done) == 800
    for thread in range(4):
        assert [number for number in done if number // 1000 == thread] == list(range(1000 * thread, 1000 * thread + 200))


KINDS = st.sampled_from([job, job, job, failing])
STEPS = st.one_of(st.tuples(st.just("add"), st.lists(KINDS, min_size=1, max_size=7)), st.tuples(st.just("flush"), st.none()))
FAULTS = st.lists(st.sampled_from(["none", "none", "at the beginning", "before it commits", "before it answers"]), max_size=12)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=8), plan=FAULTS, batch=st.integers(1, 6), ends_away=st.booleans())
def test_each_accepted_job_happens_once_and_in_its_order_or_is_reported(
    engine: Engine, table: None, faults: Faults, monkeypatch: pytest.MonkeyPatch, steps: list, plan: list[str], batch: int, ends_away: bool
) -> None:
    monkeypatch.setattr(writer_module, "BATCH", batch)
    monkeypatch.setattr(writer_module, "GATHER_SECONDS", 0)
    with writing(engine) as connection:
        connection.exec_driver_sql("DELETE FROM written")
    faults.plan, faults.always = deque(plan), False
    told = Told()
    writer = Writer(engine, failed=told, most=10)
    accepted = asyncio.run(played(writer, steps))
    faults.plan.clear()
    faults.always = ends_away
    writer.close()

    good = [number for number, kind in accepted if kind is job]
    done = written(engine)
    bad = [error.args[0] for error in told.errors if isinstance(error, ValueError)]
    lost = sum(int(error.facts.get("lost", 0)) for error in told.errors if isinstance(error, StoreUnavailable))
    assert done == good[: len(done)]
    assert bad == [number for number, kind in accepted if kind is failing][: len(bad)]
    # A commit whose answer was lost may have been made, and counts as lost where the database does not come back to tell.
    unsure = batch if ends_away and "before it answers" in plan else 0
    assert 0 <= len(done) + len(bad) + lost - len(accepted) <= unsure
    assert ends_away or lost == 0


async def played(writer: Writer, steps: list) -> list[tuple[int, Callable]]:
    """The jobs that were accepted, with their kinds."""
    accepted = []
    numbers = iter(range(1000))
    for step, kinds in steps:
        if step == "flush":
            await flushed(writer)
            continue
        for kind in kinds:
            number = next(numbers)
            if writer.add(kind(number)):
                accepted.append((number, kind))
    return accepted
