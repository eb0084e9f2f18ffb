"""What calls can ask, as each format says it: the probes behind docs/translation.md and its test.

Each probe is the part of a request that asks for one thing. What becomes of it on the way to another format is what the translation
reports for it, against what it reports for the same request without it.
"""

from dataclasses import dataclass
from typing import Any

from trunkline import dialects as dialects_package
from trunkline.base import members
from trunkline.base.codec import encode
from trunkline.dialects import Dialect
from trunkline.errors import LossRefused
from trunkline.gateway.losses import DEFAULT, judge
from trunkline.model.card import UNKNOWN
from trunkline.model.loss import Loss

CHAT, MESSAGES, RESPONSES = "openai_chat", "anthropic", "openai_responses"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}


def _chat(*content: Any, **rest: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content) or "hello"}], **rest}


def _messages(*content: Any, **rest: Any) -> dict[str, Any]:
    return {"max_tokens": 20_000, "messages": [{"role": "user", "content": list(content) or "hello"}], **rest}


def _responses(*content: Any, **rest: Any) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": list(content)}] if content else "hello", **rest}


PLAIN = {CHAT: _chat(), MESSAGES: _messages(), RESPONSES: _responses()}

CHAT_TOOL = {"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": SCHEMA}}
MESSAGES_TOOL = {"name": "weather", "description": "Tells it.", "input_schema": SCHEMA}
RESPONSES_TOOL = {"type": "function", "name": "weather", "description": "Tells it.", "parameters": SCHEMA, "strict": False}
FREE_TOOL = {
    "type": "custom",
    "name": "patch",
    "description": "Does it.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: WORD"},
}
FREE_TURNS = [
    {"role": "user", "content": "hello"},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "patch", "input": "abc"},
    {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
]


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing that can be asked, with the body that asks it in each format that can."""

    name: str
    bodies: dict[str, dict[str, Any]]


def _turns(calls: int, *, error: bool = False, image: bool = False) -> dict[str, dict[str, Any]]:
    """A tool loop's second turn."""
    ids = [f"call_{number}" for number in range(calls)]
    chat_result: Any = "sunny"
    messages_result: Any = "sunny"
    responses_result: Any = "sunny"
    if image:
        chat_result = [{"type": "text", "text": "sunny"}, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        messages_result = [{"type": "text", "text": "sunny"}, picture]
        responses_result = [{"type": "input_text", "text": "sunny"}, {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}]
    chat_calls = [{"id": each, "type": "function", "function": {"name": "weather", "arguments": '{"city":"Ulm"}'}} for each in ids]
    uses = [{"type": "tool_use", "id": each, "name": "weather", "input": {"city": "Ulm"}} for each in ids]
    results = [
        {"type": "tool_result", "tool_use_id": each, "content": messages_result, **({"is_error": True} if error else {})} for each in ids
    ]
    items = [
        {"type": "function_call", "id": f"fc_{each}", "call_id": each, "name": "weather", "arguments": '{"city":"Ulm"}'} for each in ids
    ]
    outputs = [{"type": "function_call_output", "call_id": each, "output": responses_result} for each in ids]
    user: dict[str, Any] = {"role": "user", "content": "hello"}
    bodies: dict[str, dict[str, Any]] = {
        MESSAGES: {
            "max_tokens": 20_000,
            "tools": [MESSAGES_TOOL],
            "messages": [user, {"role": "assistant", "content": uses}, {"role": "user", "content": results}],
        }
    }
    if not error:
        tools = [{"role": "tool", "tool_call_id": each, "content": chat_result} for each in ids]
        bodies[CHAT] = {"tools": [CHAT_TOOL], "messages": [user, {"role": "assistant", "content": None, "tool_calls": chat_calls}, *tools]}
        bodies[RESPONSES] = {"tools": [RESPONSES_TOOL], "input": [user, *items, *outputs]}
    return bodies


FEATURES = (
    Feature("text", PLAIN),
    Feature(
        "system text",
        {
            CHAT: {"messages": [{"role": "system", "content": "Be brief."}, *_chat()["messages"]]},
            MESSAGES: _messages(system="Be brief."),
            RESPONSES: _responses(instructions="Be brief."),
        },
    ),
    Feature(
        "developer text",
        {
            CHAT: {"messages": [{"role": "developer", "content": "Be brief."}, *_chat()["messages"]]},
            RESPONSES: {"input": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hello"}]},
        },
    ),
    Feature(
        "picture",
        {
            CHAT: _chat({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}),
            MESSAGES: _messages({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}),
            RESPONSES: _responses({"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}),
        },
    ),
    Feature(
        "picture by URL",
        {
            CHAT: _chat({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}),
            MESSAGES: _messages({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}),
            RESPONSES: _responses({"type": "input_image", "image_url": "https://example.com/a.png"}),
        },
    ),
    Feature(
        "PDF",
        {
            CHAT: _chat({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}}),
            MESSAGES: _messages(
                {
                    "type": "document",
                    "title": "a.pdf",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                }
            ),
            RESPONSES: _responses({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}),
        },
    ),
    Feature(
        "stored file",
        {
            CHAT: _chat({"type": "file", "file": {"file_id": "file-abc"}}),
            MESSAGES: _messages({"type": "document", "source": {"type": "file", "file_id": "file_abc"}}),
            RESPONSES: _responses({"type": "input_file", "file_id": "file-abc"}),
        },
    ),
    Feature("audio", {CHAT: _chat({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}})}),
    Feature(
        "tools",
        {CHAT: _chat(tools=[CHAT_TOOL]), MESSAGES: _messages(tools=[MESSAGES_TOOL]), RESPONSES: _responses(tools=[RESPONSES_TOOL])},
    ),
    Feature(
        "strict tools",
        {
            CHAT: _chat(tools=[{"type": "function", "function": {**CHAT_TOOL["function"], "strict": True}}]),  # type: ignore[dict-item]
            MESSAGES: _messages(tools=[{**MESSAGES_TOOL, "strict": True}]),
            RESPONSES: _responses(tools=[{**RESPONSES_TOOL, "strict": True}]),
        },
    ),
    Feature("free-form tools", {RESPONSES: _responses(tools=[FREE_TOOL])}),
    Feature(
        "this free-form tool must be called", {RESPONSES: _responses(tools=[FREE_TOOL], tool_choice={"type": "custom", "name": "patch"})}
    ),
    Feature("free-form calls and results", {RESPONSES: {"tools": [FREE_TOOL], "input": FREE_TURNS}}),
    Feature(
        "groups of tools",
        {RESPONSES: _responses(tools=[{"type": "namespace", "name": "sky", "description": "Looks up.", "tools": [RESPONSES_TOOL]}])},
    ),
    Feature(
        "the vendor's own tools",
        {
            MESSAGES: _messages(tools=[{"type": "web_search_20250305", "name": "web_search"}]),
            RESPONSES: _responses(tools=[{"type": "web_search"}]),
        },
    ),
    Feature(
        "a tool must be called",
        {
            CHAT: _chat(tools=[CHAT_TOOL], tool_choice="required"),
            MESSAGES: _messages(tools=[MESSAGES_TOOL], tool_choice={"type": "any"}),
            RESPONSES: _responses(tools=[RESPONSES_TOOL], tool_choice="required"),
        },
    ),
    Feature(
        "this tool must be called",
        {
            CHAT: _chat(tools=[CHAT_TOOL], tool_choice={"type": "function", "function": {"name": "weather"}}),
            MESSAGES: _messages(tools=[MESSAGES_TOOL], tool_choice={"type": "tool", "name": "weather"}),
            RESPONSES: _responses(tools=[RESPONSES_TOOL], tool_choice={"type": "function", "name": "weather"}),
        },
    ),
    Feature(
        "one call at a time",
        {
            CHAT: _chat(tools=[CHAT_TOOL], parallel_tool_calls=False),
            MESSAGES: _messages(tools=[MESSAGES_TOOL], tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
            RESPONSES: _responses(tools=[RESPONSES_TOOL], parallel_tool_calls=False),
        },
    ),
    Feature("parallel calls and results", _turns(2)),
    Feature("a picture in a result", _turns(1, image=True)),
    Feature("a result that is an error", _turns(1, error=True)),
    Feature(
        "JSON by a schema",
        {
            CHAT: _chat(response_format={"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}),
            MESSAGES: _messages(output_config={"format": {"type": "json_schema", "schema": SCHEMA}}),
            RESPONSES: _responses(text={"format": {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True}}),
        },
    ),
    Feature(
        "JSON without a schema",
        {CHAT: _chat(response_format={"type": "json_object"}), RESPONSES: _responses(text={"format": {"type": "json_object"}})},
    ),
    Feature("stop sequences", {CHAT: _chat(stop=["END"]), MESSAGES: _messages(stop_sequences=["END"])}),
    Feature("output limit", {CHAT: _chat(max_tokens=100), MESSAGES: _messages(), RESPONSES: _responses(max_output_tokens=100)}),
    Feature("temperature", {CHAT: _chat(temperature=0.2), MESSAGES: _messages(temperature=0.2), RESPONSES: _responses(temperature=0.2)}),
    Feature("temperature over 1", {CHAT: _chat(temperature=1.4), RESPONSES: _responses(temperature=1.4)}),
    Feature("top_p", {CHAT: _chat(top_p=0.9), MESSAGES: _messages(top_p=0.9), RESPONSES: _responses(top_p=0.9)}),
    Feature("top_k", {MESSAGES: _messages(top_k=40)}),
    Feature("penalties", {CHAT: _chat(frequency_penalty=0.1, presence_penalty=0.1)}),
    Feature("seed", {CHAT: _chat(seed=7)}),
    Feature("several replies", {CHAT: _chat(n=2)}),
    Feature("log probabilities", {CHAT: _chat(logprobs=True)}),
    Feature(
        "how hard to think",
        {
            CHAT: _chat(reasoning_effort="high", max_completion_tokens=30_000),
            MESSAGES: _messages(output_config={"effort": "high"}),
            RESPONSES: _responses(reasoning={"effort": "high"}, max_output_tokens=30_000),
        },
    ),
    Feature("a budget for thinking", {MESSAGES: _messages(thinking={"type": "enabled", "budget_tokens": 4000})}),
    Feature(
        "cache marks",
        {MESSAGES: _messages({"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}})},
    ),
    Feature("who the user is", {CHAT: _chat(user="u1"), MESSAGES: _messages(metadata={"user_id": "u1"}), RESPONSES: _responses(user="u1")}),
    Feature("metadata", {CHAT: _chat(metadata={"a": "b"}), RESPONSES: _responses(metadata={"a": "b"})}),
    Feature("names of speakers", {CHAT: {"messages": [{"role": "user", "name": "ann", "content": "hello"}]}}),
)


def dialects() -> dict[str, Dialect]:
    """The formats that translate."""
    known = members.load(dialects_package, "DIALECT", Dialect)
    return {name: known[name] for name in (CHAT, RESPONSES, MESSAGES) if name in known}


def losses(source: Dialect, target: Dialect, body: dict[str, Any]) -> tuple[Loss, ...]:
    """What a request loses on its way."""
    request = source.read_request(encode({"model": "m", **body}), "chat")
    return target.write_chat(source.read_chat(request), request, "m", UNKNOWN, same=False, ask_usage=False).losses


def fate(source: Dialect, target: Dialect, feature: Feature) -> str:
    """What becomes of a feature: `as it is`, or what happens to it; empty where the source cannot ask for it."""
    body = feature.bodies.get(source.name)
    if body is None:
        return ""
    usual = {(loss.change, loss.detail) for loss in losses(source, target, PLAIN[source.name])}
    found = [loss for loss in losses(source, target, body) if (loss.change, loss.detail) not in usual]
    try:
        judge(found, DEFAULT)
    except LossRefused:
        return "refused"
    return ", ".join(sorted({_said(loss) for loss in found})) or "as it is"


def _said(loss: Loss) -> str:
    """The field, where it is one and no item of a list; what happened to it; whether it matters."""
    field = loss.path.rpartition(".")[2]
    named = "" if field.isdecimal() else f"`{field}` "
    return f"{named}{loss.change}{' *' if loss.severity == 'material' else ''}"
