import pytest

from trunkline.base.codec import parse
from trunkline.catalog.fields import CardFields, PriceFields
from trunkline.errors import BadRequest
from trunkline.model.card import UNKNOWN, Card, Lifecycle
from trunkline.model.price import Price, Tier


def price(fields: dict[str, object]) -> Price:
    return parse(fields, PriceFields, at="price").price(at="price", source="the operator", date="2026-11-29")


def test_fields_are_a_card() -> None:
    said = {
        "context_window": 99,
        "max_output": 9,
        "inputs": ["text", "image"],
        "outputs": ["text"],
        "tools": False,
        "thinking": "none",
        "efforts": ["low"],
        "forbidden": [],
        "limit_field": "max_tokens",
        "tool_name_limit": 32,
        "lifecycle": {"state": "deprecated", "retires_at": "2026-12-01", "replacement": "new"},
    }
    assert parse(said, CardFields).card == Card(
        context_window=99,
        max_output=9,
        inputs=frozenset({"text", "image"}),
        outputs=frozenset({"text"}),
        tools=False,
        thinking="none",
        efforts=("low",),
        forbidden=frozenset(),
        limit_field="max_tokens",
        tool_name_limit=32,
        lifecycle=Lifecycle(state="deprecated", retires_at="2026-12-01", replacement="new"),
    )
    assert parse({}, CardFields).card == UNKNOWN


def test_fields_are_a_price_in_micro_cents_and_a_tier_names_only_what_changes() -> None:
    said = {
        "rates": {"input": "3", "output": "15.00", "web_searches": "10000"},
        "tiers": [{"above": 100, "rates": {"input": "6"}}, {"above": 200, "rates": {"output": "30"}}],
        "effective_at": "2026-12-01",
    }
    base = {"input": 300_000_000, "output": 1_500_000_000, "web_searches": 1_000_000_000_000}
    assert price(said) == Price(
        rates=base,
        tiers=(
            Tier(above=100, rates=base | {"input": 600_000_000}),
            Tier(above=200, rates=base | {"input": 600_000_000, "output": 3_000_000_000}),
        ),
        effective_at=1_796_083_200,
        source="the operator",
        date="2026-11-29",
    )


@pytest.mark.parametrize(
    ("fields", "place", "hint"),
    [
        ({"rates": {"inptu": "1"}}, "price.rates.inptu", "Did you mean `input`?"),
        ({"rates": {"input": "0.000000001"}}, "price.rates.input", "At most eight digits stand behind the point."),
        (
            {"rates": {"input": "1"}, "tiers": [{"above": 9, "rates": {"output": "1"}}]},
            r"price.tiers\[0\].rates",
            "Say what it costs below, too.",
        ),
        (
            {"rates": {"input": "1"}, "tiers": [{"above": 9, "rates": {"input": "2"}}, {"above": 9, "rates": {"input": "3"}}]},
            r"price.tiers\[1\].above",
            "The lowest stands first.",
        ),
        ({"rates": {"input": "1"}, "effective_at": "2026-02-30"}, "price.effective_at", "Write a date such as `2026-12-01`."),
    ],
)
def test_a_price_with_a_mistake_is_refused_with_its_place(fields: dict[str, object], place: str, hint: str) -> None:
    with pytest.raises(BadRequest, match=place) as caught:
        price(fields)
    assert caught.value.hint == hint
