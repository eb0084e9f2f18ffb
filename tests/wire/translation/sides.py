"""Responses as a caller without an SDK sees it."""

import json
from typing import Any

from tests.wire.gateway import PROMPT, Gateway, Got
from tests.wire.grammar import openai_responses
from tests.wire.grammar.framing import events
from tests.wire.sides import CHAT, MESSAGES, Side


class _Responses(Side):
    def owns(self, path: str) -> bool:
        return path.startswith("/v1/responses")

    def failure(self, stream: bytes) -> tuple[str, str, str]:
        """Of the `error` event, before the response that failed."""
        *_, error, failed = events(stream)
        assert (error.name, failed.name) == ("error", "response.failed")
        return self.error(json.loads(error.data))

    def _text(self, event: Any) -> str:
        return event["delta"] if event["type"] == "response.output_text.delta" else ""


RESPONSES = _Responses("openai_responses", "/v1/responses", "pro/o9", "pro/o9", "openai", "openai", openai_responses.check)
ALL = [CHAT, RESPONSES, MESSAGES]


async def ask(gateway: Gateway, side: Side, *, headers: list[tuple[str, str]] | None = None, **over: Any) -> Got:
    """A call without an SDK in any format, whole or streamed; in chat's with a limit, so that no format has to set one."""
    if side is RESPONSES:
        return await gateway.post(side.path, {"model": side.model, "input": PROMPT, **over}, headers or [])
    return await gateway.ask(side, headers=headers or [], **({"max_tokens": 64} | over))
