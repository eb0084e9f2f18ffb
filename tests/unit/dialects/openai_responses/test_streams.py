"""Streams of Responses: read by their grammar, and written so that the grammar's checker, the SDK and our own reader agree."""

import itertools
import json
from collections.abc import Iterator
from typing import Any, get_args

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel

from tests.wire.grammar import anthropic as messages_grammar
from tests.wire.grammar import openai_chat as chat_grammar
from tests.wire.grammar import openai_responses as grammar
from tests.wire.streams import CORPORA, Told, read, request
from trunkline.dialects import Written
from trunkline.dialects._free import wrapped
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_responses import DIALECT
from trunkline.errors import BadRequest, TrunklineError, UpstreamBusy, UpstreamDenied, UpstreamDown, UpstreamGarbled
from trunkline.model.event import (
    Ended,
    Event,
    Failed,
    Finished,
    FinishReason,
    Lost,
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
from trunkline.model.part import Part, Reasoning, Refusal, Text, ToolCall
from trunkline.model.usage import Usage
from trunkline_sdk import sse

STREAMS = sorted((CORPORA / "openai_responses").glob("*.sse"))
KINDS: dict[str, type[BaseModel]] = {
    get_args(kind.model_fields["type"].annotation)[0]: kind for kind in get_args(get_args(ResponseStreamEvent)[0])
}
"""The SDK's types of events, by their names."""


def event(kind: str, **fields: Any) -> bytes:
    return sse.event(json.dumps({"type": kind, **fields}).encode(), kind)


def response(kind: str, **fields: Any) -> bytes:
    return event(f"response.{kind}", response={"id": "resp_1", "model": "m", "created_at": 7.0, "status": kind, **fields})


CREATED = response("created")
DONE = response("completed", output=[])
USAGE = {"input_tokens": 3, "output_tokens": 2}


def added(index: int, kind: str = "message", **fields: Any) -> bytes:
    return event("response.output_item.added", output_index=index, item={"type": kind, "id": f"i{index}", **fields})


def done(index: int, kind: str = "message", **fields: Any) -> bytes:
    return event("response.output_item.done", output_index=index, item={"type": kind, "id": f"i{index}", **fields})


def says(text: str, index: int = 0) -> bytes:
    return event("response.output_text.delta", output_index=index, content_index=0, item_id=f"i{index}", delta=text)


def content(text: str) -> list[dict[str, Any]]:
    return [{"type": "output_text", "text": text}]


def told(*chunks: bytes) -> Told:
    return read(DIALECT, b"".join(chunks))


def failed(*chunks: bytes) -> Failed:
    last = told(*chunks).events[-1]
    assert isinstance(last, Failed)
    return last


# ------------------------------------------------------------------------------------------------------------- reading
def test_only_what_is_part_of_the_reply_is_visible() -> None:
    assert told(CREATED, response("in_progress"), b": hi\n\n", added(0), says("x"), done(0), DONE).visible == 3


@pytest.mark.proves("G7")
def test_interleaved_calls_keep_their_ids_and_their_arguments() -> None:
    events = read(DIALECT, (CORPORA / "openai_responses" / "parallel_tools.sse").read_bytes()).events
    assert {each.index for each in events if isinstance(each, ToolCallStarted)} == {1, 2}
    assert [each.index for each in events if isinstance(each, ToolCallEnded)] == [2, 1]
    for other, check in ((OPENAI_CHAT, chat_grammar.check), (ANTHROPIC, messages_grammar.check)):
        stream = b"".join(map(other.write_events(request(other)).write, events))
        check(stream)
        reply = read(other, stream).reply
        assert [(call.id, json.loads(call.arguments)) for call in reply.tool_calls] == [
            ("call_a", {"path": "/etc/k\u0131\u015f"}),
            ("call_b", {"path": "/tmp", "mode": 7}),
        ]


@pytest.mark.proves("G5")
def test_a_response_that_fails_is_the_error_that_it_names_and_tells_what_it_used() -> None:
    error = {"code": "rate_limit_exceeded", "message": "slow"}
    events = told(CREATED, response("failed", error=error, usage=USAGE)).events
    assert isinstance(events[-1], Failed)
    assert isinstance(events[-1].error, UpstreamBusy)
    assert events[-2] == Used(Usage(input=3, output=2))
    assert not any(isinstance(each, Finished | Ended) for each in events)


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"type": "x", "code": "rate_limit_exceeded", "message": "slow"}},
        {"code": "rate_limit_exceeded", "message": "slow", "param": None},
        {"error": None, "code": "rate_limit_exceeded", "message": "slow"},
    ],
)
def test_an_error_is_told_with_the_failed_response_that_follows_it(error: dict[str, Any]) -> None:
    first, second = event("error", **error), response("failed", error={"code": "server_error", "message": "x"})
    result = told(CREATED, first, second)
    assert isinstance(result.events[-1], Failed)
    assert isinstance(result.events[-1].error, UpstreamBusy)
    assert result.frames == [CREATED, b"", first + second]  # held back, since what it says may not be for the caller
    assert result.visible == 2


