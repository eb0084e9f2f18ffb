import json
from typing import Any

import pytest
from anthropic.types import Message

from trunkline.dialects.anthropic import DIALECT
from trunkline.errors import UpstreamGarbled
from trunkline.model.event import Reply
from trunkline.model.loss import unsupported
from trunkline.model.part import Reasoning, Refusal, Text, ToolCall
from trunkline.model.usage import Usage


def whole(**fields: Any) -> bytes:
    return json.dumps(
        {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": [], "stop_reason": "end_turn", **fields}
    ).encode()


def test_a_whole_reply_is_read_and_its_arguments_stay_as_they_came() -> None:
    body = whole(
        content=[
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "text", "text": "Hi", "citations": None},
            {"type": "hologram", "frames": 3},
            {"type": "tool_use", "id": "t", "name": "n", "input": "INPUT"},
        ],
        stop_reason="tool_use",
        usage={"input_tokens": 9, "cache_creation_input_tokens": None, "output_tokens": 5},
    ).replace(b'"INPUT"', b'{"a": 1.0, "b":123456789012345678901234567890}')
    assert DIALECT.read_reply(body, "chat") == Reply(
        id="msg_1",
        model="claude-x",
        content=(
            Reasoning(text="hm", signature="c2ln", origin="anthropic"),
            Text(text="Hi"),
            ToolCall(id="t", name="n", arguments='{"a": 1.0, "b":123456789012345678901234567890}'),
        ),
        finish="tool_calls",
        usage=Usage(input=9, output=5),
        losses=(unsupported("content.2", "a block of type `hologram`"),),
    )


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"content":null}', b'{"content":"x"}', b"<html>", b'{"type":"message"}'])
def test_a_reply_without_content_is_garbled(body: bytes) -> None:
    with pytest.raises(UpstreamGarbled):
        DIALECT.read_reply(body, "chat")


def test_counted_tokens_are_no_usage() -> None:
    assert DIALECT.read_reply(b'{"input_tokens":2095}', "count_tokens") == Reply(id="", model="")
    for body in (b"{}", b"[]", whole()):
        with pytest.raises(UpstreamGarbled):
            DIALECT.read_reply(body, "count_tokens")


def test_a_count_of_tokens_is_written() -> None:
    for usage, count in ((Usage(input=7, output=3), 7), (None, 0)):
        body, losses = DIALECT.write_reply(Reply(id="", model="m", usage=usage), "count_tokens")
        assert (json.loads(body), losses) == ({"input_tokens": count}, ())


def test_a_reply_is_written_as_the_vendors_client_expects_it() -> None:
    reply = Reply(
        id="msg_1",
        model="claude-x",
        content=(
            Reasoning(text="hm", signature="s", origin="anthropic"),
            Reasoning(encrypted="e", origin="anthropic"),
            Text(text="Hi"),
            ToolCall(id="t", name="n", arguments='{"a":1}'),
            ToolCall(id="u", name="n", arguments=""),
            Refusal(text="no"),
        ),
        finish="tool_calls",
        usage=Usage(1, 2, 3, 4, 5),
    )
    message = Message.model_validate_json(DIALECT.write_reply(reply, "chat")[0])
    assert [each.type for each in message.content] == ["thinking", "redacted_thinking", "text", "tool_use", "tool_use", "text"]
    assert [each.input for each in message.content if each.type == "tool_use"] == [{"a": 1}, {}]
    assert (message.stop_reason, message.usage.input_tokens, message.usage.output_tokens) == ("tool_use", 1, 9)
    assert (message.usage.cache_read_input_tokens, message.usage.cache_creation_input_tokens) == (2, 3)


@pytest.mark.parametrize("content", [(), (Text(text=""),)], ids=["nothing", "an empty text"])
def test_an_empty_reply_has_no_blocks_as_the_vendors_own(content: tuple[Text, ...]) -> None:
    message = Message.model_validate_json(DIALECT.write_reply(Reply(id="msg_1", model="m", content=content), "chat")[0])
    assert message.content == []  # a client that hands an empty text back is refused
    assert message.stop_reason == "end_turn"
