import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.base.money import DOLLAR, dollars, micro_cents
from trunkline.errors import BadRequest


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("3", 300_000_000),
        ("3.00", 300_000_000),
        ("0.0003", 30_000),
        ("0.00000001", 1),
        ("0.000000010000", 1),
        ("-2.5", -250_000_000),
        ("123456789012345", 123_456_789_012_345 * DOLLAR),
    ],
)
def test_dollars_are_read_exactly(text: str, amount: int) -> None:
    assert micro_cents(text) == amount


@pytest.mark.parametrize(
    "text", ["", ".5", "5.", "1e3", "1_000", "$1", "1,5", "NaN", "inf", "+1", " 1", "1 ", "--1", "٣", "0x10", "1" * 16]
)
def test_what_is_no_decimal_number_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(BadRequest, match="`price.input` is "):
        micro_cents(text, at="price.input")


def test_what_is_finer_than_a_micro_cent_is_refused_and_not_rounded() -> None:
    with pytest.raises(BadRequest, match="finer than a micro-cent"):
        micro_cents("0.000000015")


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0.00"), (1, "0.00000001"), (250_000_000, "2.50"), (-30_000, "-0.0003"), (DOLLAR, "1.00")]
)
def test_an_amount_is_shown_with_no_more_digits_than_it_has(amount: int, text: str) -> None:
    assert dollars(amount) == text


@given(st.integers(-(10**22), 10**22))
def test_what_is_shown_is_read_back(amount: int) -> None:
    assert micro_cents(dollars(amount)) == amount
