"""The grammar of a Messages stream (Anthropic API reference, "Streaming Messages"; types of its Python SDK 2.14).

    message_start (block_start delta* block_stop)* message_delta message_stop        an `error` may stand for all that is missing

Pings may stand anywhere behind `message_start`. Blocks are numbered from 0 and never overlap.
"""

from typing import Any

from tests.wire.grammar.framing import count, events, record

DELTAS = {
    "text": {"text_delta", "citations_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
    "redacted_thinking": set[str](),
    "tool_use": {"input_json_delta"},
    "server_tool_use": {"input_json_delta"},
    "mcp_tool_use": {"input_json_delta"},
}
"""The deltas of each kind of block; a kind that is not here is a whole result and has none."""

FIELD = {
    "text_delta": ("text", str),
    "citations_delta": ("citation", dict),
    "thinking_delta": ("thinking", str),
    "signature_delta": ("signature", str),
    "input_json_delta": ("partial_json", str),
}
STOP = {"end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"}
CUT = {"max_tokens", "refusal", "model_context_window_exceeded"}
"""Reasons to stop that may cut a tool call in the middle."""


def check(stream: bytes) -> list[dict[str, Any]]:
    """The events of a whole outgoing stream, pings and error included.

    Raises:
        AssertionError: the stream breaks the grammar, and where.
    """
    reader = _Message()
    told: list[dict[str, Any]] = []
    for name, data in events(stream):
        event = record(data)
        assert event.get("type") == name, f"the event {name!r} has data of type {event.get('type')!r}"
        assert not reader.over, f"{name} follows the end"
        reader.read(name, event)
        told.append(event)
    assert reader.over, f"the stream ends after {told[-1]['type']}"
    return told


class _Message:
    def __init__(self) -> None:
        self.over = False
        self._started = False
        self._blocks: list[str] = []  # the kinds, in order
        self._open = False
        self._json = ""
        self._broken: AssertionError | None = None
        self._stopped: str | None = None

    def read(self, name: str, event: dict[str, Any]) -> None:
        assert self._started or name in {"message_start", "error"}, f"{name} comes before message_start"
        if self._broken and name not in {"ping", "message_delta"}:
            raise self._broken
        match name:
            case "message_start":
                assert not self._started, "a second message_start"
                self._started = True
                _check_message(event.get("message"))
            case "ping":
                pass
            case "content_block_start":
                self._start_block(event)
            case "content_block_delta":
                self._read_delta(event)
            case "content_block_stop":
                self._stop_block(event)
            case "message_delta":
                self._stop_message(event)
            case "message_stop":
                assert self._stopped is not None, "message_stop comes without message_delta"
                self.over = True
            case "error":
                error = event.get("error")
                assert isinstance(error, dict), "the error says nothing"
                assert error.get("type"), "the error has no type"
                assert error.get("message"), "the error has no message"
                self.over = True
            case _:
                raise AssertionError(f"there is no event {name!r}")

    def _start_block(self, event: dict[str, Any]) -> None:
        assert self._stopped is None, "a block begins after message_delta"
        assert not self._open, f"a block begins within block {len(self._blocks) - 1}"
        assert event.get("index") == len(self._blocks), f"block {len(self._blocks)} has the index {event.get('index')!r}"
        block = event.get("content_block")
        assert isinstance(block, dict), "a block has no content_block"
        kind = block.get("type")
        assert kind, "a block has no type"
        if kind == "text":
            assert isinstance(block.get("text"), str), "a text block begins without `text`"
        if kind.endswith("tool_use"):
            assert block.get("id"), "a tool call has no id"
            assert block.get("name"), "a tool call has no name"
            assert isinstance(block.get("input"), dict), "a tool call begins without `input`"
        self._blocks.append(kind)
        self._open = True
        self._json = ""

    def _read_delta(self, event: dict[str, Any]) -> None:
        self._check_open(event)
        kind = self._blocks[-1]
        delta = event.get("delta")
        assert isinstance(delta, dict), "a delta is empty"
        assert delta.get("type") in DELTAS.get(kind, set()), f"a {kind} block has a {delta.get('type')!r}"
        field, of = FIELD[delta["type"]]
        assert isinstance(delta.get(field), of), f"a {delta['type']} has no `{field}`"
        if field == "partial_json":
            self._json += delta[field]

    def _stop_block(self, event: dict[str, Any]) -> None:
        self._check_open(event)
        if self._json:
            try:
                record(self._json)
            except AssertionError as error:
                self._broken = error  # the limit of tokens may have cut it
        self._open = False

    def _check_open(self, event: dict[str, Any]) -> None:
        assert self._open, f"{event['type']} comes outside of a block"
        assert event.get("index") == len(self._blocks) - 1, (
            f"{event['type']} of block {event.get('index')!r} in block {len(self._blocks) - 1}"
        )

    def _stop_message(self, event: dict[str, Any]) -> None:
        assert self._stopped is None, "a second message_delta"
        assert not self._open, f"message_delta comes within block {len(self._blocks) - 1}"
        delta = event.get("delta")
        assert isinstance(delta, dict), "message_delta has no delta"
        assert delta.get("stop_reason") in STOP, f"the message stops with {delta.get('stop_reason')!r}"
        self._stopped = delta["stop_reason"]
        if self._broken and self._stopped not in CUT:
            raise self._broken
        self._broken = None
        if self._stopped == "tool_use":
            assert "tool_use" in self._blocks, "the message stops for a tool call and has none"
        usage = event.get("usage")
        assert isinstance(usage, dict), "message_delta has no usage"
        count(usage.get("output_tokens"), "output_tokens")


def _check_message(message: Any) -> None:
    assert isinstance(message, dict), "message_start has no message"
    assert message.get("id"), "the message has no id"
    assert message.get("model"), "the message has no model"
    expected = {"type": "message", "role": "assistant", "content": [], "stop_reason": None, "stop_sequence": None}
    for key, value in expected.items():
        assert key in message, f"the message has no `{key}`"
        assert message[key] == value, f"the message begins with `{key}` {message[key]!r}"
    usage = message.get("usage")
    assert isinstance(usage, dict), "message_start has no usage"
    count(usage.get("input_tokens"), "input_tokens")
    count(usage.get("output_tokens"), "output_tokens")
