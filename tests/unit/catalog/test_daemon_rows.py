from typing import Any

import pytest

from trunkline.catalog.daemon_rows import read_rows, surfaces_of
from trunkline.catalog.listing import LONGEST_ID, MOST, MOST_TOKENS
from trunkline.model.card import UNKNOWN
from trunkline_sdk.daemon.messages import Capabilities, Inputs, Limits, ModelInfo, Operations, Surfaces
from trunkline_sdk.daemon.protocol.catalogue import Catalogue
from trunkline_sdk.daemon.protocol.surfaces import CHAT, PATHS


def row(**said: Any) -> ModelInfo:
    return ModelInfo(id="m", **said)


def typed(**said: Any) -> ModelInfo:
    return row(capabilities=Capabilities(schema_version=1, **said))


def legacy(**said: Any) -> ModelInfo:
    return row(legacy_capabilities=said)


@pytest.mark.proves("daemon.surfaces")
@pytest.mark.parametrize(
    ("said", "surfaces"),
    [
        (row(), None),
        (typed(tools="supported", inputs=Inputs(image="supported"), limits=Limits(context_tokens=9)), None),
        (legacy(vision=True, context_window=9), None),
        (row(supported_apis=("/responses",)), {"responses"}),
        (row(supported_apis=(" /V1/Chat/Completions ", "ws:/responses")), {"chat_completions", "responses"}),
        (row(supported_apis=("/v1/audio/speech", "/embeddings")), {"audio_speech", "embeddings"}),
        (row(supported_apis=("/v1/rerank",)), set()),
        (row(supported_apis=("/v1/messages",), legacy_capabilities={"chat": False}), {"messages"}),
        (typed(surfaces=Surfaces(messages="supported")), {"messages"}),
        (typed(operations=Operations(chat="supported")), set(CHAT)),
        (typed(operations=Operations(chat="supported"), surfaces=Surfaces(responses="unsupported")), {"chat_completions", "messages"}),
        (typed(operations=Operations(embeddings="supported")), {"embeddings"}),
        (typed(operations=Operations(chat="unsupported")), set(PATHS) - set(CHAT)),
        (typed(surfaces=Surfaces(responses="unsupported")), set(PATHS) - {"responses"}),
        (legacy(chat=True), set(CHAT)),
        (legacy(tts=True), {"audio_speech"}),
        (legacy(chat=False), set(PATHS) - set(CHAT)),
        (legacy(chat=False, embedding=True), {"embeddings"}),
        (row(capabilities=Capabilities(operations=Operations(chat="supported")), legacy_capabilities={"tts": True}), set(CHAT)),
        (row(capabilities=Capabilities(tools="supported"), legacy_capabilities={"tts": True}), {"audio_speech"}),
    ],
)
def test_a_model_has_the_surfaces_that_its_row_says_and_all_where_it_says_nothing(said: ModelInfo, surfaces: set[str] | None) -> None:
    assert surfaces_of(said) == surfaces


def test_limits_and_traits_are_the_typed_ones_and_else_what_follows_from_the_older_ones() -> None:
    old = {"context_window": "1000", "max_output_tokens": 9.7, "vision": True, "tools": False}
    [both, inferred, silent] = read_rows(
        Catalogue(
            (
                ModelInfo(
                    id="a",
                    capabilities=Capabilities(limits=Limits(context_tokens=7), inputs=Inputs(image="unsupported"), tools="supported"),
                    legacy_capabilities=old,
                ),
                ModelInfo(id="b", legacy_capabilities=old),
                ModelInfo(id="c"),
            )
        )
    ).found
    card = both.card
    assert (card.context_window, card.max_output, card.inputs, card.tools) == (7, 9, {"text"}, True)
    card = inferred.card
    assert (card.context_window, card.max_output, card.inputs, card.tools) == (1000, 9, {"text", "image"}, False)
    assert silent.card == UNKNOWN


@pytest.mark.proves("daemon.rows")
def test_rows_that_cannot_be_used_are_left_out_and_counted() -> None:
    names = ["ok", "ok", "", " spaced", "new\nline", "x" * (LONGEST_ID + 1), "org/deep"]
    rows = read_rows(Catalogue(tuple(ModelInfo(id=name) for name in names), dropped=("models[7]: `tools` is no support",)))
    assert [found.id for found in rows.found] == ["ok", "org/deep"]
    assert rows.left_out == 6
    many = read_rows(Catalogue(tuple(ModelInfo(id=str(number)) for number in range(MOST + 3))))
    assert (len(many.found), many.left_out) == (MOST, 3)


@pytest.mark.parametrize("tokens", [0, -1, MOST_TOKENS + 1])
def test_a_limit_that_cannot_be_is_none(tokens: int) -> None:
    [found] = read_rows(Catalogue((typed(limits=Limits(context_tokens=tokens)),))).found
    assert found.card == UNKNOWN
