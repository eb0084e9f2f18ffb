import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.dialects.openai_chat.chunks import FIRST, ROLE, STOP, USAGE, called, choice, chunk, event, failure, reply_of, says
from tests.wire.streams import Told, read
from trunkline.dialects.openai_chat import DIALECT
from trunkline.dialects.openai_chat.stream import DONE
from trunkline.errors import UpstreamBusy, UpstreamDenied, UpstreamDown, UpstreamError, UpstreamGarbled, UpstreamRefused
from trunkline.model.event import (
    Ended,
    Finished,
    FinishReason,
    Lost,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallEnded,
    ToolCallStarted,
    Used,
)
from trunkline.model.loss import unsupported
from trunkline.model.part import Part, Reasoning, Refusal, Text
from trunkline.model.usage import Usage


def test_a_stream_passes_as_it_came_and_says_what_it_says() -> None:
    stream = FIRST + says("Hel") + b": keep-alive\n\n" + says("lo") + STOP + chunk(usage=USAGE) + DONE
    told = read(DIALECT, stream)
    assert told.raw == stream
    assert told.events == [
        Started("chatcmpl-1", "gpt-x", 7),
        TextDelta("Hel"),
        TextDelta("lo"),
        Finished("stop"),
        Used(Usage(input=9, output=2)),
        Ended(),
    ]
    assert told.visible == 1


def test_the_usage_that_only_we_asked_for_is_hidden_and_null_usage_stays() -> None:
    shown = chunk(choice(ROLE), usage=None) + chunk(choice({"content": "Hi"}), usage=None) + chunk(choice({}, "stop"), usage=None)
    told = read(DIALECT, shown + chunk(usage=USAGE) + DONE, usage_added=True)
    assert told.raw == shown + DONE
    assert told.reply.usage == Usage(input=9, output=2)


def test_usage_beside_a_choice_is_no_extra_chunk_and_stays() -> None:
    stream = FIRST + chunk(choice({}, "stop"), usage=USAGE) + DONE
    assert read(DIALECT, stream, usage_added=True).raw == stream


def test_a_chunk_without_choices_that_has_no_usage_is_not_ours_to_hide() -> None:
    stream = chunk(prompt_filter_results=[]) + FIRST + says("Hi") + STOP + DONE
    assert read(DIALECT, stream, usage_added=True).raw == stream


@pytest.mark.proves("G4")
def test_usage_in_the_last_chunk_is_kept_and_its_buckets_do_not_overlap() -> None:
    usage = {"prompt_tokens": 900, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 800}}
    stream = FIRST + says("Hi") + event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}) + DONE
    told = read(DIALECT, stream)
    assert told.raw == stream
    assert told.reply.usage == Usage(input=100, cache_read=800, output=7)


@pytest.mark.parametrize(
    ("wire", "usage"),
    [
        ({}, Usage()),
        ({"prompt_tokens": None, "completion_tokens": 3, "prompt_tokens_details": None}, Usage(output=3)),
        (
            {"prompt_tokens": 90, "completion_tokens": 30, "completion_tokens_details": {"reasoning_tokens": 20}},
            Usage(input=90, output=10, reasoning=20),
        ),
        ({"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": 50, "cache_write_tokens": 30}}, Usage(10, 50, 30)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 50}}, Usage(input=0, cache_read=50)),
        ({"completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 50}}, Usage(output=0, reasoning=50)),
    ],
)
def test_usage_is_told_in_buckets_that_do_not_overlap(wire: dict[str, Any], usage: Usage) -> None:
    assert reply_of({"content": "x"}, usage=wire).usage == usage
    assert read(DIALECT, STOP + chunk(usage=wire) + DONE).reply.usage == usage


@pytest.mark.parametrize(
    ("wire", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("content_filter", "refused"),
        ("something_new", "stop"),
    ],
)
def test_every_finish_reason_ends_a_reply(wire: str, finish: FinishReason) -> None:
    assert read(DIALECT, FIRST + chunk(choice({}, wire)) + DONE).reply.finish == finish


