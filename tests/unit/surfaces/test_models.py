import json
from typing import Any

import pytest
from anthropic.types import ModelInfo
from openai.types import Model

from trunkline.model.card import Card, Lifecycle
from trunkline.model.price import Price, Tier
from trunkline.surfaces import Listed
from trunkline.surfaces.models import SURFACE, write_all, write_one

MODELS = [
    Listed("fast", "trunkline", "openai_chat"),
    Listed("openrouter/meta/llama-3", "openrouter", "openai_chat"),
    Listed("claude/opus", "claude", "anthropic"),
    Listed("theirs/x", "theirs", "a_dialect_of_an_extension"),
]


def whole(models: list[Listed]) -> dict[str, Any]:
    return json.loads(write_all(models))


def test_openais_client_finds_its_fields() -> None:
    answer = whole(MODELS)
    assert answer["object"] == "list"
    assert [Model.model_validate(each).id for each in answer["data"]] == [model.id for model in MODELS]
    assert [each["owned_by"] for each in answer["data"]] == [model.owner for model in MODELS]


def test_anthropics_client_finds_its_fields_and_one_page() -> None:
    answer = whole(MODELS)
    assert [ModelInfo.model_validate(each).display_name for each in answer["data"]] == [model.id for model in MODELS]
    assert (answer["has_more"], answer["first_id"], answer["last_id"]) == (False, "fast", "theirs/x")


def test_switchboards_clients_find_the_models_whose_kind_they_know_and_prices() -> None:
    answer = whole(MODELS)
    assert answer["models"] == [
        {"id": "fast", "kind": {"openai_generic": {"kind": "openai_generic", "model": "fast"}}},
        {"id": "openrouter/meta/llama-3", "kind": {"openai_generic": {"kind": "openai_generic", "model": "openrouter/meta/llama-3"}}},
        {"id": "claude/opus", "kind": {"anthropic": {"kind": "anthropic", "model": "claude/opus"}}},
    ]
    assert answer["prices"] == {}


CARD = Card(
    context_window=200_000,
    max_output=64_000,
    inputs=frozenset({"text", "image"}),
    tools=True,
    efforts=("low", "high"),
    forbidden=frozenset({"temperature", "top_p", "top_k", "frequency_penalty"}),
    lifecycle=Lifecycle(state="deprecated", retires_at="2026-12-11"),
)
PRICE = Price(
    rates={"input": 300_000_000, "output": 1_500_000_000, "cache_read": 30_000_000},
    tiers=(Tier(above=9, rates={"input": 1, "output": 1}),),
    effective_at=1_783_209_600,
    source="https://acme.test",
    date="2026-11-29",
)


@pytest.mark.proves("catalog.listing")
def test_prices_are_micro_cents_per_million_tokens_and_what_is_unknown_is_not_there() -> None:
    """The shape of the original client's golden file `01_models.json`."""
    priced = [
        Listed("full", "up", "anthropic", price=PRICE),
        Listed("bare", "up", "openai_chat", price=Price(rates={"input": 14_000_000, "output": 28_000_000}, source="s", date="2026-11-29")),
        Listed("free", "up", "openai_chat", price=Price(source="s", date="", free=True)),
        Listed("only in", "up", "openai_chat", price=Price(rates={"input": 1}, source="s", date="2026-11-29")),
        Listed("unknown", "up", "openai_chat"),
    ]
    assert whole(priced)["prices"] == {
        "full": {
            "input_micro_cents_per_mtok": 300_000_000,
            "output_micro_cents_per_mtok": 1_500_000_000,
            "cached_input_micro_cents_per_mtok": 30_000_000,
            "effective_at": 1_783_209_600,
        },
        "bare": {
            "input_micro_cents_per_mtok": 14_000_000,
            "output_micro_cents_per_mtok": 28_000_000,
            "cached_input_micro_cents_per_mtok": None,
            "effective_at": 1_795_910_400,
        },
        "free": {
            "input_micro_cents_per_mtok": 0,
            "output_micro_cents_per_mtok": 0,
            "cached_input_micro_cents_per_mtok": 0,
            "effective_at": 0,
        },
    }


def test_a_profile_says_what_is_known_in_each_kinds_own_words() -> None:
    models = [Listed(name, "up", name, card=CARD) for name in ("anthropic", "openai_chat", "openai_responses")]
    profiles = [next(iter(each["kind"].values())) for each in whole(models)["models"]]
    common = {"maxTokensCeiling": 64_000, "vision": True, "tools": True, "temperature": False, "topP": False}
    assert profiles == [
        {"kind": "anthropic", "model": "anthropic", **common, "topK": False},
        {"kind": "openai_generic", "model": "openai_chat", **common, "frequencyPenalty": False, "reasoningEffort": ["low", "high"]},
        {"kind": "openai_pro", "model": "openai_responses", **common, "reasoningEffort": ["low", "high"]},
    ]


@pytest.mark.parametrize(
    ("thinking", "said"),
    [
        ("none", {"thinking": False}),
        ("budget", {"thinking": {"modes": ["enabled", "disabled"]}}),
        ("adaptive", {"thinking": {"modes": ["adaptive"]}}),
        (None, {}),
    ],
)
def test_how_a_model_thinks_is_said_as_its_kind_does(thinking: Any, said: dict[str, Any]) -> None:
    [record] = whole([Listed("m", "up", "anthropic", card=Card(thinking=thinking))])["models"]
    assert record["kind"]["anthropic"] == {"kind": "anthropic", "model": "m", **said}
    [record] = whole([Listed("m", "up", "openai_chat", card=Card(thinking=thinking))])["models"]
    assert ("reasoningEffort" in record["kind"]["openai_generic"]) == (thinking == "none")


@pytest.mark.proves("catalog.listing")
def test_limits_and_ends_stand_where_the_vendors_clients_look_for_them() -> None:
    entry = json.loads(write_one(Listed("m", "up", "anthropic", card=CARD, at=1_796_000_000.0, stale=True)))
    assert (entry["max_input_tokens"], entry["max_tokens"]) == (200_000, 64_000)
    assert (entry["shutdown_date"], entry["lifecycle"], entry["stale"]) == ("2026-12-11", "deprecated", True)
    assert ModelInfo.model_validate(entry).id == Model.model_validate(entry).id == "m"
    later = json.loads(write_one(Listed("m", "up", "anthropic", card=CARD, at=1_798_000_000.0)))
    assert later["lifecycle"] == "retired"
    plain = json.loads(write_one(Listed("m", "up", "anthropic")))
    assert plain.keys().isdisjoint({"max_input_tokens", "max_tokens", "shutdown_date", "stale"})
    assert plain["lifecycle"] == "active"


def test_no_models_are_an_empty_page() -> None:
    answer = whole([])
    assert (answer["data"], answer["models"], answer["first_id"], answer["last_id"]) == ([], [], None, None)


def test_one_model_is_its_entry_in_the_list() -> None:
    assert json.loads(write_one(MODELS[1])) == whole(MODELS)["data"][1]


def test_the_listing_stands_at_v1_models() -> None:
    (listing,) = SURFACE.listings
    assert (listing.path, listing.write_all, listing.write_one) == ("/v1/models", write_all, write_one)
