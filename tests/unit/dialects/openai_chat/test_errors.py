import json

import pytest

from tests.unit.dialects.openai_chat.chunks import FIRST, failure
from trunkline.dialects.openai_chat import DIALECT
from trunkline.errors import BadRequest, Internal, LimitReached, NotFound, TrunklineError, Unauthenticated, UpstreamBusy, UpstreamRefused


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
