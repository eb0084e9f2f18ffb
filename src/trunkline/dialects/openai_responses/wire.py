"""What Responses look like on the wire, as far as a reply is read, and what its writers share.

Source: the API reference of `POST /v1/responses` and its streaming events, as the `openai` SDK types them (`openai.types.responses`).
"""

from collections.abc import Callable
from typing import Any, TypeVar

from trunkline.base.codec import NULL, Decoder, Malformed, Raw, Wire, decode_halves, is_null
from trunkline.dialects._carrier import pack, unpack
from trunkline.dialects._free import unwrapped
from trunkline.dialects._openai import Details, buckets, says_something
from trunkline.dialects._splice import read_object, splice
from trunkline.errors import BadRequest, UpstreamGarbled
from trunkline.model.event import FinishReason, ReasoningEnded, ToolCallStarted
from trunkline.model.loss import Loss, unsupported
from trunkline.model.part import Reasoning, ToolCall
from trunkline.model.usage import Usage

T = TypeVar("T")

NAME = "openai_responses"
PREFIX = "resp"
SEPARATOR = "\N{ZERO WIDTH SPACE}\n\n"
"""Between the parts of a summary where they stand in one text: invisible, and told from the blank lines that parts hold themselves."""

KNOWN = frozenset({"message", "reasoning", "function_call", "custom_tool_call"})
"""The items that the neutral model has a word for."""

INCOMPLETE: dict[str, FinishReason] = {"max_output_tokens": "length", "content_filter": "refused", "steered": "paused"}
INCOMPLETE_NAMES: dict[FinishReason, str] = {"length": "max_output_tokens", "refused": "content_filter"}


class WireUsage(Wire, frozen=True):
    """`usage`: the sums hold the details."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: Details | None = None
    output_tokens_details: Details | None = None


class Content(Wire, frozen=True):
    """A part of a message, of a thought or of its summary."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    annotations: Raw = NULL
    logprobs: Raw = NULL


class Item(Wire, frozen=True):
    """A message, a thought, or a call of a function or of a free-form tool."""

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | None = None
    input: str | None = None
    content: list[Content] | None = None
    summary: list[Content] | None = None
    encrypted_content: str | None = None

    @property
    def thought(self) -> str:
        """What is told of a thought: its summary, or the thought itself, where a provider tells that."""
        return joined(self.summary) or joined(self.content)

    @property
    def ended(self) -> ReasoningEnded:
        """What has to come back of a thought. Its id may be in its content, where a stream began before it was known."""
        if not self.encrypted_content:
            return ReasoningEnded()
        carried = unpack(self.encrypted_content)
        if carried is not None and carried.origin in {NAME, ""}:
            return ReasoningEnded(**carried._asdict())
        return ReasoningEnded(encrypted=self.encrypted_content, origin=NAME, id=self.id or "")


class Incomplete(Wire, frozen=True):
    """Why a response ended early."""

    reason: str | None = None


class WireResponse(Wire, frozen=True):
    """A response; in events of a stream it may hold less."""

    id: str | None = None
    model: str | None = None
    created_at: float | None = None
    status: str | None = None
    output: list[Raw] | None = None
    usage: WireUsage | None = None
    incomplete_details: Incomplete | None = None
    error: Raw = NULL


class Typed(Wire, frozen=True):
    """Anything that says its type."""

    type: str | None = None


class OfResponse(Wire, frozen=True):
    """`response.created`, `.in_progress`, `.queued`, `.completed`, `.incomplete`, `.failed`."""

    response: WireResponse


class OfItem(Wire, frozen=True):
    """`response.output_item.added` and `.done`."""

    output_index: int
    item: Raw


class Delta(Wire, frozen=True):
    """A piece of text, refusal, thought or arguments."""

    output_index: int
    delta: str | None = None
    content_index: int = 0
    summary_index: int = 0


class Arguments(Wire, frozen=True):
    """`response.function_call_arguments.done`."""

    output_index: int
    arguments: str | None = None


class ErrorEvent(Wire, frozen=True):
    """`error`: flat by the reference, with an `error` inside as it is sent."""

    error: Raw = NULL
    code: str | int | None = None
    message: str | None = None


_text = Decoder(str).decode
read_response = Decoder(WireResponse).decode
read_type = Decoder(Typed).decode
read_item = Decoder(Item).decode
read_of_response = Decoder(OfResponse).decode
read_of_item = Decoder(OfItem).decode
read_delta = Decoder(Delta).decode
read_arguments = Decoder(Arguments).decode
read_error_event = Decoder(ErrorEvent).decode


def decoded(decode: Callable[[bytes | Raw], T], data: bytes | Raw) -> T:
    """Data by one of the decoders. Raises: `UpstreamGarbled`."""
    try:
        return decode_halves(decode, bytes(data))
    except Malformed as error:
        raise UpstreamGarbled(f"the provider's reply cannot be read: {error}") from None


def output_item(raw: Raw) -> Item:
    """An output item. Of one that only this format knows, its type alone: its other fields may be anything. Raises: `UpstreamGarbled`."""
    kind = decoded(read_type, raw).type or ""
    return decoded(read_item, raw) if kind in KNOWN else Item(type=kind)


def joined(parts: list[Content] | None) -> str:
    """The texts of a thought's parts as one."""
    return SEPARATOR.join(part.text for part in parts or () if part.text)


