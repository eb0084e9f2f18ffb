"""Whole responses, their errors, and the ids of those that are kept."""

import json
from typing import Any, get_args

import pytest
from openai.types.responses import Response, ResponseError

from tests.wire.streams import CORPORA
from trunkline.dialects import _errors
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_responses import DIALECT
from trunkline.errors import (
    BadRequest,
    LossRefused,
    TrunklineError,
    UpstreamBusy,
    UpstreamDenied,
    UpstreamDown,
    UpstreamError,
    UpstreamGarbled,
    UpstreamRefused,
)
from trunkline.model.event import FinishReason, Reply
from trunkline.model.loss import unsupported
from trunkline.model.part import Part, Reasoning, Refusal, Text, ToolCall
from trunkline.model.usage import Usage

TOLD = sorted((CORPORA / "openai_responses").glob("*.reply.json"))


def read(**fields: Any) -> Reply:
    body = {"id": "resp_1", "object": "response", "created_at": 7, "model": "m", "status": "completed", "output": [], **fields}
    return DIALECT.read_reply(json.dumps(body).encode(), "chat")


def written(*content: Part, finish: FinishReason = "stop", reply_id: str = "resp_1", usage: Usage | None = None) -> dict[str, Any]:
    reply = Reply(id=reply_id, model="m", created=7, content=content, finish=finish, usage=usage)
    body, losses = DIALECT.write_reply(reply, "chat")
    assert losses == ()
    Response.model_validate_json(body)
    found: dict[str, Any] = json.loads(body)
    return found


def message(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": list(parts)}


# ---------------------------------------------------------------------------------------------------------------- read
@pytest.mark.parametrize(
    ("status", "details", "items", "finish"),
    [
        ("completed", None, [], "stop"),
        ("completed", None, [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}], "tool_calls"),
        ("incomplete", {"reason": "max_output_tokens"}, [], "length"),
        ("incomplete", {"reason": "content_filter"}, [], "refused"),
        ("incomplete", {"reason": "steered"}, [], "paused"),
        ("incomplete", {"reason": "something new"}, [], "length"),
        ("incomplete", None, [], "length"),
        ("queued", None, [], None),
        ("in_progress", None, [], None),
        ("cancelled", None, [], None),
        (None, None, [], "stop"),
    ],
)
def test_the_status_says_why_the_model_ended(status: str | None, details: Any, items: Any, finish: FinishReason | None) -> None:
    assert read(status=status, incomplete_details=details, output=items).finish == finish


def test_what_only_this_format_says_is_told_as_lost_and_breaks_nothing() -> None:
    part = {"type": "output_text", "text": "x", "annotations": [{"type": "file_path"}], "logprobs": [{"token": "x"}]}
    strange = {"type": "tool_search_call", "arguments": {"not": "a text"}, "content": 5, "id": None}
    reply = read(output=[strange, message(part, {"type": "hologram"})])
    assert reply.content == (Text(text="x"),)
    assert [loss.path for loss in reply.losses] == [
        "output.0",
        "output.1.content.0.annotations",
        "output.1.content.0.logprobs",
        "output.1.content.1",
    ]


def test_nulls_stand_for_what_is_not_there() -> None:
    reply = read(id=None, model=None, created_at=None, usage={"input_tokens": None, "input_tokens_details": None}, output=[message()])
    assert reply == Reply(id="", model="", finish="stop", usage=Usage())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "rate_limit_exceeded", "message": "slow down"}, UpstreamBusy),
        ({"code": "server_is_overloaded", "message": "busy"}, UpstreamBusy),
        ({"code": "server_error", "message": "oops"}, UpstreamDown),
        ({"code": "invalid_prompt", "message": "no"}, UpstreamRefused),
        ({"code": "image_too_large", "message": "no"}, UpstreamRefused),
        ({"code": "something new", "message": "x"}, UpstreamDown),
    ],
)
def test_a_failed_response_is_the_error_that_it_names(error: Any, kind: type[UpstreamError]) -> None:
    with pytest.raises(kind) as raised:
        read(status="failed", error=error)
    assert error["message"] in raised.value.message


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"output":5}', b"{}", b'{"output":[5]}', b'{"output":[{"type":"message","content":7}]}'])
def test_what_is_no_response_is_garbled(body: bytes) -> None:
    with pytest.raises(UpstreamGarbled):
        DIALECT.read_reply(body, "chat")


