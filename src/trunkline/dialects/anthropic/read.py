"""Reading requests of Messages into the neutral model.

Source: the API reference of `POST /v1/messages` (content blocks, tools, thinking, structured outputs, prompt caching).
"""

from collections.abc import Iterator

from trunkline.base.codec import Raw
from trunkline.dialects._carrier import unpack
from trunkline.dialects._reading import NOTHING, Object, as_text, is_text, items
from trunkline.dialects.anthropic.wire import NAME
from trunkline.errors import BadRequest
from trunkline.model.chat import Chat, HostedTool, JsonOutput, Message, Named, Thinking, Tool, ToolChoice
from trunkline.model.part import Document, Image, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

PLACES = {
    "max_output": "max_tokens",
    "stop": "stop_sequences",
    "output": "output_config.format",
    "effort": "output_config.effort",
    "budget": "thinking.budget_tokens",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "user": "metadata.user_id",
}


def read_chat(top: Object) -> Chat:
    """The whole of a request. Raises: `BadRequest`, naming the field and the value."""
    for known in ("model", "stream"):
        top.raw(known)  # these are the gateway's
    system = tuple(_read_system(top))
    messages = tuple(_read_message(Object.of(raw, at)) for raw, at in top.items("messages"))
    choice, parallel = _read_tool_choice(top)
    metadata = top.object("metadata")
    config = top.object("output_config")
    return Chat(
        messages=((Message(role="system", content=system, at="system"), *messages) if system else messages),
        tools=tuple(_read_tool(raw, at) for raw, at in top.items("tools")),
        tool_choice=choice,
        parallel_tool_calls=parallel,
        max_output=top.integer("max_tokens"),
        temperature=top.number("temperature"),
        top_p=top.number("top_p"),
        top_k=top.integer("top_k"),
        stop=tuple(as_text(raw, at) for raw, at in top.items("stop_sequences")),
        output=_read_output(config),
        thinking=_read_thinking(top.object("thinking"), config),
        user=metadata.text("user_id") if metadata else None,
        service_tier=top.text("service_tier"),
        extra={
            **(metadata.rest_in("metadata") if metadata else NOTHING),
            **(config.rest_in("output_config") if config else NOTHING),
            **top.rest(),
        },
        places=PLACES,
    )


def _read_system(top: Object) -> Iterator[Part]:
    raw = top.raw("system")
    if raw is None:
        return
    if is_text(raw):
        yield Text(at="system", text=as_text(raw, "system"))
        return
    for item, at in items(raw, "system"):
        yield _read_block(Object.of(item, at), item)


def _read_message(message: Object) -> Message:
    role = message.text("role")
    content = tuple(_read_content(message))
    match role:
        case "user" | "assistant" | "system":
            return Message(role=role, content=content, at=message.at, extra=message.rest())
        case _:
            raise BadRequest(f"`{message.path('role')}` is `{role}`", hint="Known: user, assistant.")


def _read_content(holder: Object) -> Iterator[Part]:
    raw = holder.raw("content")
    at = holder.path("content")
    if raw is None:
        return
    if is_text(raw):
        yield Text(at=at, text=as_text(raw, at))
        return
    for item, place in items(raw, at):
        yield _read_block(Object.of(item, place), item)


def _read_block(block: Object, raw: Raw) -> Part:
    kind = block.required("type")
    mark = block.raw("cache_control")
    match kind:
        case "text":
            return Text(at=block.at, cache=mark, text=block.text("text") or "", extra=block.rest())
        case "image" if (source := block.object("source")) is not None:
            return _read_image(block, source, mark, raw)
        case "document" if (source := block.object("source")) is not None:
            return _read_document(block, source, mark, raw)
        case "tool_use":
            arguments = block.raw("input")
            return ToolCall(
                at=block.at,
                cache=mark,
                id=block.required("id"),
                name=block.required("name"),
                arguments="{}" if arguments is None else bytes(arguments).decode(),
                extra=block.rest(),
            )
        case "tool_result":
            return ToolResult(
                at=block.at,
                cache=mark,
                call_id=block.required("tool_use_id"),
                content=tuple(_read_content(block)),
                is_error=block.flag("is_error"),
                extra=block.rest(),
            )
        case "thinking":
            return _read_thought(block, mark)
        case "redacted_thinking":
            return Reasoning(at=block.at, cache=mark, encrypted=block.text("data") or "", origin=NAME, extra=block.rest())
        case _:
            return Opaque(at=block.at, cache=mark, kind=kind, raw=raw)


