"""`GET /v1/models`: one object that OpenAI's, Anthropic's and Switchboard's clients each find theirs in.

OpenAI reads `data[].id` and `shutdown_date`, Anthropic `data[].display_name`, `max_input_tokens`, `max_tokens` and the page marks,
Switchboard clients `models` and `prices`, both of which must be there (Switchboard contract, A.2).
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime

from trunkline.base.codec import encode
from trunkline.model.card import Card
from trunkline.model.price import Price
from trunkline.surfaces import Listed, Listing, Surface

EPOCH = "1970-01-01T00:00:00Z"  # both vendors require a date of creation; we know none
KINDS = {"openai_chat": "openai_generic", "openai_responses": "openai_pro", "anthropic": "anthropic"}
"""Switchboard's names for dialects; of others its clients know nothing."""

PARAMETERS = {
    "openai_generic": ("temperature", "top_p", "frequency_penalty", "presence_penalty"),
    "openai_pro": ("temperature", "top_p"),
    "anthropic": ("temperature", "top_p", "top_k"),
}
"""Which a profile has a field for, by kind."""

MODES: dict[str, object] = {"none": False, "budget": {"modes": ["enabled", "disabled"]}, "adaptive": {"modes": ["adaptive"]}}
"""How an Anthropic profile says what thinking a model takes."""


def write_all(models: Sequence[Listed]) -> bytes:
    """The whole list, on one page."""
    return encode(
        {
            "object": "list",
            "data": [_entry(model) for model in models],
            "has_more": False,
            "first_id": models[0].id if models else None,
            "last_id": models[-1].id if models else None,
            "models": [_record(model, KINDS[model.dialect]) for model in models if model.dialect in KINDS],
            "prices": {model.id: price for model in models if (price := _price(model.price)) is not None},
        }
    )


def write_one(model: Listed) -> bytes:
    """One entry of the list."""
    return encode(_entry(model))


def _entry(model: Listed) -> dict[str, object]:
    entry: dict[str, object] = {
        "id": model.id,
        "object": "model",
        "created": 0,
        "owned_by": model.owner,
        "type": "model",
        "display_name": model.id,
        "created_at": EPOCH,
        "lifecycle": model.lifecycle or "active",
    }
    card = model.card
    if card.lifecycle is not None and card.lifecycle.retires_at is not None:
        entry["shutdown_date"] = card.lifecycle.retires_at
    if card.context_window is not None:
        entry["max_input_tokens"] = card.context_window
    if card.max_output is not None:
        entry["max_tokens"] = card.max_output
    if model.stale:
        entry["stale"] = True
    return entry


def _record(model: Listed, kind: str) -> dict[str, object]:
    return {"id": model.id, "kind": {kind: {"kind": kind, "model": model.id, **_profile(model.card, kind)}}}


def _profile(card: Card, kind: str) -> dict[str, object]:
    """What a Switchboard client may know of a model; a field that is not there is unknown to it too."""
    said: dict[str, object] = {}
    if card.max_output is not None:
        said["maxTokensCeiling"] = card.max_output
    if card.inputs is not None:
        said["vision"] = "image" in card.inputs
    if card.tools is not None:
        said["tools"] = card.tools
    for parameter in PARAMETERS[kind]:
        if card.forbids(parameter):
            head, *rest = parameter.split("_")
            said[head + "".join(word.capitalize() for word in rest)] = False
    return said | _thinking(card, kind)


def _thinking(card: Card, kind: str) -> dict[str, object]:
    if kind == "anthropic":
        return {"thinking": MODES[card.thinking]} if card.thinking else {}
    if card.thinking == "none":
        return {"reasoningEffort": False}
    return {"reasoningEffort": list(card.efforts)} if card.efforts is not None else {}


def _price(price: Price | None) -> dict[str, object] | None:
    """Micro-cents per million tokens of short prompts; there is no field for more."""
    if price is None:
        return None
    rates = {"input": 0, "output": 0, "cache_read": 0} if price.free else price.rates
    if "input" not in rates or "output" not in rates:
        return None
    return {
        "input_micro_cents_per_mtok": rates["input"],
        "output_micro_cents_per_mtok": rates["output"],
        "cached_input_micro_cents_per_mtok": rates.get("cache_read"),
        "effective_at": price.effective_at or _day(price.date),
    }


def _day(text: str) -> int:
    """When a price began of which nobody knows the beginning: it held when it was read, at the latest."""
    return int(datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC).timestamp()) if text else 0


SURFACE = Surface(title="Models", listings=(Listing("/v1/models", write_all, write_one),))
