import pytest

from trunkline.errors import (
    BadRequest,
    EgressDenied,
    LaunchFailed,
    LossRefused,
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
from trunkline.gateway.attempts import MOST_ATTEMPTS, Next, after, worth_telling

ANYWHERE_ELSE = [UpstreamBusy, UpstreamDenied, UpstreamDown, UpstreamGarbled, UpstreamTimeout, NoCredential, EgressDenied, LaunchFailed]
NOWHERE_ELSE = [UpstreamRefused, BadRequest, ShuttingDown]


@pytest.mark.parametrize("kind", ANYWHERE_ELSE)
def test_what_is_wrong_with_a_target_sends_the_call_to_the_next_one(kind: type[TrunklineError]) -> None:
    assert after(kind("x"), tried=1, left=1, again=False) == "next"


@pytest.mark.proves("losses.rules")
@pytest.mark.parametrize("tried", [1, MOST_ATTEMPTS, 99])
def test_what_would_be_lost_at_one_target_may_not_be_at_the_next_and_asking_so_costs_no_attempt(tried: int) -> None:
    assert after(LossRefused("x"), tried=tried, left=1, again=False) == "next"
    assert after(LossRefused("x"), tried=tried, left=0, again=False) == "stop"


@pytest.mark.parametrize("kind", NOWHERE_ELSE)
@pytest.mark.parametrize("left", [0, 3])
def test_what_is_wrong_with_the_request_or_with_us_is_tried_nowhere_else(kind: type[TrunklineError], left: int) -> None:
    assert after(kind("x"), tried=1, left=left, again=False) == "stop"


@pytest.mark.parametrize("kind", [*ANYWHERE_ELSE, *NOWHERE_ELSE])
def test_the_last_target_is_tried_once_more_only_when_it_could_not_be_reached(kind: type[TrunklineError]) -> None:
    assert after(kind("x"), tried=1, left=0, again=False) == ("same" if kind is UpstreamDown else "stop")


@pytest.mark.parametrize(
    ("tried", "left", "again", "right"),
    [
        (1, 0, False, "same"),
        (2, 0, True, "stop"),
        (2, 0, False, "same"),
        (2, 1, True, "next"),
        (MOST_ATTEMPTS - 1, 1, False, "next"),
        (MOST_ATTEMPTS, 1, False, "stop"),
        (MOST_ATTEMPTS, 0, False, "stop"),
    ],
)
def test_a_call_goes_on_while_there_are_targets_and_attempts(tried: int, left: int, again: bool, right: Next) -> None:
    assert after(UpstreamDown("x"), tried=tried, left=left, again=again) == right


def test_of_several_errors_the_shortest_wait_is_told() -> None:
    soon, late, never = UpstreamBusy("soon", retry_after=7), UpstreamBusy("late", retry_after=20), UpstreamDown("down")
    assert worth_telling([late, soon, never]) is soon
    assert worth_telling([soon, late]) is soon
    now = UpstreamBusy("now", retry_after=0)
    assert worth_telling([soon, now]) is now


def test_what_would_be_lost_is_told_where_nothing_else_went_wrong_after_it() -> None:
    lost, down, busy = LossRefused("lost"), UpstreamDown("down"), UpstreamBusy("busy", retry_after=7)
    assert worth_telling([lost]) is lost
    assert worth_telling([down, lost]) is lost
    assert worth_telling([lost, down]) is down
    assert worth_telling([lost, busy]) is busy


def test_without_a_wait_the_last_error_is_told() -> None:
    first, last = UpstreamBusy("busy"), UpstreamDown("down")
    assert worth_telling([first, last]) is last


@pytest.mark.parametrize("kind", [*ANYWHERE_ELSE, *NOWHERE_ELSE, LossRefused])
@pytest.mark.parametrize("left", [0, 2])
@pytest.mark.proves("credentials.rest")
def test_what_was_said_to_a_credential_is_tried_with_another_one_first(kind: type[TrunklineError], left: int) -> None:
    alone = after(kind("x"), tried=1, left=left, again=False)
    assert after(kind("x"), tried=1, left=left, again=False, others=True) == ("other" if kind in {UpstreamBusy, UpstreamDenied} else alone)


def test_other_credentials_are_no_way_around_the_most_attempts() -> None:
    assert after(UpstreamDenied("x"), tried=MOST_ATTEMPTS, left=1, again=False, others=True) == "stop"


def test_what_cannot_be_repeated_is_asked_of_another_target_and_never_of_the_same() -> None:
    assert after(UpstreamDown("x"), tried=1, left=1, again=False, repeatable=False) == "next"
    assert after(UpstreamDown("x"), tried=1, left=0, again=False, repeatable=False) == "stop"
