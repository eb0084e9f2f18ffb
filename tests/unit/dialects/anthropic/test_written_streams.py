import pytest

from tests.unit.dialects.anthropic.events import EVENTS
from tests.wire.streams import read, request
from trunkline.dialects.anthropic import DIALECT
from trunkline.errors import UpstreamDown
from trunkline.model.event import (
    Ended,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    ReasoningEnded,
    RefusalDelta,
    Reply,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallEnded,
    ToolCallStarted,
    Used,
)
from trunkline.model.part import Reasoning, Text, ToolCall
from trunkline.model.usage import Usage


def written(*events: Event) -> bytes:
    writer = DIALECT.write_events(request(DIALECT))
    return b"".join(map(writer.write, events))


def test_a_stream_is_written_as_the_vendors_client_expects_it() -> None:
    stream = written(
        Started("msg_1", "claude-x"),
        ReasoningDelta("hm"),
        ReasoningEnded(signature="s", origin="anthropic"),
        TextDelta("Hi"),
        ToolCallStarted(0, "t", "n"),
        ToolCallStarted(1, "u", "n"),
        ToolCallArguments(1, "{}"),
        ToolCallArguments(0, '{"a":'),
        TextDelta("!"),
        ToolCallArguments(0, "1}"),
        ToolCallEnded(0),
        ToolCallEnded(1),
        RefusalDelta("no"),
        Finished("tool_calls"),
        Used(Usage(input=1, output=2)),
        Ended(),
    )
    parsed = [EVENTS.validate_json(each.partition(b"data: ")[2]) for each in stream.split(b"\n\n")[:-1]]

    def block(deltas: int) -> list[str]:
        return ["content_block_start", *["content_block_delta"] * deltas, "content_block_stop"]

    blocks = [*block(2), *block(1), *block(2), *block(1), *block(2)]  # the thought and its signature; Hi; t; u; !no
    assert [each.type for each in parsed] == ["message_start", *blocks, "message_delta", "message_stop"]
    assert read(DIALECT, stream).reply == Reply(
        id="msg_1",
        model="claude-x",
        content=(
            Reasoning(text="hm", signature="s", origin="anthropic"),
            Text(text="Hi"),
            ToolCall(id="t", name="n", arguments='{"a":1}'),
            ToolCall(id="u", name="n", arguments="{}"),
            Text(text="!no"),
        ),
        finish="tool_calls",
        usage=Usage(input=1, output=2),
    )


def test_text_is_written_without_delay() -> None:
    writer = DIALECT.write_events(request(DIALECT))
    writer.write(Started("msg_1", "m"))
    assert b'"text":"Hi"' in writer.write(TextDelta("Hi"))


def test_the_arguments_of_the_first_open_call_are_written_without_delay() -> None:
    writer = DIALECT.write_events(request(DIALECT))
    for event in (Started("msg_1", "m"), ToolCallStarted(0, "t", "n"), ToolCallStarted(1, "u", "n")):
        writer.write(event)
    assert writer.write(ToolCallArguments(1, "late")) == b""
    assert b'"partial_json":"soon"' in writer.write(ToolCallArguments(0, "soon"))


@pytest.mark.proves("G6")
def test_a_call_that_never_ends_is_never_closed() -> None:
    stream = written(Started("msg_1", "m"), ToolCallStarted(0, "t", "n"), ToolCallArguments(0, '{"path":"/e'), Failed(UpstreamDown("gone")))
    assert b"content_block_stop" not in stream
    assert b"message_stop" not in stream


def test_a_stop_sequence_is_told_where_it_was_met() -> None:
    stream = written(Started("msg_1", "m"), TextDelta("Hi"), Finished("stop", "END"), Ended())
    assert b'"delta":{"stop_reason":"stop_sequence","stop_sequence":"END"}' in stream
    assert (read(DIALECT, stream).reply.finish, read(DIALECT, stream).reply.stop) == ("stop", "END")


def test_a_failure_is_written_by_the_error_event_alone() -> None:
    assert written(Failed(UpstreamDown("gone"))) == b""
