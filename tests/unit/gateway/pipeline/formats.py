"""How two formats say the same few things, and what the tests of the pipeline ask."""

import json
from dataclasses import dataclass

from tests.fakes.scripted import Gateway, Outlet
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.errors import ShuttingDown
from trunkline.providers.anthropic import PROVIDER as ANTHROPIC_KIND
from trunkline.providers.compatible import PROVIDER as COMPATIBLE_KIND
from trunkline.surfaces import Endpoint

STOPPING = ShuttingDown("the server is being stopped")


@dataclass(frozen=True)
class Words:
    """How one format says the same few things."""

    prelude: bytes  # nothing of a reply yet
    hello: bytes  # the first part of a reply
    rest: bytes  # to its end
    whole: bytes  # a reply that is no stream
    end_marks: tuple[bytes, ...]  # never in a stream that failed
    busy: bytes  # the provider's own event of failure


OPENAI = Words(
    prelude=b'data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n',
    hello=b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n',
    rest=b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\ndata: [DONE]\n\n',
    whole=b'{"choices":[{"index":0,"message":{"content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}',
    end_marks=(b"[DONE]", b"finish_reason"),
    busy=b'data: {"error":{"code":"rate_limit_exceeded","message":"slow down"}}\n\n',
)
MESSAGES = Words(
    prelude=b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":5}}}\n\n',
    hello=b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}\n\n',
    rest=b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    whole=b'{"content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":2}}',
    end_marks=(b"message_stop", b"end_turn"),
    busy=b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"slow down"}}\n\n',
)

FORMATS = {
    "openai_chat": (COMPATIBLE_KIND, Endpoint("/v1/chat/completions", "chat", OPENAI_CHAT), OPENAI),
    "anthropic": (ANTHROPIC_KIND, Endpoint("/v1/messages", "chat", ANTHROPIC), MESSAGES),
}


def asks(model: str = "fast", *, stream: bool = False) -> bytes:
    return json.dumps({"model": model, "max_tokens": 9, "stream": stream, "messages": [{"role": "user", "content": "canary"}]}).encode()


def attempts(gateway: Gateway) -> list[str]:
    [exchange] = gateway.told
    return [f"{attempt.target} {attempt.outcome}" for attempt in exchange.attempts]


def error_of(outlet: Outlet) -> dict[str, object]:
    """The error in an answer, whichever the format."""
    return json.loads(outlet.body)["error"]


def last_event(outlet: Outlet) -> dict[str, object]:
    *_, event, nothing = outlet.body.split(b"\n\n")
    assert nothing == b""
    return json.loads(event.rpartition(b"data: ")[2])
