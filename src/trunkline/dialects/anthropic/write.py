"""Writing requests of Messages from the neutral model. Source: as `read`."""

from collections.abc import Sequence
from typing import Any

from trunkline.base.codec import Raw, encode
from trunkline.dialects._names import UNCHANGED, full
from trunkline.dialects._reading import Object, as_object
from trunkline.dialects._writing import end_user, foreign, known_id, lost_choice, lost_extra, lost_thinking, offered, put
from trunkline.dialects.anthropic.wire import NAME
from trunkline.errors import BadRequest
from trunkline.model.card import Card
from trunkline.model.chat import Chat, HostedTool, JsonOutput, Message, Named, Thinking, Tool
from trunkline.model.loss import Loss, approximated, dropped, renamed, unsupported
from trunkline.model.part import Document, Extra, Image, Opaque, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

MAX_OUTPUT = 4096  # tokens, where neither the caller nor the card says: the format requires a number
NAME_LIMIT = 128
ID_LIMIT = 64  # characters of a call's id, which holds letters, digits, `_` and `-`: others are refused by name (seen 2026-05)
USER_LIMIT = 256
LEAST_BUDGET = 1024
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 24_576, "max": 32_768}
EFFORTS = {"minimal": "low"}
MEDIA_TYPES = {"image/jpg": "image/jpeg"}
"""Names that pictures go by elsewhere, and that this vendor refuses."""

EMPTY_SCHEMA = Raw(b'{"type":"object","properties":{}}')
ANSWER_ROOM = 1024  # tokens that a budget leaves for the answer


