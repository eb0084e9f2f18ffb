"""Leases that end by themselves, under time that a test owns."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.fakes.clock import FakeClock
from tests.store.shared.places import Failures, Memory, Place
from trunkline.errors import StoreUnavailable
from trunkline.store.shared.leases import BELIEVED, RENEWED, TTL, TtlLease, TtlLeases
from trunkline.store.shared.memory import MemoryTable

NAME = "scheduler"
DELAYS = st.sampled_from([0, 0.2, 4, 12, 29, None])
"""Seconds on the way there, and back; never is one of them."""


class Line:
    """One process's way to a table: late, deaf or mute, as a network may be.

    Attributes:
        there: seconds until a request arrives; `None` if it never does.
        back: seconds until its answer arrives; `None` if it never does.
        deadline: seconds after which an answer is not waited for.
    """

    def __init__(self, table: MemoryTable, clock: FakeClock) -> None:
        self._table = table
        self._clock = clock
        self.there: float | None = 0
        self.back: float | None = 0
        self.deadline = 30.0
        self.calls: list[str] = []

    async def _by_way_of(self, name: str, ask: Callable[[], object]) -> object:
        self.calls.append(name)
        there, back = self.there, self.back  # a request that is under way goes on as it began
        if there is None or there > self.deadline:
            await self._clock.sleep(self.deadline)
            raise StoreUnavailable("nothing came")
        await self._clock.sleep(there)
        answer = ask()
        if back is None or there + back > self.deadline:
            await self._clock.sleep(self.deadline - there)
            raise StoreUnavailable("nothing came")
        await self._clock.sleep(back)
        return answer

    async def acquire(self, name: str, owner: str, seconds: float) -> int | None:
        return await self._by_way_of("acquire", lambda: done(self._table.acquire(name, owner, seconds)))

    async def renew(self, name: str, owner: str, seconds: float) -> bool:
        return await self._by_way_of("renew", lambda: done(self._table.renew(name, owner, seconds)))

    async def release(self, name: str, owner: str) -> None:
        await self._by_way_of("release", lambda: done(self._table.release(name, owner)))


def done(coroutine: object) -> object:
    """What a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


async def settle() -> None:
    """Let everybody go on who can, until all wait for time to pass."""
    ready = asyncio.get_running_loop()._ready
    await asyncio.sleep(0)
    while ready:
        await asyncio.sleep(0)


class Contender:
    """A process that wants the lease, again and again."""

    def __init__(self, table: MemoryTable, clock: FakeClock, tokens: list[int]) -> None:
        self.line = Line(table, clock)
        self.lease: TtlLease | None = None
        self.leave = asyncio.Event()
        self._leases = TtlLeases(self.line, clock, failed=Failures())
        self._clock = clock
        self._tokens = tokens
        self.task = asyncio.get_running_loop().create_task(self.run())

    async def run(self) -> None:
        while True:
            try:
                async with self._leases.held(NAME) as lease:
                    self.lease = lease
                    self._tokens.append(lease.token)
                    self.leave.clear()
                    await self.leave.wait()
                    self.lease = None
            except StoreUnavailable:
                await self._clock.sleep(3)