def test_a_finish_reason_without_the_closing_mark_is_closed_by_us() -> None:
    for rest in (b"", chunk(usage=USAGE), b"data: [DO"):
        told = read(DIALECT, FIRST + says("Hi") + STOP + rest)
        assert told.closing == b"data: [DONE]\n\n"


def test_a_finish_reason_that_is_cut_is_none() -> None:
    with pytest.raises(UpstreamDown, match="ended before the reply did"):
        read(DIALECT, FIRST + says("Hel") + STOP[:-2])


UNFINISHED = {
    "nothing at all": b"",
    "comments only": b": hb\n\n",
    "a role": FIRST,
    "a text": FIRST + says("Hel"),
    "an empty finish reason": FIRST + says("Hel") + chunk(choice({}, "")),
    "a tool call": FIRST + chunk(choice({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "n", "arguments": '{"path":"/e'}}]})),
    "one choice of two": FIRST + chunk(choice(ROLE, index=1)) + says("A") + STOP + chunk(choice({"content": "B"}, index=1)),
    "one choice of two, the other silent": FIRST + chunk(choice(ROLE, index=1)) + says("A") + STOP,
    "a text after the finish reason": FIRST + says("A") + STOP + says("B"),
    "usage": FIRST + says("Hel") + chunk(usage=USAGE),
}


@pytest.mark.proves("G6")
@pytest.mark.parametrize("done", [b"", DONE], ids=["cut", "with the closing mark"])
@pytest.mark.parametrize("stream", UNFINISHED.values(), ids=UNFINISHED)
def test_a_reply_that_is_not_finished_is_never_closed_as_if_it_were(stream: bytes, done: bytes) -> None:
    with pytest.raises(UpstreamDown, match="ended before the reply did"):
        read(DIALECT, stream + done)


FINISHED = {
    "usage with an empty delta": chunk(choice({"role": "assistant", "content": ""}), usage=USAGE),
    "an annotation without a delta": chunk({"index": 0, "finish_reason": None, "content_filter_offsets": {}}),
    "no choices": chunk(),
    "null choices": chunk().replace(b'"choices":[]', b'"choices":null'),
    "the finish reason again": STOP,
}


@pytest.mark.parametrize("rest", FINISHED.values(), ids=FINISHED)
def test_what_says_nothing_more_may_follow_a_finish_reason(rest: bytes) -> None:
    stream = FIRST + says("Hi") + STOP + rest + DONE
    assert read(DIALECT, stream).raw == stream


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        ({"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}, UpstreamBusy, "slow down"),
        ({"message": "slow down", "code": 429}, UpstreamBusy, "slow down"),
        ({"message": "no", "type": "invalid_request_error", "param": None, "code": None}, UpstreamRefused, "no"),
        ({"message": "no", "type": "invalid_request_error", "code": "invalid_api_key"}, UpstreamDenied, ""),
        ({"message": "oops", "type": "server_error"}, UpstreamDown, "oops"),
        ({"message": "oops", "code": 502, "metadata": {"provider_name": "x"}}, UpstreamDown, "oops"),
        ({"message": None}, UpstreamDown, ""),
        ({"code": ["odd"]}, UpstreamDown, ""),
        ("it broke", UpstreamDown, "it broke"),
        (True, UpstreamDown, ""),
    ],
)
@pytest.mark.parametrize("before", [b"", FIRST + says("Hel")], ids=["first", "in the middle"])
def test_an_error_chunk_is_a_failure_with_the_providers_words(before: bytes, error: object, kind: type[UpstreamError], words: str) -> None:
    seen = failure(before + event({"error": error}) + DONE)
    assert type(seen) is kind
    assert words in seen.message


def test_an_error_beside_choices_is_a_failure_too() -> None:
    assert isinstance(failure(FIRST + chunk(choice({"content": ""}, "error"), error={"code": 502, "message": "gone"}) + DONE), UpstreamDown)


