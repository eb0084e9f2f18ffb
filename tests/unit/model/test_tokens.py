import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.model.tokens import approximate


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("four", 1),
        ("fours", 2),
        ("x" * 4000, 1000),
        ("é", 1),
        ("привет", 4),
        ("東京都", 3),
        ("🛰", 2),
        ("k\u0131ş 🛰 東", 2 + 1 + 3),
    ],
)
def test_tokens_are_counted_by_the_bytes_of_each_class_of_script(text: str, tokens: int) -> None:
    assert approximate(text.encode()) == tokens


@given(st.text())
def test_a_text_has_tokens_unless_it_is_empty_and_never_more_than_bytes(text: str) -> None:
    tokens = approximate(text.encode())
    assert (tokens > 0) == bool(text)
    assert tokens <= len(text.encode())


@given(st.text(), st.text())
def test_more_text_never_has_fewer_tokens(one: str, other: str) -> None:
    assert approximate((one + other).encode()) >= approximate(one.encode())
    assert approximate((one + other).encode()) <= approximate(one.encode()) + approximate(other.encode())
