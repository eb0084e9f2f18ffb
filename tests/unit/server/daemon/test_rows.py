import pytest

from trunkline.model.card import UNKNOWN, Card
from trunkline.providers import Provider, Settings
from trunkline.providers.openai import PROVIDER as OPENAI
from trunkline.server.daemon.rows import row
from trunkline_sdk.daemon.messages import Limits, ModelInfo, decode, encode

ALL = ("chat_completions", "responses", "embeddings", "audio_speech")
CHATS = ("/v1/chat/completions", "/v1/responses")


def shown(name: str, card: Card = UNKNOWN, surfaces: tuple[str, ...] = ALL, *, told: bool = False) -> ModelInfo:
    return row(
        Provider(name="o", kind=OPENAI, settings=Settings(kind="openai"), base_url=None, api_key=None), name, card, surfaces, told=told
    )


@pytest.mark.parametrize(
    ("name", "card", "served"),
    [
        ("gpt-mini", UNKNOWN, CHATS),
        ("Text-Embedding-3", UNKNOWN, ("/v1/embeddings",)),
        ("tts-1", UNKNOWN, ("/v1/audio/speech",)),
        ("whisper-1", UNKNOWN, ()),
        ("voice", Card(outputs=frozenset({"audio"})), ("/v1/audio/speech",)),
        ("painter", Card(outputs=frozenset({"image"})), ()),
        ("both", Card(outputs=frozenset({"audio", "text"})), CHATS),
    ],
)
@pytest.mark.proves("export.models")
def test_a_model_serves_what_it_is_for(name: str, card: Card, served: tuple[str, ...]) -> None:
    assert shown(name, card).supported_apis == served


def test_where_there_is_no_chat_a_model_serves_what_there_is() -> None:
    assert shown("anything", surfaces=("embeddings",)).supported_apis == ("/v1/embeddings",)


def test_a_row_says_what_is_known_and_who_says_so() -> None:
    card = Card(context_window=1000, max_output=50, inputs=frozenset({"text"}), tools=True, thinking="none")
    said = shown("m", card, told=True)
    assert decode(ModelInfo, encode(said)) == said
    capabilities = said.capabilities
    assert capabilities is not None
    assert (capabilities.operations.chat, capabilities.operations.embeddings) == ("supported", "unsupported")
    assert (capabilities.inputs.text, capabilities.inputs.image) == ("supported", "unsupported")
    assert (capabilities.tools, capabilities.reasoning, capabilities.streaming) == ("supported", "unsupported", "unknown")
    assert capabilities.limits == Limits(context_tokens=1000, max_output_tokens=50)
    assert capabilities.provenance.source == "operator_override"
    assert shown("m").capabilities is None
    assert (said.owned_by, said.object, said.free) == ("openai", "model", False)
