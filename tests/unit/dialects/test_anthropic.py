import json
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.wire.streams import Told, read, request, text_of
from trunkline.dialects import Written
from trunkline.dialects.anthropic import DIALECT, Anthropic
from trunkline.errors import (
    BadRequest,
    Internal,
    LimitReached,
    NotFound,
    OutOfCredit,
    TooLarge,
    TrunklineError,
    Unauthenticated,
    UpstreamBusy,
    UpstreamDenied,
    UpstreamDown,
    UpstreamError,
    UpstreamGarbled,
    UpstreamRefused,
    UpstreamTimeout,
)
from trunkline.model.event import (
    Ended,
    Event,
    Failed,
    Finished,
    FinishReason,
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
from trunkline.model.loss import unsupported
from trunkline.model.part import Reasoning, Refusal, Text, ToolCall
from trunkline.model.usage import Usage

EVENTS: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)


def event(name: str, **fields: Any) -> bytes:
    data = json.dumps({"type": name, **fields}, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {data}\n\n".encode()


def start(usage: Any = None, **more: Any) -> bytes:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": [], "stop_reason": None, **more}
    return event("message_start", message=message if usage is None else {**message, "usage": usage})


def block(index: int, kind: str = "text", **fields: Any) -> bytes:
    return event("content_block_start", index=index, content_block={"type": kind, **({"text": ""} if kind == "text" else {}), **fields})


def delta(index: int, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta=fields)


def says(index: int, text: str) -> bytes:
    return delta(index, type="text_delta", text=text)


def close(index: int) -> bytes:
    return event("content_block_stop", index=index)


def finish(reason: str | None = "end_turn", **usage: Any) -> bytes:
    return event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage or {"output_tokens": 5})


PING = event("ping")
START = start({"input_tokens": 9, "output_tokens": 1})
TEXT = block(0) + says(0, "Hel") + says(0, "lo") + close(0)
STOP = event("message_stop")
WHOLE = START + PING + TEXT + finish() + STOP


# --------------------------------------------------------------------------------------------------------- requests
def asked(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 5, "messages": [], **fields}).encode()


def test_a_request_is_read_as_far_as_it_matters_and_kept_to_the_byte() -> None:
    body = b' {"messages": [ ],"model":"a","stream":true, "max_tokens": 5,"x":1.0}\n'
    read_request = DIALECT.read_request(body, "chat")
    assert (read_request.model, read_request.stream, read_request.max_output, read_request.body) == ("a", True, 5, body)


def test_a_call_that_only_fills_the_cache_asks_for_no_tokens() -> None:
    assert DIALECT.read_request(asked(max_tokens=0), "chat").max_output == 0


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"model": 7}, "model"),
        ({"model": None}, "model"),
        ({"stream": 1}, "stream"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(BadRequest, match=f"`{name}`"):
        DIALECT.read_request(asked(**fields), "chat")


def test_the_limit_is_required_for_messages_and_not_for_counting() -> None:
    body = b'{"model":"m","messages":[],"stream":true}'
    with pytest.raises(BadRequest, match="`max_tokens` is missing") as refusal:
        DIALECT.read_request(body, "chat")
    assert refusal.value.hint
    counting = DIALECT.read_request(body, "count_tokens")
    assert (counting.operation, counting.stream, counting.max_output) == ("count_tokens", False, None)


def test_only_the_model_changes() -> None:
    body = b'{"x":{"model":"m"},  "model" : "m" ,"max_tokens":5,"stream":true}'
    asked_for = request(DIALECT, body)
    assert DIALECT.forward(asked_for, "n", ask_usage=True) == Written(body.replace(b'"model" : "m"', b'"model" : "n"'))
    assert DIALECT.forward(asked_for, "m", ask_usage=True).body is body


# ---------------------------------------------------------------------------------------------------------- streams
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


# ----------------------------------------------------------------------------------------------------------- errors
def failure(stream: bytes) -> UpstreamError:
    told = read(DIALECT, stream)
    (failed,) = [each for each in told.events if isinstance(each, Failed)]
    assert told.events[-1] is failed
    return failed.error


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, UpstreamBusy, 529),
        ({"type": "rate_limit_error", "message": "slow"}, UpstreamBusy, 429),
        ({"type": "invalid_request_error", "message": "no"}, UpstreamRefused, 400),
        ({"type": "not_found_error", "message": "no"}, UpstreamRefused, 404),
        ({"type": "request_too_large", "message": "no"}, UpstreamRefused, 413),
        ({"type": "authentication_error", "message": "key"}, UpstreamDenied, 502),
        ({"type": "permission_error", "message": "key"}, UpstreamDenied, 502),
        ({"type": "billing_error", "message": "pay"}, UpstreamDenied, 502),
        ({"type": "api_error", "message": "oops"}, UpstreamDown, 502),
        ({"type": "timeout_error", "message": "oops"}, UpstreamDown, 502),
        ({"type": "something_new", "message": "oops"}, UpstreamDown, 502),
        ({"type": None, "message": None}, UpstreamDown, 502),
        ({}, UpstreamDown, 502),
        (None, UpstreamDown, 502),
    ],
)
@pytest.mark.parametrize(
    "before", [b"", PING, START, START + block(0) + says(0, "Hel")], ids=["first", "after a ping", "after the start", "in a block"]
)
def test_an_error_event_is_a_failure_of_its_kind_wherever_it_comes(
    before: bytes, error: object, kind: type[UpstreamError], status: int
) -> None:
    seen = failure(before + event("error", error=error))
    assert type(seen) is kind
    assert seen.http_status == status


