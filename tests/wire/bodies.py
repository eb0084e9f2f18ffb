"""Requests as clients send them, in each format, with nearly all that can be asked. Every text and number of one is different."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Draw = st.DrawFn
Json = dict[str, Any]


TAILS = ("", "\u0131🛰", "\nx", "{", "trunk")


class Fresh:
    """Texts and numbers that no other place of the body has."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._used = 100

    def maybe(self) -> bool:
        return self._draw(st.booleans())

    def one(self, *of: Any) -> Any:
        return self._draw(st.sampled_from(of))

    def many(self, most: int = 3, least: int = 0) -> range:
        return range(self._draw(st.integers(least, most)))

    def number(self) -> int:
        self._used += 1
        return self._used

    def share(self) -> float:
        return self.number() / 10_000

    def text(self, of: str = "word") -> str:
        return f"{of}-{self.number()}-{self.one(*TAILS)}"

    def name(self) -> str:
        return f"name_{self.number()}"

    def schema(self) -> Json:
        return {"type": "object", "properties": {self.name(): {"type": "string", "description": self.text()}}}

    def arguments(self) -> Json:
        return {self.name(): self.text(), "n": self.number()}

    def put(self, into: Json, name: str, make: Callable[[], Any]) -> None:
        """Sometimes, a field."""
        if self.maybe():
            into[name] = make()


def _some(fresh: Fresh, into: Json, fields: dict[str, Callable[[], Any]]) -> Json:
    for name, make in fields.items():
        fresh.put(into, name, make)
    return into


# ------------------------------------------------------------------------------------------------------------ Messages
def _mark(fresh: Fresh, block: Json) -> Json:
    return _some(fresh, block, {"cache_control": lambda: {"type": "ephemeral", "ttl": fresh.text("ttl")}})


def _messages_text(fresh: Fresh) -> Json:
    return _mark(fresh, {"type": "text", "text": fresh.text()})


def _source(fresh: Fresh, media_type: str) -> Json:
    if fresh.maybe():
        return {"type": "url", "url": f"https://example.com/{fresh.name()}"}
    return {"type": "base64", "media_type": media_type, "data": f"AAAA{fresh.number()}"}


def _messages_block(fresh: Fresh) -> Json:
    match fresh.one("text", "image", "document", "plain", "file", "search_result"):
        case "text":
            return _messages_text(fresh)
        case "image":
            return _mark(fresh, {"type": "image", "source": _source(fresh, "image/png")})
        case "document":
            document = {"type": "document", "source": _source(fresh, "application/pdf"), "title": f"{fresh.name()}.pdf"}
            return _some(fresh, document, {"context": fresh.text, "citations": lambda: {"enabled": True}})
        case "plain":
            return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": fresh.text()}}
        case "file":
            return {"type": "document", "source": {"type": "file", "file_id": fresh.name()}}
        case _:
            return {"type": "search_result", "source": fresh.text(), "title": fresh.text(), "content": [_messages_text(fresh)]}


def _messages_turns(fresh: Fresh) -> list[Json]:
    turns: list[Json] = [{"role": "user", "content": fresh.one(fresh.text(), [_messages_block(fresh) for _ in fresh.many(3, 1)])}]
    for _ in fresh.many(2):
        uses = [{"type": "tool_use", "id": fresh.name(), "name": fresh.name(), "input": fresh.arguments()} for _ in fresh.many(2, 1)]
        said: list[Json] = []
        if fresh.maybe():
            said.append({"type": "thinking", "thinking": fresh.text(), "signature": fresh.text("sig")})
        if fresh.maybe():
            said.append({"type": "redacted_thinking", "data": fresh.text("data")})
        said += [_messages_text(fresh) for _ in fresh.many(1)]
        turns.append({"role": "assistant", "content": [*said, *uses]})
        results = [
            _some(
                fresh,
                {"type": "tool_result", "tool_use_id": use["id"], "content": fresh.one(fresh.text(), [_messages_block(fresh)])},
                {"is_error": lambda: True, "cache_control": lambda: {"type": "ephemeral"}},
            )
            for use in uses
        ]
        turns.append({"role": "user", "content": [*results, *([_messages_text(fresh)] if fresh.maybe() else [])]})
    return turns


