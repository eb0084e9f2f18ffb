"""The three dialects as a caller sees them: where to ask, whom, and how to read what comes."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fakes import replies
from tests.fakes.replies import Dialect
from tests.wire.grammar import anthropic, openai_chat, openai_responses
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
        return {"openai_chat": 2, "anthropic": 4, "openai_responses": 5}[self.dialect]

    def asking(self, text: str) -> dict[str, Any]:
        """What a request says."""
        return {"input": text} if self.dialect == "openai_responses" else {"messages": [{"role": "user", "content": text}]}

    def credential(self, key: str) -> dict[str, str]:
        """How its vendor wants to see a key."""
        return {"x-api-key": key} if self.dialect == "anthropic" else {"authorization": f"Bearer {key}"}

    def owns(self, path: str) -> bool:
        """Whether errors at this path have this dialect's shape."""
        roots = {"anthropic": "/v1/messages", "openai_responses": "/v1/responses"}
        found = next((dialect for dialect, root in roots.items() if path.startswith(root)), "openai_chat")
        return found == self.dialect

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
        *before, last = events(stream)
        told = json.loads(last.data)
        if last.name != "response.failed":
            return self.error(told)
        if before and before[-1].name == "error":
            return self.error(json.loads(before[-1].data))
        error = told["response"]["error"]  # the provider's own, which may come alone
        return "", error["code"], error["message"]

    def _text(self, event: Any) -> str:
        if self.dialect == "anthropic":
            return event.get("delta", {}).get("text", "") if event["type"] == "content_block_delta" else ""
        if self.dialect == "openai_responses":
            return event["delta"] if event["type"] == "response.output_text.delta" else ""
        return "".join(choice["delta"].get("content") or "" for choice in event.get("choices", []))


CHAT = Side("openai_chat", "/v1/chat/completions", "openai/gpt-mini", "fast", "openai", "home", openai_chat.check)
MESSAGES = Side("anthropic", "/v1/messages", "anthropic/claude-sonnet", "smart", "anthropic", "spare", anthropic.check)
RESPONSES = Side("openai_responses", "/v1/responses", "pro/o9", "deep", "openai", "home", openai_responses.check)
SIDES = [CHAT, MESSAGES, RESPONSES]