def test_an_error_alone_is_the_reason_why_the_stream_ended() -> None:
    alone = event("error", error={"code": "rate_limit_exceeded", "message": "slow"})
    assert isinstance(failed(CREATED, alone).error, UpstreamBusy)
    assert told(CREATED, alone).closing == alone
    assert told(CREATED, alone, added(0), DONE).raw == CREATED + alone
    assert isinstance(failed(event("error", code="invalid_api_key", message="x"), response("failed")).error, UpstreamDenied)


def test_a_response_that_completes_after_an_error_has_failed() -> None:
    assert isinstance(failed(CREATED, event("error", code="server_error", message="x"), DONE).error, UpstreamDown)


def test_text_that_comes_only_at_the_end_of_an_item_is_told() -> None:
    assert told(CREATED, added(0), done(0, content=content("x")), DONE).reply.content == (Text(text="x"),)
    assert told(CREATED, added(0), says("x"), done(0, content=content("x")), DONE).reply.content == (Text(text="x"),)
    refusal = [{"type": "refusal", "refusal": "no"}]
    assert told(CREATED, added(0), done(0, content=refusal), DONE).reply.content == (Refusal(text="no"),)
    call = {"call_id": "c", "name": "f", "arguments": '{"a":1}'}
    reply = told(CREATED, added(0, "function_call", **call | {"arguments": ""}), done(0, "function_call", **call), DONE).reply
    assert reply.content == (ToolCall(id="c", name="f", arguments='{"a":1}'),)
    whole = event("response.function_call_arguments.done", output_index=0, arguments='{"a":1}')
    reply = told(CREATED, added(0, "function_call", **call), whole, done(0, "function_call", **call), DONE).reply
    assert reply.content == (ToolCall(id="c", name="f", arguments='{"a":1}'),)
    summary = [{"type": "summary_text", "text": "hm"}]
    assert told(CREATED, added(0, "reasoning"), done(0, "reasoning", summary=summary), DONE).reply.content == (Reasoning(text="hm"),)


def test_items_that_come_only_with_the_end_of_the_response_are_told() -> None:
    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}"}
    reply = told(CREATED, response("completed", output=[{"type": "message", "content": content("x")}, item], usage=USAGE)).reply
    assert reply.content == (Text(text="x"), ToolCall(id="c", name="f", arguments="{}"))
    assert (reply.finish, reply.usage) == ("tool_calls", Usage(input=3, output=2))


def test_the_whole_thought_is_passed_over_where_its_summary_is_told() -> None:
    summary = event("response.reasoning_summary_text.delta", output_index=0, summary_index=0, delta="short")
    whole = event("response.reasoning_text.delta", output_index=0, content_index=0, delta="long")
    item = {"summary": [{"text": "short"}], "content": [{"text": "long"}]}
    assert told(CREATED, added(0, "reasoning"), summary, whole, done(0, "reasoning", **item), DONE).reply.content == (
        Reasoning(text="short"),
    )


def test_a_response_that_was_stopped_inside_a_call_ends_it_as_it_is() -> None:
    call = added(0, "function_call", call_id="c", name="f")
    piece = event("response.function_call_arguments.delta", output_index=0, delta='{"a')
    stopped = response("incomplete", output=[], incomplete_details={"reason": "max_output_tokens"})
    assert told(CREATED, call, piece, stopped).events[2:] == [
        ToolCallArguments(0, '{"a'),
        ToolCallEnded(0),
        Finished("length"),
        Ended(),
    ]


