"""Writing requests of Responses from the neutral model. Source: as `wire`."""

from collections.abc import Iterator, Sequence
from typing import Any

from trunkline.base.codec import Raw, encode
from trunkline.dialects._free import unwrapped
from trunkline.dialects._names import UNCHANGED, full
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
from trunkline.dialects.openai_responses.wire import NAME, in_group, summary_parts
from trunkline.model.card import Card
from trunkline.model.chat import Chat, HostedTool, JsonOutput, Message, Named, Thinking, Tool, ToolChoice
from trunkline.model.loss import Loss, approximated, dropped, unsupported
from trunkline.model.part import Audio, Document, Image, Opaque, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

NAME_LIMIT = ID_LIMIT = USER_LIMIT = 64  # characters (`string_above_max_length`, seen 2026-06)
LEAST_OUTPUT = 16  # tokens: OpenAI refuses a lower limit (`integer_below_min_value`, seen 2026-09), and clients probe models with 1
EMPTY_SCHEMA = Raw(b'{"type":"object","properties":{}}')
ABSENT = ("top_k", "frequency_penalty", "presence_penalty", "seed")
SHARED = {name: name for name in ("prompt_cache_key", "prompt_cache_retention", "safety_identifier")} | {"verbosity": "text.verbosity"}
"""What OpenAI's other format calls by these names means the same here."""


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
        body: dict[str, Any] = {"model": model}
        if messages and (instructions := self._instructions(messages[0])) is not None:
            body["instructions"] = instructions
            messages = messages[1:]
        if messages or not self._same:
            body["input"] = self._input(messages)
        if tools := [out for tool in offers if (out := self._tool(tool)) is not None]:
            body["tools"] = tools
        if "tools" in body or self._same:
            self._choice(chat, body)
        else:
            self.losses += lost_choice(chat)
        if chat.max_output is not None:
            body["max_output_tokens"] = self._max_output(chat, chat.max_output)
        self._sampling(chat, body)
        if chat.output is not None:
            body["text"] = {"format": self._output(chat.output, chat.at("output"))}
        if chat.thinking is not None:
            self._thinking(chat.thinking, chat, body)
        if chat.user is not None:
            body["user"] = chat.user if self._same else end_user(chat.user, USER_LIMIT, chat.at("user"), self.losses)
        if chat.metadata:
            body["metadata"] = dict(chat.metadata)
        self._rest(chat, body)
        if stream:
            body["stream"] = True
        return body

    def _max_output(self, chat: Chat, limit: int) -> int:
        if self._same or limit >= LEAST_OUTPUT:
            return limit
        self.losses.append(approximated(chat.at("max_output"), f"{LEAST_OUTPUT} is the lowest here"))
        return LEAST_OUTPUT

    def _rest(self, chat: Chat, body: dict[str, Any]) -> None:
        """What only one format knows. A translated response is not kept: its caller cannot ask for it again."""
        if self._same:
            if chat.service_tier is not None:
                body["service_tier"] = chat.service_tier
            put(chat.extra, body)
            return
        body["store"] = False
        if chat.service_tier is not None:
            self.losses += lost_extra({"service_tier": Raw(encode(chat.service_tier))}, "")
        put({SHARED[name]: raw for name, raw in chat.extra.items() if name in SHARED}, body)
        self.losses += lost_extra({name: raw for name, raw in chat.extra.items() if name not in SHARED}, "")

    # ---------------------------------------------------------------------------------------------------- messages
    def _instructions(self, message: Message) -> str | None:
        """What the system says first, where it is one plain text; of a request of this format, only what was its `instructions`."""
        if message.role != "system" or message.name is not None or len(message.content) != 1:
            return None
        part = message.content[0]
        if not isinstance(part, Text) or (message.at != "instructions" if self._same else part.extra or not part.text):
            return None
        self.losses += lost_cache(message) + lost_cache(part)
        return part.text

    def _input(self, messages: Sequence[Message]) -> list[Any] | str:
        match messages:
            case [Message(at="input", content=(Text(text=text),))] if self._same:
                return text
            case _:
                pass
        return [item for message in messages for item in self._items(message)]

    def _items(self, message: Message) -> Iterator[Any]:
        """The items of a message: what is said before and after a call or a result stands in items of its own."""
        if message.name is not None:
            self.losses.append(dropped(f"{message.at}.name", "speakers have no names here", material=True))
        self.losses += lost_cache(message)
        told = len(self.losses)
        written: list[Any] = []
        said: list[Part] = []
        for part in message.content:
            match part:
                case ToolCall() | ToolResult() | Reasoning():
                    written += self._said(message, said)
                    written += self._item(part)
                    said = []
                case Opaque(raw=raw) if self._same and part.at == message.at:
                    yield raw
                    return
                case _:
                    said.append(part)
        written += self._said(message, said, whole=not message.content)
        if not written and len(self.losses) == told:
            self.losses.append(dropped(message.at, "a message without content"))
        for item in written:
            yield {**item, **message.extra}

    def _item(self, part: ToolCall | ToolResult | Reasoning) -> Iterator[dict[str, Any]]:
        match part:
            case ToolCall(id=call_id, name=name, arguments=arguments, free=True) if self._same:
                yield {
                    "type": "custom_tool_call",
                    "call_id": call_id,
                    "name": name,
                    "input": unwrapped(arguments),
                    **in_group(part.namespace),
                }
            case ToolCall(id=call_id, name=name, arguments=arguments):
                self._marked(part)
                self.losses += self.names.loss_of_call(name, part.at)
                called = {
                    "type": "function_call",
                    "call_id": self._id(call_id, part.at),
                    "name": self.names.short(name),
                    "arguments": arguments,
                }
                yield {**called, **in_group(part.namespace)}
            case ToolResult():
                yield self._result(part)
            case Reasoning():
                yield from self._reasoning(part)

    def _said(self, message: Message, said: list[Part], *, whole: bool = False) -> Iterator[dict[str, Any]]:
        """One message. A single text is a string, which every role takes without the fields of a reply's own message."""
        item: dict[str, Any] = {"type": "message", "role": message.role}
        if len(said) == 1 and isinstance(said[0], Text) and self._is_plain(said[0], f"{message.at}.content"):
            self.losses += lost_cache(said[0])
            yield {**item, "content": said[0].text}
            return
        parts = [out for part in said if (out := self._part(part, message.role)) is not None]
        if message.role == "assistant" and not self._same and parts:
            item |= {"id": f"msg_{''.join(filter(str.isalnum, said[0].at))}", "status": "completed"}
        if parts or (self._same and whole):
            yield {**item, "content": parts}

    def _is_plain(self, text: Text, at: str) -> bool:
        """Whether a text stands for a whole content: if it did, or, from elsewhere, if it has nothing but its words."""
        return text.at == at if self._same else bool(text.text) and not text.extra

    def _result(self, result: ToolResult) -> dict[str, Any]:
        self._marked(result)
        kind = "custom_tool_call_output" if result.free and self._same else "function_call_output"
        out: dict[str, Any] = {"type": kind, "call_id": self._id(result.call_id, result.at)}
        content = result.content
        if not content:
            out["output"] = [] if self._same else ""
        elif len(content) == 1 and isinstance(content[0], Text) and self._is_plain(content[0], f"{result.at}.output"):
            out["output"] = content[0].text
            self.losses += lost_cache(content[0])
        else:
            out["output"] = [written for part in content if (written := self._part(part, "user")) is not None] or ""
        if result.is_error:
            self.losses.append(dropped(f"{result.at}.is_error", "a tool's result cannot be marked as an error here", material=True))
        return out

    def _id(self, call_id: str, at: str) -> str:
        return call_id if self._same or len(call_id) <= ID_LIMIT else known_id(call_id, ID_LIMIT, at, self.losses)

    def _reasoning(self, part: Reasoning) -> Iterator[dict[str, Any]]:
        """A thought goes back only to who had it, to the byte; one that is not encrypted is known by its id."""
        ours = part.origin == NAME and part.encrypted
        kept = self._same and not part.origin and part.id
        if not ours and not kept:
            why = "another vendor's reasoning" if part.origin else "reasoning that nobody signed"
            self.losses.append(dropped(part.at, why, material=bool(part.origin)))
            return
        out: dict[str, Any] = {"type": "reasoning"}
        if part.id:
            out["id"] = part.id
        out["summary"] = summary_parts(part.text)
        if part.encrypted:
            out["encrypted_content"] = part.encrypted
        yield {**out, **part.extra} if self._same else out

    def _part(self, part: Part, role: str) -> Any:
        out = self._bare(part, role)
        if out is None or isinstance(out, Raw):
            return out
        self._marked(part)
        return {**out, **part.extra} if self._same else out

    def _bare(self, part: Part, role: str) -> dict[str, Any] | Raw | None:
        match part:
            case Text(text=text):
                if not text and not self._same:
                    self.losses.append(dropped(part.at, "an empty text"))
                    return None
                if role != "assistant":
                    return {"type": "input_text", "text": text}
                return {"type": "output_text", "text": text, "annotations": []}
            case Refusal(text=text) if role == "assistant":
                return {"type": "refusal", "refusal": text}
            case Image(url=url, data=data, media_type=media_type, detail=detail) if role != "assistant":
                fineness = detail or (None if self._same else "auto")
                shown: dict[str, Any] = {"type": "input_image", "image_url": url or f"data:{media_type};base64,{data}"}
                return shown if fineness is None else {**shown, "detail": fineness}
            case Document() if role != "assistant":
                return self._document(part)
            case Audio(data=data, format=form) if self._same:
                return {"type": "input_audio", "input_audio": {"data": data, "format": form}}
            case Opaque(raw=raw) if self._same:
                return raw
            case _:
                kind = part.kind if isinstance(part, Opaque) else type(part).__name__.lower()
                self.losses.append(unsupported(part.at, f"there is no `{kind}` here"))
                return None

    def _document(self, part: Document) -> dict[str, Any] | None:
        if part.text is not None:
            self.losses.append(approximated(part.at, "a text document is sent as text"))
            return {"type": "input_text", "text": f"{part.name}\n\n{part.text}" if part.name else part.text}
        out: dict[str, Any] = {"type": "input_file"}
        if part.file_id and self._same:
            out["file_id"] = part.file_id
        if part.data:
            out["file_data"] = f"data:{part.media_type};base64,{part.data}"
        if part.url:
            out["file_url"] = part.url
        if len(out) == 1 and not self._same:
            self.losses.append(unsupported(part.at, "another vendor's file id"))
            return None
        if part.name is not None:
            out["filename"] = part.name
        elif part.data and not self._same:
            out["filename"] = "document.pdf" if part.media_type == "application/pdf" else "document"
        return out

    def _marked(self, part: Part) -> None:
        """What a part has that is lost here: its cache mark, and what only its own dialect knows."""
        if not self._same:
            self.losses += lost_cache(part)
            self.losses += lost_extra(part.extra, part.at)

    # ------------------------------------------------------------------------------------------------- what is around
    def _tool(self, tool: Tool | HostedTool) -> Any:
        if isinstance(tool, HostedTool):
            if self._same:
                return tool.raw
            self.losses.append(unsupported(tool.at, f"the tool `{tool.kind}` is run by another vendor"))
            return None
        out: dict[str, Any] = {"type": "function", "name": self.names.short(full(tool))}
        self.losses += self.names.loss(full(tool), tool.at)
        if tool.description is not None:
            out["description"] = tool.description
        if tool.parameters is not None:
            out["parameters"] = tool.parameters
        if tool.strict is not None:
            out["strict"] = tool.strict
        if self._same:
            return {**out, **tool.extra}
        out.setdefault("parameters", EMPTY_SCHEMA)
        out.setdefault("strict", False)  # without it this format holds calls to the schema, which others do only when asked
        self.losses += lost_cache(tool)
        self.losses += lost_extra(tool.extra, tool.at)
        return out

    def _choice(self, chat: Chat, body: dict[str, Any]) -> None:
        if chat.tool_choice is not None:
            body["tool_choice"] = self._tool_choice(chat.tool_choice)
        if chat.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = chat.parallel_tool_calls

    def _tool_choice(self, choice: ToolChoice) -> Any:
        match choice:
            case Named(name, free=True) if self._same:
                return {"type": "custom", "name": name}
            case Named(name):
                return {"type": "function", "name": self.names.short(name)}
            case _:
                return choice

    def _sampling(self, chat: Chat, body: dict[str, Any]) -> None:
        for name in ("temperature", "top_p"):
            if (value := getattr(chat, name)) is None:
                continue
            if self._card.forbids(name):
                self.losses.append(dropped(name, "this model refuses it", material=True))
            else:
                body[name] = value
        absent = [name for name in ABSENT if getattr(chat, name) is not None] + (["stop"] if chat.stop else [])
        self.losses += [dropped(chat.at(name), "this format has no such parameter", material=True) for name in absent]

    def _output(self, output: JsonOutput, at: str) -> dict[str, Any]:
        if output.schema is None:
            out: dict[str, Any] = {"type": "json_object"}
        else:
            out = {"type": "json_schema", "name": output.name or "reply", "schema": output.schema}
        if output.strict is not None:
            out["strict"] = output.strict
        if output.description is not None:
            out["description"] = output.description
        if self._same:
            return {**out, **output.extra}
        self.losses += lost_extra(output.extra, at)
        return out

    def _thinking(self, thinking: Thinking, chat: Chat, body: dict[str, Any]) -> None:
        if self._card.thinking == "none":
            self.losses += lost_thinking(chat, thinking)
            return
        reasoning: dict[str, Any] = {}
        word, losses = effort(chat, thinking)
        self.losses += losses
        if word is not None:
            reasoning["effort"] = word
        elif thinking.enabled is not None or thinking.adaptive:
            self.losses.append(dropped(chat.at("thinking"), "whether to think is the model's own choice here"))
        if thinking.summary is not None:
            reasoning["summary"] = thinking.summary
        if self._same:
            reasoning |= thinking.extra
        else:
            self.losses += lost_extra(thinking.extra, chat.at("thinking"))
            if thinking.enabled is not False and thinking.effort != "none":
                body["include"] = ["reasoning.encrypted_content"]  # so that thoughts come back signed, and can be given back
        if reasoning:
            body["reasoning"] = reasoning