def test_no_error_is_none() -> None:
    stream = chunk(choice(ROLE), error=None) + says("Hi") + STOP + DONE
    assert read(DIALECT, stream).reply.content == (Text(text="Hi"),)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"[DONE", b"null", b'{"choices":7}', b'{"choices":[{"delta":"x"}]}', b"\xff", b'{"a":' + b"[" * 100_000, b"<html>"],
)
def test_a_chunk_that_cannot_be_read_is_garbled_and_not_repeated(data: bytes) -> None:
    with pytest.raises(UpstreamGarbled, match="cannot be read") as garbled:
        read(DIALECT, FIRST + b"data: " + data + b"\n\n")
    assert "html" not in garbled.value.message


def test_unknown_fields_and_nulls_pass() -> None:
    stream = (
        event({"id": None, "model": None, "created": None, "choices": [], "x": {"y": [1]}})
        + chunk({"index": 0, "delta": None, "finish_reason": None}, service_tier=None)
        + chunk(choice({"content": None, "tool_calls": None, "audio": None, "function_call": None, "new": [1]}))
        + says("Hi")
        + STOP
        + DONE
    )
    told = read(DIALECT, stream)
    assert told.raw == stream
    assert told.events == [Started("", ""), TextDelta("Hi"), Finished("stop"), Ended()]


@pytest.mark.parametrize(
    ("delta", "parts"),
    [
        ({"content": "a"}, [Text(text="a")]),
        ({"reasoning_content": "a", "content": None}, [Reasoning(text="a")]),
        ({"reasoning": "a"}, [Reasoning(text="a")]),
        ({"reasoning": "a", "reasoning_content": "a"}, [Reasoning(text="a")]),
        ({"reasoning_content": "a", "content": "b"}, [Reasoning(text="a"), Text(text="b")]),
        ({"refusal": "a"}, [Refusal(text="a")]),
        ({"content": [{"type": "text", "text": "a"}]}, [Text(text="a")]),
        ({"content": [{"type": "new", "x": 1}]}, []),
        ({"reasoning": {"x": 1}}, []),
        ({"audio": {"id": "audio_1", "data": "AAAA"}}, []),
    ],
)
def test_whatever_a_person_reads_or_hears_is_a_visible_part(delta: dict[str, Any], parts: list[Part]) -> None:
    told = read(DIALECT, FIRST + chunk(choice(delta)) + STOP + DONE)
    assert told.visible == 1
    assert told.reply.content == tuple(parts)


@pytest.mark.parametrize("delta", [ROLE, {}, {"content": ""}, {"reasoning_content": ""}, {"tool_calls": []}])
def test_a_chunk_that_says_nothing_is_not_yet_visible(delta: dict[str, Any]) -> None:
    assert read(DIALECT, chunk(choice(delta)) + says("x") + STOP + DONE).visible == 1


@pytest.mark.parametrize(
    "details",
    [
        [{"type": "reasoning.text", "text": "hm", "signature": "s"}],
        [{"type": "reasoning.text", "text": "hm"}, {"type": "reasoning.text", "signature": "s"}],
        [{"type": "reasoning.summary", "summary": "h"}, {"type": "reasoning.text", "text": "m", "signature": "s"}],
    ],
    ids=["whole", "a signature alone", "in pieces"],
)
@pytest.mark.parametrize("beside", [False, True], ids=["details alone", "text beside them"])
def test_a_signed_thought_is_told_once_however_a_vendor_tells_it(details: list[dict[str, str]], beside: bool) -> None:
    pieces = [
        {"reasoning_details": [each], **({"reasoning": each.get("text") or each.get("summary") or ""} if beside else {})}
        for each in details
    ]
    told = read(DIALECT, FIRST + b"".join(chunk(choice(piece)) for piece in pieces) + says("Hi") + STOP + DONE)
    assert told.reply.content == (Reasoning(text="hm", signature="s", origin="openai_chat"), Text(text="Hi"))


