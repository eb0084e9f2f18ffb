"""The checker of Responses streams passes good ones and names what is wrong with each bad one."""

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest

from tests.wire.grammar.openai_responses import check

Event = dict[str, Any]


def event(kind: str, **fields: Any) -> Event:
    return {"type": kind} | fields


def stream(*told: Event | Iterable[Event], start: int = 0) -> bytes:
    """Events as bytes, numbered where they have no number."""
    flat = [each for one in told for each in ([one] if isinstance(one, dict) else one)]
    numbered = [{"sequence_number": number} | each for number, each in zip(itertools.count(start), flat, strict=False)]
    return b"".join(
        f"event: {each.pop('event', each['type'])}\ndata: {json.dumps({k: v for k, v in each.items() if v is not ...})}\n\n".encode()
        for each in numbered
    )


def response(kind: str, /, *output: Event, **over: Any) -> Event:
    body = {"id": "r1", "object": "response", "created_at": 7, "model": "m", "status": kind, "error": None, "output": list(output)}
    body |= {"incomplete_details": {"reason": "max_output_tokens"} if kind == "incomplete" else None, "usage": None}
    return event(f"response.{kind}", response={key: value for key, value in (body | over).items() if value is not ...})


def begun(**over: Any) -> Event:
    return response("in_progress", **over) | {"type": "response.created"}


def added(index: int, **item: Any) -> Event:
    return event("response.output_item.added", output_index=index, item=item)


def done(index: int, **item: Any) -> Event:
    return event("response.output_item.done", output_index=index, item=item)


def inside(kind: str, at: tuple[int, str, int], **fields: Any) -> Event:
    index, item_id, part = at
    place = "summary_index" if "summary" in kind else "content_index"
    return event(f"response.{kind}", output_index=index, item_id=item_id, **{place: part}, **fields)


def text(value: str) -> Event:
    return {"type": "output_text", "text": value, "annotations": []}


def message(*parts: Event, at: int = 0, status: str = "completed") -> Event:
    return {"type": "message", "id": f"m{at}", "role": "assistant", "status": status, "content": list(parts)}


def call(arguments: str, at: int = 0, status: str = "completed") -> Event:
    return {"type": "function_call", "id": f"f{at}", "call_id": f"c{at}", "name": "f", "arguments": arguments, "status": status}


def piece(json_text: str, at: int = 0) -> Event:
    return event("response.function_call_arguments.delta", output_index=at, item_id=f"f{at}", delta=json_text)


def arguments(json_text: str, at: int = 0) -> Event:
    return event("response.function_call_arguments.done", output_index=at, item_id=f"f{at}", arguments=json_text)


AT = (0, "m0", 0)
CREATED, WORKING = begun(), response("in_progress")
HELLO = message(text("hello"))
ADDED = added(0, **message(status="in_progress"))
PART = inside("content_part.added", AT, part=text(""))
DELTA = inside("output_text.delta", AT, delta="hello", logprobs=[])
TOLD = inside("output_text.done", AT, text="hello", logprobs=[])
PART_DONE = inside("content_part.done", AT, part=text("hello"))
SAID = [ADDED, PART, DELTA, TOLD, PART_DONE, done(0, **HELLO)]
USAGE = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 1},
    "total_tokens": 14,
}

NO = {"type": "refusal", "refusal": "no"}
REFUSED = [
    ADDED,
    inside("content_part.added", AT, part={"type": "refusal", "refusal": ""}),
    inside("refusal.delta", AT, delta="no"),
    inside("refusal.done", AT, refusal="no"),
    inside("content_part.done", AT, part=NO),
    done(0, **message(NO)),
]
SUMMARY = {"type": "summary_text", "text": "hm"}
THOUGHT = {"type": "reasoning", "id": "t0", "summary": [SUMMARY], "encrypted_content": "e"}
IN_THOUGHT = (0, "t0", 0)
THINKING = [
    added(0, type="reasoning", id="t0", summary=[]),
    inside("reasoning_summary_part.added", IN_THOUGHT, part={"type": "summary_text", "text": ""}),
    inside("reasoning_summary_text.delta", IN_THOUGHT, delta="hm"),
    inside("reasoning_summary_text.done", IN_THOUGHT, text="hm"),
    inside("reasoning_summary_part.done", IN_THOUGHT, part=SUMMARY),
    done(0, **THOUGHT),
]
RAW = {"type": "reasoning_text", "text": "hm"}
RAW_THOUGHT = {"type": "reasoning", "id": "t0", "summary": [], "content": [RAW]}
RAW_THINKING = [
    added(0, type="reasoning", id="t0", summary=[]),
    inside("content_part.added", IN_THOUGHT, part={"type": "reasoning_text", "text": ""}),
    inside("reasoning_text.delta", IN_THOUGHT, delta="hm"),
    inside("reasoning_text.done", IN_THOUGHT, text="hm"),
    inside("content_part.done", IN_THOUGHT, part=RAW),
    done(0, **RAW_THOUGHT),
]
FIRST, SECOND = added(0, **call("", 0, "in_progress")), added(1, **call("", 1, "in_progress"))
CALLS = [
    FIRST,
    piece('{"a":'),
    SECOND,
    piece("{", 1),
    piece("1}"),
    arguments('{"a":1}'),
    piece("}", 1),
    arguments("{}", 1),
    done(1, **call("{}", 1)),
    done(0, **call('{"a":1}')),
]
SEARCH = {"type": "web_search_call", "id": "w0", "status": "completed"}
SEARCHED = [added(0, **SEARCH), event("response.web_search_call.searching", output_index=0, item_id="w0"), done(0, **SEARCH)]
BODY = {"message": "busy", "type": "rate_limit_error", "code": "upstream_busy", "param": None}
ERROR = event("error", code="upstream_busy", message="busy", param=None, error=BODY, sequence_number=500)
FAILED = response("failed", error={"code": "rate_limit_exceeded", "message": "busy"})
LATE = FAILED | {"sequence_number": 501}


