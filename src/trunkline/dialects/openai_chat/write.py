"""Writing requests of Chat Completions from the neutral model. Source: as `read`."""

from collections.abc import Iterator
from typing import Any

from trunkline.base.codec import Raw, encode
from trunkline.dialects._names import UNCHANGED, full
from trunkline.dialects._reading import as_object
from trunkline.dialects._writing import (
    effort,
    end_user,
    foreign,
    known_id,
    lost_cache,
    lost_choice,
    lost_extra,
    lost_thinking,
    offered,
    put,
)
from trunkline.dialects.openai_chat.stream import reasoning_detail
from trunkline.dialects.openai_chat.wire import NAME
from trunkline.model.card import Card
from trunkline.model.chat import Chat, HostedTool, JsonOutput, Message, Named, Thinking, Tool, ToolChoice
from trunkline.model.event import ReasoningEnded
from trunkline.model.loss import Loss, approximated, dropped, unsupported
from trunkline.model.part import Audio, Document, Extra, Image, Opaque, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

MOST_STOPS = 4
ID_LIMIT = 40  # characters of a call's id, and of a user's (`string_above_max_length`, seen 2025-12)
USER_LIMIT = 64


class Writer:
    """Writes one request, and notes what it cannot carry."""

    def __init__(self, *, limit_field: str, card: Card, same: bool) -> None:
        self._limit_field = limit_field
        self._card = card
        self._same = same  # the request came in this dialect too, so what only it knows is written back
        self.losses: list[Loss] = []
        self.names = UNCHANGED

    def write(self, chat: Chat, model: str, *, stream: bool, ask_usage: bool) -> dict[str, Any]:
        """The body."""
        offers, self.names, lost = offered(chat, self._card.tool_name_limit or 64, same=self._same)
        messages = chat.messages
        if not self._same:
            messages, self.losses = foreign(messages)
            self.losses += lost
        body: dict[str, Any] = {"model": model, "messages": [out for message in messages for out in self._message(message)]}
        if tools := [out for tool in offers if (out := self._tool(tool)) is not None]:
            body["tools"] = tools
        if "tools" in body or self._same:
            self._choice(chat, body)
        else:
            self.losses += lost_choice(chat)
        if chat.max_output is not None:
            body[self._limit_field] = chat.max_output
        for name in ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed"):
            if (value := getattr(chat, name)) is not None:
                if self._card.forbids(name):
                    self.losses.append(dropped(name, "this model refuses it", material=True))
                elif name == "top_k":
                    self._only_here(name, value, body)
                else:
                    body[name] = value
        if chat.stop:
            if len(chat.stop) > MOST_STOPS:
                self.losses.append(dropped(chat.at("stop"), f"only the first {MOST_STOPS} fit", material=True))
            body["stop"] = list(chat.stop[:MOST_STOPS])
        if chat.output is not None:
            body["response_format"] = self._output(chat.output, chat.at("output"))
        if chat.thinking is not None:
            self._thinking(chat.thinking, chat, body)
        if chat.user is not None:
            body["user"] = chat.user if self._same else end_user(chat.user, USER_LIMIT, chat.at("user"), self.losses)
        if chat.metadata:
            body["metadata"] = dict(chat.metadata)
        if chat.service_tier is not None:
            self._only_here("service_tier", chat.service_tier, body)
        self._extra(chat.extra, "", body)
        if stream:
            body["stream"] = True
            if ask_usage:
                body.setdefault("stream_options", {})["include_usage"] = True
        return body

    # ---------------------------------------------------------------------------------------------------- messages
    def _message(self, message: Message) -> Iterator[dict[str, Any]]:
        if message.role == "assistant":
            yield from self._assistant(message)
            return
        results = [part for part in message.content if isinstance(part, ToolResult)]
        rest = [part for part in message.content if not isinstance(part, ToolResult)]
        shown: list[dict[str, Any]] = []
        for result in results:
            turn = self._result(result, shown)
            if not rest:
                self._named(message, turn)
            yield turn
        content = [*shown, *(written for part in rest if (written := self._part(part)) is not None)]
        if content or not results:
            if not content:
                self.losses.append(dropped(message.at, "a message without content"))
                return
            turn = {"role": self._role(message), "content": _content(content)}
            self._named(message, turn)
            yield turn

    def _role(self, message: Message) -> str:
        """Many servers know no developer, and every one takes the system's word."""
        if message.role != "developer" or self._same:
            return message.role
        self.losses.append(approximated(f"{message.at}.role", "a developer's words are the system's here"))
        return "system"

    def _assistant(self, message: Message) -> Iterator[dict[str, Any]]:
        texts: list[dict[str, Any]] = []
        calls: list[dict[str, Any]] = []
        out: dict[str, Any] = {"role": "assistant"}
        for part in message.content:
            match part:
                case ToolCall():
                    calls.append(self._call(part))
                case Reasoning():
                    self._reasoning(part, out)
                case Refusal(text=text):
                    out["refusal"] = out.get("refusal", "") + text
                case _:
                    if (written := self._part(part)) is not None:
                        texts.append(written)
        out["content"] = _content(texts) if texts else None
        if calls:
            out["tool_calls"] = calls
        if not texts and not calls and "refusal" not in out:
            self.losses += [dropped(at, "a message without content") for at in {message.at, *(part.at for part in message.content)}]
            return
        self._named(message, out)
        yield out

    def _named(self, message: Message, out: dict[str, Any]) -> None:
        if message.name is not None:
            out["name"] = message.name
        self._mark(message, out)
        self._extra(message.extra, message.at, out)

    def _result(self, result: ToolResult, shown: list[dict[str, Any]]) -> dict[str, Any]:
        """A `tool` message, which holds text only; pictures go into the message after it."""
        texts: list[dict[str, Any]] = []
        for part in result.content:
            written = self._part(part)
            if written is None:
                continue
            if written["type"] == "text":
                texts.append(written)
            else:
                self.losses.append(approximated(part.at, "a tool's result holds text only here, so this follows as the user's"))
                shown.append(written)
        if result.is_error:
            self.losses.append(dropped(f"{result.at}.is_error", "a tool's result cannot be marked as an error here", material=True))
        out: dict[str, Any] = {
            "role": "tool",
            "tool_call_id": self._id(result.call_id, result.at),
            "content": _content(texts) if texts else "",
        }
        self._mark(result, out)
        self._extra(result.extra, result.at, out)
        return out

    def _call(self, call: ToolCall) -> dict[str, Any]:
        self.losses += lost_cache(call) + self.names.loss_of_call(full(call), call.at)
        out: dict[str, Any] = {
            "id": self._id(call.id, call.at),
            "type": "function",
            "function": {"name": self.names.short(full(call)), "arguments": call.arguments},
        }
        self._extra(call.extra, call.at, out)
        return out

    def _id(self, call_id: str, at: str) -> str:
        return call_id if self._same or len(call_id) <= ID_LIMIT else known_id(call_id, ID_LIMIT, at, self.losses)

    def _reasoning(self, part: Reasoning, out: dict[str, Any]) -> None:
        """A thought goes back only to who had it."""
        if part.origin == NAME or (self._same and not part.origin):
            if self._same and part.extra:
                out.setdefault("reasoning_details", []).append(part.extra)  # as its vendor wrote it
            elif part.signature or part.encrypted:
                self.losses += lost_extra(part.extra, part.at)
                out.setdefault("reasoning_details", []).append(_detail(part))
            else:
                out["reasoning_content"] = out.get("reasoning_content", "") + part.text
        else:
            why = "another vendor's reasoning" if part.origin else "reasoning that nobody signed"
            self.losses.append(dropped(part.at, why, material=bool(part.origin)))

    def _part(self, part: Part) -> dict[str, Any] | None:
        out: dict[str, Any] | None = None
        match part:
            case Text(text=text):
                if not text:
                    self.losses.append(dropped(part.at, "an empty text"))
                    return None
                out = {"type": "text", "text": text}
            case Refusal(text=text):
                out = {"type": "refusal", "text": text}
            case Image(url=url, data=data, media_type=media_type, detail=fineness):
                image: dict[str, Any] = {"url": url or f"data:{media_type};base64,{data}"}
                if fineness is not None:
                    image["detail"] = fineness
                out = {"type": "image_url", "image_url": image}
            case Audio(data=data, format=form):
                out = {"type": "input_audio", "input_audio": {"data": data, "format": form}}
            case Document():
                out = self._document(part)
            case Opaque(raw=raw) if self._same:
                return {"type": part.kind, **as_object(raw)}
            case _:
                self.losses.append(unsupported(part.at, f"there is no `{_kind(part)}` here"))
                return None
        if out is None:
            return None
        self._mark(part, out)
        self._extra(part.extra, part.at, out)
        return out

    def _mark(self, marked: Message | Part | Tool, out: dict[str, Any]) -> None:
        """Keep a cache mark where it came in this dialect."""
        if self._same and marked.cache is not None:
            out["cache_control"] = marked.cache
        else:
            self.losses += lost_cache(marked)

    def _document(self, part: Document) -> dict[str, Any] | None:
        if part.text is not None:
            self.losses.append(approximated(part.at, "a text document is sent as text"))
            title = f"{part.name}\n\n" if part.name else ""
            return {"type": "text", "text": f"{title}{part.text}"}
        file: dict[str, Any] = {}
        if part.file_id and self._same:
            file["file_id"] = part.file_id
        elif part.data:
            file["file_data"] = f"data:{part.media_type};base64,{part.data}"
        else:
            self.losses.append(unsupported(part.at, "a file by URL, or by another vendor's id"))
            return None
        file["filename"] = part.name or "document"
        return {"type": "file", "file": file}

    # ------------------------------------------------------------------------------------------------- what is around
    def _tool(self, tool: Tool | HostedTool) -> Any:
        if isinstance(tool, HostedTool):
            if self._same:
                return tool.raw
            self.losses.append(unsupported(tool.at, f"the tool `{tool.kind}` is run by another vendor"))
            return None
        function: dict[str, Any] = {"name": self.names.short(full(tool))}
        self.losses += self.names.loss(full(tool), tool.at)
        if tool.description is not None:
            function["description"] = tool.description
        if tool.parameters is not None:
            function["parameters"] = tool.parameters
        if tool.strict is not None:
            function["strict"] = tool.strict
        out: dict[str, Any] = {"type": "function", "function": function}
        self._mark(tool, out)
        self._extra(tool.extra, tool.at, out)
        return out

    def _choice(self, chat: Chat, body: dict[str, Any]) -> None:
        if chat.tool_choice is not None:
            body["tool_choice"] = self._tool_choice(chat.tool_choice)
        if chat.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = chat.parallel_tool_calls

    def _tool_choice(self, choice: ToolChoice) -> Any:
        if isinstance(choice, Named):
            return {"type": "function", "function": {"name": self.names.short(choice.name)}}
        return choice

    def _output(self, output: JsonOutput, at: str) -> dict[str, Any]:
        if output.schema is None:
            return {"type": "json_object"}
        schema: dict[str, Any] = {"name": output.name or "reply", "schema": output.schema}
        if output.strict is not None:
            schema["strict"] = output.strict
        if output.description is not None:
            schema["description"] = output.description
        self._extra(output.extra, at, schema)
        return {"type": "json_schema", "json_schema": schema}

    def _thinking(self, thinking: Thinking, chat: Chat, body: dict[str, Any]) -> None:
        if self._card.thinking == "none":
            self.losses += lost_thinking(chat, thinking)
            return
        word, losses = effort(chat, thinking)
        self.losses += losses
        if word is not None:
            body["reasoning_effort"] = word
        elif thinking.enabled is not None or thinking.adaptive:
            self.losses.append(dropped(chat.at("thinking"), "whether to think is the model's own choice here"))
        if thinking.summary is not None:
            self.losses.append(dropped(chat.at("summary"), "this format does not tell it"))
        self._extra(thinking.extra, chat.at("thinking"), body)

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


def _content(parts: list[dict[str, Any]]) -> Any:
    """One plain text as a string, which every server takes; else a list of parts."""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return parts[0]["text"]
    return parts


def _detail(part: Reasoning) -> dict[str, str]:
    """As its vendor wrote it: the origin is for us alone."""
    return reasoning_detail(part.text, ReasoningEnded(part.signature, part.encrypted, id=part.id))


def _kind(part: Part) -> str:
    return part.kind if isinstance(part, Opaque) else type(part).__name__.lower()
