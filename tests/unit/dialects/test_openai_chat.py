import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.wire.streams import Told, read, request
from trunkline.dialects import Written
from trunkline.dialects.openai_chat import DIALECT, OpenAIChat
from trunkline.dialects.openai_chat.stream import DONE
from trunkline.errors import (
    BadRequest,
    Internal,
    LimitReached,
    NotFound,
    TrunklineError,
    Unauthenticated,
    UpstreamBusy,
    UpstreamDenied,
    UpstreamDown,
    UpstreamError,
    UpstreamGarbled,
    UpstreamRefused,
)
from trunkline.model.event import (
    Ended,
    Event,
    Failed,
    Finished,
    FinishReason,
    Lost,
    ReasoningDelta,
    ReasoningEnded,
    Reply,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallEnded,
    ToolCallStarted,
    Used,
)
from trunkline.model.loss import unsupported
from trunkline.model.part import Part, Reasoning, Refusal, Text, ToolCall
from trunkline.model.usage import Usage

ROLE = {"role": "assistant", "content": ""}
USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}


def event(payload: Any) -> bytes:
    return b"data: " + json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def chunk(*choices: dict[str, Any], **more: Any) -> bytes:
    return event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "gpt-x", "choices": list(choices), **more})


def choice(delta: Any, finish: str | None = None, index: int = 0) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": finish}


def says(text: str) -> bytes:
    return chunk(choice({"content": text}))


FIRST = chunk(choice(ROLE))
STOP = chunk(choice({}, "stop"))


def reply_of(message: dict[str, Any], **more: Any) -> Reply:
    body = {"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], **more}
    return DIALECT.read_reply(json.dumps(body).encode(), "chat")


# --------------------------------------------------------------------------------------------------------- requests
def asked(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [], **fields}).encode()


def test_a_request_is_read_as_far_as_it_matters_and_kept_to_the_byte() -> None:
    body = b' {"messages": [ {"role":"user"} ],"model":"a\\u002fb","stream":true, "max_completion_tokens": 5,"max_tokens":6,"x":1.0}\n'
    read_request = DIALECT.read_request(body, "chat")
    assert (read_request.model, read_request.stream, read_request.max_output, read_request.body) == ("a/b", True, 5, body)
    assert {name: bytes(value) for name, value in read_request.fields.items()}["messages"] == b'[ {"role":"user"} ]'


