"""Which surfaces a row of a catalogue serves (I.18), and what a bad row costs (K11)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline_sdk.daemon.messages import Capabilities, Inputs, Limits, ModelInfo, Operations, Provenance, Surfaces, Unreadable
from trunkline_sdk.daemon.protocol.catalogue import fill, infer, read, speaks

CHAT = "/v1/chat/completions"


def row(*apis: str, **legacy: Any) -> ModelInfo:
    return ModelInfo(id="m", supported_apis=apis, legacy_capabilities=legacy)


@pytest.mark.parametrize(
    "silent",
    [
        ModelInfo(id="m"),
        row(context_window=8192, vision=True, tools=True),
        row(chat=None),
        row(chat=1),
        row(chat={}),
        row(chat=" "),
        row(chat=[]),
        ModelInfo(capabilities=Capabilities(limits=Limits(context_tokens=1), tools="supported", inputs=Inputs(text="supported"))),
    ],
)
def test_a_silent_row_gets_its_provider_s_paths(silent: ModelInfo) -> None:
    """I.18"""
    assert not speaks(silent)
    assert fill([silent], ["audio_speech"])[0].supported_apis == ("/v1/audio/speech",)
    assert fill([silent], ["responses", "telepathy", "chat_completions", "responses"])[0].supported_apis == ("/v1/responses", CHAT)
    assert fill([silent], ["telepathy"]) == (silent,)
    assert fill([silent], []) == (silent,)


@pytest.mark.parametrize(
    "speaking",
    [
        row("/responses"),
        row("/v1/rerank"),
        row(chat=True),
        row(chat=False),
        row(tts="yes"),
        row(speech=["x"]),
        ModelInfo(capabilities=Capabilities(operations=Operations(chat="unsupported"))),
        ModelInfo(capabilities=Capabilities(surfaces=Surfaces(messages="supported"))),
    ],
)
def test_a_row_that_speaks_stays_as_it_came(speaking: ModelInfo) -> None:
    """I.18"""
    assert speaks(speaking)
    assert fill([speaking], ["chat_completions"]) == (speaking,)


def test_rows_are_filled_one_by_one_and_duplicates_stay() -> None:
    """I.18"""
    rows = [row(), row("/x"), row()]
    assert [model.supported_apis for model in fill(rows, ["chat_completions"])] == [(CHAT,), ("/x",), (CHAT,)]
    assert [model.supported_apis for model in rows] == [(), ("/x",), ()]


def test_what_is_inferred() -> None:
    said = infer(row("  /V1/Chat/Completions ", "ws:/responses", "/v1/messages/count_tokens", chat=False, vision=True, streaming=False,
                     context_window="8192", max_output_tokens=99.9, tool_calls=True, embeddings=False, embedding=True))  # fmt: skip
    assert said == Capabilities(
        schema_version=1,
        operations=Operations(chat="supported", embeddings="supported", token_count="supported"),
        surfaces=Surfaces(chat_completions="supported", responses="supported"),
        inputs=Inputs(text="supported", image="supported"),
        tools="supported",
        streaming="unsupported",
        limits=Limits(context_tokens=8192, max_output_tokens=99),
        provenance=Provenance(source="inferred", confidence="medium"),
    )


def test_text_that_is_denied_stays_denied() -> None:
    assert infer(row(chat=True, text=False)).inputs.text == "unsupported"


@pytest.mark.parametrize("value", [0, -1, 0.5, "x", "", True, None, [], "inf", "nan", 1e400])
def test_a_limit_is_a_positive_number(value: Any) -> None:
    assert infer(row(context_tokens=value)).limits.context_tokens is None


@given(
    st.dictionaries(st.sampled_from(["chat", "tts", "vision", "context_window"]), st.none() | st.floats() | st.text() | st.lists(st.none()))
)
def test_whatever_a_row_says_something_is_inferred(legacy: dict[str, Any]) -> None:
    assert infer(row(**legacy)).schema_version == 1


ROWS = b'{"models":[{"id":"a"},{"id":"canary","capabilities":{"tools":true}},7,{"id":"b","created":"x"},null,{"id":"c"}]}'


def test_a_bad_row_costs_that_row_and_is_told() -> None:
    found = read(ROWS, drop_bad_rows=True)
    assert [model.id for model in found.models] == ["a", "", "c"]
    assert found.dropped == (
        "models[1]: `capabilities.tools` must be `unknown`, `supported` or `unsupported`",
        "models[2]: `the top` must be an object",
        "models[3]: `created` must be an integer of 64 bits",
    )


def test_the_original_loses_the_catalogue() -> None:
    """I.11"""
    with pytest.raises(Unreadable):
        read(ROWS, drop_bad_rows=False)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("data", [b"not json", b"[]", b'"x"', b'{"models":{}}', b'{"models":"x"}', b""])
def test_what_is_no_catalogue_is_refused_either_way(data: bytes, strict: bool) -> None:
    """I.11"""
    with pytest.raises(Unreadable):
        read(data, drop_bad_rows=not strict)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("data", [b"null", b"{}", b'{"models":null}', b'{"MODELS":[]}'])
def test_an_empty_catalogue_is_one(data: bytes, strict: bool) -> None:
    assert read(data, drop_bad_rows=not strict) == ((), ())
