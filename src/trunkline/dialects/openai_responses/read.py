"""Reading requests of Responses into the neutral model. Source: as `wire`.

The conversation is a list of items: a message, a thought, a call and its result each stand alone. Each becomes a message of its own
here, so that it can be written back as it came; a format that wants whole turns joins them (`dialects._writing.foreign`).
"""

from collections.abc import Iterator
from dataclasses import replace

from trunkline.base.codec import Raw
from trunkline.dialects._carrier import unpack
from trunkline.dialects._free import Grammar, parameters, wrapped
from trunkline.dialects._reading import ANYTHING, NOTHING, Object, as_text, data_url, is_text, items
from trunkline.dialects._writing import lost_extra
from trunkline.dialects.openai_responses.wire import NAME, SEPARATOR
from trunkline.errors import BadRequest
from trunkline.model.chat import Chat, HostedTool, JsonOutput, Message, Named, Role, Thinking, Tool, ToolChoice
from trunkline.model.loss import Loss, approximated, dropped, unsupported
from trunkline.model.part import Audio, Document, Image, Opaque, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

ROLES: dict[str, Role] = {"system": "system", "developer": "developer", "user": "user", "assistant": "assistant"}
PLACES = {
    "max_output": "max_output_tokens",
    "output": "text.format",
    "thinking": "reasoning",
    "effort": "reasoning.effort",
    "summary": "reasoning.summary",
}


def read_chat(top: Object) -> Chat:
    """The whole of a request. Raises: `BadRequest`, naming the field and the value."""
    for known in ("model", "stream"):
        top.raw(known)  # these are the gateway's
    instructions = top.text("instructions")
    system = Message(role="system", content=(Text(at="instructions", text=instructions or ""),), at="instructions")
    messages = tuple(_read_input(top))
    text = top.object("text")
    form = text.object("format") if text else None
    choice = _read_tool_choice(top)
    inside = text.rest_in("text") if text else NOTHING
    return Chat(
        messages=messages if instructions is None else (system, *messages),
        tools=tuple(_read_tool(raw, at) for raw, at in top.items("tools")),
        tool_choice=None if isinstance(choice, Raw) else choice,
        parallel_tool_calls=top.flag("parallel_tool_calls"),
        max_output=top.integer("max_output_tokens"),
        temperature=top.number("temperature"),
        top_p=top.number("top_p"),
        output=_read_output(form) if form else None,
        thinking=_read_thinking(top.object("reasoning")),
        user=top.text("user"),
        metadata=_read_metadata(top),
        service_tier=top.text("service_tier"),
        extra={**({"tool_choice": choice} if isinstance(choice, Raw) else {}), **inside, **top.rest()},
        places=PLACES,
    )


def _read_input(top: Object) -> Iterator[Message]:
    raw = top.raw("input")
    if raw is None:
        return
    if is_text(raw):
        yield Message(role="user", content=(Text(at="input", text=as_text(raw, "input")),), at="input")
        return
    for item, at in items(raw, "input"):
        yield _read_item(Object.of(item, at), item)


def _read_item(item: Object, raw: Raw) -> Message:
    """One item; what only this format knows stays as it is."""
    kind = item.text("type") or ("message" if "role" in item else "item_reference")
    free = kind.startswith("custom_tool_call")
    match kind:
        case "message":
            return _read_message(item)
        case "function_call" | "custom_tool_call":
            call = ToolCall(
                at=item.at,
                id=item.required("call_id"),
                name=item.required("name"),
                namespace=item.text("namespace") or "",
                arguments=wrapped(item.text("input") or "") if free else item.text("arguments") or "{}",
                free=free,
            )
            return Message(role="assistant", content=(call,), at=item.at, extra=item.rest())
        case "function_call_output" | "custom_tool_call_output" if "call_id" in item:
            result = ToolResult(at=item.at, call_id=item.required("call_id"), content=tuple(_read_content(item, "output")), free=free)
            return Message(role="user", content=(result,), at=item.at, extra=item.rest())
        case "reasoning":
            return Message(role="assistant", content=(_read_thought(item),), at=item.at)
        case _:
            return Message(role="assistant", content=(Opaque(at=item.at, kind=kind, raw=raw),), at=item.at)


def _read_message(item: Object) -> Message:
    role = item.text("role") or ""
    if role not in ROLES:
        raise BadRequest(f"`{item.path('role')}` is `{role}`", hint="Known: system, developer, user, assistant.")
    content = tuple(_read_content(item, "content"))
    return Message(role=ROLES[role], content=content, at=item.at, extra=item.rest())


def _read_content(item: Object, name: str) -> Iterator[Part]:
    raw = item.raw(name)
    at = item.path(name)
    if raw is None:
        return
    if is_text(raw):
        yield Text(at=at, text=as_text(raw, at))
        return
    for part, place in items(raw, at):
        yield _read_part(Object.of(part, place), part)


def _read_part(part: Object, raw: Raw) -> Part:
    kind = part.text("type") or ""
    match kind:
        case "input_text" | "output_text" | "text":
            return Text(at=part.at, text=part.text("text") or "", extra=part.rest())
        case "refusal":
            return Refusal(at=part.at, text=part.text("refusal") or "", extra=part.rest())
        case "input_image" if "image_url" in part:
            where, detail = part.required("image_url"), part.text("detail")
            if data := data_url(where):
                return Image(at=part.at, data=data.base64, media_type=data.media_type, detail=detail, extra=part.rest())
            return Image(at=part.at, url=where, detail=detail, extra=part.rest())
        case "input_file":
            return _read_file(part)
        case "input_audio" if (audio := part.object("input_audio")) is not None:
            return Audio(at=part.at, data=audio.required("data"), format=audio.required("format"), extra=part.rest())
        case _:
            return Opaque(at=part.at, kind=kind, raw=raw)