@pytest.mark.parametrize(
    ("fields", "stream", "limit"),
    [
        ({}, False, None),
        ({"stream": None, "max_tokens": None}, False, None),
        ({"stream": False, "max_tokens": 5}, False, 5),
        ({"stream": True, "max_completion_tokens": None, "max_tokens": 5}, True, 5),
    ],
)
def test_what_is_left_out_or_null_has_its_default(fields: dict[str, Any], stream: bool, limit: int | None) -> None:
    read_request = DIALECT.read_request(asked(**fields), "chat")
    assert (read_request.stream, read_request.max_output) == (stream, limit)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"model": 7}, "model"),
        ({"model": None}, "model"),
        ({"stream": "true"}, "stream"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(BadRequest, match=f"`{name}`"):
        DIALECT.read_request(asked(**fields), "chat")


def written(body: bytes, model: str = "n", *, ask_usage: bool = True) -> Written:
    return DIALECT.forward(request(DIALECT, body), model, ask_usage=ask_usage)


def test_a_request_for_the_same_model_passes_as_it_came() -> None:
    body = asked()
    assert written(body, "m") == Written(body)
    assert written(body, "m").body is body


def test_only_the_model_changes_where_there_is_no_stream() -> None:
    body = b'{"x":{"model":"m"},  "model" : "m" ,"stream":false,"stream_options":{"include_usage":false}}'
    assert written(body) == Written(body.replace(b'"model" : "m"', b'"model" : "n"'))


@pytest.mark.parametrize(
    ("options", "result"),
    [
        (None, '"stream_options":{"include_usage":true}'),
        ("null", '"stream_options" : {"include_usage":true}'),
        ("{}", '"stream_options" : {"include_usage":true}'),
        ('{ "include_usage": false }', '"stream_options" : { "include_usage": true }'),
        ('{"include_usage":null}', '"stream_options" : {"include_usage":true}'),
        ('{"include_obfuscation":false}', '"stream_options" : {"include_obfuscation":false,"include_usage":true}'),
        ('{"include_usage":false, "x":[1.0]}', '"stream_options" : {"include_usage":true, "x":[1.0]}'),
    ],
)
def test_the_usage_of_a_stream_is_asked_for_and_nothing_else_of_its_options_changes(options: str | None, result: str) -> None:
    fields = "" if options is None else f',"stream_options" : {options}'
    before = f'{{"model":"m","stream":true{fields}}}'
    after = f'{{"model":"n","stream":true,{result}}}'
    assert written(before.encode()) == Written(after.encode(), usage_added=True)


@pytest.mark.parametrize("options", ['{"include_usage":true}', '{ "x": 1, "include_usage" : true }'])
def test_a_caller_that_asks_for_usage_itself_gets_it(options: str) -> None:
    body = f'{{"model":"m","stream":true,"stream_options":{options}}}'.encode()
    assert written(body, "m") == Written(body)


def test_a_provider_that_refuses_the_option_is_not_asked() -> None:
    body = b'{"model":"m","stream":true}'
    assert written(body, "m", ask_usage=False) == Written(body)


@pytest.mark.parametrize("options", ["7", '"x"', "[]", '{"include_usage":"yes"}', '{"include_usage":1}'])
def test_stream_options_that_are_none_are_the_callers_mistake(options: str) -> None:
    with pytest.raises(BadRequest, match=r"`stream_options(\.include_usage)?` is "):
        written(f'{{"model":"m","stream":true,"stream_options":{options}}}'.encode())


def test_stream_options_with_twins_are_the_callers_mistake() -> None:
    with pytest.raises(BadRequest, match="stands twice"):
        written(b'{"model":"m","stream":true,"stream_options":{"a":1,"a":2}}')


# ---------------------------------------------------------------------------------------------------------- streams
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


def failure(stream: bytes) -> UpstreamError:
    told = read(DIALECT, stream)
    (failed,) = [event for event in told.events if isinstance(event, Failed)]
    assert told.events[-1] is failed
    return failed.error


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


# ------------------------------------------------------------------------------------------------------- tool calls
def called(call_id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


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


# ----------------------------------------------------------------------------------------------------- whole replies
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


# ----------------------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error":{"message":"no such model","type":"invalid_request_error","param":null,"code":"model_not_found"}}', "no such model"),
        (b'{"error":{"message":"no","code":404}}', "no"),
        (b'{"error":"no"}', "no"),
        (b'{"error":{"message":"no"},"id":7,"choices":"odd"}', "no"),
    ],
)
def test_an_error_answer_is_read_with_its_words_and_handed_on_as_it_is(body: bytes, words: str) -> None:
    error = DIALECT.read_error(404, body, None)
    assert isinstance(error, UpstreamRefused)
    assert (error.http_status, error.body) == (404, body)
    assert error.message.endswith(f": {words}")


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"error":null}', b'{"error":7}', b'{"detail":"no"}', b'{"error":{}}', b"\xff"]
)
def test_an_error_answer_without_words_is_not_handed_on(body: bytes) -> None:
    error = DIALECT.read_error(400, body, 3.0)
    assert isinstance(error, UpstreamRefused)
    assert error.body == b""
    assert error.message == "the provider refused the request (HTTP 400)"


def test_a_busy_answer_keeps_its_wait() -> None:
    assert DIALECT.read_error(429, b"", 7.0).retry_after == 7.0


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BadRequest("x", hint="y"), "invalid_request_error"),
        (Unauthenticated("x", hint="y"), "authentication_error"),
        (NotFound("x", hint="y"), "not_found_error"),
        (LimitReached("x", hint="y"), "rate_limit_error"),
        (UpstreamRefused("x", hint="y", upstream_status=422), "invalid_request_error"),
        (UpstreamBusy("x", hint="y", upstream_status=529), "server_error"),
        (Internal("x", hint="y"), "server_error"),
    ],
)
def test_an_error_is_written_in_the_vendors_shape(error: TrunklineError, kind: str) -> None:
    body = DIALECT.write_error(error, "rqe_a")
    assert json.loads(body) == {"error": {"message": "x. y", "type": kind, "param": None, "code": error.code}, "request_id": "rqe_a"}
    assert DIALECT.write_error_event(error, "rqe_a") == b"data: " + body + b"\n\n"


def test_an_error_event_of_ours_is_read_as_a_failure() -> None:
    assert "x. y" in failure(FIRST + DIALECT.write_error_event(LimitReached("x", hint="y"), "rqe_a")).message


def test_dialects_are_equal_by_value() -> None:
    assert OpenAIChat() == DIALECT
    assert len({OpenAIChat(), DIALECT}) == 1


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
