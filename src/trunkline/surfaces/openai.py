"""The API that OpenAI's SDKs call."""

from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_embeddings import DIALECT as OPENAI_EMBEDDINGS
from trunkline.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from trunkline.dialects.openai_speech import DIALECT as OPENAI_SPEECH
from trunkline.surfaces import Endpoint, FollowUp, Surface

SURFACE = Surface(
    title="OpenAI",
    endpoints=(
        Endpoint("/v1/chat/completions", "chat", OPENAI_CHAT),
        Endpoint("/v1/responses", "chat", OPENAI_RESPONSES),
        Endpoint("/v1/embeddings", "embeddings", OPENAI_EMBEDDINGS),
        Endpoint("/v1/audio/speech", "speech", OPENAI_SPEECH),
    ),
    follow_ups=(
        FollowUp(
            "/v1/responses/",
            OPENAI_RESPONSES,
            {"": frozenset({"GET", "DELETE"}), "cancel": frozenset({"POST"}), "input_items": frozenset({"GET"})},
        ),
    ),
)
