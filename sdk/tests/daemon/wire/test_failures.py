"""Status codes, reasons, waits: what follows from a failure."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline_sdk.daemon.errors import Classification
from trunkline_sdk.daemon.messages import ErrorDetail, ErrorResponse, decode
from trunkline_sdk.daemon.protocol import failures, headers
from trunkline_sdk.daemon.protocol.failures import Where, classify, clean, reason, refused, retry_after
from trunkline_sdk.daemon.protocol.fixes import ORIGINAL, OURS

NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
SEVEN = [(b"Retry-After", b"7")]
BAD = (False, False, True)
NEUTRAL = (False, False, False)
AGAIN = (True, True, True)

TABLE = {
    401: ("auth", NEUTRAL, NEUTRAL),
    403: ("forbidden", NEUTRAL, NEUTRAL),
    429: ("rate_limited", (True, True, False), (True, True, False)),
    **dict.fromkeys([408, 500, 501, 502, 503, 504, 529, 599], ("upstream", AGAIN, AGAIN)),
    **dict.fromkeys([300, 301, 302, 304, 307], ("upstream", BAD, BAD)),
    **dict.fromkeys([400, 402, 404, 405, 409, 413, 422, 431, 451], ("upstream", BAD, NEUTRAL)),
}
"""D2: class; retry, failover, circuit as the original has them; the same as ours (K4)."""


@pytest.mark.parametrize("status", TABLE)
def test_the_status_decides(status: int) -> None:
    """I.8"""
    kind, original, ours = TABLE[status]
    for fixes, (retry, failover, circuit) in ((ORIGINAL, original), (OURS, ours)):
        waits = status == 429 or (status in {503, 529} and fixes is OURS)
        expected = Classification(status=status, retryable=retry, failover=failover, circuit=circuit, retry_after=7.0 if waits else 0.0)
        assert classify(status, SEVEN, NOW, fixes) == (kind, expected)
        assert expected.disposition == ("retryable" if retry else "terminal")


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [
        (b"7", 7.0),
        (b"0", 0.0),
        (b"Sun, 29 Nov 2026 12:00:30 GMT", 30.0),
        (b"Sunday, 29-Nov-26 12:00:30 GMT", 30.0),
        (b"Sun Nov 29 12:00:30 2026", 30.0),
        (b"Sun, 29 Nov 2026 11:59:59 GMT", 0.0),
        (b"soon", 0.0),
        (b"-7", 0.0),
        (b"7.5", 0.0),
        (b"9" * 400, 0.0),
        (b"\xff", 0.0),
        (None, 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(raw: bytes | None, seconds: float) -> None:
    """I.8"""
    assert retry_after(raw, NOW) == seconds


@given(st.binary(max_size=40))
def test_any_retry_after_is_a_number(raw: bytes) -> None:
    assert retry_after(raw, NOW) >= 0.0


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"error":"no such model"}', "no such model"),
        (b'{"error":{"message":"bad \\n key","code":401}}', "bad key"),
        (b'{"Error":{"Message":"case"}}', "case"),
        (b'{"error":{"message":"m","code":"401"}}', "m"),
        (b'{"error":{"message":7}}', ""),
        (b'{"error":"  \\t "}', ""),
        (b'{"error":null}', ""),
        (b'{"error":[1]}', ""),
        (b'{"message":"elsewhere"}', ""),
        (b"<html>raw</html>", ""),
        (b'"text"', ""),
        (b"", ""),
    ],
)
def test_a_reason_is_in_one_of_two_shapes_or_nowhere(data: bytes, text: str) -> None:
    """I.8"""
    assert reason(data) == text


def test_a_raw_body_is_never_shown() -> None:
    """I.8"""
    where = Where(route="invoke", provider="p")
    assert str(refused(where, 502, [], b"<html>raw</html>", NOW, OURS)) == "extension p invoke failed (HTTP 502)"
    assert str(refused(where, 400, [], b'{"error":"no"}', NOW, OURS)) == "extension p invoke failed: no"
    assert str(refused(Where(route="info"), 500, [], b"", NOW, OURS)) == "extension info failed (HTTP 500)"


def test_a_reason_is_one_line_of_at_most_512_letters() -> None:
    assert clean("ä" * 512) == "ä" * 512
    assert clean("ä" * 513) == "ä" * 512 + "..."
    assert clean(" a \r\n\u00a0 b ") == "a b"


def test_a_reason_that_repeats_a_secret_loses_it() -> None:
    where = Where(route="invoke", provider="p", secrets=("canary-token", ""))
    error = refused(where, 401, [], b'{"error":"token canary-token is bad"}', NOW, OURS)
    assert "canary" not in f"{error!r} {error} {error.reason} {where!r}"


def test_the_daemon_s_own_401_is_a_matter_of_configuration() -> None:
    mark = [(b"www-authenticate", headers.CHALLENGE)]
    assert classify(401, mark, NOW, OURS) == ("configuration", Classification(status=401, failover=True))
    assert classify(401, mark, NOW, ORIGINAL) == ("auth", Classification(status=401))


def test_an_error_body_is_read_by_both_readers() -> None:
    data = failures.body("no  such\nmodel", 404, kind="not_found", retryable=False, upstream_status=404)
    assert reason(data) == "no such model"
    detail = ErrorDetail(message="no such model", code=404, type="not_found", retryable=False, upstream_status=404)
    assert decode(ErrorResponse, data).error == detail
    assert failures.body("x", 400) == b'{"error":{"message":"x","code":400}}'
