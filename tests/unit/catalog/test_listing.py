import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.base.codec import Malformed
from trunkline.catalog.listing import LONGEST_ID, MOST, Found, read_page
from trunkline.model.card import Card, Lifecycle


def read(*rows: Any, **more: Any) -> tuple[Found, ...]:
    return read_page(json.dumps({"object": "list", "data": rows, **more}).encode()).found


@pytest.mark.parametrize(
    ("row", "card"),
    [
        ({"id": "m", "object": "model", "created": 1, "owned_by": "x"}, Card()),
        ({"id": "m", "shutdown_date": "2026-12-11"}, Card(lifecycle=Lifecycle(state="deprecated", retires_at="2026-12-11"))),
        ({"id": "m", "shutdown_date": None}, Card()),
        (
            {"id": "m", "max_input_tokens": 1_000_000, "max_tokens": 128_000, "type": "model"},
            Card(context_window=1_000_000, max_output=128_000),
        ),
        ({"id": "m", "max_model_len": 32_768}, Card(context_window=32_768)),
        (
            {"id": "m", "context_length": 8_192, "top_provider": {"max_completion_tokens": 4_096}},
            Card(context_window=8_192, max_output=4_096),
        ),
        ({"id": "m", "context_length": 8_192, "top_provider": None}, Card(context_window=8_192)),
        ({"id": "m", "max_tokens": "many", "max_input_tokens": -1, "context_length": 1.5, "shutdown_date": "soon"}, Card()),
        ({"id": "m", "max_tokens": 0, "max_input_tokens": 1 << 60}, Card()),
    ],
)
def test_a_row_says_what_it_says_and_nothing_more_is_taken_from_it(row: dict[str, Any], card: Card) -> None:
    assert read(row) == (Found("m", card),)


def test_a_row_that_makes_no_sense_is_left_out_and_the_others_stay() -> None:
    rows = [
        {"id": "a"},
        {"id": 7},
        "text",
        None,
        {},
        {"id": ""},
        {"id": " b"},
        {"id": "c\n"},
        {"id": "x" * (LONGEST_ID + 1)},
        {"id": "org/d:free"},
    ]
    page = read_page(json.dumps({"data": rows}).encode())
    assert [found.id for found in page.found] == ["a", "org/d:free"]
    assert page.left_out == 8


def test_a_model_is_listed_once_and_the_list_has_an_end() -> None:
    assert [found.id for found in read({"id": "a"}, {"id": "b"}, {"id": "a", "max_tokens": 9})] == ["a", "b"]
    assert len(read(*({"id": f"m{number}"} for number in range(MOST + 5)))) == MOST


def test_a_page_says_where_the_next_begins() -> None:
    def after(**more: Any) -> str:
        return read_page(json.dumps({"data": [], **more}).encode()).after

    assert after(has_more=True, last_id="z") == "z"
    assert after(has_more=False, last_id="z") == ""
    assert after(has_more=True, last_id=None) == ""
    assert after() == ""


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"data": {}}', b'{"data": [{"id": "a"}', b"\xff"])
def test_what_is_no_list_is_an_error(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_page(body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(
        json_values | st.fixed_dictionaries({"id": json_values}, optional={"max_tokens": json_values, "top_provider": json_values}),
        max_size=5,
    )
)
def test_whatever_the_rows_are_they_are_read(rows: list[Any]) -> None:
    page = read_page(json.dumps({"data": rows}).encode())
    assert len(page.found) + page.left_out == len(rows)
