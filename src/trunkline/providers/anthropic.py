"""Anthropic, and whoever speaks Messages: set `base_url`."""

from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.providers import Kind, Wire

PROVIDER = Kind(
    title="Anthropic",
    base_url="https://api.anthropic.com",
    api_key="env:ANTHROPIC_API_KEY",
    sign="x-api-key",
    headers={b"anthropic-version": b"2023-06-01"},
    vendor="anthropic",
    lists="/v1/models?limit=1000",
    speaks=(Wire(ANTHROPIC, {"chat": "/v1/messages", "count_tokens": "/v1/messages/count_tokens"}),),
)
