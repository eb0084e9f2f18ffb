import os

from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.clock import FakeClock
from trunkline.base.ids import RANDOM_LETTERS, TIME_LETTERS, first_id, letters, new_id, time_of

naturals = st.integers(min_value=0, max_value=26**10 - 1)


def test_an_id_is_its_prefix_and_letters_only() -> None:
    prefix, _, rest = new_id("rqe", FakeClock()).partition("_")
    assert prefix == "rqe"
    assert len(rest) == TIME_LETTERS + RANDOM_LETTERS
    assert set(rest) <= set("abcdefghijklmnopqrstuvwxyz")


def test_ids_of_the_same_moment_differ() -> None:
    clock = FakeClock()
    assert len({new_id("rqe", clock) for _ in range(1000)}) == 1000


def test_a_forked_process_makes_ids_of_its_own() -> None:
    clock = FakeClock()
    new_id("rqe", clock)  # there is a stock
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, new_id("rqe", clock).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).decode() != new_id("rqe", clock)
    os.close(reader)
    os.close(writer)


def test_later_ids_sort_after_earlier_ones_to_the_millisecond() -> None:
    clock = FakeClock()
    ids = []
    for _ in range(100):
        ids.append(new_id("rqe", clock))
        clock.advance(0.001)
    assert ids == sorted(ids)


def test_the_time_part_lasts_for_some_thousand_years_and_the_random_part_holds_its_bits() -> None:
    assert 26**TIME_LETTERS > 4000 * 365 * 86_400 * 1000
    assert 26**RANDOM_LETTERS > 2**65


@given(naturals, naturals)
def test_the_order_of_texts_is_the_order_of_numbers(one: int, other: int) -> None:
    assert (letters(one, 10) < letters(other, 10)) == (one < other)


def test_numbers_are_padded() -> None:
    assert [letters(0, 3), letters(25, 3), letters(26, 3), letters(26**3 - 1, 3)] == ["aaa", "aaz", "aba", "zzz"]


@given(st.floats(0, 1e11))
def test_an_id_tells_when_it_was_made_and_stands_where_that_instant_begins(now: float) -> None:
    made = new_id("rqe", FakeClock(now))
    assert abs(time_of(made) - now) <= 0.001
    assert first_id("rqe", now) <= made
    assert made < first_id("rqe", time_of(made) + 0.0021)


def test_an_instant_before_the_epoch_or_after_the_last_is_still_a_place() -> None:
    assert first_id("rqe", -1) == "rqe_" + "a" * TIME_LETTERS
    assert first_id("rqe", 1e300) == "rqe_" + "z" * TIME_LETTERS
