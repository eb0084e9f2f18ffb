"""What a provider's error means, by its status or by the name that it has inside a stream."""

import pytest

from trunkline.dialects._errors import LONGEST, judged, named
from trunkline.errors import UpstreamBusy, UpstreamDenied, UpstreamDown, UpstreamError, UpstreamRefused, UpstreamTimeout

MEANINGS = [
    (400, UpstreamRefused),
    (401, UpstreamDenied),
    (402, UpstreamDenied),
    (403, UpstreamDenied),
    (404, UpstreamRefused),
    (408, UpstreamTimeout),
    (413, UpstreamRefused),
    (422, UpstreamRefused),
    (429, UpstreamBusy),
    (500, UpstreamDown),
    (502, UpstreamDown),
    (503, UpstreamBusy),
    (504, UpstreamDown),
    (529, UpstreamBusy),
    (599, UpstreamDown),
]


@pytest.mark.parametrize(("status", "kind"), MEANINGS)
def test_a_status_says_whose_fault_it_is(status: int, kind: type[UpstreamError]) -> None:
    error = judged(status, "words", b"{}", 7.0)
    assert type(error) is kind
    assert error.upstream_status == status
    assert f"(HTTP {status})" in error.message


@pytest.mark.parametrize(("status", "kind"), MEANINGS)
def test_a_number_in_a_stream_means_what_the_status_means(status: int, kind: type[UpstreamError]) -> None:
    for number in (status, str(status)):
        error = named([None, number, "unknown_error"], "words")
        assert type(error) is kind
        assert error.upstream_status == status
        assert "HTTP" not in error.message


@pytest.mark.parametrize(
    ("names", "kind", "status"),
    [
        (["invalid_request_error"], UpstreamRefused, 400),
        (["context_length_exceeded", "invalid_request_error"], UpstreamRefused, 400),
        (["not_found_error"], UpstreamRefused, 404),
        (["request_too_large"], UpstreamRefused, 413),
        (["invalid_api_key", "invalid_request_error"], UpstreamDenied, 502),
        (["authentication_error"], UpstreamDenied, 502),
        (["permission_error"], UpstreamDenied, 502),
        (["billing_error"], UpstreamDenied, 502),
        (["rate_limit_exceeded", "requests"], UpstreamBusy, 429),
        (["rate_limit_error"], UpstreamBusy, 429),
        (["insufficient_quota", "insufficient_quota"], UpstreamBusy, 429),
        (["overloaded_error"], UpstreamBusy, 529),
        ([529], UpstreamBusy, 529),
        (["503"], UpstreamBusy, 503),
        (["api_error"], UpstreamDown, 502),
        (["server_error", None], UpstreamDown, 502),
        ([], UpstreamDown, 502),
        ([None, None], UpstreamDown, 502),
        (["200", 0, -1, "٤٠٠٠", "99999", 999], UpstreamDown, 502),
    ],
)
def test_a_name_in_a_stream_says_whose_fault_it_is_and_what_the_caller_gets(
    names: list[str | int | None], kind: type[UpstreamError], status: int
) -> None:
    error = named(names, "")
    assert type(error) is kind
    assert error.http_status == status


def test_the_provider_may_say_how_long_to_wait() -> None:
    assert judged(429, "", b"", 7.0).retry_after == 7.0
    assert judged(503, "", b"", 7.0).retry_after == 7.0
    assert judged(500, "", b"", None).retry_after is None


@pytest.mark.proves("G19")
@pytest.mark.parametrize("status", [401, 402, 403])
def test_what_is_said_of_our_credential_is_not_repeated(status: int) -> None:
    error = judged(status, "wrong key sk-canary", b'{"error":"sk-canary"}', None)
    assert "canary" not in error.sentence
    assert error.body == b""
    assert "api_key" in error.hint
    assert "canary" not in named([status], "wrong key sk-canary").sentence


def test_a_refusal_is_handed_on_as_it_is_only_where_it_has_words() -> None:
    assert judged(400, "no", b'{"error":{"message":"no"}}', None).body == b'{"error":{"message":"no"}}'
    assert judged(400, "", b"<html>", None).body == b""
    assert judged(500, "no", b'{"error":{"message":"no"}}', None).body == b""
    assert named(["invalid_request_error"], "no").body == b""


def test_long_words_are_cut() -> None:
    for error in (judged(500, "word " * 1000, b"", None), named([500], "word " * 1000)):
        assert LONGEST - 10 < len(error.message) < LONGEST + 50
        assert error.message.endswith("word…")


@pytest.mark.proves("G19")
def test_words_are_not_cut_inside_a_key_since_half_of_one_would_not_be_found() -> None:
    key = "sk-canary-" + "k" * 50
    for length in range(LONGEST - 70, LONGEST + 5):
        message = named([500], "x" * length + " " + key + " y" * 10).message
        assert key in message or "canary" not in message
    assert "canary" not in named([500], f"{'x' * (LONGEST - 20)}={key}").message
