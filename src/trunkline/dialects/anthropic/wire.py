"""What Messages look like on the wire, as far as a reply is read, and usage both ways."""

from collections.abc import Callable
from typing import TypeVar

from trunkline.base.codec import NULL, Decoder, Malformed, Raw, Wire, decode_halves, is_null
from trunkline.dialects._carrier import UNSIGNED
from trunkline.errors import UpstreamGarbled
from trunkline.model.event import FinishReason, ReasoningEnded
from trunkline.model.usage import Usage

T = TypeVar("T")

NAME = "anthropic"
FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "pause_turn": "paused",
    "refusal": "refused",
}
FINISH_NAMES: dict[FinishReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "refused": "refusal",
    "paused": "pause_turn",
}


class OutputDetails(Wire, frozen=True):
    """A part of the tokens that were written."""

    thinking_tokens: int | None = None


class WireUsage(Wire, frozen=True):
    """`usage`: the buckets are disjoint, but for thinking, which stands in the output too."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_details: OutputDetails | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class Block(Wire, frozen=True):
    """A content block."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str = ""
    id: str = ""
    name: str = ""
    input: Raw = NULL
    citations: Raw = NULL

    @property
    def arguments(self) -> str:
        """The input of a tool call, as it came."""
        return "{}" if is_null(self.input) else bytes(self.input).decode(errors="replace")


class WireMessage(Wire, frozen=True):
    """A message; or the whole answer of `count_tokens`, which has `input_tokens` alone."""

    id: str = ""
    model: str = ""
    content: list[Block] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: WireUsage | None = None
    input_tokens: int | None = None


class Start(Wire, frozen=True):
    """`message_start`."""

    message: WireMessage


class BlockStart(Wire, frozen=True):
    """`content_block_start`."""

    index: int
    content_block: Block


class Delta(Wire, frozen=True):
    """What a delta adds."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None


class BlockDelta(Wire, frozen=True):
    """`content_block_delta`."""

    index: int
    delta: Delta


class BlockStop(Wire, frozen=True):
    """`content_block_stop`."""

    index: int


class MessageDelta(Wire, frozen=True):
    """`message_delta`."""

    delta: Delta
    usage: WireUsage | None = None


class ErrorBody(Wire, frozen=True):
    """What an error says."""

    type: str | None = None
    message: str | None = None


class Error(Wire, frozen=True):
    """An error, as an answer or an event."""

    error: ErrorBody | None = None


class Typed(Wire, frozen=True):
    """An event whose name stands only in its data."""

    type: str = ""


read_message = Decoder(WireMessage).decode
read_start = Decoder(Start).decode
read_block_start = Decoder(BlockStart).decode
read_block_delta = Decoder(BlockDelta).decode
read_block_stop = Decoder(BlockStop).decode
read_message_delta = Decoder(MessageDelta).decode
read_error = Decoder(Error).decode
read_type = Decoder(Typed).decode


def decoded(decode: Callable[[bytes], T], data: bytes) -> T:
    """Data by one of the decoders. Raises: `UpstreamGarbled`."""
    try:
        return decode_halves(decode, data)
    except Malformed as error:
        raise UpstreamGarbled(f"the provider's reply cannot be read: {error}") from None


def thought(signature: str) -> ReasoningEnded:
    """The end of a thought with this signature; our mark is none."""
    signed = bool(signature) and signature != UNSIGNED
    return ReasoningEnded(signature=signature if signed else "", origin=NAME if signed else "")


def finish(reason: str | None) -> FinishReason | None:
    """Why the model ended."""
    return FINISH.get(reason, "stop") if reason else None


def merged(before: Usage, now: WireUsage) -> Usage:
    """The counts are totals so far, and later events of a stream leave out what did not change."""
    wrote = _latest(before.output + before.reasoning, now.output_tokens)
    thought = _latest(before.reasoning, now.output_tokens_details and now.output_tokens_details.thinking_tokens)
    return Usage(
        input=_latest(before.input, now.input_tokens),
        cache_read=_latest(before.cache_read, now.cache_read_input_tokens),
        cache_write=_latest(before.cache_write, now.cache_creation_input_tokens),
        output=max(0, wrote - thought),
        reasoning=thought,
    )


def wire_usage(used: Usage) -> dict[str, object]:
    """Usage as the format tells it."""
    return {
        "input_tokens": used.input,
        "cache_creation_input_tokens": used.cache_write,
        "cache_read_input_tokens": used.cache_read,
        "output_tokens": used.output + used.reasoning,
        **({"output_tokens_details": {"thinking_tokens": used.reasoning}} if used.reasoning else {}),
    }


def _latest(before: int, now: int | None) -> int:
    return before if now is None else now
