from hypothesis import given
from hypothesis import strategies as st

from trunkline.access.guesses import FORGET_SECONDS, Guesses


def test_each_failure_of_an_address_waits_twice_as_long_up_to_five_seconds() -> None:
    guesses = Guesses()
    assert [guesses.failed("a", 0.0) for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_addresses_do_not_pay_for_each_other() -> None:
    guesses = Guesses()
    for _ in range(5):
        guesses.failed("a", 0.0)
    assert guesses.failed("b", 0.0) == 0.1


def test_an_address_that_never_stops_stays_at_five_seconds() -> None:
    guesses = Guesses()
    for _ in range(2000):
        delay = guesses.failed("a", 0.0)
    assert delay == 5.0


def test_a_quiet_address_is_forgotten_and_a_busy_one_is_not() -> None:
    guesses = Guesses()
    guesses.failed("quiet", 0.0)
    guesses.failed("busy", 0.0)
    guesses.failed("busy", 1.0)
    assert guesses.failed("busy", FORGET_SECONDS) == 0.4
    assert len(guesses) == 1
    assert guesses.failed("quiet", FORGET_SECONDS) == 0.1


def test_the_address_that_has_been_quiet_longest_makes_room() -> None:
    guesses = Guesses(most=2)
    guesses.failed("a", 0.0)
    guesses.failed("b", 1.0)
    guesses.failed("a", 2.0)
    guesses.failed("c", 3.0)
    assert guesses.failed("a", 4.0) == 0.4
    assert guesses.failed("b", 5.0) == 0.1


@given(st.lists(st.tuples(st.text(max_size=2), st.floats(0, 1000)), max_size=50))
def test_memory_is_bounded_and_delays_stay_in_their_range_whatever_comes(failures: list[tuple[str, float]]) -> None:
    guesses = Guesses(most=3)
    now = 0.0
    for address, later in failures:
        now += later
        assert 0.1 <= guesses.failed(address, now) <= 5.0
        assert len(guesses) <= 3
