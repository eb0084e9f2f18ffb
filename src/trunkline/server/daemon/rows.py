"""A model as a daemon lists it (daemon contract, A9, B2, D4b). Pure."""

from collections.abc import Sequence

from trunkline.model.card import UNKNOWN, Card
from trunkline.providers import Provider
from trunkline_sdk.daemon.messages import Capabilities, Inputs, Limits, ModelInfo, Operations, Provenance, Support
from trunkline_sdk.daemon.protocol.surfaces import CHAT, paths

NAMED: dict[str, tuple[str, ...]] = {
    "embed": ("embeddings",),
    "bge-": ("embeddings",),
    "minilm": ("embeddings",),
    "tts": ("audio_speech",),
    "whisper": (),
    "transcribe": (),
    "moderation": (),
    "realtime": (),
    "dall-e": (),
    "gpt-image": (),
    "sora-": (),
    "rerank": (),
}
"""What serves something else than chat, by a part of its name: no provider's list says it
(https://platform.openai.com/docs/models, 2026-11-29)."""


def row(provider: Provider, name: str, card: Card, surfaces: Sequence[str], *, told: bool) -> ModelInfo:
    """The row of one model; without `supported_apis` where it serves none of the surfaces.

    Args:
        provider: whose it is.
        name: the provider's own name for it.
        card: what is known of it.
        surfaces: all that the provider serves.
        told: the configuration says something of it.
    """
    served = _served(name, card, surfaces)
    return ModelInfo(
        id=name,
        object="model",
        owned_by=provider.kind.vendor or provider.name,
        free=provider.free,
        supported_apis=paths(served),
        capabilities=None if card is UNKNOWN else _capabilities(card, served, told=told),
    )


def _served(name: str, card: Card, surfaces: Sequence[str]) -> list[str]:
    lower = name.lower()
    wanted = next((found for part, found in NAMED.items() if part in lower), None)
    if wanted is None and card.outputs is not None and "text" not in card.outputs:
        wanted = ("audio_speech",) if "audio" in card.outputs else ()
    if wanted is None:
        wanted = CHAT if any(surface in CHAT for surface in surfaces) else tuple(surfaces)
    return [surface for surface in surfaces if surface in wanted]


def _capabilities(card: Card, served: Sequence[str], *, told: bool) -> Capabilities:
    chats = any(surface in CHAT for surface in served)
    return Capabilities(
        schema_version=1,
        operations=Operations(
            chat=_support(chats),
            embeddings=_support("embeddings" in served),
            audio_out=_support("audio_speech" in served),
        ),
        inputs=Inputs(
            text=_support(None if card.inputs is None else "text" in card.inputs),
            image=_support(None if card.inputs is None else "image" in card.inputs),
        ),
        tools=_support(card.tools),
        reasoning=_support(None if card.thinking is None else card.thinking != "none"),
        limits=Limits(context_tokens=card.context_window, max_output_tokens=card.max_output),
        provenance=Provenance(source="operator_override" if told else "registry_static", confidence="medium"),
    )


def _support(known: bool | None) -> Support:  # noqa: FBT001 - it is what is said, not a switch
    return "unknown" if known is None else "supported" if known else "unsupported"
