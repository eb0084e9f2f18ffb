"""What writers of requests share."""

import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from trunkline.dialects._names import Names, full, shortened
from trunkline.model.chat import Chat, HostedTool, Message, Thinking, Tool
from trunkline.model.loss import Loss, approximated, dropped, renamed
from trunkline.model.part import Extra, Part

HARMLESS = frozenset({
    "store", "stream_options", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "prompt_cache_breakpoint",
    "safety_identifier", "include", "service_tier", "inference_geo", "eager_input_streaming", "citations", "truncation", "background",
})  # fmt: skip
"""Fields of no dialect but their own whose absence does not change what a model says."""

BOOKKEEPING = frozenset({"id", "status", "phase", "annotations", "logprobs"})
"""What every item of a long history may have, and no other dialect's model wants back: told once for all of them."""

HOLDERS = frozenset({
    "metadata", "output_config", "text", "function", "image_url", "input_audio", "file", "source", "response_format", "stream_options",
})  # fmt: skip

EFFORTS = ((2_000, "low"), (8_000, "medium"))

_NUMBER = re.compile(r"(?<=\.)[0-9]+(?=\.)")
_EMPTY = (b"[]", b"{}")


def lost_extra(extra: Extra, at: str) -> list[Loss]:
    """The losses for fields that only another dialect knows. One that is empty says nothing, so nothing of it is lost."""
    told = [name for name, raw in extra.items() if bytes(raw) not in _EMPTY]
    return [_lost(at, name) for name in told]


def put(extra: Extra, out: dict[str, Any]) -> None:
    """Write back what only this dialect knows: `a.b` is the field `b` of the object `a`, where `a` is one of those that are read."""
    for name, raw in extra.items():
        holder, _, inner = name.partition(".")
        if inner and holder in HOLDERS:
            out.setdefault(holder, {})[inner] = raw
        else:
            out[name] = raw


def offered(chat: Chat, limit: int, *, same: bool) -> tuple[Sequence[Tool | HostedTool], Names, list[Loss]]:
    """The tools as a format gets them, with their names and what is lost: in another dialect what stands for them, where anything does."""
    tools: list[Tool | HostedTool] = []
    losses: list[Loss] = []
    for tool in chat.tools:
        if isinstance(tool, HostedTool) and tool.tools is not None and not same:
            tools += tool.tools
            losses += tool.losses
        else:
            tools.append(tool)
    named = {full(tool): tool for tool in tools if isinstance(tool, Tool)}
    return tools, Names(named, limit=limit, tools={name: tool for name, tool in named.items() if tool.namespace or tool.free}), losses


def foreign(messages: Sequence[Message]) -> tuple[Sequence[Message], list[Loss]]:
    """Messages as another dialect gets them, and what is lost of them.

    Some formats tell a turn of the assistant item by item, and others want it whole: neighbouring messages of it become one.
    """
    turns: list[Message] = []
    losses: list[Loss] = []
    for message in messages:
        losses += lost_extra(message.extra, message.at)
        last = turns[-1] if turns else None
        if last and last.role == message.role == "assistant" and last.name == message.name and last.cache is message.cache is None:
            turns[-1] = replace(last, content=(*last.content, *message.content))
        else:
            turns.append(replace(message, extra={}))
    return turns, losses


def lost_cache(marked: Message | Part | Tool) -> list[Loss]:
    """The loss for a cache mark where the format caches by itself."""
    return [dropped(f"{marked.at}.cache_control", "the provider decides by itself what it caches")] if marked.cache is not None else []


def known_id(call_id: str, limit: int, at: str, losses: list[Loss]) -> str:
    """A tool call's id where only letters, digits, `_` and `-` are allowed, or where it is too long: the same in every turn."""
    known = shortened(call_id, limit)
    if known != call_id:
        losses.append(renamed(at, f"the call's id is `{known}` there, since this one is not allowed"))
    return known


def end_user(user: str, limit: int, at: str, losses: list[Loss]) -> str:
    """Who the end user is. Claude Code says it in some 150 characters; where that is too long the digest is the same in every call."""
    if len(user) <= limit:
        return user
    losses.append(renamed(at, f"more than {limit} characters are not allowed, so that a digest stands for them"))
    return sha256(user.encode()).hexdigest()


def lost_choice(chat: Chat) -> list[Loss]:
    """The losses where there are no tools to choose from: servers refuse a choice of none."""
    names = [name for name in ("tool_choice", "parallel_tool_calls") if getattr(chat, name) is not None]
    return [dropped(chat.at(name), "there are no tools to choose from") for name in names]


def lost_thinking(chat: Chat, thinking: Thinking, why: str = "this model does not think") -> list[Loss]:
    """The losses where the model does not think."""
    places = {chat.at("effort")} if thinking.effort is not None else set[str]()
    if thinking.extra or {thinking.budget, thinking.enabled, thinking.summary} != {None} or thinking.adaptive:
        places.add(chat.at("thinking"))
    return [dropped(place, why) for place in places]


def effort(chat: Chat, thinking: Thinking) -> tuple[str | None, list[Loss]]:
    """How hard to think where a format knows efforts and no budgets, and what that loses."""
    if thinking.budget is None:
        return thinking.effort, []
    if thinking.effort is not None:
        return thinking.effort, [dropped(chat.at("budget"), "the effort says it here")]
    word = next((word for most, word in EFFORTS if thinking.budget <= most), "high")
    return word, [approximated(chat.at("budget"), f"a budget becomes an effort: {word}")]


def _lost(at: str, name: str) -> Loss:
    why = "this field exists only in the format that it came in"
    if at and name in BOOKKEEPING:
        return dropped(_NUMBER.sub("*", f"{at}.{name}"), why)
    return dropped(f"{at}.{name}" if at else name, why, material=HARMLESS.isdisjoint({name, name.partition(".")[0]}))
