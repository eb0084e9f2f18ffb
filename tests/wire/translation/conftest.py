"""A Trunkline whose providers speak all formats, for the tests of what goes from one to another."""

from typing import Any

import pytest

from tests.wire import gateway
from tests.wire.sides import SIDES
from tests.wire.translation.sides import RESPONSES


@pytest.fixture(autouse=True)
def all_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said in Responses is held to its grammar too."""
    monkeypatch.setattr(gateway, "SIDES", [RESPONSES, *SIDES])


@pytest.fixture
def config(config: dict[str, Any]) -> dict[str, Any]:
    """With `pro`, which is OpenAI called in Responses alone; `home` is called in chat, and `anthropic` in Messages.

    Some models have traits: `o9` and `o9-mini` take no temperature, `claude-short` only short names of tools.

    The route `either` goes to `pro`, and then to `anthropic`.
    """
    openai = config["providers"]["openai"]
    thinker = {"forbidden": ["temperature", "top_p"]}
    config["providers"]["pro"] = {**openai, "models": {"o9": thinker}, "speaks": ["openai_responses"]}
    openai["models"] = {"gpt-mini": {}, "o9-mini": thinker}
    config["providers"]["anthropic"]["models"] = {"claude-sonnet": {}, "claude-short": {"tool_name_limit": 32}}
    config["routes"]["either"] = {"targets": [{"model": "pro/o9"}, {"model": "anthropic/claude-sonnet", "order": 1}]}
    return config