@pytest.mark.parametrize(
    "told",
    [
        [CREATED, response("completed")],
        [CREATED, WORKING, SAID, response("completed", HELLO, usage=USAGE)],
        [CREATED | {"response": begun()["response"] | {"status": "queued"}}, response("queued"), WORKING, response("completed")],
        [CREATED, SAID[:-1], done(0, **message(text("hello"), status="incomplete")),
         response("incomplete", message(text("hello"), status="incomplete"))],
        [CREATED, REFUSED, response("completed", message(NO))],
        [CREATED, THINKING, response("completed", THOUGHT)],
        [CREATED, RAW_THINKING, response("completed", RAW_THOUGHT)],
        [CREATED, CALLS, response("completed", call('{"a":1}'), call("{}", 1))],
        [CREATED, FIRST, arguments("{}"), done(0, **call("{}")), response("completed", call("{}"))],
        [CREATED, FIRST, piece('{"p":"/e'), arguments('{"p":"/e'), done(0, **call('{"p":"/e', status="incomplete")),
         response("incomplete", call('{"p":"/e', status="incomplete"))],
        [CREATED, SEARCHED, response("completed", SEARCH)],
        [CREATED, SAID, FAILED],
        [CREATED, FIRST, piece('{"p":"/e'), ERROR, LATE],
        [CREATED, SAID, ERROR],
        [CREATED, SAID, ERROR, LATE | {"response": FAILED["response"] | {"id": "another"}}],
        [ERROR, LATE],
        [FAILED],
    ],
)  # fmt: skip
def test_a_good_stream_passes(told: list[Any]) -> None:
    whole = stream(*told)
    assert len(check(whole)) == whole.count(b"data: {")


@pytest.mark.parametrize("break_", [lambda s: s.replace(b"\n", b"\r\n"), lambda s: b": hi\n\n" + s])
def test_other_line_ends_and_comments_change_nothing(break_: Any) -> None:
    assert check(break_(stream(CREATED, SAID, response("completed", HELLO))))


