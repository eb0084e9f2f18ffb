"""Which headers pass: lists of what may, never of what may not. Pure.

Hop-by-hop headers, cookies and credentials are on no list, so they never pass in either direction.
"""

import math
from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime

from trunkline.errors import MethodNotAllowed, TrunklineError, Unauthenticated, UpstreamError

Headers = Sequence[tuple[bytes, bytes]]

TO_PROVIDER = frozenset({b"anthropic-beta", b"anthropic-version", b"openai-beta", b"accept-language"})
TO_CALLER = frozenset({b"content-type", b"retry-after", b"retry-after-ms", b"x-should-retry", b"openai-processing-ms", b"openai-version"})
TO_CALLER_PREFIXES = (b"x-ratelimit-", b"anthropic-ratelimit-", b"anthropic-priority-", b"anthropic-fast-")
NOT_OF_ERRORS = frozenset({b"content-type", b"retry-after", b"retry-after-ms"})  # an error's body and wait are told by us
STREAM = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
REQUEST_IDS = (b"x-request-id", b"request-id")
UPSTREAM_ID = b"x-upstream-request-id"


def to_provider(headers: Headers) -> list[tuple[bytes, bytes]]:
    """What a provider gets of a caller's headers (names in lower case)."""
    return [(name, value) for name, value in headers if name in TO_PROVIDER]


def to_caller(headers: Headers) -> list[tuple[bytes, bytes]]:
    """What a caller gets of a provider's headers; the provider's request id under a name of its own."""
    passed: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        lower = name.lower()
        if lower in TO_CALLER or lower.startswith(TO_CALLER_PREFIXES):
            passed.append((lower, value))
        elif lower in REQUEST_IDS and not any(name == UPSTREAM_ID for name, _ in passed):
            passed.append((UPSTREAM_ID, value))
    return passed


def of_error(headers: Headers) -> list[tuple[bytes, bytes]]:
    """What a caller gets of the headers of a provider's error: limits, whether to ask again, the provider's request id."""
    return [each for each in to_caller(headers) if each[0] not in NOT_OF_ERRORS]


def reply_headers(headers: Headers, request_id: str, length: int | None) -> list[tuple[bytes, bytes]]:
    """The head of a good answer: of a whole one where the length is known, of a stream where it is not."""
    rest = STREAM if length is None else [(b"content-length", str(length).encode())]
    return [*to_caller(headers), *request_ids(request_id), *rest]


def error_headers(error: TrunklineError, request_id: str, length: int) -> list[tuple[bytes, bytes]]:
    """The head of an answer that is an error, with what clients act on: the seconds to wait, the provider's limits, what is allowed instead."""
    head = [(b"content-type", b"application/json"), *request_ids(request_id), (b"content-length", str(length).encode())]
    if error.retry_after is not None:
        head.append((b"retry-after", str(math.ceil(error.retry_after)).encode()))
    match error:
        case UpstreamError():
            head += error.headers
        case Unauthenticated():
            head.append((b"www-authenticate", b"Bearer"))  # RFC 9110, section 15.5.2
        case MethodNotAllowed():
            head.append((b"allow", error.allow.encode()))  # RFC 9110, section 15.5.6
        case _:
            pass
    return head


def request_ids(request_id: str) -> list[tuple[bytes, bytes]]:
    """Our id under the two names that SDKs read."""
    value = request_id.encode()
    return [(b"x-request-id", value), (b"request-id", value)]


def first(headers: Headers, name: bytes) -> bytes | None:
    """A caller's first header of a name; all names in lower case."""
    for key, value in headers:
        if key == name:
            return value
    return None


def first_of(answer: Headers, name: bytes) -> bytes | None:
    """A provider's first header of a name (lower case), however the provider spells it."""
    for key, value in answer:
        if key.lower() == name:
            return value
    return None


def retry_after(headers: Headers, now: float) -> float | None:
    """Seconds to wait, from `retry-after-ms`, or `Retry-After` as seconds or as a date (RFC 9110, section 10.2.3)."""
    exact = first_of(headers, b"retry-after-ms")
    if exact is not None and (seconds := _number(exact)) is not None:
        return seconds / 1000
    value = first_of(headers, b"retry-after")
    if value is None:
        return None
    if (seconds := _number(value)) is not None:
        return seconds
    try:
        date = parsedate_to_datetime(value.decode("latin-1"))
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:  # one of the older forms, which are GMT too (RFC 9110, section 5.6.7)
        date = date.replace(tzinfo=UTC)
    return max(0.0, date.timestamp() - now)


def _number(value: bytes) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