def test_what_is_new_passes_untouched() -> None:
    new = event("response.hologram.delta", output_index=5, delta=7)
    strange = b"event: response.hologram.done\ndata: not JSON\n\n"
    result = told(CREATED, new, strange, DONE)
    assert result.raw == CREATED + new + strange + DONE
    assert [type(each) for each in result.events] == [Started, Finished, Ended]


def test_names_of_events_may_stand_in_the_data_alone() -> None:
    stream = CREATED + added(0) + says("x") + done(0) + DONE
    bare = b"\n".join(line for line in stream.splitlines() if not line.startswith(b"event:")) + b"\n\n"
    assert told(bare).reply == told(stream).reply


def test_the_mark_of_the_older_format_is_passed_over() -> None:
    assert told(CREATED, b"data: [DONE]\n\n", DONE).reply.finish == "stop"


@pytest.mark.parametrize(
    ("chunks", "wrong"),
    [
        ([added(0)], "no `response.created`"),
        ([DONE], "no `response.created`"),
        ([CREATED, CREATED], "a second `response.created`"),
        ([CREATED, added(0), added(0)], "adds item 0 twice"),
        ([CREATED, added(0), done(0), added(0)], "adds item 0 twice"),
        ([CREATED, says("x")], "item 0, which is not open"),
        ([CREATED, added(0), says("x", 1)], "item 1, which is not open"),
        ([CREATED, added(0), done(0), says("x")], "item 0, which is not open"),
        ([CREATED, done(0)], "item 0, which is not open"),
        ([CREATED, added(0, "function_call"), says("x")], "as a message, and it is a function_call"),
        ([CREATED, added(0), event("response.function_call_arguments.delta", output_index=0, delta="x")], "as a function_call"),
        ([CREATED, added(0), event("response.reasoning_summary_text.delta", output_index=0, delta="x")], "as a reasoning"),
        ([CREATED, added(0), done(0, "reasoning")], "as a reasoning, and it is a message"),
        ([CREATED, added(0, "function_call"), DONE], "completes inside the tool call 0"),
        ([CREATED, b"event: response.completed\ndata: {\n\n"], "cannot be read"),
        ([CREATED, event("response.output_text.delta", delta="x")], "cannot be read"),
        ([b"data: hello\n\n"], "cannot be read"),
    ],
)
def test_a_stream_that_breaks_the_grammar_is_garbled(chunks: list[bytes], wrong: str) -> None:
    with pytest.raises(UpstreamGarbled, match=wrong):
        told(*chunks)


def test_ids_of_a_kept_response_are_those_that_callers_know() -> None:
    asked = request(DIALECT)
    reader = DIALECT.read_events(request=asked, written=Written(asked.body), repairs=frozenset(), tell=lambda each: f"resp_home~{each}")
    stream = (
        CREATED
        + response("in_progress")
        + added(0)
        + says("resp_1")
        + done(0)
        + response("completed", output=[], previous_response_id="resp_0")
    )
    frames = [reader.read(each) for each in sse.Events().feed(stream)]
    raw = b"".join(frame.raw for frame in frames)
    assert raw == stream.replace(b'"id": "resp_1"', b'"id": "resp_home~resp_1"').replace(
        b'"previous_response_id": "resp_0"', b'"previous_response_id": "resp_home~resp_0"'
    )
    assert raw.count(b"resp_home~") == 4
    assert frames[0].events == (Started("resp_1", "m", 7),)


# ------------------------------------------------------------------------------------------------------------- writing
def write(*events: Event) -> bytes:
    writer = DIALECT.write_events(request(DIALECT))
    return b"".join(map(writer.write, events))


START, END = Started("chatcmpl-1", "m", 7), [Finished("stop"), Used(Usage(input=3, output=2)), Ended()]


def checked(stream: bytes) -> list[dict[str, Any]]:
    """The events of a stream that its grammar and the SDK's types accept."""
    events = grammar.check(stream)
    for each in events:
        KINDS[each["type"]].model_validate(each)
    return events


