"""Callers' SDKs as one, the providers that they reach, and losses as they are told."""

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fakes.replies import Dialect, Thought, ToolCall
from tests.wire.features import PIXEL
from tests.wire.gateway import Gateway


# ------------------------------------------------------------------------------------------------------------ providers
@dataclass(frozen=True)
class Speaker:
    """A provider by the dialect that it speaks: the model to ask for, and the name of the fake behind it."""

    dialect: Dialect
    model: str
    fake: str
    path: str

    def __str__(self) -> str:
        return f"to {self.dialect}"


SPEAKERS = [
    Speaker("openai_chat", "home/m", "home", "/v1/chat/completions"),
    Speaker("openai_responses", "pro/o9", "openai", "/v1/responses"),
    Speaker("anthropic", "anthropic/claude-sonnet", "anthropic", "/v1/messages"),
]
BY_DIALECT = {speaker.dialect: speaker for speaker in SPEAKERS}


# -------------------------------------------------------------------------------------------------------------- callers
@dataclass(frozen=True)
class Said:
    """A reply as a caller's SDK gives it.

    Attributes:
        tokens: read, read from the cache, and written.
        kept: what the caller puts into its history, in its dialect.
        losses: of the request, as the header tells them.
    """

    text: str
    calls: list[ToolCall]
    thought: str
    finish: str
    tokens: tuple[int, int, int]
    kept: Any
    losses: list[dict[str, str]] = field(default_factory=list)


class Caller(ABC):
    """An SDK: a conversation, asked turn by turn."""

    dialect: Dialect

    def __init__(self, gateway: Gateway, model: str, **over: Any) -> None:
        self.model = model
        self.over = over
        self.history: list[Any] = []
        self.sdk: Any = self.connect(gateway)

    @abstractmethod
    def connect(self, gateway: Gateway) -> Any:
        """The part of the SDK that is asked."""

    @abstractmethod
    def say(self, text: str, *, picture: bool = False) -> None:
        """Put a turn of the user's into the history."""

    @abstractmethod
    def answer(self, said: Said, results: Sequence[str], *, picture: bool = False) -> None:
        """Put a reply into the history, and what came of its calls."""

    @abstractmethod
    async def ask(self, *, stream: bool = False, **over: Any) -> Said:
        """The next reply."""

    def thinks(self) -> dict[str, Any]:
        """What asks the model to think hard."""
        return {}

    @abstractmethod
    def tools(self) -> list[Any]:
        """One tool."""


SCHEMA = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
CALLS = [ToolCall("weather", '{"town": "Gümüşhane"}', "call_a"), ToolCall("weather", '{"town": "東京"}', "call_b")]


class ChatCaller(Caller):
    dialect: Dialect = "openai_chat"

    def connect(self, gateway: Gateway) -> Any:
        return gateway.openai().chat.completions

    def say(self, text: str, *, picture: bool = False) -> None:
        content: Any = text
        if picture:
            content = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]
        self.history.append({"role": "user", "content": content})

    def answer(self, said: Said, results: Sequence[str], *, picture: bool = False) -> None:
        self.history.append(said.kept)
        for call, result in zip(said.calls, results, strict=True):
            self.history.append({"role": "tool", "tool_call_id": call.id, "content": result})

    def thinks(self) -> dict[str, Any]:
        return {"reasoning_effort": "high"}

    def tools(self) -> list[Any]:
        return [{"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": SCHEMA}}]

    async def ask(self, *, stream: bool = False, **over: Any) -> Said:
        asked = {"model": self.model, "messages": self.history, "max_completion_tokens": 9000, **self.over, **over}
        losses: list[dict[str, str]] = []
        if stream:
            async with self.sdk.stream(**asked, stream_options={"include_usage": True}) as events:
                losses = told(events._response.headers)
                async for _ in events:
                    pass
                completion: Any = await events.get_final_completion()
        else:
            raw = await self.sdk.with_raw_response.create(**asked)
            losses, completion = told(raw.headers), raw.parse()
        message, usage = completion.choices[0].message, completion.usage
        kept = message.model_dump(exclude_none=True, exclude={"parsed"})
        for call in kept.get("tool_calls", []):
            call["function"].pop("parsed_arguments", None)
            call.pop("index", None)
        return Said(
            text=message.content or "",
            calls=[ToolCall(call.function.name, call.function.arguments, call.id) for call in message.tool_calls or []],
            thought=getattr(message, "reasoning_content", None) or "",
            finish=completion.choices[0].finish_reason,
            tokens=(usage.prompt_tokens, _cached(usage.prompt_tokens_details), usage.completion_tokens),
            kept=kept,
            losses=losses,
        )


