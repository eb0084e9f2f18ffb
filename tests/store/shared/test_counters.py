import asyncio
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.store.shared.places import Memory, Place
from trunkline.store.shared.contract import MOST
from trunkline.store.shared.memory import SWEEP, MemoryCounters

KEYS = st.sampled_from(["a", "b", "spend:acc_x:2026-11"])
AMOUNTS = st.integers(0, 50)
TENS = st.integers(0, 6).map(lambda tens: 10 * tens)
"""Seconds; so far apart that the milliseconds which a real server takes do not matter."""


def machine(new_place: Callable[[], Place]) -> type[RuleBasedStateMachine]:
    class CountersAgainstAModel(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.runner = asyncio.Runner()
            self.place = new_place()
            self.two = [self.place.counters(), self.place.counters()]
            self.model: dict[str, tuple[int, float]] = {}

        def live(self, key: str) -> tuple[int, float]:
            total, end = self.model.get(key, (0, 0.0))
            return (total, end) if end > self.place.clock.now() else (0, 0.0)

        def keep(self, key: str, total: int, end: float) -> None:
            self.model[key] = (total, end)

        @rule(who=st.integers(0, 1), key=KEYS, amount=AMOUNTS, left=TENS)
        def add(self, who: int, key: str, amount: int, left: int) -> None:
            until = self.place.clock.now() + left
            total, end = self.live(key)
            assert self.runner.run(self.two[who].add(key, amount, until=until)) == total + amount
            self.keep(key, total + amount, max(end, until))

        @rule(who=st.integers(0, 1), key=KEYS, amount=AMOUNTS, cap=st.integers(0, 120), left=TENS)
        def take(self, who: int, key: str, amount: int, cap: int, left: int) -> None:
            until = self.place.clock.now() + left
            total, end = self.live(key)
            taken = self.runner.run(self.two[who].take(key, amount, cap=cap, until=until))
            if total + amount > cap or left == 0:
                assert taken is None
            else:
                assert taken == total + amount
                self.keep(key, total + amount, max(end, until))

        @rule(who=st.integers(0, 1), key=KEYS, amount=AMOUNTS)
        def give(self, who: int, key: str, amount: int) -> None:
            self.runner.run(self.two[who].give(key, amount))
            total, end = self.live(key)
            self.keep(key, max(0, total - amount), end)

        @rule(seconds=TENS)
        def advance(self, seconds: int) -> None:
            self.place.advance(seconds)

        @invariant()
        def both_read_the_same(self) -> None:
            for counters in self.two:
                for key in ("a", "b"):
                    assert self.runner.run(counters.read(key)) == self.live(key)[0]

        def teardown(self) -> None:
            self.runner.run(self.place.aclose())
            self.runner.close()

    return CountersAgainstAModel


@pytest.mark.proves("counters.window")
def test_counters_do_as_the_model_says(new_place: Callable[[], Place]) -> None:
    run_state_machine_as_test(machine(new_place), settings=settings(max_examples=30, stateful_step_count=25, deadline=None))


async def test_a_counter_ends_with_the_last_end_that_it_was_given(place: Place) -> None:
    counters, now = place.counters(), place.clock.now()
    await counters.add("k", 1, until=now + 50)
    await counters.add("k", 1, until=now + 20)
    place.advance(30)
    assert await counters.read("k") == 2
    place.advance(20)
    assert await counters.read("k") == 0
    assert await counters.add("k", 5, until=now + 90) == 5


async def test_a_window_that_is_over_is_not_kept_and_nothing_is_taken_of_it(place: Place) -> None:
    counters, now = place.counters(), place.clock.now()
    assert await counters.add("k", 7, until=now) == 7
    assert await counters.add("k", 7, until=now - 100) == 7
    assert await counters.take("k", 1, cap=100, until=now) is None
    assert await counters.read("k") == 0


@pytest.mark.proves("counters.cap")
async def test_of_many_takes_at_once_no_more_pass_than_the_cap_allows(place: Place) -> None:
    counters, until = [place.counters() for _ in range(4)], place.clock.now() + 50
    taken = await asyncio.gather(*(counters[number % 4].take("k", 3, cap=100, until=until) for number in range(80)))
    passed = sorted(total for total in taken if total is not None)
    assert passed == list(range(3, 100, 3)), "each total once, up to the last that fits"
    assert await counters[0].read("k") == 99


async def test_what_was_given_back_can_be_taken_again_and_never_more(place: Place) -> None:
    counters, until = place.counters(), place.clock.now() + 50
    assert await counters.take("k", 10, cap=10, until=until) == 10
    await counters.give("k", 4)
    assert await counters.take("k", 5, cap=10, until=until) is None
    assert await counters.take("k", 4, cap=10, until=until) == 10
    await counters.give("k", 1000)
    assert await counters.read("k") == 0
    await counters.give("nobody", 3)
    assert await counters.read("nobody") == 0


async def test_large_totals_are_exact_and_too_large_ones_are_refused(place: Place) -> None:
    counters, until = place.counters(), place.clock.now() + 50
    assert await counters.add("k", MOST - 1, until=until) == MOST - 1
    assert await counters.add("k", 1, until=until) == MOST
    with pytest.raises(OverflowError, match="`k`"):
        await counters.add("k", 1, until=until)
    assert await counters.read("k") == MOST
    assert await counters.take("k", 1, cap=MOST, until=until) is None
    await counters.give("k", MOST - 3)
    assert await counters.read("k") == 3


@pytest.mark.parametrize("amount", [-1, MOST + 1])
async def test_an_amount_that_cannot_be_counted_is_refused_and_named(place: Place, amount: int) -> None:
    counters, until = place.counters(), place.clock.now() + 50
    for call in (
        counters.add("k", amount, until=until),
        counters.take("k", amount, cap=9, until=until),
        counters.take("k", 1, cap=amount, until=until),
        counters.give("k", amount),
    ):
        with pytest.raises(ValueError, match=str(amount)):
            await call
    assert await counters.read("k") == 0


async def test_counters_that_have_ended_take_no_memory() -> None:
    place = Memory()
    counters: MemoryCounters = place.counters()
    for number in range(10 * SWEEP):
        await counters.add(f"k{number}", 1, until=place.clock.now() + 1)
        place.advance(0.01)
    assert len(counters._totals) <= SWEEP