@st.composite
def messages(draw: Draw) -> Json:
    fresh = Fresh(draw)
    body: Json = {"model": "m", "max_tokens": 20_000 + fresh.number(), "messages": _messages_turns(fresh)}

    def tool() -> Json:
        made: Json = {"name": fresh.name(), "input_schema": fresh.schema()}
        return _some(
            fresh, made, {"description": fresh.text, "strict": lambda: True, "eager_input_streaming": lambda: True, "odd": fresh.text}
        )

    def tools() -> list[Json]:
        hosted = [{"type": "web_search_20250305", "name": fresh.name(), "max_uses": fresh.number()}] if fresh.maybe() else []
        return [tool(), *hosted]

    def choice() -> Json:
        named = {"type": "tool", "name": body["tools"][0]["name"]} if "tools" in body else {"type": "any"}
        return _some(
            fresh, fresh.one({"type": "auto"}, {"type": "any"}, {"type": "none"}, named), {"disable_parallel_tool_use": lambda: True}
        )

    def output() -> Json:
        made: Json = {}
        return _some(
            fresh,
            made,
            {
                "format": lambda: {"type": "json_schema", "schema": fresh.schema()},
                "effort": lambda: fresh.one("low", "high", "max"),
                "odd": fresh.text,
            },
        )

    return _some(
        fresh,
        body,
        {
            "system": lambda: fresh.one(fresh.text(), [_messages_text(fresh) for _ in fresh.many(2, 1)]),
            "tools": tools,
            "tool_choice": choice,
            "temperature": fresh.share,
            "top_p": fresh.share,
            "top_k": fresh.number,
            "stop_sequences": lambda: [fresh.text() for _ in fresh.many(6, 1)],
            "metadata": lambda: _some(fresh, {}, {"user_id": fresh.text, "odd": fresh.text}),
            "thinking": lambda: fresh.one(
                {"type": "enabled", "budget_tokens": 4000 + fresh.number(), "display": fresh.text()},
                {"type": "adaptive"},
                {"type": "disabled"},
            ),
            "output_config": output,
            "service_tier": fresh.text,
            "container": fresh.text,
            "stream": lambda: True,
        },
    )


# ---------------------------------------------------------------------------------------------------- Chat Completions
def _chat_part(fresh: Fresh) -> Json:
    match fresh.one("text", "image", "data", "audio", "file", "stored", "odd"):
        case "text":
            return _some(fresh, {"type": "text", "text": fresh.text()}, {"cache_control": lambda: {"type": "ephemeral"}})
        case "image":
            image: Json = {"url": f"https://example.com/{fresh.name()}"}
            return {"type": "image_url", "image_url": _some(fresh, image, {"detail": lambda: fresh.one("low", "high")})}
        case "data":
            return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,AAAA{fresh.number()}"}}
        case "audio":
            return {"type": "input_audio", "input_audio": {"data": f"AAAA{fresh.number()}", "format": "wav"}}
        case "file":
            data = f"data:application/pdf;base64,AAAA{fresh.number()}"
            return {"type": "file", "file": {"file_data": data, "filename": f"{fresh.name()}.pdf"}}
        case "stored":
            return {"type": "file", "file": {"file_id": fresh.name()}}
        case _:
            return {"type": "odd", "odd": fresh.text()}


def _chat_thought(fresh: Fresh) -> Json:
    match fresh.one("signed", "encrypted", "own", "carried"):
        case "signed":
            return {"type": "reasoning.text", "text": fresh.text(), "signature": fresh.text("sig"), "origin": "anthropic"}
        case "encrypted":
            return {"type": "reasoning.encrypted", "data": fresh.text("data"), "id": fresh.name(), "origin": "openai_responses"}
        case "carried":
            return {
                "type": "reasoning.encrypted",
                "text": fresh.text(),
                "data": fresh.text("data"),
                "id": fresh.name(),
                "origin": "elsewhere",
            }
        case _:
            return {"type": "reasoning.encrypted", "data": fresh.text("data"), "format": fresh.text(), "index": fresh.number()}


