"""Which requests a provider that broke off may be asked once more (daemon contract, F)."""

from typing import Any

import pytest

from trunkline.base.codec import encode
from trunkline.dialects import Dialect
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_embeddings import DIALECT as OPENAI_EMBEDDINGS
from trunkline.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from trunkline.dialects.openai_speech import DIALECT as OPENAI_SPEECH
from trunkline.model.request import Operation

MESSAGES = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
HOSTED = {"tools": [{"type": "function", "name": "f", "parameters": {}}, {"type": "web_search"}]}


def item(**fields: Any) -> dict[str, Any]:
    return {"input": [fields]}


@pytest.mark.proves("daemon.repeats")
@pytest.mark.parametrize(
    ("dialect", "operation", "body", "right"),
    [
        (OPENAI_CHAT, "chat", MESSAGES, True),
        (ANTHROPIC, "chat", MESSAGES, True),
        (OPENAI_SPEECH, "speech", {"model": "m", "input": "hi", "voice": "v"}, True),
        (OPENAI_EMBEDDINGS, "embeddings", {"model": "m", "input": "hi"}, False),
    ],
)
def test_a_format_says_what_may_be_repeated(dialect: Dialect, operation: Operation, body: dict[str, Any], *, right: bool) -> None:
    assert dialect.repeatable(dialect.read_request(encode(body), operation)) is right


@pytest.mark.proves("daemon.repeats")
@pytest.mark.parametrize(
    ("fields", "right"),
    [
        ({}, True),
        ({"store": False}, True),
        ({"store": True}, False),
        ({"previous_response_id": "resp_1"}, False),
        ({"previous_response_id": None}, True),
        ({"conversation": "conv_1"}, False),
        ({"prompt": {"id": "pmpt_1"}}, False),
        ({"tools": [{"type": "function", "name": "f", "parameters": {}}, {"type": "custom", "name": "c"}]}, True),
        (HOSTED, False),
        ({"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]}, False),
        ({"tools": "none"}, False),
        (item(type="item_reference", id="msg_1"), False),
        (item(type="reasoning", id="rs_1", summary=[], encrypted_content="x"), False),
        (item(type="message", role="user", content=[{"type": "input_file", "file_id": "file_1"}]), False),
        (item(type="message", role="user", content='say "file_id" and "encrypted_content"'), True),
    ],
)
def test_a_response_that_builds_on_what_is_kept_is_not_repeated(fields: dict[str, Any], *, right: bool) -> None:
    body = {"model": "m", "input": "hi", **fields}
    assert OPENAI_RESPONSES.repeatable(OPENAI_RESPONSES.read_request(encode(body), "chat")) is right
