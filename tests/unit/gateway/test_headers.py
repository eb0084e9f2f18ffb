import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.errors import BadRequest, LimitReached, MethodNotAllowed, Unauthenticated, UpstreamBusy, UpstreamRefused
from trunkline.gateway.headers import error_headers, first, first_of, of_error, reply_headers, retry_after, to_caller, to_provider

NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the date of RFC 9110

NEVER = [
    (b"authorization", b"Bearer canary"),
    (b"x-api-key", b"canary"),
    (b"proxy-authorization", b"Basic canary"),
    (b"cookie", b"canary=1"),
    (b"set-cookie", b"canary=1"),
    (b"connection", b"keep-alive, x-custom"),
    (b"keep-alive", b"timeout=5"),
    (b"te", b"trailers"),
    (b"trailer", b"x"),
    (b"transfer-encoding", b"chunked"),
    (b"upgrade", b"h2c"),
    (b"content-length", b"12"),
    (b"content-encoding", b"gzip"),
    (b"host", b"gateway.test"),
    (b"server", b"nginx"),
    (b"x-forwarded-for", b"192.0.2.1"),
    (b"forwarded", b"for=192.0.2.1"),
    (b"openai-organization", b"org-canary"),
    (b"x-custom", b"canary"),
]


@pytest.mark.proves("headers")
def test_a_provider_gets_what_selects_features_and_nothing_else() -> None:
    wanted = [
        (b"anthropic-beta", b"a"),
        (b"anthropic-beta", b"b"),
        (b"anthropic-version", b"2023-06-01"),
        (b"openai-beta", b"assistants=v2"),
    ]
    assert to_provider([*NEVER, *wanted]) == wanted


@pytest.mark.proves("headers")
def test_a_caller_gets_limits_and_the_content_type_and_nothing_else() -> None:
    wanted = [
        (b"content-type", b"text/event-stream"),
        (b"x-ratelimit-remaining-tokens", b"9"),
        (b"anthropic-ratelimit-requests-reset", b"2026-01-01T00:00:00Z"),
        (b"openai-processing-ms", b"12"),
        (b"retry-after", b"7"),
        (b"x-should-retry", b"false"),
    ]
    assert to_caller([*NEVER, *wanted]) == wanted


@pytest.mark.parametrize("name", [b"X-Request-Id", b"request-id"])
def test_a_providers_request_id_has_a_name_of_its_own(name: bytes) -> None:
    assert to_caller([(name, b"req_1")]) == [(b"x-upstream-request-id", b"req_1")]


def test_a_request_id_that_comes_under_two_names_goes_out_once() -> None:
    assert to_caller([(b"x-request-id", b"req_1"), (b"request-id", b"req_1")]) == [(b"x-upstream-request-id", b"req_1")]


@pytest.mark.proves("headers")
@given(st.lists(st.tuples(st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1).map(str.encode), st.binary(max_size=8)), max_size=20))
def test_no_header_passes_that_is_on_no_list(headers: list[tuple[bytes, bytes]]) -> None:
    theirs = [(b"x-canary-" + name, value) for name, value in headers]
    assert to_provider(theirs) == []
    assert to_caller(theirs) == []


def test_a_whole_answer_says_its_length_and_a_stream_that_nobody_shall_buffer_it() -> None:
    whole = dict(reply_headers([(b"Content-Type", b"application/json")], "rqe_a", 5))
    assert whole == {b"content-type": b"application/json", b"x-request-id": b"rqe_a", b"request-id": b"rqe_a", b"content-length": b"5"}
    stream = dict(reply_headers([], "rqe_a", None))
    assert b"content-length" not in stream
    assert stream[b"cache-control"] == b"no-cache"
    assert stream[b"x-accel-buffering"] == b"no"


