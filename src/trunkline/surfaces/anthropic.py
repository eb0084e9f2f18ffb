"""The API that Anthropic's SDKs call. They add `?beta=true` for beta features; the query changes nothing here."""

from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.surfaces import Endpoint, Surface

SURFACE = Surface(
    title="Anthropic",
    endpoints=(
        Endpoint("/v1/messages", "chat", ANTHROPIC),
        Endpoint("/v1/messages/count_tokens", "count_tokens", ANTHROPIC),
    ),
)