@pytest.mark.proves("G16")
def test_the_same_work_is_the_same_buckets_in_every_format() -> None:
    responses = read(
        usage={
            "input_tokens": 87_000,
            "input_tokens_details": {"cached_tokens": 80_000, "cache_write_tokens": 5000},
            "output_tokens": 1000,
            "output_tokens_details": {"reasoning_tokens": 0},
        }
    ).usage
    told = {
        "prompt_tokens": 87_000,
        "completion_tokens": 1000,
        "prompt_tokens_details": {"cached_tokens": 80_000, "cache_write_tokens": 5000},
    }
    chat = OPENAI_CHAT.read_reply(
        json.dumps({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": told}).encode(), "chat"
    ).usage
    buckets = {"input_tokens": 2000, "cache_read_input_tokens": 80_000, "cache_creation_input_tokens": 5000, "output_tokens": 1000}
    messages = ANTHROPIC.read_reply(json.dumps({"content": [], "usage": buckets}).encode(), "chat").usage
    assert responses == chat == messages == Usage(input=2000, cache_read=80_000, cache_write=5000, output=1000)


# --------------------------------------------------------------------------------------------------------------- write
@pytest.mark.parametrize("path", TOLD, ids=lambda path: path.name)
def test_a_recorded_reply_is_written_as_the_sdk_reads_it(path: Any) -> None:
    reply = DIALECT.read_reply(path.read_bytes(), "chat")
    body, losses = DIALECT.write_reply(reply, "chat")
    told = Response.model_validate_json(body)
    assert losses == tuple(sorted(reply.losses))
    assert told.output_text == "".join(part.text for part in reply.content if isinstance(part, Text))
    again = DIALECT.read_reply(body, "chat")
    assert (again.content, again.finish, again.usage) == (reply.content, reply.finish, reply.usage)


def test_what_is_said_between_calls_and_thoughts_is_one_message() -> None:
    told = written(
        Text(text="a"), Refusal(text="b"), ToolCall(id="c1", name="f", arguments="{}"), Text(text="c"), Text(text="d"), finish="tool_calls"
    )
    assert [(item["type"], item["id"]) for item in told["output"]] == [
        ("message", "msg_1_0"),
        ("function_call", "fc_1_1"),
        ("message", "msg_1_2"),
    ]
    assert [part["type"] for part in told["output"][0]["content"]] == ["output_text", "refusal"]
    assert [part["text"] for part in told["output"][2]["content"]] == ["c", "d"]
    assert (told["status"], told["incomplete_details"]) == ("completed", None)


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_output_tokens"), ("refused", "content_filter")])
def test_a_reply_that_was_stopped_is_incomplete(finish: FinishReason, reason: str) -> None:
    told = written(Text(text="a"), finish=finish)
    assert (told["status"], told["incomplete_details"]) == ("incomplete", {"reason": reason})
    assert told["output"][-1]["status"] == ("incomplete" if finish == "length" else "completed")


def test_usage_is_told_with_its_details() -> None:
    assert written(usage=Usage(input=1, cache_read=2, cache_write=4, output=8, reasoning=16))["usage"] == {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 4},
        "output_tokens": 24,
        "output_tokens_details": {"reasoning_tokens": 16},
        "total_tokens": 31,
    }
    assert written()["usage"] is None


@pytest.mark.parametrize(
    ("came", "goes"), [("resp_1", "resp_1"), ("chatcmpl-abc", "resp_chatcmpl-abc"), ("msg_01", "resp_msg_01"), ("", "resp_")]
)
def test_an_id_of_another_format_is_recognizable_as_a_responses(came: str, goes: str) -> None:
    assert written(Text(text="a"), reply_id=came)["id"] == goes


def test_ids_of_items_are_short_enough_to_be_given_back() -> None:
    told = written(Text(text="a"), ToolCall(id="c", name="f", arguments="{}"), Reasoning(text="t"), reply_id="chatcmpl-" + "x" * 90)
    assert all(len(item["id"]) <= 64 for item in told["output"])
    assert len({item["id"] for item in told["output"]}) == 3


# --------------------------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("status", "kind"), [(400, UpstreamRefused), (401, UpstreamDenied), (404, UpstreamRefused), (429, UpstreamBusy), (500, UpstreamDown)]
)
def test_a_providers_refusal_is_read(status: int, kind: type[UpstreamError]) -> None:
    error = DIALECT.read_error(status, b'{"error":{"message":"because","type":"t","code":"c","param":null}}', 7.0)
    assert type(error) is kind
    assert kind is UpstreamDenied or "because" in error.message
    assert DIALECT.read_error(500, b"<html>", None).message


