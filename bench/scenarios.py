"""What is asked of each gateway."""

import json
from dataclasses import dataclass
from typing import Literal

Upstream = Literal["openai", "anthropic", "daemon"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One kind of load.

    Attributes:
        model: what the mock does: delay, chunks, interval (see mock.c).
        size: bytes of the request.
        connections: at once; streams are as many.
        rate: requests per second of an open loop; 0 for a closed one.
        seconds: measured ones, after `warm` others.
        ramp: seconds over which the connections are opened.
        gateways: those it is for; none means all.
        upstream: what the mock is: of which format, or an extension daemon; the client always speaks OpenAI's.
    """

    name: str
    title: str
    model: str
    size: int = 1_000
    stream: bool = False
    connections: int
    rate: int = 0
    seconds: float
    warm: float = 0.5
    ramp: float = 0.0
    gateways: frozenset[str] = frozenset()
    upstream: Upstream = "openai"


SMALL = Scenario(name="small", title="1 KB, 32 at once", model="mock-0-1-0", connections=32, seconds=3)
LARGE = Scenario(name="large", title="100 KB, 32 at once", model="mock-0-1-0", size=100_000, connections=32, seconds=3)
STEADY = Scenario(
    name="steady", title="1 KB, 300 requests/s, open loop", model="mock-0-1-0", connections=64, rate=300, seconds=5,
    gateways=frozenset({"direct", "nginx", "trunkline", "portkey", "tensorzero"}),
)  # fmt: skip
STREAMS = Scenario(
    name="streams",
    title="300 streams, 50 chunks/s each",
    model="mock-0-200-20",
    stream=True,
    connections=300,
    seconds=4,
    warm=1.5,
    ramp=1.0,
)
FIRST_BYTE = Scenario(
    name="first_byte", title="50 streams, 50 chunks/s each", model="mock-0-25-20", stream=True, connections=50, seconds=4, warm=1.0, ramp=0.5,
    gateways=frozenset({"direct", "nginx", "trunkline"}),
)  # fmt: skip
TRANSLATED = Scenario(
    name="translated", title="300 streams, OpenAI's client, Anthropic's provider", model="mock-0-200-20", stream=True, connections=300,
    seconds=4, warm=1.5, ramp=1.0, upstream="anthropic", gateways=frozenset({"trunkline", "litellm"}),
)  # fmt: skip
DAEMON = Scenario(
    name="daemon", title="300 streams, 50 chunks/s each, from a daemon", model="mock-0-200-20", stream=True, connections=300, seconds=4,
    warm=1.5, ramp=1.0, upstream="daemon", gateways=frozenset({"trunkline"}),
)  # fmt: skip
IDLE = Scenario(
    name="idle", title="1,000 idle streams", model="mock-0-10-60000", stream=True, connections=1_000, seconds=5, ramp=2.0, warm=0
)

LOADS = (SMALL, LARGE, STEADY, STREAMS, DAEMON, FIRST_BYTE, TRANSLATED)
"""Measured in turns. `IDLE` needs a fresh process, so that it stands apart."""

MODELS = sorted({scenario.model for scenario in (*LOADS, IDLE)})

WORDS = 'The quick brown fox jumps over the lazy dog, and "quotes" plus unicode é中. '


def body(scenario: Scenario, model: str) -> bytes:
    """A request of the scenario's size for a model: turns of a conversation, quotes and other alphabets included."""
    request: dict[str, object] = {"model": model, "messages": [], "temperature": 0.7, "max_tokens": 256}
    if scenario.stream:
        request |= {"stream": True, "stream_options": {"include_usage": True}}
    messages = [{"role": "system", "content": "You are a helpful assistant."}]
    request["messages"] = messages
    most = 1_500 if scenario.size < 20_000 else 4_000
    while (left := scenario.size - 60 - len(_encoded(request))) > 0 or len(messages) == 1:
        role = "user" if len(messages) % 2 else "assistant"
        messages.append({"role": role, "content": (WORDS * 50)[: max(1, min(left, most))]})
    return _encoded(request)


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
