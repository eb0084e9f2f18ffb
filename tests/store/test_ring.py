import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text

from tests.fakes.clock import FakeClock
from trunkline.access import ring as ring_module
from trunkline.access.keys import Keys
from trunkline.access.ring import KeyRing
from trunkline.base.aio import cancelled
from trunkline.errors import StoreUnavailable, Unauthenticated
from trunkline.model.caller import Caller
from trunkline.store.engine import writing

HERE = "192.0.2.1"
NEVER = "swb_" + "canary0w" * 4


class Told:
    """What the ring told of its troubles."""

    def __init__(self) -> None:
        self.troubles: list[tuple[str, BaseException]] = []
        self.event = asyncio.Event()

    def __call__(self, where: str, error: BaseException) -> None:
        self.troubles.append((where, error))
        self.event.set()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def ring(engine: Engine, clock: FakeClock, told: Told) -> AsyncGenerator[KeyRing]:
    ring = KeyRing(engine, clock, failed=told)
    async with ring.running():
        await clock.asleep(2)
        yield ring


@asynccontextmanager
async def broken(engine: Engine) -> AsyncGenerator[None]:
    """A database without its table of keys, then with it again."""
    with writing(engine) as connection:
        connection.exec_driver_sql("ALTER TABLE keys RENAME TO gone")
    yield
    with writing(engine) as connection:
        connection.exec_driver_sql("ALTER TABLE gone RENAME TO keys")


async def read_by_itself(ring: KeyRing, clock: FakeClock) -> None:
    """Let the ring's own period pass, and what it starts end."""
    read = ring._next_read
    clock.advance(2)
    await asyncio.wait_for(read.wait(), 5)


def held(clock: FakeClock) -> list[float]:
    """For how long answers were held back, so far; the ring's own periods left out."""
    return [seconds for seconds in clock.asked if seconds not in {ring_module.READ_SECONDS, ring_module.WRITE_SECONDS}]


async def held_back(ring: KeyRing, clock: FakeClock, credential: str | None, address: str = HERE) -> asyncio.Task[Caller]:
    """An answer that is being held back."""
    before = len(held(clock))
    task = asyncio.get_running_loop().create_task(ring.identify(credential, address))
    await asyncio.wait_for(clock.when(lambda: len(held(clock)) > before), 5)
    return task


async def refused(ring: KeyRing, clock: FakeClock, credential: str | None, address: str = HERE) -> Unauthenticated:
    """A refusal, after its time."""
    answer = await held_back(ring, clock, credential, address)
    clock.advance(held(clock)[-1])
    with pytest.raises(Unauthenticated) as caught:
        await answer
    return caught.value


async def test_a_key_is_its_caller(keys: Keys, ring: KeyRing) -> None:
    row, secret = keys.create("ci", {"inference"})
    assert await ring.identify(secret.reveal(), HERE) == Caller(id=row.id, kind="service", name="ci", scopes=frozenset({"inference"}))


async def test_an_admin_key_may_do_what_the_others_may(keys: Keys, ring: KeyRing) -> None:
    _, secret = keys.first_admin()
    assert (await ring.identify(secret.reveal(), HERE)).scopes == {"inference", "metrics", "account", "admin"}


async def test_a_known_key_asks_no_database(keys: Keys, ring: KeyRing, engine: Engine) -> None:
    _, secret = keys.create("ci", {"inference"})
    await ring.identify(secret.reveal(), HERE)
    async with broken(engine):
        assert (await ring.identify(secret.reveal(), HERE)).name == "ci"


@pytest.mark.parametrize("credential", [None, ""])
async def test_no_key_is_refused_at_once_and_both_headers_are_named(ring: KeyRing, clock: FakeClock, credential: str | None) -> None:
    with pytest.raises(Unauthenticated) as caught:
        await ring.identify(credential, HERE)
    assert "Authorization: Bearer swb_" in caught.value.hint
    assert "x-api-key" in caught.value.hint
    assert held(clock) == []


