from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.dialects.anthropic.events import EVENTS, PING, START, STOP, TEXT, WHOLE, block, close, delta, event, finish, says, start
from tests.wire.streams import Told, read, text_of
from trunkline.dialects.anthropic import DIALECT
from trunkline.errors import UpstreamDown, UpstreamError, UpstreamGarbled
from trunkline.model.event import (
    Ended,
    Finished,
    FinishReason,
    ReasoningDelta,
    ReasoningEnded,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallEnded,
    ToolCallStarted,
    Used,
)
from trunkline.model.loss import unsupported
from trunkline.model.part import ToolCall
from trunkline.model.usage import Usage


@pytest.mark.proves("G3")
def test_a_stream_passes_as_it_came_and_says_what_it_says() -> None:
    told = read(DIALECT, WHOLE)
    assert told.raw == WHOLE
    assert told.events == [
        Started("msg_1", "claude-x"),
        Used(Usage(input=9, output=1)),
        TextDelta("Hel"),
        TextDelta("lo"),
        Finished("stop"),
        Used(Usage(input=9, output=5)),
        Ended(),
    ]
    assert told.visible == 2


def test_thinking_is_read_with_what_its_vendor_wants_to_see_again() -> None:
    stream = (
        START
        + block(0, "thinking", thinking="", signature="")
        + delta(0, type="thinking_delta", thinking="hm")
        + delta(0, type="signature_delta", signature="c2ln")
        + close(0)
        + block(1, "redacted_thinking", data="eA==")
        + close(1)
        + finish()
        + STOP
    )
    told = read(DIALECT, stream)
    assert told.raw == stream
    assert told.events[2:5] == [
        ReasoningDelta("hm"),
        ReasoningEnded(signature="c2ln", origin="anthropic"),
        ReasoningEnded(encrypted="eA==", origin="anthropic"),
    ]


def test_names_may_be_left_out_since_the_type_says_the_same() -> None:
    stream = b"".join(line + b"\n" for line in WHOLE.split(b"\n")[:-1] if not line.startswith(b"event: "))
    told = read(DIALECT, stream)
    assert told.raw == stream
    assert told.reply == read(DIALECT, WHOLE).reply


def test_events_of_later_versions_pass_untouched_wherever_they_stand() -> None:
    news = event("model_note", note=[1]) + b"event: odd\ndata: not json\n\n" + b"event: ping\n\n" + b": hb\n\n"
    stream = news + START + news + block(0) + news + says(0, "Hi") + close(0) + news + finish() + news + STOP
    told = read(DIALECT, stream)
    assert told.raw == stream
    assert text_of(told.reply) == "Hi"


def test_blocks_and_deltas_of_later_versions_pass_untouched() -> None:
    stream = START + block(0, "hologram", frames=3) + delta(0, type="hologram_delta", frame="x") + close(0) + finish() + STOP
    told = read(DIALECT, stream)
    assert told.raw == stream
    assert told.reply.losses == (unsupported("content.0", "a block of type `hologram`"),)


GARBLED = {
    "two starts": START + START,
    "a start after a block": START + TEXT + START,
    "a start without usage": start() + TEXT,
    "a start with null usage": START.replace(b'"usage":{"input_tokens":9,"output_tokens":1}', b'"usage":null') + TEXT,
    "a start without a message": event("message_start"),
    "no start, a block": TEXT,
    "no start, a delta": says(0, "x"),
    "no start, an end": finish() + STOP,
    "no start, a stop": STOP,
    "a block inside a block": START + block(0) + block(1),
    "a block twice": START + TEXT + TEXT,
    "a block that goes back": START + block(1) + close(1) + block(0),
    "a delta outside a block": START + says(0, "x"),
    "a delta of another block": START + block(0) + says(1, "x"),
    "a delta after its block": START + TEXT + says(0, "x"),
    "a stop outside a block": START + close(0),
    "a stop of another block": START + block(0) + close(1),
    "a stop twice": START + TEXT + close(0),
    "the end inside a block": START + block(0) + finish() + STOP,
    "the end without a stop reason": START + TEXT + STOP,
    "the end with a null stop reason": START + TEXT + finish(None) + STOP,
    "a block after the stop reason": START + TEXT + finish() + block(1),
    "a block without an index": START + event("content_block_start", content_block={"type": "text"}),
    "a delta without an index": START + block(0) + event("content_block_delta", delta={"type": "text_delta", "text": "x"}),
    "a block that is no object": START + event("content_block_start", index=0, content_block="x"),
    "no JSON": START + b"event: content_block_start\ndata: <html>\n\n",
    "no JSON and no name": START + b"data: <html>\n\n",
    "an empty event": START + b"data\n\n",
    "nesting without end": START + b"event: content_block_start\ndata: " + b"[" * 100_000 + b"\n\n",
}


@pytest.mark.proves("G3", "G21")
@pytest.mark.parametrize("stream", GARBLED.values(), ids=GARBLED)
def test_a_stream_that_breaks_the_grammar_is_never_passed_on_as_it_is(stream: bytes) -> None:
    with pytest.raises(UpstreamGarbled) as garbled:
        read(DIALECT, stream)
    assert "html" not in garbled.value.message


