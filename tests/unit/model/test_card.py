import pytest

from trunkline.model.card import UNKNOWN, Card, touches

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
        (Card(thinking="adaptive"), PLAIN | {"thinking", "reasoning_effort"}, False),
    ],
)
def test_only_a_request_that_holds_what_a_trait_changes_is_read_and_written(card: Card, fields: set[str], right: bool) -> None:
    assert touches(card, fields) == right