@pytest.mark.parametrize(
    "credential", ["sk-canary", NEVER[:-1], NEVER + "x", NEVER[:-1] + "-", NEVER[:-1] + "é", NEVER[:-1] + "\udce9", "x" * 100_000]
)
async def test_what_is_no_key_of_ours_is_refused_at_once_without_a_look_at_the_database(
    ring: KeyRing, clock: FakeClock, engine: Engine, credential: str | None
) -> None:
    async with broken(engine):
        with pytest.raises(Unauthenticated) as caught:
            await ring.identify(credential, HERE)
    assert "x-api-key" in caught.value.hint
    assert "canary" not in caught.value.sentence
    assert held(clock) == []


async def test_wrong_keys_wait_longer_each_time_and_are_never_repeated(ring: KeyRing, clock: FakeClock) -> None:
    for _ in range(8):
        error = await refused(ring, clock, NEVER)
        assert NEVER not in error.sentence
        assert error.facts == {}
    await refused(ring, clock, NEVER, "192.0.2.2")
    assert held(clock) == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 0.1]


async def test_a_valid_key_is_never_delayed_even_from_an_address_that_guesses(keys: Keys, ring: KeyRing, clock: FakeClock) -> None:
    _, known = keys.create("known", {"inference"})
    await ring.identify(known.reveal(), HERE)
    for _ in range(5):
        await refused(ring, clock, NEVER)
    _, new = keys.create("new", {"inference"})
    assert (await ring.identify(known.reveal(), HERE)).name == "known"
    assert (await ring.identify(new.reveal(), HERE)).name == "new"
    assert len(held(clock)) == 5


async def test_a_revoked_key_ends_when_the_ring_has_looked_by_itself(keys: Keys, ring: KeyRing, clock: FakeClock) -> None:
    _, secret = keys.create("ci", {"inference"})
    await ring.identify(secret.reveal(), HERE)
    keys.revoke(keys.named("ci").id)
    await read_by_itself(ring, clock)
    error = await refused(ring, clock, secret.reveal())
    assert "revoked" in error.message


async def test_a_key_ends_in_the_moment_in_which_it_expires(keys: Keys, ring: KeyRing, clock: FakeClock) -> None:
    _, secret = keys.create("ci", {"inference"}, clock.now() + 1.5)
    clock.advance(1.25)
    assert (await ring.identify(secret.reveal(), HERE)).name == "ci"
    clock.advance(0.25)
    error = await refused(ring, clock, secret.reveal())
    assert "`ci` expired at 2027-01-15T08:00:01" in error.message
    assert secret.reveal() not in error.sentence


async def test_known_keys_work_for_five_seconds_without_the_database_and_no_longer(
    keys: Keys, ring: KeyRing, clock: FakeClock, engine: Engine, told: Told
) -> None:
    _, secret = keys.create("ci", {"inference"})
    await ring.identify(secret.reveal(), HERE)
    async with broken(engine):
        await read_by_itself(ring, clock)
        await read_by_itself(ring, clock)
        clock.advance(1)
        assert (await ring.identify(secret.reveal(), HERE)).name == "ci"
        clock.advance(0.01)
        with pytest.raises(StoreUnavailable):
            await ring.identify(secret.reveal(), HERE)
    assert (await ring.identify(secret.reveal(), HERE)).name == "ci"
    assert [where for where, _ in told.troubles] == ["keys: read"]


async def test_an_unknown_key_is_no_verdict_while_the_database_is_away(ring: KeyRing, engine: Engine, clock: FakeClock) -> None:
    async with broken(engine):
        with pytest.raises(StoreUnavailable):
            await ring.identify(NEVER, HERE)
    assert held(clock) == []