class NeverTwoHolders(RuleBasedStateMachine):
    """Three processes, and a network that does what it wants."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.table = MemoryTable(self.clock)
        self.tokens: list[int] = []
        self.had: list[TtlLease] = []
        self.runner.run(self.begin())

    async def begin(self) -> None:
        self.contenders = [Contender(self.table, self.clock, self.tokens) for _ in range(3)]
        await settle()

    @rule(seconds=st.sampled_from([3, 5, 14, 15, 16, 29, 39, 40, 41, 44, 45, 46, 90]))
    def time_jumps(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.check()  # before anybody woke: a holder whose loop is late does not believe either
        self.runner.run(settle())

    @rule(steps=st.sampled_from([1, 5, 12, 15, 30, 46]))
    def time_passes(self, steps: int) -> None:
        async def smoothly() -> None:
            for _ in range(steps):
                self.clock.advance(1)
                await settle()
                self.check()

        self.runner.run(smoothly())

    @precondition(lambda self: self.holder is not None)
    @rule(there=DELAYS, back=DELAYS, then=DELAYS, seconds=st.sampled_from([16, 28, 46]))
    def the_holder_s_network_changes_twice(self, there: float | None, back: float | None, then: float | None, seconds: int) -> None:
        """So that a renewal, or its answer, is late, and the next one is later."""
        line = self.holder.line
        line.there, line.back = there, back
        self.time_passes(seconds)
        line.there = line.back = then
        self.time_passes(46)

    @rule(who=st.integers(0, 2), there=DELAYS, back=DELAYS)
    def a_network_changes(self, who: int, there: float | None, back: float | None) -> None:
        self.contenders[who].line.there, self.contenders[who].line.back = there, back

    @precondition(lambda self: self.holder is not None)
    @rule(dies=st.booleans())
    def the_holder_ends(self, dies: bool) -> None:
        holder = self.holder
        if not dies:
            holder.leave.set()
            self.runner.run(settle())
            return

        async def die() -> None:
            holder.line.there, holder.line.deadline = None, 0  # without a word
            holder.task.cancel()
            await settle()
            self.contenders[self.contenders.index(holder)] = Contender(self.table, self.clock, self.tokens)
            await settle()

        self.runner.run(die())

    @property
    def holder(self) -> Contender | None:
        return next((each for each in self.contenders if each.lease is not None), None)

    @rule()
    def the_server_forgets(self) -> None:
        """It was restarted, and kept nothing: its tokens grow all the same.

        Only while nobody has the lease: a server that forgets whose it is gives it to a second one, which the token is for.
        """
        if self.table._holder(NAME) is None:
            self.table._token = 0
        self.clock.advance(0.1)

    @invariant()
    def check(self) -> None:
        holders = [each for each in self.contenders if each.lease is not None and each.lease.held]
        assert len(holders) <= 1
        if holders:
            [holder] = holders
            _, end = self.table._holders[NAME]
            assert end > self.clock.monotonic(), "it believes no longer than it is true"
            assert self.tokens[-1] == holder.lease.token, "the last token is the holder's"
            assert holder.lease.left <= end - self.clock.monotonic()
        assert self.tokens == sorted(set(self.tokens)), "each token is higher than all before"

    @invariant()
    def who_does_not_hold_it_any_more_was_told(self) -> None:
        for each in self.contenders:
            if each.lease is not None:
                assert each.lease.lost.is_set() == (not each.lease.held)

    def teardown(self) -> None:
        async def end() -> None:
            for each in self.contenders:
                each.line.there, each.line.deadline = None, 0
                each.task.cancel()
            await asyncio.gather(*(each.task for each in self.contenders), return_exceptions=True)

        self.runner.run(end())
        self.runner.close()


@pytest.mark.proves("lease.one")
def test_there_are_never_two_holders_whatever_the_network_does() -> None:
    run_state_machine_as_test(NeverTwoHolders, settings=settings(max_examples=80, stateful_step_count=40, deadline=None))


# ------------------------------------------------------------------------------------------------------ step by step
@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def table(clock: FakeClock) -> MemoryTable:
    return MemoryTable(clock)


@pytest.fixture
def line(table: MemoryTable, clock: FakeClock) -> Line:
    return Line(table, clock)


@pytest.fixture
def leases(line: Line, clock: FakeClock, failed: Failures) -> TtlLeases:
    return TtlLeases(line, clock, failed=failed)


class Waiter:
    """A task that wants the lease, has it, and leaves when it is told to."""

    def __init__(self, leases: TtlLeases) -> None:
        self.lease: TtlLease | None = None
        self.leave = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self._hold(leases))

    async def _hold(self, leases: TtlLeases) -> None:
        async with leases.held(NAME) as self.lease:
            await self.leave.wait()

    async def end(self) -> None:
        self.leave.set()
        await self.task


async def test_a_lease_that_is_renewed_lasts_for_ever(clock: FakeClock, line: Line, leases: TtlLeases) -> None:
    async with leases.held(NAME) as lease:
        for _ in range(100):
            await settle()
            clock.advance(TTL * RENEWED)
            await settle()
            assert lease.held
            assert not lease.lost.is_set()
        assert line.calls.count("renew") == 100
    assert not lease.held
    assert lease.lost.is_set()
    assert line.calls[-1] == "release"


async def test_a_holder_gives_up_before_the_lease_ends_when_it_cannot_be_renewed(
    clock: FakeClock, table: MemoryTable, line: Line, leases: TtlLeases
) -> None:
    async with leases.held(NAME) as lease:
        await settle()
        line.there, line.deadline = None, 1.0
        while lease.held:
            clock.advance(0.5)
            await settle()
        assert lease.lost.is_set()
        assert clock.monotonic() == TTL * BELIEVED
        assert table._holder(NAME) is not None, "nobody else can have it yet"
        assert line.calls.count("renew") > 5, "it was tried again and again"
        line.there = 0
        clock.advance(1)
        await settle()
        assert not lease.held, "what is lost stays lost"


async def test_a_renewal_counts_from_before_it_was_asked_for(clock: FakeClock, line: Line, leases: TtlLeases) -> None:
    async with leases.held(NAME) as lease:
        await settle()
        line.back = 12
        for seconds in (TTL * RENEWED, 12):
            clock.advance(seconds)
            await settle()
        assert lease.left == TTL * BELIEVED - 12
        line.back = 0


async def test_a_renewal_that_is_answered_after_the_holder_gave_up_changes_nothing(clock: FakeClock, line: Line, leases: TtlLeases) -> None:
    async with leases.held(NAME) as lease:
        await settle()
        line.back = 29
        for seconds in (TTL * RENEWED, 25.5, 3.5):
            clock.advance(seconds)
            await settle()
        assert lease.left <= 0
        assert not lease.held
        line.back = 0


async def test_a_holder_counts_from_before_it_asked(clock: FakeClock, table: MemoryTable, line: Line, leases: TtlLeases) -> None:
    line.back = 29.0
    waiter = Waiter(leases)
    await settle()
    clock.advance(29)
    await settle()
    assert waiter.lease.left == TTL * BELIEVED - 29
    line.back = 0
    await waiter.end()


async def test_an_answer_that_comes_too_late_is_no_lease(clock: FakeClock, table: MemoryTable, line: Line, leases: TtlLeases) -> None:
    line.back, line.deadline = 41.0, 60.0
    waiter = Waiter(leases)
    await settle()
    clock.advance(41)
    await settle()
    assert waiter.lease is None
    assert line.calls == ["acquire", "release"]
    line.back = 0
    for _ in range(60):  # until it has asked again, and been answered
        clock.advance(1)
        await settle()
    assert waiter.lease.held
    await waiter.end()


async def test_a_machine_that_slept_does_not_believe(clock: FakeClock, leases: TtlLeases) -> None:
    """Its monotonic clock stood still meanwhile."""
    async with leases.held(NAME) as lease:
        clock._epoch += 3600
        assert not lease.held
        assert lease.lost.is_set()
        clock._epoch -= 3600
        assert not lease.held


async def test_a_lease_that_somebody_else_has_by_now_is_lost_at_the_next_renewal(
    clock: FakeClock, table: MemoryTable, leases: TtlLeases
) -> None:
    async with leases.held(NAME) as lease:
        await settle()
        table._holders[NAME] = ("somebody else", 1e9)
        clock.advance(TTL * RENEWED)
        await settle()
        assert lease.lost.is_set()
    assert table._holder(NAME) == "somebody else", "and it is not released in their place"


async def test_who_waits_has_it_soon_after_the_holder_left(clock: FakeClock, leases: TtlLeases, line: Line) -> None:
    async with leases.held(NAME) as first:
        waiter = Waiter(leases)
        for _ in range(20):
            await settle()
            clock.advance(1)
        assert waiter.lease is None
    clock.advance(1)
    await settle()
    assert waiter.lease.token > first.token
    await waiter.end()


async def test_who_stops_waiting_leaves_nothing_behind(clock: FakeClock, table: MemoryTable, line: Line, leases: TtlLeases) -> None:
    line.back = 1.0
    waiter = Waiter(leases)
    await settle()
    assert table._holder(NAME) is not None, "granted, and the answer is on its way"
    waiter.task.cancel()
    line.back = 0
    with pytest.raises(asyncio.CancelledError):
        await waiter.task
    assert table._holder(NAME) is None


async def test_an_outage_is_an_error_for_who_wants_a_lease_and_not_for_who_leaves_one(
    clock: FakeClock, line: Line, leases: TtlLeases
) -> None:
    async with leases.held(NAME):
        line.there, line.deadline = None, 0
    with pytest.raises(StoreUnavailable):
        async with leases.held(NAME):
            pytest.fail("nobody can know whether somebody has it")


async def test_an_error_in_the_block_releases_the_lease(table: MemoryTable, leases: TtlLeases) -> None:
    with pytest.raises(KeyError):
        async with leases.held(NAME):
            raise KeyError
    assert table._holder(NAME) is None


@pytest.mark.parametrize("name", ["", "../etc", "a b", "a/b", "x" * 201, "-x", "é"])
async def test_a_name_that_is_no_name_is_refused(leases: TtlLeases, name: str) -> None:
    with pytest.raises(ValueError, match="letters"):
        async with leases.held(name):
            pass


# ------------------------------------------------------------------------------------------- in memory and on a server
async def test_a_table_gives_a_lease_to_one_owner_until_it_ends(place: Place) -> None:
    one, two = place.table(), place.table()
    first = await one.acquire("n", "ann", 40)
    assert first is not None
    assert await two.acquire("n", "bob", 40) is None
    assert await two.acquire("n", "ann", 40) is None, "not twice to the same one either"
    assert await two.acquire("m", "bob", 40) is not None, "another name is another lease"
    assert await one.renew("n", "ann", 40)
    assert not await two.renew("n", "bob", 40)
    place.advance(30)
    assert await one.renew("n", "ann", 40)
    place.advance(30)
    assert await two.acquire("n", "bob", 40) is None
    await two.release("n", "bob")
    assert await two.acquire("n", "bob", 40) is None
    place.advance(10)
    assert not await one.renew("n", "ann", 40)
    second = await two.acquire("n", "bob", 40)
    assert second is not None
    await one.release("n", "ann")
    assert await one.acquire("n", "ann", 40) is None, "whose it was cannot release it"
    await two.release("n", "bob")
    third = await one.acquire("n", "ann", 40)
    assert third is not None
    assert first < second < third


async def test_tokens_grow_though_the_table_forgot_everything(new_place: Callable[[], Place]) -> None:
    tokens: list[int] = []
    for _ in range(3):
        place = new_place()
        table = place.table()
        place.advance(len(tokens))
        for _ in range(3):
            token = await table.acquire("n", "ann", 40)
            assert token is not None
            tokens.append(token)
            await table.release("n", "ann")
        await place.aclose()
        if isinstance(place, Memory):
            place.advance(1)
    assert tokens == sorted(set(tokens))
