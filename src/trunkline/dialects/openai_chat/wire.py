"""What Chat Completions look like on the wire, as far as a reply is read, and usage both ways."""

from typing import Any

from trunkline.base.codec import NULL, Decoder, Malformed, Raw, Wire, decode_halves
from trunkline.dialects._openai import Details, buckets, says_something
from trunkline.errors import UpstreamGarbled
from trunkline.model.event import FinishReason
from trunkline.model.usage import Usage

NAME = "openai_chat"
FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refused",
}
FINISH_NAMES: dict[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "refused": "content_filter",
    "paused": "stop",
}


class WireUsage(Wire, frozen=True):
    """`usage`: the sums hold the details."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Details | None = None
    completion_tokens_details: Details | None = None


class Function(Wire, frozen=True):
    """The function of a tool call."""

    name: str | None = None
    arguments: str | None = None


class WireCall(Wire, frozen=True):
    """A tool call, or a piece of one."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Detail(Wire, frozen=True):
    """One of `reasoning_details`, an addition of routers: a thought with its signature, or encrypted."""

    type: str = ""
    text: str | None = None
    summary: str | None = None
    data: str | None = None
    signature: str | None = None
    id: str | None = None
    origin: str | None = None


class Message(Wire, frozen=True):
    """A `message`, or the `delta` of one.

    Some vendors send `content` as parts, and reasoning under two names; `function_call` is what tool calls were before there were several.
    """

    role: str | None = None
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    reasoning_details: list[Detail] | None = None
    refusal: str | None = None
    tool_calls: list[WireCall] | None = None
    function_call: Function | None = None
    annotations: Raw = NULL
    audio: Raw = NULL

    @property
    def plain(self) -> str | None:
        """The text, where there is nothing else, as in nearly every delta."""
        more = self.reasoning_content or self.reasoning or self.reasoning_details or self.refusal or self.tool_calls or self.function_call
        told = self.annotations is not NULL or self.audio is not NULL
        return None if more or told or not isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        """The text of the content."""
        if isinstance(self.content, list):
            return "".join(_text(part) or "" for part in self.content)
        return self.content or ""

    @property
    def unread(self) -> list[str]:
        """The fields that say something for which there is no neutral part."""
        names: list[str] = []
        if isinstance(self.content, list) and None in map(_text, self.content):
            names.append("content")
        if self.reasoning and not isinstance(self.reasoning, str):
            names.append("reasoning")
        if says_something(self.annotations):
            names.append("annotations")
        if says_something(self.audio):
            names.append("audio")
        return names

    @property
    def calls(self) -> list[WireCall]:
        """The tool calls, or pieces of them."""
        calls = self.tool_calls or []
        return [*calls, WireCall(function=self.function_call)] if self.function_call else calls

    @property
    def thought(self) -> str:
        """The reasoning, if it is told as text."""
        return self.reasoning_content or (self.reasoning if isinstance(self.reasoning, str) else "")


def _text(part: Any) -> str | None:
    """What a part of a content says, if it is text."""
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            return None


class Choice(Wire, frozen=True):
    """One of the replies that were asked for."""

    index: int = 0
    delta: Message | None = None
    message: Message | None = None
    finish_reason: str | None = None
    logprobs: Raw = NULL


class Completion(Wire, frozen=True):
    """A whole completion, or a chunk of one."""

    id: str | None = None
    model: str | None = None
    created: float | None = None
    choices: list[Choice] | None = None
    usage: WireUsage | None = None
    error: Raw = NULL


_completion = Decoder(Completion)


def decoded(data: bytes) -> Completion:
    """A completion, or a chunk. Raises: `UpstreamGarbled`."""
    try:
        return decode_halves(_completion.decode, data)
    except Malformed as error:
        raise UpstreamGarbled(f"the provider's reply cannot be read: {error}") from None


def finish(reason: str | None) -> FinishReason | None:
    """Why the model ended."""
    return FINISH.get(reason, "stop") if reason else None


def usage(wire: WireUsage) -> Usage:
    """Usage in buckets."""
    return buckets(wire.prompt_tokens, wire.completion_tokens, wire.prompt_tokens_details, wire.completion_tokens_details)


def wire_usage(used: Usage) -> dict[str, object]:
    """Usage as the format tells it."""
    read = used.input + used.cache_read + used.cache_write
    wrote = used.output + used.reasoning
    return {
        "prompt_tokens": read,
        "completion_tokens": wrote,
        "total_tokens": read + wrote,
        "prompt_tokens_details": {"cached_tokens": used.cache_read, "cache_write_tokens": used.cache_write},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning},
    }