def test_an_error_without_a_name_is_found_by_its_type() -> None:
    assert isinstance(failure(START + b'data: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n'), UpstreamBusy)


def test_an_error_event_that_cannot_be_read_is_garbled() -> None:
    for data in (b"<html>", b'{"error":"x"}', b'{"error":{"type":7}}'):
        with pytest.raises(UpstreamGarbled):
            read(DIALECT, START + b"event: error\ndata: " + data + b"\n\n")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"type":"error","error":{"type":"not_found_error","message":"model: x"},"request_id":"req_1"}', "model: x"),
        (b'{"error":{"message":"no"}}', "no"),
        (b'{"error":{"type":null,"message":"no"}}', "no"),
    ],
)
def test_an_error_answer_is_read_with_its_words_and_handed_on_as_it_is(body: bytes, words: str) -> None:
    error = DIALECT.read_error(404, body, None)
    assert isinstance(error, UpstreamRefused)
    assert (error.http_status, error.body) == (404, body)
    assert error.message.endswith(f": {words}")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"error":null}', b'{"error":"no"}', b'{"error":{}}', b"\xff"])
def test_an_error_answer_without_words_is_not_handed_on(body: bytes) -> None:
    error = DIALECT.read_error(400, body, 3.0)
    assert isinstance(error, UpstreamRefused)
    assert error.body == b""
    assert error.message == "the provider refused the request (HTTP 400)"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BadRequest("x", hint="y"), "invalid_request_error"),
        (Unauthenticated("x", hint="y"), "authentication_error"),
        (OutOfCredit("x", hint="y"), "billing_error"),
        (NotFound("x", hint="y"), "not_found_error"),
        (TooLarge("x", hint="y"), "request_too_large"),
        (LimitReached("x", hint="y"), "rate_limit_error"),
        (UpstreamRefused("x", hint="y", upstream_status=422), "invalid_request_error"),
        (UpstreamBusy("x", hint="y", upstream_status=529), "overloaded_error"),
        (UpstreamBusy("x", hint="y"), "rate_limit_error"),
        (UpstreamTimeout("x", hint="y"), "timeout_error"),
        (UpstreamDown("x", hint="y"), "api_error"),
        (Internal("x", hint="y"), "api_error"),
    ],
)
def test_an_error_is_written_in_the_vendors_shape(error: TrunklineError, kind: str) -> None:
    body = DIALECT.write_error(error, "rqe_a")
    assert json.loads(body) == {"type": "error", "error": {"type": kind, "message": "x. y", "code": error.code}, "request_id": "rqe_a"}
    assert DIALECT.write_error_event(error, "rqe_a") == b"event: error\ndata: " + body + b"\n\n"


def test_an_error_event_of_ours_is_read_as_a_failure() -> None:
    assert isinstance(failure(START + DIALECT.write_error_event(LimitReached("x"), "rqe_a")), UpstreamBusy)


# ----------------------------------------------------------------------------------------------------- whole replies
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


def test_dialects_are_equal_by_value() -> None:
    assert Anthropic() == DIALECT
    assert len({Anthropic(), DIALECT}) == 1


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