class ResponsesCaller(Caller):
    dialect: Dialect = "openai_responses"

    def connect(self, gateway: Gateway) -> Any:
        return gateway.openai().responses

    def say(self, text: str, *, picture: bool = False) -> None:
        content: Any = text
        if picture:
            shown = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}
            content = [{"type": "input_text", "text": text}, shown]
        self.history.append({"role": "user", "content": content})

    def answer(self, said: Said, results: Sequence[str], *, picture: bool = False) -> None:
        self.history += said.kept
        for call, result in zip(said.calls, results, strict=True):
            output: Any = result
            if picture:
                shown = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}
                output = [{"type": "input_text", "text": result}, shown]
            self.history.append({"type": "function_call_output", "call_id": call.id, "output": output})

    def thinks(self) -> dict[str, Any]:
        return {"reasoning": {"effort": "high", "summary": "auto"}, "include": ["reasoning.encrypted_content"]}

    def tools(self) -> list[Any]:
        return [{"type": "function", "name": "weather", "description": "Tells it.", "parameters": SCHEMA, "strict": False}]

    async def ask(self, *, stream: bool = False, **over: Any) -> Said:
        asked = {"model": self.model, "input": self.history, "max_output_tokens": 9000, "store": False, **self.over, **over}
        losses: list[dict[str, str]] = []
        if stream:
            async with self.sdk.stream(**asked) as events:
                losses = told(events._response.headers)
                async for _ in events:
                    pass
                response: Any = await events.get_final_response()
        else:
            raw = await self.sdk.with_raw_response.create(**asked)
            losses, response = told(raw.headers), raw.parse()
        kept = [item.model_dump(exclude_none=True) for item in response.output]
        for item in kept:
            item.pop("parsed_arguments", None)
            for part in item.get("content") or []:
                part.pop("parsed", None)
        thoughts = [part.text for item in response.output if item.type == "reasoning" for part in item.summary]
        return Said(
            text=response.output_text,
            calls=[ToolCall(item.name, item.arguments, item.call_id) for item in response.output if item.type == "function_call"],
            thought="".join(thoughts),
            finish=response.status,
            tokens=(response.usage.input_tokens, _cached(response.usage.input_tokens_details), response.usage.output_tokens),
            kept=kept,
            losses=losses,
        )


class MessagesCaller(Caller):
    dialect: Dialect = "anthropic"

    def connect(self, gateway: Gateway) -> Any:
        return gateway.anthropic().messages

    def say(self, text: str, *, picture: bool = False) -> None:
        content: Any = text
        if picture:
            content = [{"type": "text", "text": text}, self._picture()]
        self.history.append({"role": "user", "content": content})

    def answer(self, said: Said, results: Sequence[str], *, picture: bool = False) -> None:
        self.history.append({"role": "assistant", "content": said.kept})
        if not said.calls:
            return
        content = [{"type": "text", "text": ""}, self._picture()]
        self.history.append(
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": call.id,
                        "content": [{**content[0], "text": result}, content[1]] if picture else result,
                    }
                    for call, result in zip(said.calls, results, strict=True)
                ],
            }
        )

    def _picture(self) -> dict[str, Any]:
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}

    def thinks(self) -> dict[str, Any]:
        return {"thinking": {"type": "enabled", "budget_tokens": 4000}}

    def tools(self) -> list[Any]:
        return [{"name": "weather", "description": "Tells it.", "input_schema": SCHEMA}]

    async def ask(self, *, stream: bool = False, **over: Any) -> Said:
        asked = {"model": self.model, "messages": self.history, "max_tokens": 9000, **self.over, **over}
        losses: list[dict[str, str]] = []
        if stream:
            async with self.sdk.stream(**asked) as events:
                losses = told(events.response.headers)
                async for _ in events:
                    pass
                message: Any = await events.get_final_message()
        else:
            raw = await self.sdk.with_raw_response.create(**asked)
            losses, message = told(raw.headers), await raw.parse()
        usage = message.usage
        cached, stored = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
        return Said(
            text="".join(block.text for block in message.content if block.type == "text"),
            calls=[
                ToolCall(block.name, json.dumps(block.input, ensure_ascii=False), block.id)
                for block in message.content
                if block.type == "tool_use"
            ],
            thought="".join(block.thinking for block in message.content if block.type == "thinking"),
            finish=message.stop_reason,
            tokens=(usage.input_tokens + cached + stored, cached, usage.output_tokens),
            kept=[block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in message.content],
            losses=losses,
        )


CALLERS: list[type[Caller]] = [ChatCaller, ResponsesCaller, MessagesCaller]

every_caller = pytest.mark.parametrize("caller_of", CALLERS, ids=[f"from {kind.dialect}" for kind in CALLERS])
every_speaker = pytest.mark.parametrize("speaker", SPEAKERS, ids=str)
whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


# --------------------------------------------------------------------------------------------------------------- losses
def told(headers: Any) -> list[dict[str, str]]:
    """The losses that the header tells, in the shape of the extension daemon contract (A3, B4)."""
    value = headers.get("x-losses")
    if value is None:
        return []
    assert len(value) <= 8192
    losses = json.loads(base64.b64decode(value, validate=True))
    assert losses, "a header that tells nothing"
    for loss in losses:
        assert loss.keys() == {"path", "class", "severity", "detail"}
        assert all(isinstance(each, str) for each in loss.values())
        assert loss["path"]
        assert loss["class"] in {"unsupported", "dropped", "approximated", "renamed"}
        assert loss["severity"] in {"material", "advisory"}
    keys = [tuple(loss[key] for key in ("path", "severity", "class", "detail")) for loss in losses]
    assert keys == sorted(set(keys)), "the losses are sorted, each once"
    return losses


def _cached(details: Any) -> int:
    return (details.cached_tokens or 0) if details else 0


def thoughts_of(dialect: Dialect) -> list[Thought]:
    """Two thoughts as a vendor of a dialect has them to be given back: with a signature, or encrypted."""
    signature, encrypted = "EqQB+/%3A:ş==", "gAAAA:%41/+=="
    if dialect == "anthropic":
        return [Thought("first this, ", signature=signature), Thought(encrypted=f"{encrypted}redacted")]
    if dialect == "openai_responses":
        return [Thought("first this, ", encrypted=encrypted, id="rs_1"), Thought("then that", encrypted=f"{encrypted}2", id="rs_2")]
    return [Thought("first this, ", signature=signature, id="th_1"), Thought("then that", signature=f"{signature}2", id="th_2")]