@pytest.mark.parametrize("error", [BadRequest("no"), LossRefused("no", hint="Yes."), UpstreamBusy("busy"), UpstreamDown("down")])
def test_an_error_is_written_as_openai_writes_it(error: TrunklineError) -> None:
    told = json.loads(DIALECT.write_error(error, "rqe_a"))
    assert told["request_id"] == "rqe_a"
    assert told["error"]["message"] == error.sentence
    assert told["error"]["code"] == error.code
    assert told["error"]["type"]
    assert told["error"]["param"] is None


@pytest.mark.parametrize("code", get_args(ResponseError.model_fields["code"].annotation))
def test_every_code_that_a_response_may_fail_with_is_judged(code: str) -> None:
    error = _errors.named([code], "because")
    expected = {"rate_limit_exceeded": UpstreamBusy, "server_error": UpstreamDown, "vector_store_timeout": UpstreamDown}
    assert type(error) is expected.get(code, UpstreamRefused)


# ------------------------------------------------------------------------------------------------------------ kept ids
def tell(object_id: str) -> str:
    return f"resp_home~{object_id}"


def test_a_kept_response_has_the_ids_that_callers_know_and_its_bytes() -> None:
    body = b'{ "id" : "resp_1","object":"response", "previous_response_id": "resp_0", "output": [ ] }'
    assert DIALECT.tell_ids(body, tell) == (
        b'{ "id" : "resp_home~resp_1","object":"response", "previous_response_id": "resp_home~resp_0", "output": [ ] }'
    )
    deleted = b'{"id":"resp_1","object":"response.deleted","deleted":true}'
    assert DIALECT.tell_ids(deleted, tell) == deleted.replace(b'"resp_1"', b'"resp_home~resp_1"')


@pytest.mark.parametrize(
    "body", [b'{"object":"list","data":[{"id":"msg_1"}]}', b"<html>", b"[]", b'{"id":"resp_1"}', b'{"object":7,"id":"x"}']
)
def test_what_is_no_response_keeps_its_ids(body: bytes) -> None:
    assert DIALECT.tell_ids(body, tell) == body


def test_a_response_that_nobody_can_read_is_garbled() -> None:
    with pytest.raises(UpstreamGarbled):
        DIALECT.tell_ids(b'{"object":"response","id":"a","id":"b"}', tell)


def test_losses_of_a_reply_are_handed_on() -> None:
    reply = Reply(id="i", model="m", losses=(unsupported("b"), unsupported("a")))
    assert [loss.path for loss in DIALECT.write_reply(reply, "chat")[1]] == ["a", "b"]