def _read_thought(block: Object, mark: Raw | None) -> Reasoning:
    """A thought; its signature may be ours: it carries what another vendor signed or encrypted, or says that nobody did."""
    text, signature = block.text("thinking") or "", block.text("signature") or ""
    if (carried := unpack(signature)) is not None:
        return Reasoning(at=block.at, cache=mark, text=text, extra=block.rest(), **carried._asdict())
    return Reasoning(at=block.at, cache=mark, text=text, signature=signature, origin=NAME if signature else "", extra=block.rest())


def _read_image(block: Object, source: Object, mark: Raw | None, raw: Raw) -> Part:
    match source.text("type"):
        case "base64":
            data, media_type = source.required("data"), source.required("media_type")
            return Image(at=block.at, cache=mark, data=data, media_type=media_type, extra={**source.rest_in("source"), **block.rest()})
        case "url":
            return Image(at=block.at, cache=mark, url=source.required("url"), extra={**source.rest_in("source"), **block.rest()})
        case _:
            return Opaque(at=block.at, cache=mark, kind="image", raw=raw)


def _read_document(block: Object, source: Object, mark: Raw | None, raw: Raw) -> Part:
    name = block.text("title")
    match source.text("type"):
        case "base64":
            data, media_type = source.required("data"), source.required("media_type")
            return Document(
                at=block.at, cache=mark, data=data, media_type=media_type, name=name, extra={**source.rest_in("source"), **block.rest()}
            )
        case "text":
            text, media_type = source.text("data") or "", source.text("media_type") or ""
            return Document(
                at=block.at, cache=mark, text=text, media_type=media_type, name=name, extra={**source.rest_in("source"), **block.rest()}
            )
        case "url":
            return Document(
                at=block.at, cache=mark, url=source.required("url"), name=name, extra={**source.rest_in("source"), **block.rest()}
            )
        case "file":
            return Document(
                at=block.at, cache=mark, file_id=source.required("file_id"), name=name, extra={**source.rest_in("source"), **block.rest()}
            )
        case _:
            return Opaque(at=block.at, cache=mark, kind="document", raw=raw)


def _read_tool(raw: Raw, at: str) -> Tool | HostedTool:
    tool = Object.of(raw, at)
    kind = tool.text("type") or "custom"
    if kind != "custom":
        return HostedTool(kind=kind, raw=raw, at=at)
    return Tool(
        at=at,
        name=tool.required("name"),
        description=tool.text("description"),
        parameters=tool.raw("input_schema"),
        strict=tool.flag("strict"),
        cache=tool.raw("cache_control"),
        extra=tool.rest(),
    )


def _read_tool_choice(top: Object) -> tuple[ToolChoice | None, bool | None]:
    choice = top.object("tool_choice")
    if choice is None:
        return None, None
    alone = choice.flag("disable_parallel_tool_use")
    parallel = None if alone is None else not alone
    match kind := choice.text("type"):
        case "auto" | "none":
            return kind, parallel
        case "any":
            return "required", parallel
        case "tool":
            return Named(choice.required("name")), parallel
        case _:
            raise BadRequest(f"`tool_choice.type` is `{kind}`", hint="Known: auto, any, tool, none.")


def _read_output(config: Object | None) -> JsonOutput | None:
    form = config.object("format") if config else None
    if form is None:
        return None
    form.raw("type")
    return JsonOutput(schema=form.raw("schema"), extra=form.rest())


def _read_thinking(thinking: Object | None, config: Object | None) -> Thinking | None:
    effort = config.text("effort") if config else None
    if thinking is None:
        return None if effort is None else Thinking(effort=effort)
    kind = thinking.text("type")
    return Thinking(
        effort=effort,
        budget=thinking.integer("budget_tokens"),
        enabled={"enabled": True, "disabled": False}.get(kind or ""),
        adaptive=kind == "adaptive",
        extra=thinking.rest(),
    )