def _chat_turns(fresh: Fresh) -> list[Json]:
    turns: list[Json] = [_mark(fresh, {"role": fresh.one("system", "developer"), "content": fresh.text()}) for _ in fresh.many(2)]
    user: Json = {"role": "user", "content": fresh.one(fresh.text(), [_chat_part(fresh) for _ in fresh.many(3, 1)])}
    turns.append(_mark(fresh, _some(fresh, user, {"name": fresh.name})))
    for _ in fresh.many(2):
        calls = [
            {"id": fresh.name(), "type": "function", "function": {"name": fresh.name(), "arguments": json.dumps(fresh.arguments())}}
            for _ in fresh.many(2)
        ]
        turn: Json = {
            "role": "assistant",
            "content": fresh.one(fresh.text(), [{"type": "text", "text": fresh.text()} for _ in fresh.many(2, 1)]),
        }
        turn |= {"tool_calls": calls} if calls else {}
        turns.append(
            _some(
                fresh,
                _mark(fresh, turn),
                {
                    "refusal": fresh.text,
                    "reasoning_content": fresh.text,
                    "odd": fresh.text,
                    "audio": lambda: {"id": fresh.name()},
                }
                if fresh.maybe()
                else {"reasoning_details": lambda: [_chat_thought(fresh) for _ in fresh.many(2, 1)]},
            )
        )
        turns += [
            _some(
                fresh,
                {
                    "role": "tool",
                    "tool_call_id": call["id"],
                    "content": fresh.one(fresh.text(), [{"type": "text", "text": fresh.text()} for _ in fresh.many(2, 1)]),
                },
                {"name": fresh.name, "odd": fresh.text, "cache_control": lambda: {"type": "ephemeral", "ttl": fresh.text("ttl")}},
            )
            for call in calls
        ]
    if fresh.maybe():
        turns.append({"role": fresh.one("system", "developer", "user"), "content": fresh.text()})
    return turns


@st.composite
def chat(draw: Draw) -> Json:
    fresh = Fresh(draw)
    body: Json = {"model": "m", "messages": _chat_turns(fresh)}

    def tool() -> Json:
        function: Json = _some(
            fresh,
            {"name": fresh.name()},
            {"description": fresh.text, "parameters": fresh.schema, "strict": lambda: False, "odd": fresh.text},
        )
        return _some(fresh, {"type": "function", "function": function}, {"cache_control": lambda: {"type": "ephemeral"}})

    def form() -> Json:
        schema: Json = _some(fresh, {"name": fresh.name()}, {"schema": fresh.schema, "strict": lambda: False, "description": fresh.text})
        return fresh.one({"type": "text"}, {"type": "json_object"}, {"type": "json_schema", "json_schema": schema})

    def choice() -> Any:
        named = {"type": "function", "function": {"name": body["tools"][0]["function"]["name"]}} if "tools" in body else "auto"
        return fresh.one("auto", "none", "required", named)

    return _some(
        fresh,
        body,
        {
            "tools": lambda: [tool(), *([{"type": "custom", "custom": {"name": fresh.name()}}] if fresh.maybe() else [])],
            "tool_choice": choice,
            "parallel_tool_calls": lambda: False,
            fresh.one("max_tokens", "max_completion_tokens"): lambda: 30_000 + fresh.number(),
            "temperature": fresh.share,
            "top_p": fresh.share,
            "top_k": fresh.number,
            "frequency_penalty": fresh.share,
            "presence_penalty": fresh.share,
            "seed": fresh.number,
            "stop": lambda: fresh.one(fresh.text(), [fresh.text(), fresh.text()]),
            "response_format": form,
            "reasoning_effort": lambda: fresh.one("none", "minimal", "low", "high"),
            "user": fresh.text,
            "metadata": lambda: {fresh.name(): fresh.text()},
            "service_tier": fresh.text,
            "n": fresh.number,
            "logprobs": lambda: True,
            "top_logprobs": fresh.number,
            "verbosity": fresh.text,
            "prompt_cache_key": fresh.text,
            "safety_identifier": fresh.text,
            "logit_bias": lambda: {fresh.name(): fresh.number()},
            "odd": lambda: {"inside": fresh.text()},
            "stream": lambda: True,
            "stream_options": lambda: _some(fresh, {}, {"include_usage": lambda: True, "odd": fresh.text}),
        },
    )