def _read_file(part: Object) -> Document:
    url, file_id, name = part.text("file_url") or "", part.text("file_id") or "", part.text("filename")
    data, media_type = part.text("file_data") or "", ""
    if found := data_url(data):
        media_type, data = found
    elif data:
        media_type = "application/pdf"  # what all files were before the format took others
    return Document(at=part.at, url=url, file_id=file_id, data=data, media_type=media_type, name=name, extra=part.rest())


def _read_thought(item: Object) -> Reasoning:
    """A thought; its encrypted content may be ours: it carries what another vendor signed or encrypted, or says that nobody did."""
    encrypted = item.text("encrypted_content") or ""
    told: dict[str, Raw] = {}
    text = ""
    for name in ("summary", "content"):
        if not text and (raw := item.raw(name)) is not None:
            told[name] = raw
            text = SEPARATOR.join(Object.of(part, at).text("text") or "" for part, at in items(raw, item.path(name)))
    thought_id = item.text("id") or ""
    carried = unpack(encrypted)
    if carried is not None and carried.origin != NAME:  # its id here is one that we gave it
        carried = carried if carried.origin else carried._replace(id="")  # nobody signed it, so nobody knows it
        return Reasoning(at=item.at, text=text, extra=item.rest(), **carried._asdict())
    if carried is not None:
        encrypted, thought_id = carried.encrypted, carried.id
    origin = NAME if encrypted else ""
    return Reasoning(at=item.at, text=text, encrypted=encrypted, origin=origin, id=thought_id, extra={**told, **item.rest()})


def _read_tool(raw: Raw, at: str) -> Tool | HostedTool:
    tool = Object.of(raw, at)
    kind = tool.required("type")
    match kind:
        case "function":
            pass
        case "custom":
            return _read_free_tool(tool, raw)
        case "namespace":
            return _read_group(tool, raw)
        case _:
            return HostedTool(kind=kind, raw=raw, at=at)
    return Tool(
        at=at,
        name=tool.required("name"),
        description=tool.text("description"),
        parameters=tool.raw("parameters"),
        strict=tool.flag("strict"),
        extra=tool.rest(),
    )


def _read_group(group: Object, raw: Raw) -> HostedTool:
    """A group of tools, as Codex offers those of an MCP server; elsewhere they are functions with longer names."""
    name = group.required("name")
    tools: list[Tool] = []
    losses = [Loss(group.at, "material", "renamed", f"its tools are functions named `{name}…` there, and as before in the reply")]
    if group.text("description"):
        losses.append(dropped(group.path("description"), "there are no groups of tools", material=True))
    for inner, at in group.items("tools"):
        match _read_tool(inner, at):
            case HostedTool(kind=kind, tools=None):
                losses.append(unsupported(at, f"the tool `{kind}` is run by another vendor"))
            case HostedTool(tools=stand_ins, losses=lost):
                tools += stand_ins or ()
                losses += lost
            case tool:
                tools.append(tool)
    losses += lost_extra(group.rest(), group.at)
    functions = tuple(replace(tool, namespace=name) for tool in tools)
    return HostedTool(kind="namespace", raw=raw, tools=functions, losses=tuple(losses), at=group.at)


def _read_free_tool(tool: Object, raw: Raw) -> HostedTool:
    form = tool.object("format")
    kind = form.text("type") if form else None
    grammar = Grammar(form.text("syntax") or "", form.text("definition") or "") if form and kind == "grammar" else None
    inside = form.rest_in("format") if form else NOTHING
    function = Tool(
        at=tool.at,
        name=tool.required("name"),
        description=tool.text("description"),
        parameters=parameters(grammar),
        free=True,
        extra={**inside, **tool.rest()},
    )
    lost = approximated(tool.at, "a tool that takes text becomes a function with one string, which no grammar binds", material=True)
    return HostedTool(kind="custom", raw=raw, tools=(function,), losses=(lost,), at=tool.at)


def _read_tool_choice(top: Object) -> ToolChoice | Raw | None:
    """The choice; as it came, where only this format knows it: a hosted tool, or some tools of all."""
    raw = top.raw("tool_choice")
    if raw is None:
        return None
    if is_text(raw):
        word = as_text(raw, "tool_choice")
        match word:
            case "auto" | "none" | "required":
                return word
            case _:
                raise BadRequest(f"`tool_choice` is `{word}`", hint="Known: auto, none, required, or an object that names a tool.")
    choice = Object.of(raw, "tool_choice")
    kind = choice.text("type")
    return Named(choice.required("name"), free=kind == "custom") if kind in {"function", "custom"} else raw


def _read_output(form: Object) -> JsonOutput | None:
    match form.text("type"):
        case "json_object":
            return JsonOutput(extra=form.rest())
        case "json_schema":
            return JsonOutput(
                name=form.text("name") or "",
                schema=form.raw("schema") or ANYTHING,
                strict=form.flag("strict"),
                description=form.text("description"),
                extra=form.rest(),
            )
        case "text" | None:
            return None
        case other:
            raise BadRequest(f"`text.format.type` is `{other}`", hint="Known: text, json_object, json_schema.")


def _read_thinking(reasoning: Object | None) -> Thinking | None:
    if reasoning is None:
        return None
    effort = reasoning.text("effort")
    enabled = None if effort is None else effort != "none"
    return Thinking(effort=effort, enabled=enabled, summary=reasoning.text("summary"), extra=reasoning.rest())


def _read_metadata(top: Object) -> dict[str, str]:
    found = top.object("metadata")
    return {name: as_text(raw, f"metadata.{name}") for name, raw in found.rest().items()} if found else {}