CUT = {
    "nothing at all": b"",
    "pings only": PING + PING,
    "a start": START,
    "an open block": START + block(0) + says(0, "Hel"),
    "a tool call": START + block(0, "tool_use", id="t", name="n", input={}) + delta(0, type="input_json_delta", partial_json='{"path":"/e'),
    "a closed block": START + TEXT,
    "a null stop reason": START + TEXT + finish(None),
    "a stop reason inside a block": START + block(0) + finish(),
    "a stop reason that is cut": START + TEXT + finish()[:-1],
}


@pytest.mark.proves("G6")
@pytest.mark.parametrize("stream", CUT.values(), ids=CUT)
def test_a_cut_stream_is_never_closed_as_if_it_were_complete(stream: bytes) -> None:
    with pytest.raises(UpstreamDown, match="ended before the reply did"):
        read(DIALECT, stream)


def test_a_stop_reason_without_the_stop_is_closed_by_us() -> None:
    for rest in (b"", PING, b"event: message_st"):
        told = read(DIALECT, START + TEXT + finish() + rest)
        assert told.closing == b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


@pytest.mark.parametrize(
    ("wire", "finish_reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("pause_turn", "paused"),
        ("refusal", "refused"),
        ("something_new", "stop"),
    ],
)
def test_every_stop_reason_ends_a_reply(wire: str, finish_reason: FinishReason) -> None:
    assert read(DIALECT, START + TEXT + finish(wire) + STOP).reply.finish == finish_reason


# ------------------------------------------------------------------------------------------------------------ usage
@pytest.mark.proves("G16")
def test_the_end_of_a_stream_tells_only_what_changed_since_its_start() -> None:
    begun = start({"input_tokens": 2000, "cache_read_input_tokens": 80_000, "cache_creation_input_tokens": 5000, "output_tokens": 1})
    told = read(DIALECT, begun + TEXT + finish(output_tokens=1000) + STOP)
    assert told.reply.usage == Usage(input=2000, cache_read=80_000, cache_write=5000, output=1000)


@pytest.mark.parametrize(
    ("first", "later", "usage"),
    [
        ({"input_tokens": 9, "output_tokens": 1}, [{"output_tokens": 5}], Usage(9, output=5)),
        ({"input_tokens": 0, "output_tokens": 0}, [{"input_tokens": 9, "output_tokens": 5}], Usage(9, output=5)),
        ({"input_tokens": 9, "cache_read_input_tokens": None}, [{"input_tokens": None, "output_tokens": 5}], Usage(9, output=5)),
        ({"input_tokens": 9}, [{"cache_read_input_tokens": 7, "output_tokens": 1}, {"output_tokens": 5}], Usage(9, 7, output=5)),
        ({"input_tokens": 9, "output_tokens": 3}, [{"output_tokens": 0}], Usage(9)),
        (
            {"input_tokens": 9},
            [{"output_tokens": 5, "output_tokens_details": {"thinking_tokens": 4}}, {"output_tokens": 8}],
            Usage(9, output=4, reasoning=4),
        ),
        ({"input_tokens": 9}, [{"output_tokens": 5, "output_tokens_details": {"thinking_tokens": 7}}], Usage(9, reasoning=7)),
        ({"input_tokens": 9}, [{"output_tokens": 5, "output_tokens_details": {"thinking_tokens": None}}], Usage(9, output=5)),
        ({"input_tokens": 9, "server_tool_use": {"web_search_requests": 1}, "speed": "fast"}, [{"output_tokens": 5}], Usage(9, output=5)),
    ],
)
def test_later_usage_is_laid_over_earlier_usage(first: dict[str, Any], later: list[dict[str, Any]], usage: Usage) -> None:
    ends = b"".join(finish(**each) for each in later)
    assert read(DIALECT, start(first) + TEXT + ends + STOP).reply.usage == usage


def test_an_end_without_usage_leaves_what_the_start_told() -> None:
    stream = START + TEXT + event("message_delta", delta={"stop_reason": "end_turn"}) + STOP
    assert read(DIALECT, stream).reply.usage == Usage(input=9, output=1)


# ---------------------------------------------------------------------------------------------------------- repairs
@pytest.mark.proves("G21")
@pytest.mark.parametrize("before", [b"", PING, b": hb\n\n"], ids=["first", "after a ping", "after a comment"])
def test_a_missing_start_is_added_where_the_record_says_so(before: bytes) -> None:
    rest = block(0) + says(0, "🛰") + close(0) + finish(input_tokens=3, output_tokens=5) + STOP
    told = read(DIALECT, before + rest, repairs=["message_start"])
    assert told.raw.startswith(before + b"event: message_start\n")
    assert told.raw.endswith(rest)
    added = told.raw.removeprefix(before).removesuffix(rest)
    parsed = EVENTS.validate_json(added.partition(b"data: ")[2])
    assert parsed.type == "message_start"
    assert (parsed.message.model, parsed.message.content, parsed.message.usage.input_tokens) == ("m", [], 0)
    assert told.events[:2] == [Started("", "m"), TextDelta("🛰")]
    assert told.reply.usage == Usage(input=3, output=5)