words = st.text(min_size=1, max_size=6)
sealed = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)
thoughts = st.one_of(
    st.builds(Reasoning, text=words),
    st.builds(Reasoning, text=st.text(max_size=6), encrypted=sealed, origin=st.just("anthropic")),
    st.builds(Reasoning, text=words, signature=sealed, origin=st.just("anthropic")),
    st.builds(Reasoning, text=st.text(max_size=6), signature=sealed, encrypted=sealed, origin=st.just("openai_chat"), id=sealed),
    st.builds(Reasoning, text=st.text(max_size=6), encrypted=sealed, origin=st.just("openai_responses"), id=sealed),
)
arguments = st.dictionaries(st.text(max_size=4), st.integers() | words, max_size=3).map(json.dumps)
said = st.one_of(st.builds(Text, text=words), st.builds(Refusal, text=words), thoughts)
free_calls = st.builds(ToolCall, id=sealed, name=sealed, arguments=st.text().map(wrapped), free=st.just(True))
calls = st.builds(ToolCall, id=sealed, name=sealed, arguments=arguments) | free_calls
FINISHES: list[FinishReason] = ["stop", "length", "refused"]


def merged(parts: list[Part]) -> list[Part]:
    """Neighbours of one kind as one: a stream has no word for where one ends, but for a thought."""
    out: list[Part] = []
    for part in parts:
        last = out[-1] if out else None
        if isinstance(part, Text) and isinstance(last, Text):
            out[-1] = Text(text=last.text + part.text)
        elif isinstance(part, Refusal) and isinstance(last, Refusal):
            out[-1] = Refusal(text=last.text + part.text)
        else:
            out.append(part)
    return out


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    found = draw(st.lists(calls, max_size=3))
    content = merged(draw(st.lists(said, max_size=4))) + list(found)
    return Reply(
        id=f"resp_{draw(sealed)}",
        model=draw(sealed),
        created=draw(st.integers(0, 2**31)),
        content=tuple(content),
        finish="tool_calls" if found else draw(st.sampled_from(FINISHES)),
        usage=draw(st.builds(Usage, *[st.integers(0, 10**6)] * 5)),
    )


@st.composite
def events_of(draw: st.DrawFn, reply: Reply) -> list[Event]:
    """The events that tell a reply in pieces; those of its calls are mixed."""

    def pieces(text: str) -> list[str]:
        edges = [0, *sorted(draw(st.lists(st.integers(0, len(text)), max_size=3))), len(text)]
        return [text[start:end] for start, end in itertools.pairwise(edges) if end > start]

    events: list[Event] = [Started(reply.id, reply.model, reply.created)]
    threads: list[Iterator[Event]] = []
    for number, part in enumerate(reply.content):
        match part:
            case Text(text=text):
                events += map(TextDelta, pieces(text))
            case Refusal(text=text):
                events += map(RefusalDelta, pieces(text))
            case Reasoning(text=text, signature=signature, encrypted=encrypted, origin=origin, id=thought_id):
                events += map(ReasoningDelta, pieces(text))
                events.append(ReasoningEnded(signature, encrypted, origin, thought_id))
            case ToolCall(id=call_id, name=name, arguments=json_text, namespace=namespace, free=free):
                events.append(ToolCallStarted(number, call_id, name, namespace, free))
                deltas: list[Event] = [ToolCallArguments(number, piece) for piece in pieces(json_text)]
                threads.append(iter([*deltas, ToolCallEnded(number)]))
            case _:
                raise AssertionError(part)
    while threads:
        thread = draw(st.sampled_from(threads))
        if (each := next(thread, None)) is None:
            threads.remove(thread)
        else:
            events.append(each)
    assert reply.finish
    return [*events, Finished(reply.finish), Used(reply.usage or Usage()), Ended()]


def given_back(body: dict[str, Any]) -> list[Part]:
    """What a client that hands the output back unread asks."""
    asked = DIALECT.read_request(json.dumps({"model": "m", "input": body["output"]}).encode(), "chat")
    return [part for message in DIALECT.read_chat(asked).messages for part in message.content]


@given(data=st.data())
def test_a_stream_that_is_written_is_valid_and_its_thoughts_are_given_back(data: st.DataObject) -> None:
    reply = data.draw(replies())
    told_last = checked(write(*data.draw(events_of(reply))))[-1]["response"]
    thoughts = [part for part in reply.content if isinstance(part, Reasoning)]
    back = [part for part in given_back(told_last) if isinstance(part, Reasoning)]
    assert [(part.text, part.signature, part.encrypted, part.origin) for part in back] == [
        (part.text, part.signature, part.encrypted, part.origin) for part in thoughts
    ]
    assert [part.id for part in back if part.origin] == [part.id for part in thoughts if part.origin]


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.name)
def test_a_recorded_stream_that_is_read_can_be_written_again(path: Any) -> None:
    first = read(DIALECT, path.read_bytes())
    again = read(DIALECT, write(*first.events))
    assert checked(write(*first.events))
    assert (again.reply.content[-1], again.reply.finish, again.reply.usage) == (
        first.reply.content[-1],
        first.reply.finish,
        first.reply.usage,
    )


