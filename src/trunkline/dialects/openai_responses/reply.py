"""Whole responses, read and written. Source: as `wire`."""

from collections.abc import Sequence
from typing import Any

from trunkline.base.codec import Raw, is_null
from trunkline.dialects._free import wrapped
from trunkline.dialects._openai import failure
from trunkline.dialects.openai_responses.wire import (
    INCOMPLETE_NAMES,
    NAME,
    Item,
    call_item,
    decoded,
    finish,
    item_id,
    lost,
    message_item,
    output_item,
    read_response,
    reasoning_item,
    refusal_part,
    response,
    response_id,
    summary_parts,
    text_part,
    usage,
)
from trunkline.errors import UpstreamGarbled
from trunkline.model.event import Reply
from trunkline.model.loss import Loss
from trunkline.model.part import Part, Reasoning, Refusal, Text, ToolCall


def read_reply(body: bytes) -> Reply:
    """Read a response. One that goes on in the background has no finish reason yet.

    Raises:
        UpstreamGarbled: it is none.
        UpstreamError: it says that it failed.
    """
    found = decoded(read_response, body)
    if not is_null(found.error):
        raise failure(found.error)
    if found.output is None:
        raise UpstreamGarbled("the provider's reply has no output")
    parts, losses = read_output(found.output)
    return Reply(
        id=found.id or "",
        model=found.model or "",
        created=int(found.created_at or 0),
        content=parts,
        finish=finish(found, calls=any(isinstance(part, ToolCall) for part in parts)),
        usage=usage(found.usage) if found.usage else None,
        losses=losses,
    )


def read_output(output: Sequence[Raw]) -> tuple[tuple[Part, ...], tuple[Loss, ...]]:
    """The parts of a reply, and what of it the neutral model has no word for. Raises: `UpstreamGarbled`."""
    parts: list[Part] = []
    losses: list[Loss] = []
    for index, raw in enumerate(output):
        item = output_item(raw)
        losses += lost(index, item)
        match item.type:
            case "message":
                parts += _said(item)
            case "reasoning" if item.thought or item.encrypted_content:
                end = item.ended
                parts.append(Reasoning(text=item.thought, encrypted=end.encrypted, origin=end.origin, id=end.id))
            case "function_call" | "custom_tool_call":
                free = item.type == "custom_tool_call"
                arguments = wrapped(item.input or "") if free else item.arguments or "{}"
                called = ToolCall(
                    id=item.call_id or item.id or "", name=item.name or "", namespace=item.namespace or "", arguments=arguments, free=free
                )
                parts.append(called)
            case _:
                pass
    return tuple(parts), tuple(losses)


def _said(item: Item) -> list[Part]:
    parts: list[Part] = []
    for part in item.content or ():
        if part.type == "output_text" and part.text:
            parts.append(Text(text=part.text))
        elif part.type == "refusal" and part.refusal:
            parts.append(Refusal(text=part.refusal))
    return parts


def write_reply(reply: Reply) -> dict[str, Any]:
    """A response: completed, or incomplete where the model was stopped."""
    reply_id = response_id(reply.id)
    incomplete = reply.finish in INCOMPLETE_NAMES
    return response(
        reply_id,
        reply.model,
        reply.created,
        status="incomplete" if incomplete else "completed",
        output=_items(reply, reply_id),
        used=reply.usage,
        reason=reply.finish,
    )


def _items(reply: Reply, reply_id: str) -> list[dict[str, Any]]:
    """Each call and each thought is an item; what is said between two of them is one message."""
    out: list[dict[str, Any]] = []
    for part in reply.content:
        match part:
            case Text(text=text):
                _message(out, reply_id)["content"].append(text_part(text))
            case Refusal(text=text):
                _message(out, reply_id)["content"].append(refusal_part(text))
            case ToolCall(free=free):
                at = item_id("ctc" if free else "fc", reply_id, len(out))
                out.append(call_item(at, part, part.arguments, "completed"))
            case Reasoning(text=text, origin=origin, id=thought_id):
                at = thought_id if origin == NAME and thought_id else item_id("rs", reply_id, len(out))
                out.append(reasoning_item(at, summary_parts(text), part))
            case _:
                pass
    if out and reply.finish == "length" and out[-1]["type"] != "reasoning":
        out[-1]["status"] = "incomplete"
    return out


def _message(out: list[dict[str, Any]], reply_id: str) -> dict[str, Any]:
    """The message that is still being written."""
    if not out or out[-1]["type"] != "message":
        out.append(message_item(item_id("msg", reply_id, len(out)), [], "completed"))
    return out[-1]
