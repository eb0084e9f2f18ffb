"""`GET /v1/models`: one object that OpenAI's, Anthropic's and Switchboard's clients each find theirs in.

OpenAI reads `data[].id`, Anthropic `data[].display_name` and the page marks, Switchboard clients `models` and `prices`, both of
which must be there (Switchboard contract, A.2).
"""

from collections.abc import Sequence

from trunkline.base.codec import encode
from trunkline.surfaces import Listed, Listing, Surface

EPOCH = "1970-01-01T00:00:00Z"  # both vendors require a date of creation; we know none
KINDS = {"openai_chat": "openai_generic", "openai_responses": "openai_pro", "anthropic": "anthropic"}
"""Switchboard's names for dialects; of others its clients know nothing."""


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
            "prices": {},
        }
    )


def write_one(model: Listed) -> bytes:
    """One entry of the list."""
    return encode(_entry(model))


def _entry(model: Listed) -> dict[str, object]:
    return {
        "id": model.id,
        "object": "model",
        "created": 0,
        "owned_by": model.owner,
        "type": "model",
        "display_name": model.id,
        "created_at": EPOCH,
        "lifecycle": "active",
    }


def _record(model: Listed, kind: str) -> dict[str, object]:
    return {"id": model.id, "kind": {kind: {"kind": kind, "model": model.id}}}


SURFACE = Surface(title="Models", listings=(Listing("/v1/models", write_all, write_one),))