END = response("completed", HELLO)


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ([], "empty"),
        ([CREATED, SAID], "ends after response.output_item.done"),
        ([SAID, END], "response.output_item.added comes before response.created"),
        ([WORKING, END], "response.in_progress comes before"),
        ([response("completed")], "response.completed comes before"),
        ([CREATED, CREATED, END], "a second response.created"),
        ([begun(id=""), END], "no id"),
        ([begun(model=""), END], "no model"),
        ([begun(object="thing"), END], "holds a 'thing'"),
        ([begun(output=[HELLO]), END], "begins with output"),
        ([begun(output=...), END], "no output"),
        ([begun(status="completed"), END], "has the status 'completed'"),
        ([CREATED, SAID, response("completed", HELLO, id="r2")], "another id"),
        ([CREATED, SAID, response("completed", HELLO, status="in_progress")], "has the status 'in_progress'"),
        ([CREATED | {"sequence_number": 5}, END], "sequence number 1 after 5"),
        ([CREATED | {"sequence_number": ...}, END], "sequence_number is None"),
        ([CREATED | {"event": "response.begun"}, END], "has data of type 'response.created'"),
        ([CREATED, SAID, END, END], "response.completed follows the end"),
        ([CREATED, SAID, END, ERROR], "error follows the end"),
        ([CREATED, added(1, **message(status="in_progress"))], "item 0 has the index 1"),
        ([CREATED, ADDED, ADDED], "item 1 has the index 0"),
        ([CREATED, added(0, **message(status="in_progress") | {"id": ""})], "a message has no id"),
        ([CREATED, added(0, **message())], "begins with the status 'completed'"),
        ([CREATED, added(0, **message(text("x"), status="in_progress"))], "begins with content"),
        ([CREATED, added(0, **message(status="in_progress") | {"role": "user"})], "of role 'user'"),
        ([CREATED, added(0, id="x")], "no type"),
        ([CREATED, added(0, **call("", 0, "in_progress") | {"call_id": ""})], "no call_id"),
        ([CREATED, added(0, **call("", 0, "in_progress") | {"name": ""})], "a call has no name"),
        ([CREATED, added(0, **call("{}", 0, "in_progress"))], "begins with arguments"),
        ([CREATED, added(0, **THOUGHT)], "begins with a summary"),
        ([CREATED, DELTA], "item 0, which was not added"),
        ([CREATED, SAID, DELTA], "item 0, which is done"),
        ([CREATED, ADDED, DELTA], "'no part' is open"),
        ([CREATED, ADDED, PART, PART], "within a part"),
        ([CREATED, ADDED, PART, DELTA, PART_DONE], "before its text is done"),
        ([CREATED, ADDED, PART, DELTA, TOLD, DELTA], "after the end of it"),
        ([CREATED, ADDED, PART, TOLD], "another text than was told"),
        ([CREATED, ADDED, PART, DELTA, TOLD, inside("content_part.done", AT, part=text("hell"))], "another text than was told"),
        ([CREATED, ADDED, PART, DELTA, TOLD, inside("content_part.done", AT, part=NO)], "ends a refusal"),
        ([CREATED, ADDED, PART, DELTA, TOLD, done(0, **HELLO)], "ends within a part"),
        ([CREATED, SAID[:-1], done(0, **message())], "another content than was told"),
        ([CREATED, SAID[:-1], done(0, **HELLO | {"id": "m9"})], "begins as 'm0' and ends as 'm9'"),
        ([CREATED, SAID[:-1], done(0, **call("{}"))], "ends as 'function_call'"),
        ([CREATED, SAID[:-1], done(0, **message(text("hello"), status="in_progress"))], "ends with the status"),
        ([CREATED, ADDED, inside("content_part.added", (0, "m1", 0), part=text(""))], "is of 'm1'"),
        ([CREATED, ADDED, inside("content_part.added", (0, "m0", 1), part=text(""))], "part 0 has the index 1"),
        ([CREATED, ADDED, PART, inside("output_text.delta", (0, "m0", 1), delta="x", logprobs=[])], "is of part 1"),
        ([CREATED, ADDED, PART, inside("output_text.delta", AT, delta="x")], "no logprobs"),
        ([CREATED, ADDED, PART, inside("output_text.delta", AT, logprobs=[])], "no delta"),
        ([CREATED, ADDED, PART, inside("refusal.delta", AT, delta="x")], "'output_text' is open"),
        ([CREATED, ADDED, piece("{}") | {"item_id": "m0"}], "within a message"),
        ([CREATED, ADDED, event("response.web_search_call.searching", output_index=0, item_id="m0")], "within a message"),
        ([CREATED, FIRST, piece("{}"), done(0, **call("{}"))], "before its arguments do"),
        ([CREATED, FIRST, piece("{"), arguments("{"), done(0, **call("{"))], "no JSON"),
        ([CREATED, FIRST, piece("{}"), arguments("{}"), done(0, **call('{"a":1}'))], "other arguments"),
        ([CREATED, FIRST, inside("content_part.added", (0, "f0", 0), part=text(""))], "within a function_call"),
        ([CREATED, THINKING[:-1], done(0, **THOUGHT | {"summary": []})], "another thought"),
        ([CREATED, ADDED, PART, DELTA, END], "comes within item 0"),
        ([CREATED, SAID, response("completed")], "other items than were told"),
        ([CREATED, SAID, response("completed", message(text("bye")))], "other items than were told"),
        ([CREATED, response("incomplete", incomplete_details=None)], "without a reason"),
        ([CREATED, response("completed", incomplete_details={"reason": "x"})], "why it is not"),
        ([CREATED, response("completed", error={"code": "server_error", "message": "x"})], "has an error"),
        ([CREATED, response("completed", usage=USAGE | {"total_tokens": 15})], "9 \\+ 5 tokens are not 15"),
        ([CREATED, response("completed", usage=USAGE | {"input_tokens_details": None})], "no input_tokens_details"),
        ([CREATED, response("completed", usage=USAGE | {"input_tokens_details": {"cached_tokens": 10}})], "10 of 9"),
        ([CREATED, response("completed", usage=USAGE | {"output_tokens": None})], "output_tokens is None"),
        ([CREATED, response("failed")], "without an error"),
        ([CREATED, response("failed", error={"code": "oops", "message": "x"})], "the code 'oops'"),
        ([CREATED, response("failed", error={"code": "server_error", "message": ""})], "without a message"),
        ([CREATED, ERROR | {"error": ...}], "where the SDKs look"),
        ([CREATED, ERROR | {"message": ...}], "no message"),
        ([CREATED, ERROR, END | {"sequence_number": 501}], "response.completed follows an error"),
        ([CREATED, event("surprise")], "no event 'surprise'"),
    ],
)
def test_a_bad_stream_is_told_what_is_wrong_with_it(told: list[Any], wrong: str) -> None:
    with pytest.raises(AssertionError, match=wrong):
        check(stream(*told))