async def test_the_operator_is_told_where_the_database_is_and_the_caller_is_not(
    ring: KeyRing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"

    def fail() -> None:
        raise StoreUnavailable(f"the database `{data}` is locked", hint=f"Look at {data}.")

    monkeypatch.setattr(ring, "_read", fail)
    with pytest.raises(StoreUnavailable) as told_operator:
        await ring.refresh()
    with pytest.raises(StoreUnavailable) as told_caller:
        await ring.identify(NEVER, HERE)
    assert told_operator.value.sentence.count(str(data)) == 2
    assert str(data) not in told_caller.value.sentence


async def test_a_database_that_does_not_answer_is_unavailable_in_time(keys: Keys, ring: KeyRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "WAIT_SECONDS", 0.05)
    answer = threading.Event()
    monkeypatch.setattr(ring, "_read", lambda: answer.wait(10) and None)
    for question in (ring.refresh(), ring.identify(NEVER, HERE)):
        with pytest.raises(StoreUnavailable):
            await question
    answer.set()


class SlowRead:
    """A ring's next read, which has its answer and keeps it back until told; those after it are as usual."""

    def __init__(self, ring: KeyRing) -> None:
        self._loop = asyncio.get_running_loop()
        self._ring, self._read = ring, ring._read
        self.has_read = asyncio.Event()
        self.goes_on = threading.Event()
        self.has_ended = False
        ring._read = self

    def __call__(self) -> object:
        self._ring._read = self._read
        answer = self._read()
        self._loop.call_soon_threadsafe(self.has_read.set)
        self.has_ended = self.goes_on.wait(10)
        return answer


async def test_a_key_that_is_made_while_the_table_is_being_read_works_at_once(keys: Keys, ring: KeyRing, clock: FakeClock) -> None:
    slow = SlowRead(ring)
    clock.advance(2)
    await asyncio.wait_for(slow.has_read.wait(), 5)
    _, secret = keys.create("ci", {"inference"})
    answer = asyncio.get_running_loop().create_task(ring.identify(secret.reveal(), HERE))
    await asyncio.sleep(0)
    slow.goes_on.set()
    assert (await answer).name == "ci"
    assert held(clock) == []


async def test_what_was_read_is_as_old_as_the_beginning_of_its_reading(keys: Keys, ring: KeyRing, clock: FakeClock, engine: Engine) -> None:
    _, secret = keys.create("ci", {"inference"})
    await ring.identify(secret.reveal(), HERE)
    slow = SlowRead(ring)
    read = ring._next_read
    clock.advance(2)
    await asyncio.wait_for(slow.has_read.wait(), 5)
    async with broken(engine):
        clock.advance(3)
        slow.goes_on.set()
        await asyncio.wait_for(read.wait(), 5)
        clock.advance(2)
        await ring.identify(secret.reveal(), HERE)
        clock.advance(0.01)
        with pytest.raises(StoreUnavailable):
            await ring.identify(secret.reveal(), HERE)


async def test_many_unknown_keys_at_once_are_one_look_at_the_database_at_a_time(
    ring: KeyRing, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    read = ring._read
    monkeypatch.setattr(ring, "_read", lambda: looks.append(1) or read())
    loop = asyncio.get_running_loop()
    guesses = [loop.create_task(ring.identify(f"swb_{number:032}", f"192.0.2.{number}")) for number in range(100)]
    await asyncio.wait_for(clock.asleep(2 + 100), 5)
    assert len(looks) == 1
    clock.advance(0.1)
    assert all(isinstance(error, Unauthenticated) for error in await asyncio.gather(*guesses, return_exceptions=True))


async def test_a_caller_that_leaves_does_not_spoil_the_look_for_the_others(keys: Keys, ring: KeyRing) -> None:
    _, secret = keys.create("ci", {"inference"})
    loop = asyncio.get_running_loop()
    leaving = loop.create_task(ring.identify(secret.reveal(), HERE))
    staying = loop.create_task(ring.identify(secret.reveal(), HERE))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).name == "ci"


async def test_what_has_not_changed_is_not_read_again(keys: Keys, ring: KeyRing, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.create("ci", {"inference"})
    await ring.refresh()
    taken = []
    monkeypatch.setattr(ring, "_take", taken.append)
    await ring.refresh()
    assert taken == []
    monkeypatch.undo()
    keys.revoke(keys.named("ci").id)
    await ring.refresh()
    assert ring._known == {}


async def test_the_last_use_is_written_down_once_a_minute(keys: Keys, ring: KeyRing, clock: FakeClock, told: Told) -> None:
    def noted() -> float | None:
        (row,) = keys.list()
        return row.last_used_at

    async def write() -> None:
        writing_uses = asyncio.Event()
        write_uses, loop = ring._write_uses, asyncio.get_running_loop()
        ring._write_uses = lambda uses: (write_uses(uses), loop.call_soon_threadsafe(writing_uses.set))
        clock.advance(10)
        await asyncio.wait_for(writing_uses.wait(), 5)
        ring._write_uses = write_uses

    _, secret = keys.create("ci", {"inference"})
    assert noted() is None
    first = clock.now()
    await ring.identify(secret.reveal(), HERE)
    await write()
    assert noted() == first
    clock.advance(49)
    await ring.identify(secret.reveal(), HERE)
    assert ring._uses == {}
    clock.advance(1)
    second = clock.now()
    await ring.identify(secret.reveal(), HERE)
    await clock.asleep(2)
    await write()
    assert (noted(), second) == (first + 60, first + 60)
    assert told.troubles == []


async def test_a_use_that_is_not_yet_written_survives_a_change_of_the_table(keys: Keys, ring: KeyRing) -> None:
    _, secret = keys.create("ci", {"inference"})
    await ring.identify(secret.reveal(), HERE)
    ring._uses.clear()
    keys.create("other", {"inference"})
    await ring.refresh()
    await ring.identify(secret.reveal(), HERE)
    assert ring._uses == {}


async def test_a_use_that_another_server_wrote_down_counts_here_too(keys: Keys, ring: KeyRing, clock: FakeClock, engine: Engine) -> None:
    _, secret = keys.create("ci", {"inference"})
    with writing(engine) as connection:
        connection.execute(text("UPDATE keys SET last_used_at = :at"), {"at": clock.now() - 59})
    await ring.identify(secret.reveal(), HERE)
    assert ring._uses == {}
    clock.advance(1)
    await ring.identify(secret.reveal(), HERE)
    assert len(ring._uses) == 1


async def test_a_use_that_cannot_be_written_is_told_and_stops_nothing(
    keys: Keys, ring: KeyRing, clock: FakeClock, told: Told, engine: Engine
) -> None:
    _, secret = keys.create("ci", {"inference"})
    await ring.identify(secret.reveal(), HERE)
    with writing(engine):
        clock.advance(10)
        await asyncio.wait_for(told.event.wait(), 5)
    ((where, error),) = told.troubles
    assert where == "keys: write last uses"
    assert isinstance(error, StoreUnavailable)
    assert (await ring.identify(secret.reveal(), HERE)).name == "ci"


async def test_a_ring_over_an_unreadable_table_does_not_start(engine: Engine, clock: FakeClock, told: Told) -> None:
    async with broken(engine):
        with pytest.raises(StoreUnavailable):
            async with KeyRing(engine, clock, failed=told).running():
                pytest.fail("it runs")


async def test_a_ring_that_has_stopped_leaves_the_database_at_rest(engine: Engine, clock: FakeClock, told: Told) -> None:
    ring = KeyRing(engine, clock, failed=told)
    async with ring.running():
        await clock.asleep(2)
        slow = SlowRead(ring)
        clock.advance(2)
        await asyncio.wait_for(slow.has_read.wait(), 5)
        asyncio.get_running_loop().call_later(0.05, slow.goes_on.set)
    assert slow.has_ended
    assert told.troubles == []


STEPS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from([None, 1.0, 3.0])),
    st.tuples(st.just("revoke"), st.integers(0, 5)),
    st.tuples(st.just("pass"), st.sampled_from([0.5, 1.0, 2.0])),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, max_size=12))
