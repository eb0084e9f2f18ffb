import json
from typing import Any

from anthropic.types import ModelInfo
from openai.types import Model

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


def test_no_models_are_an_empty_page() -> None:
    answer = whole([])
    assert (answer["data"], answer["models"], answer["first_id"], answer["last_id"]) == ([], [], None, None)


def test_one_model_is_its_entry_in_the_list() -> None:
    assert json.loads(write_one(MODELS[1])) == whole(MODELS)["data"][1]


def test_the_listing_stands_at_v1_models() -> None:
    (listing,) = SURFACE.listings
    assert (listing.path, listing.write_all, listing.write_one) == ("/v1/models", write_all, write_one)
