from inline_snapshot import snapshot

from trunkline.app.diagnosis import inventory


def test_the_members_are_these() -> None:
    assert inventory() == snapshot(
        {
            "dialects": ["anthropic", "openai_chat", "openai_embeddings", "openai_responses"],
            "providers": ["anthropic", "compatible", "echo", "local", "openai"],
            "resources": ["accounts", "catalog_overrides", "credentials", "exchanges", "keys", "providers", "routes", "users"],
            "surfaces": ["anthropic", "models", "openai"],
        }
    )
