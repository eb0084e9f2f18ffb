"""What a catalogue says about its models, and what follows where it says nothing (daemon contract, A9, B2, B3)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from trunkline_sdk.daemon.gojson import Support, Unreadable, convert, decode, parse
from trunkline_sdk.daemon.messages import Capabilities, Inputs, Limits, ModelInfo, ModelsResponse, Operations, Provenance, Surfaces
from trunkline_sdk.daemon.protocol import surfaces as known

_CHAT_PATHS = {
    **{version + known.PATHS[surface].removeprefix("/v1"): surface for surface in known.CHAT for version in ("", "/v1")},
    "ws:/responses": "responses",
    "ws:/v1/responses": "responses",
}
_PARTS = {
    "/embeddings": "embeddings",
    "/images/": "image",
    "/audio/transcriptions": "audio_in",
    "/audio/speech": "audio_out",
    "/videos/": "video",
    "count_tokens": "token_count",
}
_OPERATIONS = {
    "chat": ("chat",),
    "embeddings": ("embedding", "embeddings"),
    "image": ("image",),
    "audio_in": ("transcription", "stt", "asr", "audio_in"),
    "audio_out": ("tts", "speech", "audio_out"),
    "video": ("video",),
    "token_count": ("token_count",),
}


class Catalogue(NamedTuple):
    """`dropped` says of each row that could not be read which it was and what was wrong, without its values (K11)."""

    models: tuple[ModelInfo, ...]
    dropped: tuple[str, ...] = ()


def read(data: bytes, *, drop_bad_rows: bool) -> Catalogue:
    """The catalogue in the answer of `models`.

    Raises:
        Unreadable: It is none; or, unless they are dropped, one of its rows is none.
    """
    if not drop_bad_rows:
        return Catalogue(decode(ModelsResponse, data).models)
    tree = parse(data)
    if not isinstance(tree, dict):
        return Catalogue(convert(ModelsResponse, tree).models)
    models: list[ModelInfo] = []
    dropped: list[str] = []
    for key, rows in cast(dict[str, Any], tree).items():
        if key.lower() != "models" or rows is None:
            continue
        if not isinstance(rows, list):
            raise Unreadable("`models` must be a list")
        models, dropped = [], []
        for number, row in enumerate(cast(list[Any], rows)):
            try:
                models.append(convert(ModelInfo, row))
            except Unreadable as fault:
                dropped.append(f"models[{number}]: {fault}")
    return Catalogue(tuple(models), tuple(dropped))


def infer(row: ModelInfo) -> Capabilities:
    """What a row's older, untyped capabilities and its paths say, as typed ones; of an expiry they say nothing."""
    said = row.legacy_capabilities
    operations: dict[str, Support] = {name: _support(said, *keys) for name, keys in _OPERATIONS.items()}
    surfaces: dict[str, Support] = {}
    for path in (api.strip().lower() for api in row.supported_apis):
        if path in _CHAT_PATHS:
            surfaces[_CHAT_PATHS[path]] = operations["chat"] = "supported"
        operations |= {name: "supported" for part, name in _PARTS.items() if part in path}
    text = _support(said, "text")
    if text == "unknown" and operations["chat"] == "supported":
        text = "supported"
    return Capabilities(
        schema_version=1,
        operations=Operations(**operations),
        surfaces=Surfaces(**surfaces),
        inputs=Inputs(text=text, image=_support(said, "vision")),
        tools=_support(said, "tool_calls", "tools"),
        reasoning=_support(said, "reasoning", "reasoning_effort"),
        structured_output=_support(said, "structured_outputs", "structured_output"),
        streaming=_support(said, "streaming"),
        stateful_responses=_support(said, "stateful_responses"),
        limits=Limits(context_tokens=_count(said, "context_window", "context_tokens"), max_output_tokens=_count(said, "max_output_tokens")),
        provenance=Provenance(source="inferred", confidence="medium"),
    )


def speaks(row: ModelInfo) -> bool:
    """Whether the row says which operations or surfaces it has, in any of three ways; what it takes in or at most does not count."""
    return bool(row.supported_apis) or (row.capabilities is not None and _tells(row.capabilities)) or _tells(infer(row))


def fill(rows: Iterable[ModelInfo], surfaces: Sequence[str]) -> tuple[ModelInfo, ...]:
    """Silent rows get the paths of their provider's surfaces, the others stay as they came (B2)."""
    paths = known.paths(surfaces)
    return tuple(row if not paths or speaks(row) else replace(row, supported_apis=paths) for row in rows)


def _tells(capabilities: Capabilities) -> bool:
    parts = (capabilities.operations, capabilities.surfaces)
    return any(getattr(part, name) != "unknown" for part in parts for name in part.__struct_fields__)


def _support(said: Mapping[str, Any], *keys: str) -> Support:
    values = [said[key] for key in keys if key in said]
    if any(map(_claims, values)):
        return "supported"
    return "unsupported" if any(value is False for value in values) else "unknown"


def _claims(value: Any) -> bool:
    return value is True or (isinstance(value, str) and bool(value.strip())) or (isinstance(value, list) and value != [])


def _count(said: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = said.get(key)
        try:
            number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else 0.0
        except (ValueError, OverflowError):
            continue
        if math.isfinite(number) and number >= 1:
            return value if isinstance(value, int) else int(number)
    return None
