import asyncio
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.store.shared.places import Memory, Place
from trunkline.errors import StoreUnavailable
from trunkline.store.shared import Blocks
from trunkline.store.shared.memory import MemoryCounters

BLOCK = 10
WINDOW = 100
AMOUNTS = st.integers(0, 35)


class Counted:
    """Counters that count the trips to them, and may be away."""

    def __init__(self, counters: MemoryCounters) -> None:
        self._counters = counters
        self.trips = 0
        self.away = False

    def _trip(self) -> None:
        self.trips += 1
        if self.away:
            raise StoreUnavailable("away")

    async def add(self, key: str, amount: int, *, until: float) -> int:
        self._trip()
        return await self._counters.add(key, amount, until=until)

    async def take(self, key: str, amount: int, *, cap: int, until: float) -> int | None:
        self._trip()
        await asyncio.sleep(0)  # others run meanwhile, as they do during a trip
        taken = await self._counters.take(key, amount, cap=cap, until=until)
        await asyncio.sleep(0)
        return taken

    async def give(self, key: str, amount: int) -> None:
        self._trip()
        await asyncio.sleep(0)
        await self._counters.give(key, amount)

    async def read(self, key: str) -> int:
        return await self._counters.read(key)


def left(blocks: Blocks, key: str) -> int:
    return blocks._shares[key].left if key in blocks._shares else 0


def machine(new_place: Callable[[], Place]) -> type[RuleBasedStateMachine]:
    class SeveralProcessesUnderOneCap(RuleBasedStateMachine):
        """What is given out never passes the cap in sum, and is refused only where the counter has no room for it."""

        def __init__(self) -> None:
            super().__init__()
            self.runner = asyncio.Runner()
            self.place = new_place()
            self.counters = self.place.counters()
            self.blocks = [Blocks(self.place.counters(), self.place.clock, block=BLOCK) for _ in range(3)]
            self.window = 0
            self.out = [0, 0, 0]
            self.cap = 200

        @property
        def key(self) -> str:
            return f"w{self.window}"

        @property
        def until(self) -> float:
            return self.place.clock._epoch + (self.window + 1) * WINDOW

        @rule(wants=st.lists(st.tuples(st.integers(0, 2), AMOUNTS), min_size=1, max_size=6))
        def take_at_once(self, wants: list[tuple[int, int]]) -> None:
            async def all_at_once() -> list[bool]:
                return await asyncio.gather(
                    *(self.blocks[who].take(self.key, amount, cap=self.cap, until=self.until) for who, amount in wants)
                )

            before = sum(self.out)
            for (who, amount), taken in zip(wants, self.runner.run(all_at_once()), strict=True):
                self.out[who] += amount if taken else 0
            if sum(self.out) > before:
                assert sum(self.out) <= self.cap

        @rule(who=st.integers(0, 2), amount=AMOUNTS)
        def take_alone(self, who: int, amount: int) -> None:
            taken = self.runner.run(self.blocks[who].take(self.key, amount, cap=self.cap, until=self.until))
            if taken:
                self.out[who] += amount
                assert amount == 0 or sum(self.out) <= self.cap
            else:
                others = sum(left(each, self.key) for each in self.blocks)
                assert left(self.blocks[who], self.key) == 0, "somebody else may need less"
                assert sum(self.out) + others + amount > self.cap

        @rule(who=st.integers(0, 2), share=st.floats(0, 1))
        def give(self, who: int, share: float) -> None:
            amount = int(self.out[who] * share)
            self.runner.run(self.blocks[who].give(self.key, amount))
            self.out[who] -= amount

        @rule(cap=st.integers(0, 300))
        def another_cap(self, cap: int) -> None:
            self.cap = cap

        @rule()
        def next_window(self) -> None:
            self.place.advance(WINDOW)
            self.window += 1
            self.out = [0, 0, 0]

        @rule(who=st.integers(0, 2))
        def a_process_ends(self, who: int) -> None:
            self.runner.run(self.blocks[who].aclose())
            assert left(self.blocks[who], self.key) == 0

        @invariant()
        def the_counter_has_what_is_out_and_what_is_kept(self) -> None:
            kept = [left(each, self.key) for each in self.blocks]
            assert self.runner.run(self.counters.read(self.key)) == sum(self.out) + sum(kept)
            assert all(0 <= each <= 2 * BLOCK for each in kept)

        def teardown(self) -> None:
            self.runner.run(self.place.aclose())
            self.runner.close()

    return SeveralProcessesUnderOneCap


