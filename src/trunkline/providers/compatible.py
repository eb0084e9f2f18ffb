"""Any server that speaks OpenAI's Chat Completions: vLLM, LM Studio, a company's own."""

from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_embeddings import DIALECT as OPENAI_EMBEDDINGS
from trunkline.dialects.openai_speech import DIALECT as OPENAI_SPEECH
from trunkline.providers import Kind, Wire

PROVIDER = Kind(
    title="OpenAI-compatible",
    key_required=False,
    lists="/models",
    speaks=(
        Wire(OPENAI_CHAT, {"chat": "/chat/completions"}),
        Wire(OPENAI_EMBEDDINGS, {"embeddings": "/embeddings"}),
        Wire(OPENAI_SPEECH, {"speech": "/audio/speech"}),
    ),
)