class Writer:
    """Writes one request, and notes what it cannot carry."""

    def __init__(self, *, card: Card, same: bool) -> None:
        self._card = card
        self._same = same  # the request came in this dialect too, so what only it knows is written back
        self.losses: list[Loss] = []
        self.names = UNCHANGED

    def write(self, chat: Chat, model: str, *, stream: bool) -> dict[str, Any]:
        """The body."""
        offers, self.names, lost = offered(chat, self._card.tool_name_limit or NAME_LIMIT, same=self._same)
        messages = chat.messages
        if not self._same:
            messages, self.losses = foreign(messages)
            self.losses += lost
        system, turns = self._system(messages)
        body: dict[str, Any] = {"model": model, "max_tokens": self._max_output(chat)}
        if system:
            body["system"] = system
        body["messages"] = self._messages(turns)
        if tools := [out for tool in offers if (out := self._tool(tool)) is not None]:
            body["tools"] = tools
        if (choice := self._tool_choice(chat, offered="tools" in body)) is not None:
            body["tool_choice"] = choice
        thinks = self._thinking(chat, body)
        self._sampling(chat, body, thinks=thinks)
        if chat.stop:
            body["stop_sequences"] = list(chat.stop)
        if chat.output is not None:
            self._output(chat.output, chat.at("output"), body)
        if chat.user is not None:
            body["metadata"] = {"user_id": chat.user if self._same else end_user(chat.user, USER_LIMIT, chat.at("user"), self.losses)}
        if chat.metadata:
            self.losses.append(dropped("metadata", "only a user's id is carried here"))
        if chat.service_tier is not None:
            self._only_here("service_tier", chat.service_tier, body)
        self._extra(chat.extra, "", body)
        if stream:
            body["stream"] = True
        return body

    # ---------------------------------------------------------------------------------------------------- messages
    def _system(self, messages: Sequence[Message]) -> tuple[list[Any], list[Message]]:
        """What the system says stands apart here, and only before the conversation."""
        blocks: list[Any] = []
        for number, message in enumerate(messages):
            if message.role not in {"system", "developer"}:
                return blocks, list(messages[number:])
            if message.role == "developer":
                self.losses.append(approximated(f"{message.at}.role", "a developer's words are the system's here"))
            self._no_name(message)
            blocks += self._content(message)
        return blocks, []

    def _messages(self, messages: list[Message]) -> list[dict[str, Any]]:
        """Turns. What several tools said must stand in one turn, at its beginning."""
        turns: list[dict[str, Any]] = []
        results = False
        for message in messages:
            role = message.role if self._same or message.role == "assistant" else "user"
            if message.role in {"system", "developer"} and not self._same:
                self.losses.append(approximated(f"{message.at}.role", "the system can speak only before the conversation", material=True))
            self._no_name(message)
            content = self._content(message)
            if not content:
                self.losses.append(dropped(message.at, "a message without content"))
                continue
            holds_results = any(isinstance(part, ToolResult) for part in message.content)
            if results and holds_results and role == "user":
                turns[-1]["content"] += content
            else:
                turns.append({"role": role, "content": content})
                self._extra(message.extra, message.at, turns[-1])
            results = holds_results
        return turns

    def _no_name(self, message: Message) -> None:
        if message.name is not None:
            self.losses.append(dropped(f"{message.at}.name", "speakers have no names here", material=True))

    def _content(self, message: Message) -> list[dict[str, Any]]:
        """Its blocks. What marks the whole message marks the last of them."""
        blocks = [out for part in message.content if (out := self._block(part)) is not None]
        if message.cache is not None and blocks:
            if "cache_control" in blocks[-1]:
                self.losses.append(dropped(f"{message.at}.cache_control", "its last part has a mark of its own"))
            blocks[-1].setdefault("cache_control", message.cache)
        return blocks

    def _block(self, part: Part) -> dict[str, Any] | None:
        out = self._bare(part)
        if out is None:
            return None
        if part.cache is not None:
            out["cache_control"] = part.cache
        self._extra(part.extra, part.at, out)
        return out

    def _bare(self, part: Part) -> dict[str, Any] | None:
        match part:
            case Text(text=text) | Refusal(text=text):
                if not text.strip():
                    self.losses.append(dropped(part.at, "an empty text"))
                    return None
                return {"type": "text", "text": text}
            case Image(url=url, data=data, media_type=media_type, detail=detail):
                if detail is not None:
                    self.losses.append(dropped(part.at, "a picture has no `detail` here, and goes without"))
                if media_type in MEDIA_TYPES:
                    self.losses.append(renamed(part.at, f"its media type is `{MEDIA_TYPES[media_type]}` there"))
                return {"type": "image", "source": _source(url, data, MEDIA_TYPES.get(media_type, media_type))}
            case Document():
                return self._document(part)
            case ToolCall(id=call_id, arguments=arguments):
                name = full(part)
                self.losses += self.names.loss_of_call(name, part.at)
                return {
                    "type": "tool_use",
                    "id": self._id(call_id, part.at),
                    "name": self.names.short(name),
                    "input": _arguments(part, arguments),
                }
            case ToolResult():
                return self._result(part)
            case Reasoning():
                return self._reasoning(part)
            case Opaque(kind=kind, raw=raw) if self._same:
                return {"type": kind, **as_object(raw)}
            case _:
                kind = part.kind if isinstance(part, Opaque) else type(part).__name__.lower()
                self.losses.append(unsupported(part.at, f"there is no `{kind}` here"))
                return None

    def _result(self, result: ToolResult) -> dict[str, Any]:
        out: dict[str, Any] = {"type": "tool_result", "tool_use_id": self._id(result.call_id, result.at)}
        if content := [block for part in result.content if (block := self._block(part)) is not None]:
            out["content"] = content
        if result.is_error is not None:
            out["is_error"] = result.is_error
        return out

    def _id(self, call_id: str, at: str) -> str:
        return call_id if self._same else known_id(call_id, ID_LIMIT, at, self.losses)

    def _reasoning(self, part: Reasoning) -> dict[str, Any] | None:
        """A thought goes back only to who signed it: this vendor verifies the signature and refuses others."""
        if part.origin != NAME or not (part.signature or part.encrypted):
            why = "another vendor's reasoning" if part.origin else "reasoning that nobody signed"
            self.losses.append(dropped(part.at, why, material=bool(part.origin)))
            return None
        if part.encrypted:
            return {"type": "redacted_thinking", "data": part.encrypted}
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}

    def _document(self, part: Document) -> dict[str, Any] | None:
        out: dict[str, Any] = {"type": "document"}
        if part.text is not None:
            out["source"] = {"type": "text", "media_type": part.media_type or "text/plain", "data": part.text}
        elif part.file_id and self._same:
            out["source"] = {"type": "file", "file_id": part.file_id}
        elif part.data or part.url:
            out["source"] = _source(part.url, part.data, part.media_type)
        else:
            self.losses.append(unsupported(part.at, "another vendor's file id"))
            return None
        if part.name is not None:
            out["title"] = part.name
        return out

    # ------------------------------------------------------------------------------------------------- what is around
    def _max_output(self, chat: Chat) -> int:
        if chat.max_output is not None:
            return chat.max_output
        limit = self._card.max_output or MAX_OUTPUT
        self.losses.append(approximated(chat.at("max_output"), f"the format requires a limit, so {limit} was set"))
        return limit

    def _tool(self, tool: Tool | HostedTool) -> Any:
        if isinstance(tool, HostedTool):
            if self._same:
                return tool.raw
            self.losses.append(unsupported(tool.at, f"the tool `{tool.kind}` is run by another vendor"))
            return None
        out: dict[str, Any] = {"name": self.names.short(full(tool))}
        self.losses += self.names.loss(full(tool), tool.at)
        if tool.description is not None:
            out["description"] = tool.description
        out["input_schema"] = tool.parameters if tool.parameters is not None else EMPTY_SCHEMA
        if tool.strict is not None:
            out["strict"] = tool.strict
        if tool.cache is not None:
            out["cache_control"] = tool.cache
        self._extra(tool.extra, tool.at, out)
        return out

    def _tool_choice(self, chat: Chat, *, offered: bool) -> dict[str, Any] | None:
        choice = chat.tool_choice
        if choice is None and chat.parallel_tool_calls is None:
            return None
        if not offered:
            self.losses += lost_choice(chat)
            return None
        match choice:
            case Named(name=name):
                out: dict[str, Any] = {"type": "tool", "name": self.names.short(name)}
            case "required":
                out = {"type": "any"}
            case "none":
                out = {"type": "none"}
            case _:
                out = {"type": "auto"}
        if chat.parallel_tool_calls is not None and choice != "none":
            out["disable_parallel_tool_use"] = not chat.parallel_tool_calls
        elif chat.parallel_tool_calls is not None:
            self.losses.append(dropped(chat.at("parallel_tool_calls"), "no tool may be called"))
        return out

    def _thinking(self, chat: Chat, body: dict[str, Any]) -> bool:
        """Write how to think; whether it does."""
        thinking = chat.thinking
        if thinking is None:
            return False
        if thinking.summary is not None:
            self.losses.append(dropped(chat.at("summary"), "thoughts are told as they are here"))
        if self._card.thinking == "none":
            self.losses += lost_thinking(chat, thinking)
            return False
        if not self._same and _thinks(thinking) and body.get("tool_choice", {}).get("type") in {"any", "tool"}:
            self.losses += lost_thinking(chat, thinking, "who must call a tool cannot think here")
            return False
        if self._same:
            self._as_it_came(thinking, body)
        elif not _thinks(thinking):
            body["thinking"] = {"type": "disabled"}
        elif self._card.thinking == "adaptive":
            self._adaptive(thinking, body, chat)
        elif thinking.budget is not None:
            body["thinking"] = {"type": "enabled", "budget_tokens": thinking.budget}
        elif thinking.effort is not None:
            self._budget(thinking.effort, body, chat)
        if "thinking" in body:
            self._extra(thinking.extra, chat.at("thinking"), body["thinking"])
        elif thinking.extra:
            self.losses += lost_extra(thinking.extra, chat.at("thinking"))
        return body.get("thinking", {}).get("type", "disabled") != "disabled"

    def _as_it_came(self, thinking: Thinking, body: dict[str, Any]) -> None:
        if thinking.adaptive:
            body["thinking"] = {"type": "adaptive"}
        elif thinking.enabled:
            body["thinking"] = {"type": "enabled", **({"budget_tokens": thinking.budget} if thinking.budget is not None else {})}
        elif thinking.enabled is False:
            body["thinking"] = {"type": "disabled"}
        if thinking.effort is not None:
            body.setdefault("output_config", {})["effort"] = thinking.effort

    def _adaptive(self, thinking: Thinking, body: dict[str, Any], chat: Chat) -> None:
        if thinking.budget is None:
            body["thinking"] = {"type": "adaptive"}
        else:
            body["thinking"] = {"type": "enabled", "budget_tokens": thinking.budget}
        if thinking.effort is not None:
            effort = EFFORTS.get(thinking.effort, thinking.effort)
            if effort != thinking.effort:
                self.losses.append(approximated(chat.at("effort"), f"sent as `{effort}`"))
            body.setdefault("output_config", {})["effort"] = effort

    def _budget(self, effort: str, body: dict[str, Any], chat: Chat) -> None:
        """An effort as a budget, which must be below the output limit."""
        budget = min(BUDGETS.get(effort, BUDGETS["medium"]), body["max_tokens"] - ANSWER_ROOM)
        if budget < LEAST_BUDGET:
            self.losses.append(dropped(chat.at("effort"), "the output limit leaves no room to think", material=True))
            return
        self.losses.append(approximated(chat.at("effort"), f"an effort becomes a budget: {budget} tokens"))
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}

    def _sampling(self, chat: Chat, body: dict[str, Any], *, thinks: bool) -> None:
        for name in ("temperature", "top_p", "top_k"):
            value = getattr(chat, name)
            if value is None:
                continue
            if self._card.forbids(name):
                self.losses.append(dropped(name, "this model refuses it", material=True))
            elif thinks and not self._same and name != "top_p":
                self.losses.append(dropped(name, "it cannot be set while the model thinks", material=True))
            elif name == "temperature" and value > 1:
                self.losses.append(approximated(name, "1 is the highest here", material=True))
                body[name] = 1
            else:
                body[name] = value
        absent = [name for name in ("frequency_penalty", "presence_penalty", "seed") if getattr(chat, name) is not None]
        self.losses += [dropped(name, "this format has no such parameter", material=True) for name in absent]

    def _output(self, output: JsonOutput, at: str, body: dict[str, Any]) -> None:
        if output.schema is None:
            self.losses.append(dropped(at, "JSON without a schema cannot be asked for here", material=True))
            return
        body.setdefault("output_config", {})["format"] = {"type": "json_schema", "schema": output.schema}
        for name, value in (("name", output.name), ("description", output.description)):
            if value:
                self.losses.append(dropped(f"{at}.{name}", "a schema has none here"))
        if output.strict is False:
            self.losses.append(approximated(f"{at}.strict", "a schema is always held to here"))
        self._extra(output.extra, at, body["output_config"]["format"])

    def _only_here(self, name: str, value: object, body: dict[str, Any]) -> None:
        if self._same:
            body[name] = value
        else:
            self.losses += lost_extra({name: Raw(encode(value))}, "")

    def _extra(self, extra: Extra, at: str, out: dict[str, Any]) -> None:
        """What only the caller's dialect knows: written where it is this one, else a loss."""
        if self._same:
            put(extra, out)
        else:
            self.losses += lost_extra(extra, at)


def _thinks(thinking: Thinking) -> bool:
    return thinking.enabled is not False and thinking.effort != "none"


def _source(url: str, data: str, media_type: str) -> dict[str, Any]:
    return {"type": "url", "url": url} if url else {"type": "base64", "media_type": media_type, "data": data}


def _arguments(part: Part, arguments: str) -> Raw:
    """A tool call's arguments, which must be an object here. Raises: `BadRequest`."""
    text = arguments.strip() or "{}"
    if not text.startswith("{"):
        raise BadRequest(f"`{part.at}`: the arguments of a tool call are not a JSON object")
    Object.of(text.encode(), part.at)
    return Raw(text.encode())
