"""A provider is called in the formats that its settings name, and in no other."""

import pytest

from trunkline.app.config import connect, read
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_embeddings import DIALECT as OPENAI_EMBEDDINGS
from trunkline.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from trunkline.dialects.openai_speech import DIALECT as OPENAI_SPEECH
from trunkline.errors import ConfigInvalid
from trunkline.providers import Provider


def provider(*speaks: str) -> Provider:
    config = read({"providers": {"mine": {"kind": "openai", "speaks": list(speaks)}}})
    return connect(config, {"OPENAI_API_KEY": "k"})["mine"]


def spoken(provider: Provider) -> list[str | None]:
    """How calls of chat, Responses, Messages, embeddings and speech reach it."""
    chats = [(OPENAI_CHAT, "chat"), (OPENAI_RESPONSES, "chat"), (ANTHROPIC, "chat")]
    calls = [*chats, (OPENAI_EMBEDDINGS, "embeddings"), (OPENAI_SPEECH, "speech")]
    wires = [provider.wire(dialect, operation) for dialect, operation in calls]  # type: ignore[arg-type]
    return [wire.dialect.name if wire else None for wire in wires]


def test_a_provider_is_called_in_the_formats_of_its_kind_and_translated_into_the_first() -> None:
    assert spoken(provider()) == ["openai_chat", "openai_responses", "openai_chat", "openai_embeddings", "openai_speech"]


def test_the_settings_say_which_format_is_preferred() -> None:
    assert spoken(provider("openai_responses", "openai_chat")) == ["openai_chat", "openai_responses", "openai_responses", None, None]


def test_a_format_that_the_settings_leave_out_is_not_spoken() -> None:
    assert spoken(provider("openai_responses")) == ["openai_responses"] * 3 + [None, None]


def test_a_format_that_the_kind_does_not_speak_is_a_mistake() -> None:
    with pytest.raises(ConfigInvalid, match=r"`providers\.mine\.speaks` names `openai_response`") as raised:
        provider("openai_response")
    assert raised.value.hint == "Did you mean `openai_responses`?"
