"""Calls without an SDK in all three formats."""

from typing import Any

from tests.wire.gateway import PROMPT, Gateway, Got
from tests.wire.sides import CHAT, MESSAGES, RESPONSES, Side

ALL = [CHAT, RESPONSES, MESSAGES]


async def ask(gateway: Gateway, side: Side, *, headers: list[tuple[str, str]] | None = None, **over: Any) -> Got:
    """A call, whole or streamed; of Responses one that may be kept, of the others one with a limit, so that no format has to set one."""
    if side is RESPONSES:
        return await gateway.post(side.path, {"model": side.model, "input": PROMPT, **over}, headers or [])
    return await gateway.ask(side, headers=headers or [], **({"max_tokens": 64} | over))