def test_parts_of_a_summary_are_parts_again() -> None:
    first = read(DIALECT, (CORPORA / "openai_responses" / "reasoning.sse").read_bytes())
    last = checked(write(*first.events))[-1]["response"]
    assert [part["text"] for part in last["output"][0]["summary"]] == [
        "**Reading**\n\nThe city is I\u011fd\u0131r.",
        "**Answering**\n\nShort.",
    ]


def test_a_call_that_was_cut_off_is_incomplete() -> None:
    events = [START, ToolCallStarted(3, "c", "f"), ToolCallArguments(3, '{"a'), Finished("length"), Ended()]
    last = checked(write(*events))[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["output"][0]["status"] == "incomplete"


def test_text_and_refusal_are_parts_of_one_message() -> None:
    stream = write(START, TextDelta("a"), RefusalDelta("b"), TextDelta("c"), *END)
    output = checked(stream)[-1]["response"]["output"]
    assert [[part["type"] for part in item["content"]] for item in output] == [["output_text", "refusal", "output_text"]]


def test_a_thought_that_nobody_signed_and_nobody_can_read_is_none() -> None:
    assert checked(write(START, ReasoningEnded(), *END))[-1]["response"]["output"] == []


def test_what_has_no_word_here_writes_nothing() -> None:
    assert write(Lost(read(DIALECT, (CORPORA / "openai_responses" / "hosted.sse").read_bytes()).reply.losses[0])) == b""
    assert write(Failed(UpstreamDown("x"))) == b""


# ------------------------------------------------------------------------------------------------------ the SDK itself
def client(stream: bytes) -> openai.OpenAI:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    return openai.OpenAI(
        api_key="k", base_url="http://up/v1", http_client=httpx2.Client(transport=httpx2.MockTransport(answer)), max_retries=0
    )


def test_the_sdk_gathers_what_was_written() -> None:
    stream = write(
        START,
        ReasoningDelta("hm"),
        ReasoningEnded(signature="s", origin="anthropic"),
        TextDelta("hel"),
        TextDelta("lo"),
        ToolCallStarted(0, "c1", "f"),
        ToolCallStarted(1, "c2", "g"),
        ToolCallArguments(1, '{"b":2}'),
        ToolCallArguments(0, '{"a":1}'),
        ToolCallEnded(0),
        ToolCallEnded(1),
        Finished("tool_calls"),
        Used(Usage(input=3, output=2)),
        Ended(),
    )
    with client(stream) as sdk, sdk.responses.stream(model="m", input="x") as told_by_sdk:
        seen = [each.type for each in told_by_sdk]
        final = told_by_sdk.get_final_response()
    assert seen[0] == "response.created"
    assert final.output_text == "hello"
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call", "function_call"]
    assert [item.arguments for item in final.output if item.type == "function_call"] == ['{"a":1}', '{"b":2}']
    assert final.usage is not None
    assert final.usage.total_tokens == 5


@pytest.mark.parametrize("error", [UpstreamBusy("busy"), UpstreamDown("gone", hint="Ask again."), BadRequest("no")])
@pytest.mark.parametrize("before", [b"", write(START), write(START, TextDelta("half"))], ids=["nothing", "start", "half"])
def test_an_error_inside_a_stream_is_raised_by_the_sdk_and_ends_the_response_for_agents(error: TrunklineError, before: bytes) -> None:
    stream = before + DIALECT.write_error_event(error, "rqe_a")
    events = grammar.check(stream)
    assert [each["type"] for each in events[-2:]] == ["error", "response.failed"]
    for each in events[-2:]:
        KINDS[each["type"]].model_validate(each)
    assert events[-1]["response"]["error"]["message"] == error.sentence
    with client(stream) as sdk, pytest.raises(openai.APIError, match=error.message) as raised:
        list(sdk.responses.create(model="m", input="x", stream=True))
    assert raised.value.code == error.code


def test_an_error_that_was_written_is_read_as_what_it_was() -> None:
    assert isinstance(failed(CREATED, DIALECT.write_error_event(UpstreamBusy("busy"), "rqe_a")).error, UpstreamBusy)
