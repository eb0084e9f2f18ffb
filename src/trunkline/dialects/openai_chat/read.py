"""Reading requests of Chat Completions into the neutral model.

Source: the API reference of `POST /v1/chat/completions`. `cache_control` on parts and messages, and `reasoning_details`, are what
routers in front of several vendors added to the format; they are read so that they reach a vendor who knows them.
"""

from collections.abc import Iterator

from trunkline.base.codec import Raw
from trunkline.dialects._reading import ANYTHING, NOTHING, Object, as_object, as_text, data_url, is_text, items
from trunkline.dialects.openai_chat.wire import NAME
from trunkline.errors import BadRequest
from trunkline.model.chat import Chat, HostedTool, JsonOutput, Message, Named, Role, Thinking, Tool, ToolChoice
from trunkline.model.part import Audio, Document, Image, Opaque, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

ROLES: dict[str, Role] = {"system": "system", "developer": "developer", "user": "user", "assistant": "assistant"}


def read_chat(top: Object) -> Chat:
    """The whole of a request. Raises: `BadRequest`, naming the field and the value."""
    for known in ("model", "stream"):
        top.raw(known)  # these are the gateway's
    if (options := top.object("stream_options")) is not None:
        options.raw("include_usage")  # and so is this
    limits = {name: limit for name in ("max_completion_tokens", "max_tokens") if (limit := top.integer(name)) is not None}
    form = top.object("response_format")
    output, output_at = _read_output(form) if form else (None, "")
    return Chat(
        messages=tuple(_read_message(Object.of(raw, at)) for raw, at in top.items("messages")),
        tools=tuple(_read_tool(raw, at) for raw, at in top.items("tools")),
        tool_choice=_read_tool_choice(top),
        parallel_tool_calls=top.flag("parallel_tool_calls"),
        max_output=next(iter(limits.values()), None),
        temperature=top.number("temperature"),
        top_p=top.number("top_p"),
        top_k=top.integer("top_k"),
        frequency_penalty=top.number("frequency_penalty"),
        presence_penalty=top.number("presence_penalty"),
        seed=top.integer("seed"),
        stop=_read_stop(top),
        output=output,
        thinking=_read_thinking(top),
        user=top.text("user"),
        metadata=_read_metadata(top),
        service_tier=top.text("service_tier"),
        extra={
            **(form.rest_in("response_format") if form else NOTHING),
            **(options.rest_in("stream_options") if options else NOTHING),
            **top.rest(),
        },
        places={
            "max_output": next(iter(limits), "max_tokens"),
            "output": output_at,
            "thinking": "reasoning_effort",
            "effort": "reasoning_effort",
        },
    )


def _read_message(message: Object) -> Message:
    role = message.text("role")
    name = message.text("name")
    mark = message.raw("cache_control")
    match role:
        case "tool":
            content = (
                ToolResult(at=message.at, call_id=message.required("tool_call_id"), content=tuple(_read_content(message)), cache=mark),
            )
            return Message(role="user", content=content, name=name, at=message.at, extra=message.rest())
        case "assistant":
            parts = [*_read_reasoning(message), *_read_content(message)]
            if refusal := message.text("refusal"):
                parts.append(Refusal(at=message.path("refusal"), text=refusal))
            parts += [_read_call(Object.of(raw, at)) for raw, at in message.items("tool_calls")]
        case "system" | "developer" | "user":
            parts = list(_read_content(message))
        case _:
            raise BadRequest(
                f"`{message.path('role')}` is `{role}`",
                hint="Known: system, developer, user, assistant, tool. `function` gave way to `tool`.",
            )
    return Message(role=ROLES[role], content=tuple(parts), name=name, cache=mark, at=message.at, extra=message.rest())


def _read_content(message: Object) -> Iterator[Part]:
    raw = message.raw("content")
    at = message.path("content")
    if raw is None:
        return
    if is_text(raw):
        yield Text(at=at, text=as_text(raw, at))
        return
    for item, place in items(raw, at):
        if is_text(item):
            yield Text(at=place, text=as_text(item, place))
        else:
            yield _read_part(Object.of(item, place), item)


def _read_part(part: Object, raw: Raw) -> Part:
    kind = part.text("type") or "text"
    mark = part.raw("cache_control")
    match kind:
        case "text" | "input_text" | "output_text":
            return Text(at=part.at, cache=mark, text=part.text("text") or "", extra=part.rest())
        case "refusal":
            return Refusal(at=part.at, text=part.text("refusal") or "", extra=part.rest())
        case "image_url" if (image := part.object("image_url")) is not None:
            detail = image.text("detail")
            where = image.required("url")
            rest = {**image.rest_in("image_url"), **part.rest()}
            if data := data_url(where):
                return Image(at=part.at, cache=mark, data=data.base64, media_type=data.media_type, detail=detail, extra=rest)
            return Image(at=part.at, cache=mark, url=where, detail=detail, extra=rest)
        case "input_audio" if (audio := part.object("input_audio")) is not None:
            return Audio(
                at=part.at,
                cache=mark,
                data=audio.required("data"),
                format=audio.required("format"),
                extra={**audio.rest_in("input_audio"), **part.rest()},
            )
        case "file" if (file := part.object("file")) is not None:
            return _read_file(part, file, mark)
        case _:
            return Opaque(at=part.at, cache=mark, kind=kind, raw=raw)


