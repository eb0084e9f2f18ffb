import json
from typing import Any

import pytest

from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.errors import BadRequest
from trunkline.model.event import Reply
from trunkline.model.part import Text
from trunkline.providers.echo import answer


def said(messages: Any, **more: Any) -> Reply:
    return answer(OPENAI_CHAT.read_request(json.dumps({"model": "echo", "messages": messages, **more}).encode(), "chat"))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("hi", "hi"),
        ("", ""),
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:,"}}, {"type": "text", "text": "b"}], "ab"),
    ],
)
def test_the_last_message_is_said_back(content: object, text: str) -> None:
    reply = said([{"role": "system", "content": "no"}, {"role": "user", "content": content}])
    assert (reply.content, reply.finish, reply.model) == ((Text(text=text),), "stop", "echo")


def test_tokens_are_counted_by_us_and_marked_so() -> None:
    usage = said([{"role": "user", "content": "12345678"}]).usage
    assert usage is not None
    assert (usage.output, usage.approximated) == (2, True)
    assert usage.input > 0


def test_both_dialects_are_understood() -> None:
    body = b'{"model":"echo","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}'
    assert answer(ANTHROPIC.read_request(body, "chat")).content == (Text(text="hi"),)
    counted = answer(ANTHROPIC.read_request(body, "count_tokens")).usage
    assert counted is not None
    assert counted.input > 0


@pytest.mark.parametrize("messages", [[], None, "hi", 7, [7], [{"content": 7}], [{"content": [7]}], [{"content": [{"text": 7}]}], {}])
def test_messages_that_are_none_are_the_callers_mistake(messages: object) -> None:
    with pytest.raises(BadRequest, match="`messages`"):
        said(messages)


def test_no_messages_at_all_are_the_callers_mistake() -> None:
    with pytest.raises(BadRequest, match="`messages` is empty"):
        answer(OPENAI_CHAT.read_request(b'{"model":"echo"}', "chat"))


@pytest.mark.proves("G19")
def test_what_stands_in_a_message_is_not_repeated_in_an_error() -> None:
    with pytest.raises(BadRequest) as refusal:
        said([{"content": [{"text": ["canary"]}]}])
    assert "canary" not in refusal.value.sentence