# ----------------------------------------------------------------------------------------------------------- Responses
def _responses_part(fresh: Fresh) -> Json:
    match fresh.one("text", "image", "data", "image_file", "file", "url", "stored", "audio", "odd"):
        case "text":
            return _some(fresh, {"type": "input_text", "text": fresh.text()}, {"prompt_cache_breakpoint": lambda: {"mode": "explicit"}})
        case "image":
            return {"type": "input_image", "image_url": f"https://example.com/{fresh.name()}", "detail": fresh.one("low", "auto")}
        case "data":
            return {"type": "input_image", "image_url": f"data:image/png;base64,AAAA{fresh.number()}"}
        case "image_file":
            return {"type": "input_image", "file_id": fresh.name()}
        case "file":
            data = f"data:application/pdf;base64,AAAA{fresh.number()}"
            return _some(
                fresh, {"type": "input_file", "file_data": data}, {"filename": lambda: f"{fresh.name()}.pdf", "detail": fresh.text}
            )
        case "url":
            return {"type": "input_file", "file_url": f"https://example.com/{fresh.name()}"}
        case "stored":
            return {"type": "input_file", "file_id": fresh.name()}
        case "audio":
            return {"type": "input_audio", "input_audio": {"data": f"AAAA{fresh.number()}", "format": "wav"}}
        case _:
            return {"type": "odd", "odd": fresh.text()}


def _responses_content(fresh: Fresh) -> Any:
    return fresh.one(fresh.text(), [_responses_part(fresh) for _ in fresh.many(3, 1)])


def _responses_said(fresh: Fresh) -> Json:
    annotation = {
        "type": "url_citation",
        "url": f"https://example.com/{fresh.name()}",
        "title": fresh.text(),
        "start_index": 0,
        "end_index": 1,
    }
    content: list[Json] = [
        {"type": "output_text", "text": fresh.text(), "annotations": [annotation] if fresh.maybe() else []} for _ in fresh.many(2, 1)
    ]
    if fresh.maybe():
        content.append({"type": "refusal", "refusal": fresh.text()})
    item: Json = {"type": "message", "role": "assistant", "content": content}
    return _some(fresh, item, {"id": lambda: f"msg_{fresh.number()}", "status": lambda: "completed", "phase": lambda: "commentary"})


def _responses_thought(fresh: Fresh) -> Json:
    item: Json = {"type": "reasoning", "id": f"rs_{fresh.number()}", "summary": []}
    if fresh.maybe():  # what no client can read has no summary
        return item | {"encrypted_content": f"trunkline:anthropic:::{fresh.name()}"}
    item["summary"] = [{"type": "summary_text", "text": fresh.text()} for _ in fresh.many(2)]
    signed, both = f"trunkline:anthropic::{fresh.name()}:", f"trunkline:openai_chat:{fresh.name()}:{fresh.name()}:{fresh.name()}"
    return _some(
        fresh,
        item,
        {
            "encrypted_content": lambda: fresh.one(fresh.text("enc"), signed, both),
            "content": lambda: [{"type": "reasoning_text", "text": fresh.text()}],
            "status": lambda: "completed",
        },
    )


