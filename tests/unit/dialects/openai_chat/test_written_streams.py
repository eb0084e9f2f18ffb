import json

import pytest
from openai.types.chat import ChatCompletionChunk

from tests.wire.streams import request
from trunkline.dialects.openai_chat import DIALECT
from trunkline.errors import UpstreamDown
from trunkline.model.event import (
    Ended,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    ReasoningEnded,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallEnded,
    ToolCallStarted,
    Used,
)
from trunkline.model.usage import Usage

ASKED = b'{"model":"m","stream":true,"stream_options":{"include_usage":true}}'
UNASKED = (b'{"model":"m","stream":true}', b'{"model":"m","stream":true,"stream_options":{"include_usage":false}}')


def stream_of(*events: Event, body: bytes = ASKED) -> bytes:
    writer = DIALECT.write_events(request(DIALECT, body))
    return b"".join(map(writer.write, events))


def test_a_stream_is_written_as_the_vendors_client_expects_it() -> None:
    stream = stream_of(
        Started("chatcmpl-1", "gpt-x", 7),
        TextDelta("Hi"),
        ToolCallStarted(4, "c", "n"),
        ToolCallArguments(4, "{}"),
        ToolCallEnded(4),
        Finished("refused"),
        Used(Usage(input=1)),
        Ended(),
    )
    *chunks, done = stream.split(b"\n\n")[:-1]
    parsed = [ChatCompletionChunk.model_validate_json(each.removeprefix(b"data: ")) for each in chunks]
    assert done == b"data: [DONE]"
    assert {(each.id, each.model, each.created) for each in parsed} == {("chatcmpl-1", "gpt-x", 7)}
    assert parsed[0].choices[0].delta.role == "assistant"
    assert [each.choices[0].finish_reason for each in parsed[:-1]] == [None, None, None, None, "content_filter"]
    assert (parsed[-1].choices, parsed[-1].usage is None) == ([], False)
    assert (parsed[2].choices[0].delta.tool_calls or pytest.fail("no calls"))[0].index == 0


@pytest.mark.parametrize("body", UNASKED)
def test_usage_is_told_only_to_a_caller_that_asks(body: bytes) -> None:
    told = [Started("c", "m"), TextDelta("Hi"), Finished("stop"), Used(Usage(input=1)), Ended()]
    assert b"usage" not in stream_of(*told, body=body)
    assert stream_of(*told).count(b'"usage"') == 1


@pytest.mark.proves("G11")
def test_a_thought_is_written_as_it_comes_and_once_more_as_its_vendor_wants_it_back() -> None:
    stream = stream_of(
        Started("c", "m"),
        ReasoningDelta("h"),
        ReasoningDelta("m"),
        ReasoningEnded(signature="s", origin="anthropic"),
        ReasoningDelta("x"),
        ReasoningEnded(),
        ReasoningEnded(encrypted="e", origin="anthropic", id="rs_1"),
        Finished("stop"),
        Ended(),
    )
    deltas = [json.loads(each.removeprefix(b"data: "))["choices"][0]["delta"] for each in stream.split(b"\n\n")[:-2]]
    assert deltas[1:-1] == [
        {"reasoning_content": "h"},
        {"reasoning_content": "m"},
        {"reasoning_details": [{"index": 0, "type": "reasoning.text", "text": "hm", "signature": "s", "origin": "anthropic"}]},
        {"reasoning_content": "x"},
        {"reasoning_details": [{"index": 1, "type": "reasoning.encrypted", "data": "e", "id": "rs_1", "origin": "anthropic"}]},
    ]


def test_a_failure_is_written_by_the_error_event_alone() -> None:
    assert stream_of(Failed(UpstreamDown("gone"))) == b""