@pytest.mark.proves("G3", "G21")
def test_a_mended_stream_obeys_the_grammar_that_is_asked_of_others() -> None:
    for broken in (TEXT + finish() + STOP, start() + TEXT + finish() + STOP):
        mended = read(DIALECT, broken, repairs=["message_start"])
        assert read(DIALECT, mended.raw).raw == mended.raw
        assert mended.raw.count(b"event: message_start") == 1


@pytest.mark.proves("G3")
def test_a_start_without_usage_gets_some_where_the_record_says_so() -> None:
    told = read(DIALECT, start() + TEXT + finish(input_tokens=3, output_tokens=5) + STOP, repairs=["message_start"])
    parsed = EVENTS.validate_json(told.frames[0].partition(b"data: ")[2])
    assert parsed.type == "message_start"
    assert (parsed.message.id, parsed.message.model, parsed.message.usage.output_tokens) == ("msg_1", "claude-x", 0)
    assert told.frames[1:] == read(DIALECT, START + TEXT + finish(input_tokens=3, output_tokens=5) + STOP).frames[1:]


@pytest.mark.parametrize("stream", [WHOLE, START + TEXT + finish() + STOP])
def test_a_whole_stream_needs_no_mending(stream: bytes) -> None:
    assert read(DIALECT, stream, repairs=["message_start"]).raw == stream


@pytest.mark.proves("G3")
def test_a_start_that_comes_late_is_not_a_second_one() -> None:
    with pytest.raises(UpstreamGarbled, match="second `message_start`"):
        read(DIALECT, block(0) + START, repairs=["message_start"])


# ------------------------------------------------------------------------------------------------------- tool calls
def called(*pieces: bytes, kind: str = "tool_use", given: Any = None) -> Told:
    begun = block(3, kind, id="toolu_1", name="read", **({} if given is None else {"input": given}))
    return read(DIALECT, START + TEXT + begun + b"".join(pieces) + close(3) + finish("tool_use") + STOP)


def arguments(text: str) -> bytes:
    return delta(3, type="input_json_delta", partial_json=text)


def read_call(arguments: str) -> ToolCall:
    return ToolCall(id="toolu_1", name="read", arguments=arguments)


def test_a_tool_call_is_told_with_its_pieces_and_its_end() -> None:
    told = called(arguments(""), arguments('{"a"'), arguments(":1}"), given={})
    assert told.events[4:8] == [
        ToolCallStarted(3, "toolu_1", "read"),
        ToolCallArguments(3, '{"a"'),
        ToolCallArguments(3, ":1}"),
        ToolCallEnded(3),
    ]
    assert told.reply.tool_calls == (read_call('{"a":1}'),)


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use"])
def test_what_a_vendor_runs_itself_is_no_call_for_the_client(kind: str) -> None:
    told = called(arguments('{"a":1}'), kind=kind, given={})
    assert told.reply.tool_calls == ()
    assert told.reply.losses == (unsupported("content.3", f"a block of type `{kind}`"),)


@pytest.mark.parametrize(
    ("pieces", "given", "whole"),
    [
        ([], {}, "{}"),
        ([arguments("")], {}, "{}"),
        ([], None, "{}"),
        ([], {"path": "/etc/ş", "n": 1.0}, '{"path":"/etc/ş","n":1.0}'),
        ([arguments('{"b":2}')], {"a": 1}, '{"b":2}'),
    ],
    ids=["no pieces", "an empty piece", "no input", "the input whole", "pieces win"],
)
def test_a_tool_calls_arguments_are_json_also_where_no_piece_brings_them(pieces: list[bytes], given: Any, whole: str) -> None:
    assert called(*pieces, given=given).reply.tool_calls == (read_call(whole),)


def test_pieces_of_arguments_outside_a_tool_call_are_nobodys() -> None:
    stream = START + block(0, "text") + delta(0, type="input_json_delta", partial_json="{}") + close(0) + finish() + STOP
    told = read(DIALECT, stream)
    assert told.raw == stream
    assert told.reply.tool_calls == ()


# ----------------------------------------------------------------------------------------------------------- whatever comes
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.sampled_from(["tool_use", "text", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "index", "delta", "text", "usage", "id", "input", "partial_json"]), inner, max_size=4)
    ),
    max_leaves=6,
)
names = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "error", "message_stop"]
)
fields = st.dictionaries(st.sampled_from(["message", "index", "content_block", "delta", "usage", "error"]), json_values, max_size=3)


@given(st.lists(st.tuples(names, fields), max_size=5), st.booleans())
def test_no_event_whatever_stands_in_it_raises_anything_but_an_upstream_error(
    events: list[tuple[str, dict[str, Any]]], begun: bool
) -> None:
    stream = (START if begun else b"") + b"".join(event(name, **each) for name, each in events)
    try:
        read(DIALECT, stream, repairs=["message_start"])
    except UpstreamError as error:
        assert error.message  # noqa: PT017 - most are no streams, some are