def _read_file(part: Object, file: Object, mark: Raw | None) -> Document:
    name = file.text("filename")
    file_id = file.text("file_id") or ""
    data = file.text("file_data") or ""
    rest = {**file.rest_in("file"), **part.rest()}
    if found := data_url(data):
        return Document(at=part.at, cache=mark, data=found.base64, media_type=found.media_type, file_id=file_id, name=name, extra=rest)
    return Document(at=part.at, cache=mark, data=data, media_type="application/pdf" if data else "", file_id=file_id, name=name, extra=rest)


def _read_reasoning(message: Object) -> Iterator[Part]:
    """`reasoning_details` carries other vendors' signed thoughts; `reasoning_content` is text that nobody signed."""
    plain = message.text("reasoning_content")
    at = message.path("reasoning_content")
    found = False
    for raw, place in message.items("reasoning_details"):
        found = True
        yield _read_detail(Object.of(raw, place), raw)
    if plain and not found:
        yield Reasoning(at=at, text=plain)


def _read_detail(detail: Object, raw: Raw) -> Reasoning:
    """A thought. One without an origin is from a vendor that speaks this format: it is kept as it came."""
    signature, encrypted, origin = detail.text("signature") or "", detail.text("data") or "", detail.text("origin") or ""
    whole = as_object(raw) if origin in {"", NAME} else {}
    return Reasoning(
        at=detail.at,
        text=detail.text("text") or detail.text("summary") or "",
        signature=signature,
        encrypted=encrypted,
        origin=origin or (NAME if signature or encrypted else ""),
        id=detail.text("id") or "",
        extra={name: value for name, value in whole.items() if name != "origin"},
    )


def _read_call(call: Object) -> Part:
    kind = call.text("type") or "function"
    call_id = call.required("id")
    function = call.object("function")
    if kind != "function" or function is None:
        raise BadRequest(f"`{call.at}.type` is `{kind}`, and a translated call knows only functions")
    call.raw("index")
    arguments = function.text("arguments")
    return ToolCall(
        at=call.at,
        id=call_id,
        name=function.required("name"),
        arguments=arguments or "{}",
        extra={**function.rest_in("function"), **call.rest()},
    )


def _read_tool(raw: Raw, at: str) -> Tool | HostedTool:
    tool = Object.of(raw, at)
    kind = tool.text("type") or "function"
    function = tool.object("function")
    if kind != "function" or function is None:
        return HostedTool(kind=kind, raw=raw, at=at)
    return Tool(
        at=at,
        name=function.required("name"),
        description=function.text("description"),
        parameters=function.raw("parameters"),
        strict=function.flag("strict"),
        cache=tool.raw("cache_control") or function.raw("cache_control"),
        extra={**function.rest_in("function"), **tool.rest()},
    )


def _read_tool_choice(top: Object) -> ToolChoice | None:
    raw = top.raw("tool_choice")
    if raw is None:
        return None
    if is_text(raw):
        word = as_text(raw, "tool_choice")
        match word:
            case "auto" | "none" | "required":
                return word
            case _:
                raise BadRequest(f"`tool_choice` is `{word}`", hint="Known: auto, none, required, or an object that names a function.")
    choice = Object.of(raw, "tool_choice")
    function = choice.object("function")
    if function is None:
        raise BadRequest(f"`tool_choice.type` is `{choice.text('type')}`, and a translated call knows only functions")
    return Named(function.required("name"))


def _read_stop(top: Object) -> tuple[str, ...]:
    raw = top.raw("stop")
    if raw is None:
        return ()
    if is_text(raw):
        return (as_text(raw, "stop"),)
    return tuple(as_text(item, at) for item, at in items(raw, "stop"))


def _read_output(form: Object) -> tuple[JsonOutput | None, str]:
    """What form the reply is to have, and where that stands."""
    match form.text("type"):
        case "json_object":
            return JsonOutput(), form.at
        case "json_schema" if (schema := form.object("json_schema")) is not None:
            output = JsonOutput(
                name=schema.text("name") or "",
                schema=schema.raw("schema") or ANYTHING,
                strict=schema.flag("strict"),
                description=schema.text("description"),
                extra=schema.rest(),
            )
            return output, schema.at
        case "text" | None:
            return None, ""
        case other:
            raise BadRequest(f"`response_format.type` is `{other}`", hint="Known: text, json_object, json_schema.")


def _read_thinking(top: Object) -> Thinking | None:
    effort = top.text("reasoning_effort")
    return None if effort is None else Thinking(effort=effort, enabled=effort != "none")


def _read_metadata(top: Object) -> dict[str, str]:
    found = top.object("metadata")
    if found is None:
        return {}
    return {name: as_text(raw, f"metadata.{name}") for name, raw in found.rest().items()}