@pytest.mark.parametrize(
    ("message", "paths"),
    [
        ({"content": "Hi", "annotations": [{"x": 1}]}, ["choices.0.message.annotations"]),
        ({"content": "Hi", "annotations": [], "audio": None}, []),
        ({"content": None, "audio": {"id": "a"}}, ["choices.0.message.audio"]),
        ({"content": "Hi", "reasoning": {"x": 1}}, ["choices.0.message.reasoning"]),
        ({"content": [{"type": "text", "text": "Hi"}, {"type": "new"}, 7]}, ["choices.0.message.content"]),
        ({"content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": ""}]}, []),
    ],
)
def test_what_there_is_no_neutral_part_for_is_told_as_lost(message: dict[str, Any], paths: list[str]) -> None:
    told = read(DIALECT, FIRST + chunk(choice(message)) + STOP + DONE)
    assert [each.loss.path for each in told.events if isinstance(each, Lost)] == paths
    assert [loss.path for loss in reply_of(message).losses] == paths
    assert told.reply.losses == reply_of(message).losses


def test_log_probabilities_and_further_choices_are_told_as_lost() -> None:
    told = read(DIALECT, FIRST + chunk({**choice({"content": "Hi"}), "logprobs": {"content": []}}) + STOP + DONE)
    assert told.reply.losses == (unsupported("choices.0.logprobs"),)
    choices = [{"index": number, "message": {"content": "Hi"}, "finish_reason": "stop", "logprobs": {}} for number in (0, 1)]
    reply = DIALECT.read_reply(json.dumps({"choices": choices}).encode(), "chat")
    assert [loss.path for loss in reply.losses] == ["choices.0.logprobs", "choices.1"]


# ----------------------------------------------------------------------------------------------------------- tool calls
def calls(*pieces: dict[str, Any]) -> Told:
    return read(
        DIALECT, FIRST + b"".join(chunk(choice({"tool_calls": [piece]})) for piece in pieces) + chunk(choice({}, "tool_calls")) + DONE
    )