def test_the_ring_agrees_with_a_list_of_keys_whatever_happens(engine: Engine, steps: list[tuple[str, float | None]]) -> None:
    with writing(engine) as connection:
        connection.exec_driver_sql("DELETE FROM keys")
    asyncio.run(agrees(engine, steps))


async def agrees(engine: Engine, steps: list[tuple[str, float | None]]) -> None:
    clock = FakeClock()
    keys = Keys(engine, clock)
    made = []
    ring = KeyRing(engine, clock, failed=Told())
    async with ring.running():
        for step, value in steps:
            match step:
                case "create":
                    row, secret = keys.create("k", {"inference"}, None if value is None else clock.now() + value)
                    made.append((row, secret))
                case "revoke" if value < len(made) and made[value][0].revoked_at is None:
                    row, secret = made[value]
                    keys.revoke(row.id)
                    made[value] = (replace(row, revoked_at=clock.now()), secret)
                    await ring.refresh()
                case "pass":
                    clock.advance(value)
                case _:
                    pass
            for row, secret in made:
                valid = row.revoked_at is None and (row.expires_at is None or row.expires_at > clock.now())
                if valid:
                    assert (await ring.identify(secret.reveal(), HERE)).id == row.id
                else:
                    await cancelled(await held_back(ring, clock, secret.reveal()))
