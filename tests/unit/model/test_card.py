import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.model.card import UNKNOWN, Card, Lifecycle, touches

PLAIN = {"model", "messages", "stream"}


@pytest.mark.parametrize(
    ("card", "fields", "right"),
    [
        (UNKNOWN, PLAIN | {"temperature", "tools", "thinking"}, False),
        (Card(max_output=9), PLAIN | {"max_tokens"}, False),
        (Card(forbidden=frozenset({"temperature"})), PLAIN, False),
        (Card(forbidden=frozenset({"temperature", "top_k"})), PLAIN | {"temperature"}, True),
        (Card(tool_name_limit=32), PLAIN, False),
        (Card(tool_name_limit=32), PLAIN | {"tools"}, True),
        (Card(thinking="none"), PLAIN, False),
        (Card(thinking="none"), PLAIN | {"thinking"}, True),
        (Card(thinking="none"), PLAIN | {"reasoning_effort"}, True),
        (Card(thinking="none"), PLAIN | {"reasoning"}, True),
        (Card(forbidden=frozenset()), PLAIN | {"temperature"}, False),
        (Card(limit_field="max_completion_tokens"), PLAIN | {"max_completion_tokens"}, False),
        (Card(limit_field="max_completion_tokens"), PLAIN | {"max_tokens"}, True),
        (Card(limit_field="max_tokens"), PLAIN | {"max_completion_tokens"}, True),
        (Card(thinking="adaptive"), PLAIN | {"thinking", "reasoning_effort"}, False),
    ],
)
def test_only_a_request_that_holds_what_a_trait_changes_is_read_and_written(card: Card, fields: set[str], right: bool) -> None:
    assert touches(card, fields) == right


cards = st.builds(
    Card,
    context_window=st.none() | st.integers(1, 9),
    max_output=st.none() | st.integers(1, 9),
    tools=st.none() | st.booleans(),
    forbidden=st.none() | st.sets(st.sampled_from(["temperature", "top_p"])).map(frozenset),
    thinking=st.none() | st.sampled_from(["budget", "adaptive", "none"]),
)


@given(cards, cards, cards)
def test_layers_can_be_joined_in_any_grouping_and_silence_changes_nothing(one: Card, two: Card, three: Card) -> None:
    assert one.over(two).over(three) == one.over(two.over(three))
    assert one.over(UNKNOWN) == UNKNOWN.over(one) == one.over(one) == one


def test_the_upper_layer_counts_field_by_field_and_an_empty_list_is_said_too() -> None:
    below = Card(max_output=9, context_window=99, forbidden=frozenset({"temperature"}), tools=True)
    joined = Card(max_output=5, forbidden=frozenset(), tools=False).over(below)
    assert joined == Card(max_output=5, context_window=99, forbidden=frozenset(), tools=False)
    assert not joined.forbids("temperature")
    assert below.forbids("temperature")
    assert not UNKNOWN.forbids("temperature")


def test_a_model_is_retired_from_the_day_on_that_its_vendor_named() -> None:
    noon = 1_764_504_000.0  # 2025-11-30, 12:00 UTC
    ends = Lifecycle(state="deprecated", retires_at="2025-12-01")
    assert ends.at(noon) == "deprecated"
    assert ends.at(noon + 43_199) == "deprecated"
    assert ends.at(noon + 43_200) == "retired"
    assert Lifecycle().at(noon) == "active"
    assert Lifecycle(state="retired").at(noon) == "retired"