def piece(arguments: str | None = None, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {**more, "function": {"arguments": arguments, "name": name}}


def test_a_tool_call_is_told_with_its_pieces() -> None:
    told = calls(piece("", "read", index=0, id="call_1"), piece('{"a"', index=0), piece(":1}", index=0))
    assert told.events[1:5] == [
        ToolCallStarted(0, "call_1", "read"),
        ToolCallArguments(0, '{"a"'),
        ToolCallArguments(0, ":1}"),
        ToolCallEnded(0),
    ]
    assert told.visible == 1


@pytest.mark.proves("G7")
def test_calls_whose_pieces_interleave_are_told_apart() -> None:
    told = calls(
        piece("", "a", index=1, id="x"),
        piece("", "b", index=2, id="y"),
        piece("[1", index=1),
        piece("[2", index=2),
        piece("]", index=1),
        piece("]", index=2),
    )
    assert told.reply.tool_calls == (called("x", "a", "[1]"), called("y", "b", "[2]"))


@pytest.mark.parametrize(
    "pieces",
    [
        [piece('{"a":', "read", index=0, id="c"), piece("1}", "read", index=0, id="c")],
        [piece('{"a":', "read", index=0, id="c"), piece("1}", index=0, id="")],
        [piece('{"a":', "read", index=0, id="c"), piece("1}", "", index=0, id="d")],
        [piece('{"a":1}', "read", id="c")],
    ],
    ids=["the id again", "an empty id", "another id at the same index", "no index"],
)
def test_a_call_that_a_vendor_repeats_or_does_not_number_is_one_call(pieces: list[dict[str, Any]]) -> None:
    assert calls(*pieces).reply.tool_calls == (called("c", "read", '{"a":1}'),)


def test_calls_that_all_have_one_number_are_told_apart_by_their_names_and_ids() -> None:
    told = calls(piece("1", "a", index=0, id="x"), piece("2", "b", index=0, id="y"), piece("3", index=0))
    assert told.reply.tool_calls == (called("x", "a", "1"), called("y", "b", "23"))


def test_calls_without_numbers_are_told_apart_by_their_ids() -> None:
    assert calls(piece("1", "a", id="x"), piece("2", "b", id="y")).reply.tool_calls == (called("x", "a", "1"), called("y", "b", "2"))


def test_arguments_without_a_beginning_begin_a_call() -> None:
    assert calls(piece("{}", index=3)).events[1:3] == [ToolCallStarted(0, "call_0", ""), ToolCallArguments(0, "{}")]


def test_calls_of_different_choices_are_different_calls() -> None:
    stream = b"".join(chunk(choice({"tool_calls": [piece("{}", "f", index=0, id=f"c{index}")]}, index=index)) for index in (0, 1))
    ends = b"".join(chunk(choice({}, "tool_calls", index=index)) for index in (0, 1))
    assert read(DIALECT, stream + ends + DONE).reply.tool_calls == (called("c0", "f", "{}"), called("c1", "f", "{}"))


# ---------------------------------------------------------------------------------------------------------- repairs
def without_role(**more: Any) -> bytes:
    return chunk(choice({"content": "Hi"}), system_fingerprint="b1", **more)


def test_a_first_chunk_without_a_role_passes_where_nothing_is_to_be_mended() -> None:
    stream = without_role() + STOP + DONE
    assert read(DIALECT, stream).raw == stream


def test_a_first_chunk_without_a_role_gets_one_before_it_where_the_record_says_so() -> None:
    stream = without_role() + STOP + DONE
    told = read(DIALECT, stream, repairs=["first_role"])
    assert told.raw.endswith(stream)
    (added,) = told.raw.removesuffix(stream).strip().split(b"\n")
    assert json.loads(added.removeprefix(b"data: ")) == {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "gpt-x",
        "system_fingerprint": "b1",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}],
    }
    assert told.reply.content == (Text(text="Hi"),)
    assert told.events.count(Started("chatcmpl-1", "gpt-x", 7)) == 1


@pytest.mark.parametrize("first", [FIRST, chunk(choice({"role": "assistant", "content": "Hi"}))])
def test_a_first_chunk_with_a_role_is_left_alone(first: bytes) -> None:
    stream = first + says("x") + STOP + DONE
    assert read(DIALECT, stream, repairs=["first_role"]).raw == stream


def test_a_role_is_added_once_and_for_each_choice_of_the_first_chunk() -> None:
    first = chunk(choice({"content": "a"}), choice({"content": "b"}, index=1))
    stream = first + says("x") + chunk(choice({}, "stop"), choice({}, "stop", index=1)) + DONE
    told = read(DIALECT, stream, repairs=["first_role"])
    added = json.loads(told.raw.removesuffix(stream).removeprefix(b"data: "))
    assert [(each["index"], each["delta"]["role"]) for each in added["choices"]] == [(0, "assistant"), (1, "assistant")]


def test_a_first_chunk_with_twins_is_the_providers_business_and_not_the_callers_mistake() -> None:
    stream = b'data: {"id":"a","id":"b","choices":[{"delta":{"content":"x"}}]}\n\n' + STOP + DONE
    assert read(DIALECT, stream, repairs=["first_role"]).raw.endswith(stream)


# ----------------------------------------------------------------------------------------------------------- whatever comes
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["delta", "choices", "index", "content", "tool_calls", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.lists(st.dictionaries(st.sampled_from(["id", "model", "created", "choices", "usage", "error", "x"]), json_values), max_size=4))
def test_no_chunk_whatever_stands_in_it_raises_anything_but_an_upstream_error(chunks: list[Any]) -> None:
    try:
        read(DIALECT, b"".join(map(event, chunks)), repairs=["first_role"])
    except UpstreamError as error:
        assert error.message  # noqa: PT017 - most are no streams, some are