@pytest.mark.proves("counters.cap")
def test_blocks_of_several_processes_never_pass_the_cap_in_sum(new_place: Callable[[], Place]) -> None:
    run_state_machine_as_test(machine(new_place), settings=settings(max_examples=40, stateful_step_count=30, deadline=None))


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def counted(memory: Memory) -> Counted:
    return Counted(memory.counters())


@pytest.fixture
def blocks(memory: Memory, counted: Counted) -> Blocks:
    return Blocks(counted, memory.clock, block=100)


async def test_most_calls_make_no_trip_and_near_the_cap_each_does(memory: Memory, counted: Counted, blocks: Blocks) -> None:
    until = memory.clock.now() + 50
    for _ in range(1000):
        assert await blocks.take("k", 1, cap=2000, until=until)
    assert counted.trips <= 12
    for _ in range(600):
        assert await blocks.take("k", 1, cap=2000, until=until)
    counted.trips = 0
    for _ in range(400):
        assert await blocks.take("k", 1, cap=2000, until=until)
    assert counted.trips >= 300
    assert await counted.read("k") == 2000, "to the last one, with nothing kept back"
    assert not await blocks.take("k", 1, cap=2000, until=until)


async def test_near_the_cap_what_one_process_gives_back_another_can_take(memory: Memory) -> None:
    until = memory.clock.now() + 50
    one, two = (Blocks(memory.counters(), memory.clock, block=100) for _ in range(2))
    for _ in range(300):
        assert await one.take("k", 1, cap=300, until=until)
    assert not await two.take("k", 1, cap=300, until=until)
    await one.give("k", 1)
    assert await two.take("k", 1, cap=300, until=until)


async def test_far_from_the_cap_what_is_given_back_is_given_out_again_here(memory: Memory, counted: Counted, blocks: Blocks) -> None:
    until = memory.clock.now() + 50
    await blocks.take("k", 50, cap=10_000, until=until)
    counted.trips = 0
    for _ in range(10):
        await blocks.give("k", 50)
        assert await blocks.take("k", 50, cap=10_000, until=until)
    assert counted.trips == 0
    await blocks.give("k", 50)
    await blocks.give("k", 500)
    assert (left(blocks, "k"), counted.trips) == (200, 1), "two blocks stay, the rest goes back"


async def test_those_who_come_at_once_share_one_trip(memory: Memory, counted: Counted, blocks: Blocks) -> None:
    until = memory.clock.now() + 50
    await blocks.take("k", 1, cap=10_000, until=until)
    counted.trips = 0
    assert all(await asyncio.gather(*(blocks.take("k", 1, cap=10_000, until=until) for _ in range(90))))
    assert counted.trips == 1


async def test_what_is_here_is_given_out_while_the_counters_are_away(memory: Memory, counted: Counted, blocks: Blocks) -> None:
    until = memory.clock.now() + 50
    for _ in range(2):
        await blocks.take("k", 1, cap=10_000, until=until)
    counted.away = True
    for _ in range(100):
        assert await blocks.take("k", 1, cap=10_000, until=until)
    with pytest.raises(StoreUnavailable):
        await blocks.take("k", 1, cap=10_000, until=until)
    await blocks.aclose()
    counted.away = False
    assert await blocks.take("k", 1, cap=10_000, until=until)


async def test_a_call_that_is_cancelled_on_its_trip_counts_too_much_and_not_too_little(
    memory: Memory, counted: Counted, blocks: Blocks
) -> None:
    until = memory.clock.now() + 50
    await blocks.take("k", 1, cap=10_000, until=until)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await blocks.take("k", 5, cap=10_000, until=until)
    assert await blocks.take("k", 5, cap=10_000, until=until)
    assert await counted.read("k") >= 6


async def test_nothing_is_taken_of_a_window_that_is_over_though_some_is_left(memory: Memory, counted: Counted, blocks: Blocks) -> None:
    until = memory.clock.now() + 50
    for _ in range(2):
        await blocks.take("k", 1, cap=10_000, until=until)
    memory.advance(50)
    assert not await blocks.take("k", 1, cap=10_000, until=until)
    await blocks.give("k", 1)
    assert await counted.read("k") == 0


async def test_windows_that_are_over_take_no_memory(memory: Memory, blocks: Blocks) -> None:
    for number in range(5000):
        await blocks.take(f"k{number}", 1, cap=9, until=memory.clock.now() + 1)
        memory.advance(0.01)
    assert len(blocks._shares) <= 1024


def test_a_block_is_at_least_one(memory: Memory) -> None:
    with pytest.raises(ValueError, match="0"):
        Blocks(memory.counters(), memory.clock, block=0)