def lost(index: int, found: Item) -> list[Loss]:
    """What an item says that the neutral model has no word for."""
    if found.type not in KNOWN:
        return [unsupported(f"output.{index}", f"an item of type `{found.type}`")]
    losses: list[Loss] = []
    for number, part in enumerate(found.content or () if found.type == "message" else ()):
        at = f"output.{index}.content.{number}"
        if part.type not in {"output_text", "refusal"}:
            losses.append(unsupported(at, f"a part of type `{part.type}`"))
        losses += [
            unsupported(f"{at}.{name}")
            for name, raw in (("annotations", part.annotations), ("logprobs", part.logprobs))
            if says_something(raw)
        ]
    return losses


def finish(response: WireResponse, *, calls: bool) -> FinishReason | None:
    """Why the model ended; nothing where it has not."""
    match response.status:
        case "completed" | None:
            return "tool_calls" if calls else "stop"
        case "incomplete":
            reason = response.incomplete_details.reason if response.incomplete_details else None
            return INCOMPLETE.get(reason or "", "length")
        case _:
            return None


def usage(wire: WireUsage) -> Usage:
    """Usage in buckets."""
    return buckets(wire.input_tokens, wire.output_tokens, wire.input_tokens_details, wire.output_tokens_details)


def wire_usage(used: Usage) -> dict[str, object]:
    """Usage as the format tells it."""
    read = used.input + used.cache_read + used.cache_write
    wrote = used.output + used.reasoning
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": used.cache_read, "cache_write_tokens": used.cache_write},
        "output_tokens": wrote,
        "output_tokens_details": {"reasoning_tokens": used.reasoning},
        "total_tokens": read + wrote,
    }


def with_ids(body: bytes | Raw, tell: Callable[[str], str]) -> bytes:
    """A response with the ids that callers know, else as it came. Raises: `UpstreamGarbled`."""
    found = read_fields(body)
    ids = {name: decoded(_text, found[name]) for name in ("id", "previous_response_id") if not is_null(found.get(name, NULL))}
    return splice(bytes(body), found, {name: tell(value) for name, value in ids.items()})


def read_fields(body: bytes | Raw) -> dict[str, Raw]:
    """The fields of a provider's object, in which values are to be replaced. Raises: `UpstreamGarbled`."""
    try:
        return read_object(bytes(body))
    except BadRequest as error:
        raise UpstreamGarbled(f"the provider's reply cannot be read: {error.message}") from None


# ------------------------------------------------------------------------------------------------------------ writing
def response_id(reply_id: str) -> str:
    """The id of a reply as clients of this format know ids."""
    return reply_id if reply_id.startswith(PREFIX) else f"{PREFIX}_{reply_id}"


def item_id(prefix: str, reply_id: str, index: int) -> str:
    """An id for an item of a reply that came without: 64 characters is the most that the format takes."""
    return f"{prefix}_{reply_id.removeprefix(f'{PREFIX}_')[-48:]}_{index}"


def response(
    reply_id: str,
    model: str,
    created: int,
    *,
    status: str,
    output: list[dict[str, Any]] | None = None,
    used: Usage | None = None,
    reason: FinishReason | None = None,
    error: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A `response` object. What it repeats of the request stands at its default: a reply does not know what was asked."""
    return {
        "id": reply_id,
        "object": "response",
        "created_at": created,
        "status": status,
        "background": False,
        "error": error,
        "incomplete_details": {"reason": INCOMPLETE_NAMES[reason]} if reason in INCOMPLETE_NAMES else None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": model,
        "output": output or [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": wire_usage(used) if used else None,
        "user": None,
    }


def message_item(at: str, content: list[dict[str, Any]], status: str) -> dict[str, Any]:
    """A message."""
    return {"type": "message", "id": at, "status": status, "role": "assistant", "content": content}


def text_part(text: str) -> dict[str, Any]:
    """A text of a message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def refusal_part(text: str) -> dict[str, Any]:
    """The words for not answering."""
    return {"type": "refusal", "refusal": text}


def summary_parts(text: str) -> list[dict[str, Any]]:
    """The parts of a summary that was read as one text."""
    return [{"type": "summary_text", "text": part} for part in text.split(SEPARATOR)] if text else []


def call_item(at: str, call: ToolCall | ToolCallStarted, arguments: str, status: str) -> dict[str, Any]:
    """A call, of a function or of a free-form tool.

    A free-form call whose arguments are no object was cut, and holds nothing: its text could be run, which the beginning of an object cannot.
    """
    kind, held = ("custom_tool_call", "input") if call.free else ("function_call", "arguments")
    text = unwrapped(arguments or "{}") if call.free else arguments
    status = "incomplete" if text is None else status
    return {"type": kind, "id": at, "call_id": call.id, "name": call.name, **in_group(call.namespace), held: text or "", "status": status}


def in_group(namespace: str) -> dict[str, str]:
    """Whose tool is called, where it is one of a group."""
    return {"namespace": namespace} if namespace else {}


def reasoning_item(at: str, summary: list[dict[str, Any]], thought: Reasoning | ReasoningEnded | None) -> dict[str, Any]:
    """A thought, with what its vendor wants to see again: this format's own under its own id, any other's carried.

    One that nobody signed is marked as such: its id is ours, and no provider keeps anything under it. One that only begins has no mark.
    """
    out: dict[str, Any] = {"type": "reasoning", "id": at, "summary": summary}
    if thought is None:
        return out
    native = thought.origin == NAME and thought.encrypted and thought.id == at
    return {**out, "encrypted_content": thought.encrypted if native else pack(thought)}
