"""A Trunkline whose providers speak one format each, for the tests of what goes from one to another."""

from typing import Any

import pytest


@pytest.fixture
def config(config: dict[str, Any]) -> dict[str, Any]:
    """Where `home` is called in chat, `anthropic` in Messages, and `pro` in Responses alone.

    Some models have traits: `o9` and `o9-mini` take no temperature, `claude-short` only short names of tools. The route `either` goes
    to `pro`, and then to `anthropic`.
    """
    thinker = {"forbidden": ["temperature", "top_p"]}
    config["providers"]["pro"]["models"] = {"o9": thinker}
    config["providers"]["openai"]["models"] = {"gpt-mini": {}, "o9-mini": thinker}
    config["providers"]["anthropic"]["models"] = {"claude-sonnet": {}, "claude-short": {"tool_name_limit": 32}}
    config["routes"]["either"] = {"targets": [{"model": "pro/o9"}, {"model": "anthropic/claude-sonnet", "order": 1}]}
    return config
