"""OpenAI."""

from trunkline.dialects.openai_chat import OpenAIChat
from trunkline.dialects.openai_embeddings import DIALECT as OPENAI_EMBEDDINGS
from trunkline.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from trunkline.dialects.openai_speech import DIALECT as OPENAI_SPEECH
from trunkline.providers import Kind, Wire

PROVIDER = Kind(
    title="OpenAI",
    base_url="https://api.openai.com/v1",
    api_key="env:OPENAI_API_KEY",
    vendor="openai",
    lists="/models",
    speaks=(
        Wire(OpenAIChat(limit_field="max_completion_tokens"), {"chat": "/chat/completions"}),
        Wire(OPENAI_RESPONSES, {"chat": "/responses"}),
        Wire(OPENAI_EMBEDDINGS, {"embeddings": "/embeddings"}),
        Wire(OPENAI_SPEECH, {"speech": "/audio/speech"}),
    ),
)
