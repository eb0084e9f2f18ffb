"""The grammar of a Responses stream (OpenAI API reference, "Responses: streaming events", read 2026-11; the SDK's types).

    created (queued | in_progress)* (item added, its content, item done)* (completed | incomplete | failed)

    message        (content part added, text or refusal delta*, text or refusal done, content part done)*
    reasoning      (summary part added, text delta*, text done, part done)*, or content parts as of a message
    function call  arguments delta*, arguments done
    custom call    input delta*, input done; one that is cut ends without, and holds nothing

Items may be told at once: each event names its item. An `error` may stand for all that is missing; `response.failed` may follow it.
The sequence numbers rise, and every event is named for its type.
"""

from typing import Any

from tests.wire.grammar.framing import count, events, record

TERMINAL = {"completed", "incomplete", "failed"}
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""The kinds of calls, and where stands what the tool gets."""

PART = {"output_text": ("output_text", "text"), "refusal": ("refusal", "refusal"), "reasoning_text": ("reasoning_text", "text")}
"""The kinds of content parts: how their events are called, and where their text stands."""

ERROR_CODES = {
    "server_error", "rate_limit_exceeded", "invalid_prompt", "data_residency_mismatch", "bio_policy", "misalignment_policy_violation",
    "vector_store_timeout", "invalid_image", "invalid_image_format", "invalid_base64_image", "invalid_image_url", "image_too_large",
    "image_too_small", "image_parse_error", "image_content_policy_violation", "invalid_image_mode", "image_file_too_large",
    "unsupported_image_media_type", "empty_image_file", "failed_to_download_image", "image_file_not_found",
}  # fmt: skip


def check(stream: bytes) -> list[dict[str, Any]]:
    """The events of a whole outgoing stream, the error included.

    Raises:
        AssertionError: the stream breaks the grammar, and where.
    """
    reader = _Response()
    told: list[dict[str, Any]] = []
    last = -1
    for name, data in events(stream):
        event = record(data)
        assert event.get("type") == name, f"the event {name!r} has data of type {event.get('type')!r}"
        number = count(event.get("sequence_number"), "sequence_number")
        assert number > last, f"{name} has the sequence number {number} after {last}"
        last = number
        assert not reader.over, f"{name} follows the end"
        reader.read(name, event)
        told.append(event)
    assert reader.over or reader.failed, f"the stream ends after {told[-1]['type']}"
    return told


class _Item:
    def __init__(self, item: dict[str, Any]) -> None:
        self.kind: str = item["type"]
        self.id: str = item.get("id", "")
        self.parts: list[dict[str, Any]] = []  # that are done
        self.open: str = ""  # the kind of the part that is open
        self.text = ""  # of that part, or the arguments
        self.told = False  # the text, or the arguments, are done


class _Response:
    def __init__(self) -> None:
        self.over = False
        self.failed = False
        self._id = ""
        self._items: list[_Item | None] = []
        self._done: dict[int, dict[str, Any]] = {}

    def read(self, name: str, event: dict[str, Any]) -> None:
        if name == "error":
            _check_error(event)
            self.failed = True
            return
        assert name.startswith("response."), f"there is no event {name!r}"
        kind = name.removeprefix("response.")
        assert not self.failed or kind == "failed", f"{name} follows an error"
        if kind in {"created", "queued", "in_progress"} | TERMINAL:
            self._whole(kind, event)
            return
        assert self._id, f"{name} comes before response.created"
        if kind == "output_item.added":
            self._add(event)
        elif kind == "output_item.done":
            self._end(event)
        else:
            self._inside(kind, event)

    # ------------------------------------------------------------------------------------------------- the response
    def _whole(self, kind: str, event: dict[str, Any]) -> None:
        found = event.get("response")
        assert isinstance(found, dict), f"response.{kind} has no response"
        expected = {"created": {"in_progress", "queued"}}.get(kind, {kind})
        assert found.get("status") in expected, f"response.{kind} has the status {found.get('status')!r}"
        assert found.get("object") == "response", f"response.{kind} holds a {found.get('object')!r}"
        assert isinstance(found.get("output"), list), f"response.{kind} has no output"
        assert found.get("id"), f"response.{kind} has no id"
        if kind == "created":
            assert not self._id, "a second response.created"
            assert found.get("model"), "the response has no model"
            assert not found["output"], "the response begins with output"
            self._id = found["id"]
            return
        assert self._id or kind == "failed", f"response.{kind} comes before response.created"
        assert self.failed or not self._id or found["id"] == self._id, f"response.{kind} has another id than response.created"
        if kind in TERMINAL:
            self._terminal(kind, found)

    def _terminal(self, kind: str, found: dict[str, Any]) -> None:
        self.over = True
        if kind == "failed":
            error = found.get("error")
            assert isinstance(error, dict), "the response failed without an error"
            assert error.get("code") in ERROR_CODES, f"the response failed with the code {error.get('code')!r}"
            assert error.get("message"), "the response failed without a message"
            return
        assert found.get("error") is None, f"response.{kind} has an error"
        for index, item in enumerate(self._items):
            assert item is None, f"response.{kind} comes within item {index}"
        assert found["output"] == [self._done[index] for index in range(len(self._items))], (
            f"response.{kind} has other items than were told"
        )
        details = found.get("incomplete_details")
        if kind == "incomplete":
            assert isinstance(details, dict), "the response is incomplete without a reason"
            assert details.get("reason"), "the response is incomplete without a reason"
        else:
            assert details is None, "the response is complete with a reason why it is not"
        if found.get("usage") is not None:
            _check_usage(found["usage"])

    # ---------------------------------------------------------------------------------------------------------- items
    def _add(self, event: dict[str, Any]) -> None:
        item = event.get("item")
        assert isinstance(item, dict), "an item is added that is none"
        kind = item.get("type")
        assert kind, "an item has no type"
        assert event.get("output_index") == len(self._items), f"item {len(self._items)} has the index {event.get('output_index')!r}"
        assert item.get("id"), f"a {kind} has no id"
        if kind == "message":
            assert item.get("role") == "assistant", f"a message is of role {item.get('role')!r}"
            assert item.get("content") == [], "a message begins with content"
        if kind in {"message", "function_call", "custom_tool_call"}:
            assert item.get("status") == "in_progress", f"a {kind} begins with the status {item.get('status')!r}"
        if kind in CALLS:
            assert item.get("call_id"), "a call has no call_id"
            assert item.get("name"), "a call has no name"
            assert item.get(CALLS[kind]) == "", f"a call begins with {CALLS[kind]}"
        if kind == "reasoning":
            assert item.get("summary") == [], "a thought begins with a summary"
        self._items.append(_Item(item))

    def _end(self, event: dict[str, Any]) -> None:
        name, index = "response.output_item.done", event.get("output_index")
        item = self._item(name, event)
        done = event.get("item")
        assert isinstance(done, dict), f"item {index} ends as nothing"
        assert done.get("type") == item.kind, f"item {index} begins as {item.kind!r} and ends as {done.get('type')!r}"
        assert done.get("id") == item.id, f"item {index} begins as {item.id!r} and ends as {done.get('id')!r}"
        assert not item.open, f"item {index} ends within a part"
        whole = done.get("status") != "incomplete"
        match item.kind:
            case "message":
                assert done.get("status") in {"completed", "incomplete"}, f"item {index} ends with the status {done.get('status')!r}"
                assert done.get("content") == item.parts, f"item {index} ends with another content than was told"
            case "reasoning":
                told = done.get("content") or [] if item.parts and item.parts[0]["type"] == "reasoning_text" else done.get("summary")
                assert told == item.parts, f"item {index} ends with another thought than was told"
            case "function_call":
                assert done.get("status") in {"completed", "incomplete"}, f"item {index} ends with the status {done.get('status')!r}"
                assert item.told, f"item {index} ends before its arguments do"
                assert done.get("arguments") == item.text, f"item {index} ends with other arguments than were told"
                if whole:
                    record(item.text)
            case "custom_tool_call":
                assert done.get("status") in {"completed", "incomplete"}, f"item {index} ends with the status {done.get('status')!r}"
                assert item.told == whole, f"item {index} ends before its input does, or is cut after it"
                assert done.get("input") == (item.text if whole else ""), f"item {index} ends with another input than was told"
            case _:
                pass
        assert isinstance(index, int)
        self._items[index] = None
        self._done[index] = done

    def _item(self, name: str, event: dict[str, Any]) -> _Item:
        index = event.get("output_index")
        assert type(index) is int, f"{name} has no output_index"
        assert 0 <= index < len(self._items), f"{name} is of item {index}, which was not added"
        item = self._items[index]
        assert item is not None, f"{name} is of item {index}, which is done"
        return item

    def _inside(self, kind: str, event: dict[str, Any]) -> None:
        name = f"response.{kind}"
        item = self._item(name, event)
        assert event.get("item_id") == item.id, f"{name} is of {event.get('item_id')!r} and item {event['output_index']} is {item.id!r}"
        thing, _, what = kind.rpartition(".")
        match thing:
            case "content_part":
                assert item.kind in {"message", "reasoning"}, f"{name} within a {item.kind}"
                self._part(name, what, item, event, event.get("content_index"), PART)
            case "reasoning_summary_part":
                assert item.kind == "reasoning", f"{name} within a {item.kind}"
                self._part(name, what, item, event, event.get("summary_index"), {"summary_text": ("reasoning_summary_text", "text")})
            case "output_text" | "refusal" | "reasoning_text":
                self._text(name, what, item, event, event.get("content_index"), thing, PART[thing][1])
                if thing == "output_text":
                    assert isinstance(event.get("logprobs"), list), f"{name} has no logprobs"
            case "reasoning_summary_text":
                self._text(name, what, item, event, event.get("summary_index"), "summary_text", "text")
            case "function_call_arguments":
                assert item.kind == "function_call", f"{name} within a {item.kind}"
                self._say(name, what, item, event, "arguments")
            case "custom_tool_call_input":
                assert item.kind == "custom_tool_call", f"{name} within a {item.kind}"
                self._say(name, what, item, event, "input")
            case _:
                assert item.kind not in {"message", "reasoning", *CALLS} or "annotation" in kind, f"{name} within a {item.kind}"

    def _part(self, name: str, what: str, item: _Item, event: dict[str, Any], index: Any, kinds: dict[str, tuple[str, str]]) -> None:
        part = event.get("part")
        assert isinstance(part, dict), f"{name} has no part"
        assert part.get("type") in kinds, f"{name} has a part of type {part.get('type')!r}"
        field = kinds[part["type"]][1]
        assert index == len(item.parts), f"part {len(item.parts)} has the index {index!r}"
        if what == "added":
            assert not item.open, f"{name} comes within a part"
            assert part.get(field) == "", f"{name} has text already"
            item.open, item.text, item.told = part["type"], "", False
            return
        assert item.open == part["type"], f"{name} ends a {part['type']}, and {item.open or 'nothing'!r} is open"
        assert item.told, f"{name} comes before its text is done"
        assert part.get(field) == item.text, f"{name} has another text than was told"
        item.parts.append(part)
        item.open = ""

    def _text(self, name: str, what: str, item: _Item, event: dict[str, Any], index: Any, kind: str, field: str) -> None:
        assert item.open == kind, f"{name} comes and {item.open or 'no part'!r} is open"
        assert index == len(item.parts), f"{name} is of part {index!r}, and part {len(item.parts)} is open"
        self._say(name, what, item, event, field)

    def _say(self, name: str, what: str, item: _Item, event: dict[str, Any], field: str) -> None:
        assert not item.told, f"{name} comes after the end of it"
        if what == "delta":
            assert isinstance(event.get("delta"), str), f"{name} has no delta"
            item.text += event["delta"]
            return
        assert what == "done", f"there is no event {name!r}"
        if item.kind == "function_call" and not item.text:
            item.text = event.get(field, "")  # a call without pieces
        assert event.get(field) == item.text, f"{name} has another text than was told"
        item.told = True


def _check_error(event: dict[str, Any]) -> None:
    inside = event.get("error")
    assert isinstance(inside, dict), "the error is not under `error`, where the SDKs look for it"
    for error in (event, inside):
        assert error.get("message"), "the error has no message"
        assert "code" in error, "the error has no code"


def _check_usage(usage: Any) -> None:
    assert isinstance(usage, dict), "`usage` is no object"
    read, wrote, total = (count(usage.get(f"{kind}_tokens"), f"{kind}_tokens") for kind in ("input", "output", "total"))
    assert total == read + wrote, f"{read} + {wrote} tokens are not {total}"
    inside, outside = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    assert isinstance(inside, dict), "the usage has no input_tokens_details"
    assert isinstance(outside, dict), "the usage has no output_tokens_details"
    cached, thought = count(inside.get("cached_tokens"), "cached_tokens"), count(outside.get("reasoning_tokens"), "reasoning_tokens")
    assert cached <= read, f"{cached} of {read} tokens were cached"
    assert thought <= wrote, f"{thought} of {wrote} tokens were reasoning"
