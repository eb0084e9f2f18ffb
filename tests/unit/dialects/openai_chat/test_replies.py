import json

import pytest
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion

from tests.unit.dialects.openai_chat.chunks import USAGE, called
from trunkline.dialects.openai_chat import DIALECT
from trunkline.errors import UpstreamBusy, UpstreamGarbled
from trunkline.model.event import Reply
from trunkline.model.part import Reasoning, Text
from trunkline.model.usage import Usage


def test_a_whole_reply_is_read() -> None:
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "gpt-x",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "n", "arguments": '{"a": 1.0}'}}],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": USAGE,
    }
    assert DIALECT.read_reply(json.dumps(body).encode(), "chat") == Reply(
        id="chatcmpl-1",
        model="gpt-x",
        created=7,
        content=(called("c", "n", '{"a": 1.0}'),),
        finish="tool_calls",
        usage=Usage(input=9, output=2),
    )


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"choices":[]}', b'{"choices":null}', b'{"choices":[{"delta":{}}]}', b"<html>"])
def test_a_reply_without_a_message_is_garbled(body: bytes) -> None:
    with pytest.raises(UpstreamGarbled):
        DIALECT.read_reply(body, "chat")


def test_an_error_that_comes_as_a_reply_is_a_failure() -> None:
    with pytest.raises(UpstreamBusy, match="slow down") as busy:
        DIALECT.read_reply(b'{"error":{"code":429,"message":"slow down"},"choices":[]}', "chat")
    assert busy.value.http_status == 429


def test_a_reply_is_written_as_the_vendors_client_expects_it() -> None:
    reply = Reply(
        id="chatcmpl-1",
        model="gpt-x",
        created=7,
        content=(Reasoning(text="hm"), Text(text="H"), Text(text="i"), called("c", "n", "{}")),
        finish="tool_calls",
        usage=Usage(10, 20, 30, 40, 50),
    )
    completion = ChatCompletion.model_validate_json(DIALECT.write_reply(reply, "chat")[0], strict=True)
    message = completion.choices[0].message
    assert (completion.id, completion.model, completion.created, completion.object) == ("chatcmpl-1", "gpt-x", 7, "chat.completion")
    assert (message.role, message.content, completion.choices[0].finish_reason) == ("assistant", "Hi", "tool_calls")
    assert message.tool_calls is not None
    assert [call.id for call in message.tool_calls] == ["c"]
    usage: CompletionUsage | None = completion.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (60, 90, 150)


def test_an_empty_reply_has_no_content() -> None:
    message = ChatCompletion.model_validate_json(DIALECT.write_reply(Reply(id="c", model="m"), "chat")[0]).choices[0].message
    assert (message.content, message.refusal, message.tool_calls) == (None, None, None)