def test_an_error_has_both_names_of_the_request_id_and_whole_seconds_to_wait() -> None:
    head = dict(error_headers(LimitReached("x", retry_after=6.2), "rqe_a", 5))
    assert head[b"x-request-id"] == head[b"request-id"] == b"rqe_a"
    assert head[b"retry-after"] == b"7"
    assert head[b"content-length"] == b"5"
    assert b"retry-after" not in dict(error_headers(BadRequest("x"), "rqe_a", 5))


def test_an_error_of_a_provider_brings_its_limits_and_its_request_id_but_one_wait() -> None:
    error = UpstreamBusy("x", retry_after=7.0)
    error.headers = of_error(
        [
            (b"content-type", b"text/html"),
            (b"Retry-After", b"9"),
            (b"retry-after-ms", b"1"),
            (b"x-ratelimit-limit", b"5"),
            (b"request-id", b"r"),
        ]
    )
    head = error_headers(error, "rqe_a", 5)
    assert (b"x-ratelimit-limit", b"5") in head
    assert (b"x-upstream-request-id", b"r") in head
    assert [value for name, value in head if name.startswith(b"retry-after")] == [b"7"]
    assert [value for name, value in head if name == b"content-type"] == [b"application/json"]


def test_an_error_of_our_own_making_brings_none() -> None:
    assert UpstreamRefused("x").headers == ()


def test_errors_bring_what_their_status_requires() -> None:
    assert dict(error_headers(Unauthenticated("x"), "rqe_a", 5))[b"www-authenticate"] == b"Bearer"
    assert dict(error_headers(MethodNotAllowed("x", allow="GET, HEAD"), "rqe_a", 5))[b"allow"] == b"GET, HEAD"


def test_the_first_of_several_headers_counts() -> None:
    assert first([(b"x-b", b"0"), (b"x-a", b"1"), (b"x-a", b"2")], b"x-a") == b"1"
    assert first([], b"x-a") is None


def test_providers_spell_the_names_of_headers_as_they_like() -> None:
    assert first_of([(b"X-B", b"0"), (b"X-A", b"1"), (b"x-a", b"2")], b"x-a") == b"1"
    assert first_of([], b"x-a") is None


@pytest.fixture
def far_from_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as here:
        here.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.proves("G14")
@pytest.mark.usefixtures("far_from_greenwich")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"7", 7),
        (b" 7 ", 7),
        (b"0.5", 0.5),
        (b"0", 0),
        (b"Sun, 06 Nov 1994 08:49:57 GMT", 20),
        (b"Sunday, 06-Nov-94 08:49:57 GMT", 20),
        (b"Sun Nov  6 08:49:57 1994", 20),
        (b"Sun, 06 Nov 1994 08:49:57 -0000", 20),
        (b"Sun, 06 Nov 1994 10:49:57 +0200", 20),
        (b"Sun, 06 Nov 1994 08:49:00 GMT", 0),
        (b"-1", None),
        (b"nan", None),
        (b"inf", None),
        (b"soon", None),
        (b"", None),
        (b"\xff", None),
        (b"Sun, 06 Nov 99999 08:49:37 GMT", None),
        (b"Sun, 06 Nov 1994 08:49:37 +99999999999999999999", None),
    ],
)
def test_a_wait_is_read_as_seconds_or_as_any_of_the_three_forms_of_a_date(value: bytes, seconds: float | None) -> None:
    assert retry_after([(b"Retry-After", value)], NOW) == seconds


def test_milliseconds_count_before_seconds() -> None:
    assert retry_after([(b"retry-after", b"2"), (b"retry-after-ms", b"1500")], NOW) == 1.5
    assert retry_after([(b"retry-after", b"2"), (b"retry-after-ms", b"soon")], NOW) == 2
    assert retry_after([], NOW) is None


@given(st.binary(max_size=60) | st.text("0123456789 :+-,SunNovGMT", max_size=60).map(str.encode))
def test_no_wait_a_provider_may_write_is_a_fault_of_ours(value: bytes) -> None:
    wait = retry_after([(b"retry-after", value)], NOW)
    assert wait is None or wait >= 0
