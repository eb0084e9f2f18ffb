from inline_snapshot import snapshot

from trunkline.app.diagnosis import inventory


def test_the_members_are_these() -> None:
    assert inventory() == snapshot(
        {
            "dialects": ["anthropic", "openai_chat", "openai_embeddings", "openai_responses", "openai_speech"],
            "methods": ["log", "network"],
            "providers": ["anthropic", "compatible", "daemon", "echo", "local", "openai"],
            "resources": [
                "accounts",
                "catalog_overrides",
                "connections",
                "credentials",
                "exchanges",
                "extensions",
                "keys",
                "providers",
                "routes",
                "sign_ins",
                "users",
            ],
            "surfaces": ["anthropic", "models", "openai"],
        }
    )
