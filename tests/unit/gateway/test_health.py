import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.wallet import credential
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
from trunkline.gateway.health import BUSY, DENIED, FAILURES, LONGEST, REST, Health, Resting
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


# ------------------------------------------------------------------------------------------------------------ credentials
ONE, OTHER = credential("one"), credential("other")
A2 = Target("a", "m2")


@pytest.mark.parametrize("status", [401, 402])
@pytest.mark.proves("credentials.rest")
def test_a_credential_that_is_not_accepted_rests_longer_each_time_wherever_it_is_used(
    health: Health, clock: FakeClock, status: int
) -> None:
    for seconds in (DENIED, 2 * DENIED, 4 * DENIED):
        health.failed(A, UpstreamDenied("no", upstream_status=status), ONE)
        assert (health.rest_of(ONE, A), health.rest_of(ONE, A2), health.rest_of(OTHER, A)) == (seconds, seconds, 0)
        clock.advance(seconds)
        assert health.rest_of(ONE, A) == 0
    for _ in range(50):
        health.failed(A, UpstreamDenied("no", upstream_status=status), ONE)
    assert health.rest_of(ONE, A) == LONGEST
    assert health.rest(A) == 0, "the target is not what is wrong"


@pytest.mark.proves("credentials.rest")
def test_what_a_credential_may_not_do_at_one_target_says_nothing_about_another(health: Health) -> None:
    health.failed(A, UpstreamDenied("no", upstream_status=403), ONE)
    assert (health.rest_of(ONE, A), health.rest_of(ONE, A2)) == (DENIED, 0)


@pytest.mark.proves("credentials.rest")
def test_a_credential_that_is_changed_is_well_at_once(health: Health) -> None:
    health.failed(A, UpstreamDenied("no", upstream_status=401), ONE)
    health.failed(A, UpstreamBusy("busy", retry_after=60.0), ONE)
    changed = credential("one", secret="canary-another")
    assert (health.rest_of(ONE, A), health.rest_of(changed, A)) == (60.0, 0)
    health.failed(A, UpstreamDenied("no", upstream_status=401), changed)
    assert health.rest_of(changed, A) == DENIED


@pytest.mark.proves("credentials.rest", "G14")
def test_a_busy_credential_rests_for_as_long_as_it_was_told_and_only_there(health: Health, clock: FakeClock) -> None:
    health.failed(A, UpstreamBusy("busy", retry_after=7.0), ONE)
    assert (health.rest_of(ONE, A), health.rest_of(ONE, A2), health.rest_of(OTHER, A), health.rest(A)) == (7.0, 0, 0, 0)
    clock.advance(7)
    assert health.rest_of(ONE, A) == 0


def test_a_target_rests_while_all_its_credentials_do_and_is_busy_where_the_first_one_back_is(health: Health) -> None:
    health.failed(A, UpstreamBusy("busy", retry_after=20.0), ONE)
    assert (health.rest(A, [ONE]), health.is_busy(A, [ONE])) == (20.0, True)
    assert (health.rest(A, [ONE, OTHER]), health.is_busy(A, [ONE, OTHER])) == (0, False)
    health.failed(A, UpstreamDenied("no", upstream_status=401), OTHER)
    assert (health.rest(A, [ONE, OTHER]), health.is_busy(A, [ONE, OTHER])) == (20.0, True)
    health.failed(A, UpstreamBusy("busy", retry_after=40.0), ONE)
    assert (health.rest(A, [ONE, OTHER]), health.is_busy(A, [ONE, OTHER])) == (DENIED, False)
    assert (health.rest(A, []), health.is_busy(A, [])) == (0, False)


def test_a_reply_clears_what_was_denied_and_lets_what_is_busy_rest_on(health: Health, clock: FakeClock) -> None:
    health.failed(A, UpstreamDenied("no", upstream_status=401), ONE)
    health.failed(A, UpstreamBusy("busy", retry_after=7.0), ONE)
    health.succeeded(A2, ONE)
    assert (health.rest_of(ONE, A2), health.rest_of(ONE, A)) == (0, 7.0)
    health.succeeded(A, ONE)
    assert health.rest_of(ONE, A) == 7.0
    clock.advance(7)
    health.succeeded(A, ONE)
    health.failed(A, UpstreamDenied("no", upstream_status=401), ONE)
    assert health.rest_of(ONE, A) == DENIED, "the count begins anew"


def test_a_failing_target_is_so_with_every_credential(health: Health) -> None:
    for _ in range(FAILURES):
        health.failed(A, UpstreamDown("down"), ONE)
    assert (health.rest(A, [ONE, OTHER]), health.is_busy(A, [ONE, OTHER])) == (REST, False)


def test_what_rests_of_a_provider_is_told(health: Health, clock: FakeClock) -> None:
    health.failed(A, UpstreamDenied("no", upstream_status=401), ONE)
    health.failed(A2, UpstreamBusy("busy", retry_after=7.0), OTHER)
    health.failed(B, UpstreamBusy("busy", retry_after=9.0))
    assert health.resting("a") == [
        Resting(target=None, credential="cred_one", why="denied", seconds=DENIED),
        Resting(target=A2, credential="cred_other", why="busy", seconds=7.0),
    ]
    assert health.resting("b") == [Resting(target=B, credential="", why="busy", seconds=9.0)]
    clock.advance(DENIED)
    assert health.resting("a") == []


def test_states_of_credentials_are_bounded_too(health: Health, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "MOST", 10)
    for number in range(50):
        health.failed(Target("a", str(number)), UpstreamBusy("busy"), ONE)
    assert len(health._states) == 10


@pytest.mark.parametrize(
    "answers",
    [UpstreamRefused("x", upstream_status=400), UpstreamDenied("x", upstream_status=401), UpstreamBusy("x", upstream_status=429)],
    ids=["refused", "denied", "busy"],
)
def test_a_target_that_says_no_answers_and_begins_a_new_row(health: Health, clock: FakeClock, answers: TrunklineError) -> None:
    for _ in range(FAILURES - 1):
        health.failed(A, UpstreamDown("x"))
    health.failed(A, answers)
    clock.advance(BUSY)
    health.failed(A, UpstreamDown("x"))
    assert health.rest(A) == 0
    for _ in range(FAILURES - 1):
        health.failed(A, UpstreamDown("x"))
    assert health.rest(A) == REST