def _responses_items(fresh: Fresh) -> list[Json]:
    items: list[Json] = [{"role": fresh.one("system", "developer"), "content": fresh.text()} for _ in fresh.many(2)]
    items.append({"role": "user", "content": _responses_content(fresh)})
    for _ in fresh.many(3):
        if fresh.maybe():
            items.append(_responses_thought(fresh))
        if fresh.maybe():
            items.append(_responses_said(fresh))
        calls = [
            _some(
                fresh,
                {"type": "function_call", "call_id": fresh.name(), "name": fresh.name(), "arguments": json.dumps(fresh.arguments())},
                {"id": lambda: f"fc_{fresh.number()}", "status": lambda: "completed", "namespace": fresh.name},
            )
            for _ in fresh.many(2)
        ]
        items += calls
        items += [{"type": "function_call_output", "call_id": call["call_id"], "output": _responses_content(fresh)} for call in calls]
        if fresh.maybe():
            call = {"type": "custom_tool_call", "call_id": fresh.name(), "name": fresh.name(), "input": fresh.text()}
            items.append(_some(fresh, call, {"id": lambda: f"ctc_{fresh.number()}", "namespace": fresh.name}))
            items.append({"type": "custom_tool_call_output", "call_id": call["call_id"], "output": _responses_content(fresh)})
        if fresh.maybe():
            items.append({"type": "web_search_call", "id": f"ws_{fresh.number()}", "action": {"query": fresh.text()}})
        if fresh.maybe():
            items.append({"type": "message", "role": "user", "content": _responses_content(fresh)})
    return items


@st.composite
def responses(draw: Draw) -> Json:
    fresh = Fresh(draw)
    body: Json = {"model": "m", "input": fresh.one(fresh.text(), _responses_items(fresh))}

    def tool() -> Json:
        return _some(
            fresh,
            {"type": "function", "name": fresh.name()},
            {
                "description": fresh.text,
                "parameters": fresh.schema,
                "strict": lambda: True,
                "defer_loading": lambda: True,
                "output_schema": fresh.schema,
            },
        )

    def free() -> Json:
        form: Json = fresh.one(
            {"type": "text"}, {"type": "grammar", "syntax": "lark", "definition": fresh.text()}, {"type": "odd", "odd": fresh.text()}
        )
        return _some(
            fresh,
            {"type": "custom", "name": fresh.name()},
            {"description": fresh.text, "format": lambda: form, "defer_loading": lambda: True},
        )

    def group() -> Json:
        held = [fresh.one(tool(), free(), {"type": "odd", "odd": fresh.text()}) for _ in fresh.many(2)]
        return _some(fresh, {"type": "namespace", "name": fresh.name(), "tools": held}, {"description": fresh.text, "odd": fresh.text})

    def choice() -> Any:
        named = {"type": "function", "name": body["tools"][0]["name"]} if "tools" in body else "auto"
        return fresh.one(
            "auto",
            "none",
            "required",
            named,
            {"type": "custom", "name": fresh.name()},
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": fresh.name()}]},
        )

    def words() -> Json:
        schema: Json = _some(
            fresh,
            {"type": "json_schema", "name": fresh.name(), "schema": fresh.schema()},
            {"strict": lambda: False, "description": fresh.text},
        )
        return _some(
            fresh,
            {},
            {"format": lambda: fresh.one({"type": "text"}, {"type": "json_object"}, schema), "verbosity": lambda: fresh.one("low", "high")},
        )

    return _some(
        fresh,
        body,
        {
            "instructions": fresh.text,
            "tools": lambda: [
                tool(),
                *([fresh.one({"type": "web_search", "filters": {"odd": fresh.text()}}, free(), group())] if fresh.maybe() else []),
            ],
            "tool_choice": choice,
            "parallel_tool_calls": lambda: False,
            "max_output_tokens": lambda: 30_000 + fresh.number(),
            "temperature": fresh.share,
            "top_p": fresh.share,
            "reasoning": lambda: _some(
                fresh, {}, {"effort": lambda: fresh.one("none", "minimal", "medium"), "summary": lambda: "auto", "context": fresh.text}
            ),
            "text": words,
            "user": fresh.text,
            "safety_identifier": fresh.text,
            "metadata": lambda: {fresh.name(): fresh.text()},
            "service_tier": fresh.text,
            "store": lambda: False,
            "include": lambda: ["reasoning.encrypted_content"],
            "truncation": lambda: "auto",
            "prompt_cache_key": fresh.text,
            "max_tool_calls": fresh.number,
            "top_logprobs": fresh.number,
            "context_management": lambda: [{"type": "compaction", "compact_threshold": fresh.number()}],
            "stream": lambda: True,
        },
    )


BODIES: dict[str, st.SearchStrategy[Json]] = {"anthropic": messages(), "openai_chat": chat(), "openai_responses": responses()}
"""By the name of the format."""
