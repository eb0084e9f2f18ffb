import pytest

from tests.fakes.clock import FakeClock
from trunkline.errors import (
    BadRequest,
    EgressDenied,
    Internal,
    LaunchFailed,
    NoCredential,
    ShuttingDown,
    TrunklineError,
    UpstreamBusy,
    UpstreamDenied,
    UpstreamDown,
    UpstreamGarbled,
    UpstreamRefused,
    UpstreamTimeout,
)
from trunkline.gateway import health as health_module
from trunkline.gateway.health import BUSY, FAILURES, LONGEST, REST, Health
from trunkline.model.target import Target

A, B = Target("a", "m"), Target("b", "m")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def health(clock: FakeClock) -> Health:
    return Health(clock)


def test_a_target_that_nobody_called_may_be_tried(health: Health) -> None:
    assert health.rest(A) == 0
    assert not health.is_busy(A)


@pytest.mark.parametrize(
    ("said", "seconds"), [(7.0, 7.0), (0.5, 0.5), (None, BUSY), (0.0, 0.0), (1e9, LONGEST)], ids=["7", "0.5", "nothing", "0", "for ever"]
)
def test_a_busy_target_is_left_alone_for_as_long_as_it_says(health: Health, clock: FakeClock, said: float | None, seconds: float) -> None:
    health.failed(A, UpstreamBusy("x", retry_after=said))
    assert health.rest(A) == seconds
    assert health.is_busy(A) == (seconds > 0)
    assert health.rest(B) == 0
    clock.advance(seconds)
    assert health.rest(A) == 0
    assert not health.is_busy(A)


def test_a_shorter_wait_does_not_cut_a_longer_one(health: Health) -> None:
    health.failed(A, UpstreamBusy("x", retry_after=20))
    health.failed(A, UpstreamBusy("x", retry_after=7))
    assert health.rest(A) == 20


def test_a_reply_that_began_before_a_target_asked_to_be_left_alone_does_not_wake_it(health: Health, clock: FakeClock) -> None:
    health.failed(A, UpstreamBusy("x", retry_after=20))
    clock.advance(1)
    health.succeeded(A)
    assert health.rest(A) == 19
    assert health.is_busy(A)


@pytest.mark.parametrize("kind", [UpstreamDown, UpstreamTimeout, UpstreamGarbled, EgressDenied, LaunchFailed])
def test_five_failures_in_a_row_rest_a_target_for_ten_seconds(health: Health, clock: FakeClock, kind: type[TrunklineError]) -> None:
    for _ in range(FAILURES - 1):
        health.failed(A, kind("x"))
        assert health.rest(A) == 0
    health.failed(A, kind("x"))
    assert health.rest(A) == REST == 10
    assert not health.is_busy(A)
    clock.advance(REST)
    assert health.rest(A) == 0
    health.failed(A, kind("x"))
    assert health.rest(A) == REST, "one more failure is enough while none has gone well"


@pytest.mark.parametrize("kind", [UpstreamRefused, UpstreamDenied, BadRequest, NoCredential, ShuttingDown, Internal])
def test_what_is_not_the_targets_fault_never_counts(health: Health, kind: type[TrunklineError]) -> None:
    for _ in range(3 * FAILURES):
        health.failed(A, kind("x", retry_after=60))
    assert health.rest(A) == 0


def test_a_success_between_failures_begins_the_count_anew(health: Health) -> None:
    for _ in range(3):
        for _ in range(FAILURES - 1):
            health.failed(A, UpstreamDown("x"))
        health.succeeded(A)
    assert health.rest(A) == 0


def test_a_success_wakes_a_target_that_had_failed(health: Health) -> None:
    for _ in range(FAILURES):
        health.failed(A, UpstreamDown("x"))
    health.succeeded(A)
    assert health.rest(A) == 0


def test_failures_during_a_longer_wait_leave_it_what_it_is(health: Health) -> None:
    health.failed(A, UpstreamBusy("x", retry_after=60))
    for _ in range(FAILURES):
        health.failed(A, UpstreamDown("x"))
    assert health.rest(A) == 60
    assert health.is_busy(A)


def test_models_of_any_name_do_not_fill_the_memory(health: Health, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "MOST", 3)
    for number in range(100):
        health.failed(Target("a", f"made-up-{number}"), UpstreamBusy("x", retry_after=9))
    assert len(health._states) == 3
    assert health.rest(Target("a", "made-up-99")) == 9
