import json

import pytest

from tests.unit.dialects.anthropic.events import PING, START, block, event, failure, says
from tests.wire.streams import read
from trunkline.dialects.anthropic import DIALECT
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
