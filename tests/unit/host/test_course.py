"""The states of an extension: every way through them keeps the promises."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from trunkline.host.course import RUNNING, Course, Pace

PACE = Pace()

STEPS: dict[str, set[str]] = {
    "idle": {"starting", "disabled"},
    "starting": {"ready", "stopping", "backoff", "crash_loop", "failed_config"},
    "ready": {"unresponsive", "stopping", "backoff", "crash_loop", "failed_config"},
    "unresponsive": {"ready", "stopping", "backoff", "crash_loop", "failed_config"},
    "stopping": {"idle", "disabled"},
    "backoff": {"starting", "idle", "disabled"},
    "crash_loop": {"starting", "idle", "disabled"},
    "failed_config": {"idle", "disabled"},
    "disabled": {"idle"},
}


class Time:
    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return 1_700_000_000 + self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


class Ways(RuleBasedStateMachine):
    """A process is alive from `begin` to `ended`; whatever else happens in whatever order."""

    def __init__(self) -> None:
        super().__init__()
        self.time = Time()
        self.chance = 0.5
        self.course = Course(self.time, lambda: self.chance, PACE)
        self.before = "idle"
        self.alive = False
        self.crashes: list[float] = []
        self.told = 0

    @rule(seconds=st.floats(0, 2000))
    def pass_time(self, seconds: float) -> None:
        self.time.at += seconds

    @rule(called=st.booleans(), chance=st.floats(0, 1))
    def try_to_begin(self, called: bool, chance: float) -> None:
        self.chance = chance
        if self.course.may_begin(called=called):
            assert not self.alive, "two generations"
            assert self.course.next_attempt is None or self.course.next_attempt <= self.time.now() + 1e-6
            assert called or self.course.state == "backoff"
            self.course.begin()
            self.alive = True

    @precondition(lambda self: self.alive)
    @rule(what=st.sampled_from(["activated", "well"]))
    def go_well(self, what: str) -> None:
        getattr(self.course, what)()

    @precondition(lambda self: self.alive)
    @rule()
    def be_silent(self) -> None:
        self.course.silent("3 pings")

    @rule(rest=st.sampled_from(["idle", "disabled"]))
    def stop(self, rest: Any) -> None:
        self.course.stop(rest, "the operator's file")
        assert self.course.state == ("stopping" if self.alive else rest)

    @rule()
    def want(self) -> None:
        self.course.wanted("the configuration was read again")

    @precondition(lambda self: self.alive)
    @rule(again=st.booleans())
    def end(self, again: bool) -> None:
        before, at = self.course.state, self.time.at
        first = self.course.ended("status 1", again=again)
        self.alive = False
        if before == "stopping":
            assert self.course.state in {"idle", "disabled"}, "a requested stop counts as no crash"
        elif not again:
            assert self.course.state == "failed_config"
        else:
            self.crashes.append(at)
            assert self.course.state in {"backoff", "crash_loop"}
            assert 0 < self.course.seconds_left <= PACE.most
            if self.course.state == "crash_loop":
                assert self.course.seconds_left == PACE.retry
        assert not first or self.course.state == "crash_loop"

    @invariant()
    def each_step_is_one_of_the_table(self) -> None:
        after = self.course.state
        # one rule may take two steps of which the first is seen by nobody: a stop that is asked for while nothing runs
        assert after == self.before or after in STEPS[self.before], f"{self.before} → {after}"
        self.before = after

    @invariant()
    def a_process_is_alive_only_where_the_state_says_so(self) -> None:
        assert self.alive == (self.course.state in RUNNING)
        assert self.course.running == self.alive

    @invariant()
    def a_next_attempt_stands_where_one_is_to_come(self) -> None:
        assert (self.course.next_attempt is not None) == (self.course.state in {"backoff", "crash_loop"})


test_every_way_through_the_states = pytest.mark.proves("supervisor.states")(Ways.TestCase)


class Story:
    def __init__(self, chance: float = 0.5) -> None:
        self.time = Time()
        self.course = Course(self.time, lambda: chance, PACE)
        self.course.begin()

    def crash(self) -> float:
        """The seconds until the next start; a new worker has begun after them."""
        self.course.ended("status 1")
        left = self.course.seconds_left
        self.time.at += left
        if self.course.state == "backoff":
            self.course.begin()
        return left


@pytest.mark.proves("supervisor.backoff")
@pytest.mark.parametrize(("chance", "factor"), [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)])
def test_each_new_start_waits_twice_as_long_and_the_fifth_crash_is_one_too_many(chance: float, factor: float) -> None:
    story = Story(chance)
    assert [story.crash() for _ in range(4)] == pytest.approx([each * factor for each in (1, 2, 4, 8)])
    assert story.course.state == "starting"
    assert story.course.ended("status 1"), "the first time is told"
    assert story.course.state == "crash_loop"
    story.time.at += 59
    assert not story.course.may_begin(called=True)
    story.time.at += 1
    assert story.course.may_begin(called=True)
    assert not story.course.may_begin(called=False), "only whoever calls it has it tried"
    story.course.begin()
    assert not story.course.ended("status 1"), "and told once"
    assert story.course.state == "crash_loop"
    assert story.course.restarts == 5


@pytest.mark.proves("supervisor.backoff")
def test_crashes_that_lie_far_apart_are_no_loop_and_no_wait_is_longer_than_a_minute() -> None:
    story = Story(1.0)
    waits: list[float] = []
    for _ in range(12):
        story.time.at += 299
        waits.append(story.crash())
    assert story.course.state == "starting"
    assert max(waits) == 60
    assert waits == sorted(waits)


@pytest.mark.proves("supervisor.backoff")
def test_ten_minutes_in_ready_make_everything_good() -> None:
    story = Story()
    for _ in range(4):
        story.crash()
    story.course.activated()
    story.time.at += 600
    assert story.crash() == 1
    assert story.course.state == "starting"
