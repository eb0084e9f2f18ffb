"""The two dialects as a caller sees them: where to ask, whom, and how to read what comes."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fakes import replies
from tests.fakes.replies import Dialect
from tests.wire.grammar import anthropic, openai_chat
from tests.wire.grammar.framing import events


@dataclass(frozen=True)
class Side:
    """One dialect.

    Attributes:
        path: of its calls.
        model: asks one provider.
        route: asks the same provider first, and then `second`.
        first: the name of the fake behind the model.
        second: the name of the other fake.
        grammar: checks a whole stream.
    """

    dialect: Dialect
    path: str
    model: str
    route: str
    first: str
    second: str
    grammar: Callable[[bytes], list[dict[str, Any]]]

    def __str__(self) -> str:
        return self.dialect

    def stream(self, text: str = "one two three") -> list[bytes]:
        """The events of a whole stream."""
        return [*replies.events(self.dialect, replies.Reply(text))]

    @property
    def shown(self) -> int:
        """How many events of a stream there are until its first word has been said."""
        return 4 if self.dialect == "anthropic" else 2

    def owns(self, path: str) -> bool:
        """Whether errors at this path have this dialect's shape."""
        return path.startswith("/v1/messages") == (self.dialect == "anthropic")

    def error(self, body: Any) -> tuple[str, str, str]:
        """Type, code (of our own errors) and message of an error's body, which has this dialect's shape."""
        if self.dialect == "anthropic":
            assert body["type"] == "error"
        error = body["error"]
        assert isinstance(error["message"], str)
        assert error["message"]
        return error["type"], error.get("code") or "", error["message"]

    def said(self, stream: bytes) -> str:
        """The text that a stream tells."""
        return "".join(self._text(json.loads(event.data)) for event in events(stream) if event.data != "[DONE]")

    def failure(self, stream: bytes) -> tuple[str, str, str]:
        """Type, code and message of the error that ends a stream."""
        return self.error(json.loads(events(stream)[-1].data))

    def _text(self, event: Any) -> str:
        if self.dialect == "anthropic":
            return event.get("delta", {}).get("text", "") if event["type"] == "content_block_delta" else ""
        return "".join(choice["delta"].get("content") or "" for choice in event.get("choices", []))


CHAT = Side("openai_chat", "/v1/chat/completions", "openai/gpt-mini", "fast", "openai", "home", openai_chat.check)
MESSAGES = Side("anthropic", "/v1/messages", "anthropic/claude-sonnet", "smart", "anthropic", "spare", anthropic.check)
SIDES = [CHAT, MESSAGES]
