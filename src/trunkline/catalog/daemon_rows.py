"""What an extension daemon says of its models, read as a list of ours (daemon contract, A9, B2, B3). Pure.

A row that says nothing of surfaces has all of its provider's. One that does has those: its `supported_apis`, else what its typed
capabilities claim, else what follows from its older, untyped ones. Where it only denies, it has what it does not deny.
"""

from collections.abc import Sequence

from trunkline.catalog.listing import LONGEST_ID, MOST, MOST_TOKENS, Found, Rows
from trunkline.model.card import Card, Modality
from trunkline_sdk.daemon.gojson import Support
from trunkline_sdk.daemon.messages import Capabilities, ModelInfo
from trunkline_sdk.daemon.protocol.catalogue import Catalogue, infer, speaks
from trunkline_sdk.daemon.protocol.surfaces import CHAT, PATHS

_AT = {path: surface for surface, path in PATHS.items()} | {path.removeprefix("/v1"): surface for surface, path in PATHS.items()}
_ALONE = {
    "embeddings": "embeddings",
    "image": "images",
    "audio_in": "audio_transcriptions",
    "audio_out": "audio_speech",
    "video": "videos",
}
"""The surface of each operation that has but one."""


def read_rows(catalogue: Catalogue) -> Rows:
    """The models of one provider, each once, in its order."""
    found: dict[str, Found] = {}
    for row in catalogue.models[:MOST]:
        if 0 < len(row.id) <= LONGEST_ID and row.id.isprintable() and row.id == row.id.strip():
            found.setdefault(row.id, Found(row.id, _card(row)))
    return Rows(tuple(found.values()), len(catalogue.models) + len(catalogue.dropped) - len(found))


def surfaces_of(row: ModelInfo) -> frozenset[str] | None:
    """The ids of the surfaces that a model has; `None` where its row does not say, and it has all of its provider's."""
    if not speaks(row):
        return None
    if row.supported_apis:
        return frozenset(surface for path in row.supported_apis if (surface := _AT.get(_path(path))))
    said = _capabilities(row)
    claimed = _chat(said, "supported") or (set(CHAT) - _chat(said, "unsupported") if said.operations.chat == "supported" else set())
    claimed |= _alone(said, "supported")
    denied = _alone(said, "unsupported") | (set(CHAT) if said.operations.chat == "unsupported" else _chat(said, "unsupported"))
    return frozenset(claimed or set(PATHS) - denied)


def _chat(said: Capabilities, support: Support) -> set[str]:
    """The surfaces of chats of which that is said."""
    return {surface for surface in CHAT if getattr(said.surfaces, surface) == support}


def _alone(said: Capabilities, support: Support) -> set[str]:
    """The surfaces of the other operations of which that is said."""
    return {surface for name, surface in _ALONE.items() if getattr(said.operations, name) == support}


def _path(path: str) -> str:
    return path.strip().lower().removeprefix("ws:")


def _capabilities(row: ModelInfo) -> Capabilities:
    """The typed ones, where they say anything of operations and surfaces; else those that follow from the row."""
    typed = row.capabilities
    silent = ModelInfo(id=row.id, capabilities=typed)
    return typed if typed is not None and speaks(silent) else infer(row)


def _card(row: ModelInfo) -> Card:
    typed, inferred = row.capabilities or Capabilities(), infer(row)
    image = typed.inputs.image if typed.inputs.image != "unknown" else inferred.inputs.image
    tools = typed.tools if typed.tools != "unknown" else inferred.tools
    inputs: dict[str, Sequence[Modality]] = {"supported": ("text", "image"), "unsupported": ("text",)}
    return Card(
        context_window=_tokens(typed.limits.context_tokens) or _tokens(inferred.limits.context_tokens),
        max_output=_tokens(typed.limits.max_output_tokens) or _tokens(inferred.limits.max_output_tokens),
        inputs=frozenset(inputs[image]) if image in inputs else None,
        tools={"supported": True, "unsupported": False}.get(tools),
        surfaces=surfaces_of(row),
    )


def _tokens(value: int | None) -> int | None:
    return value if value is not None and 0 < value <= MOST_TOKENS else None
