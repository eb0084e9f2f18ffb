"""What OpenAI's formats share: how an error looks, and how usage is told.

Source: the API reference, "Error codes", and the SDKs, which raise what stands under a top-level `error`.
"""

from trunkline.base.codec import NULL, Decoder, Malformed, Raw, Wire, decode_raw, encode, is_null
from trunkline.dialects import _errors as errors
from trunkline.errors import TrunklineError, UpstreamError
from trunkline.model.usage import Usage

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class Details(Wire, frozen=True):
    """Parts of the tokens that were counted."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class ErrorBody(Wire, frozen=True):
    """`error`, which is an object by the book and a string at some vendors."""

    message: str | None = None
    code: str | int | None = None
    type: str | None = None


class Failure(Wire, frozen=True):
    """The body of an error answer."""

    error: Raw = NULL


_error: Decoder[ErrorBody | str] = Decoder(ErrorBody | str)


def buckets(read: int | None, wrote: int | None, read_details: Details | None, wrote_details: Details | None) -> Usage:
    """The buckets are disjoint, the sums of these formats hold their details: cached is no longer input, reasoning no longer output."""
    inside, outside = read_details or Details(), wrote_details or Details()
    cached, stored, reasoned = inside.cached_tokens or 0, inside.cache_write_tokens or 0, outside.reasoning_tokens or 0
    return Usage(
        input=max(0, (read or 0) - cached - stored),
        cache_read=cached,
        cache_write=stored,
        output=max(0, (wrote or 0) - reasoned),
        reasoning=reasoned,
    )


def told(raw: Raw) -> ErrorBody:
    """What an `error` says."""
    try:
        found = _error.decode(raw)
    except Malformed:
        return ErrorBody()
    return ErrorBody(message=found) if isinstance(found, str) else found


def failure(raw: Raw) -> UpstreamError:
    """The error inside a stream or a 200."""
    error = told(raw)
    return errors.named((error.code, error.type), error.message or "")


def read_error(status: int, body: bytes, retry_after: float | None) -> UpstreamError:
    """Read `{"error": {"message": …}}`, or whatever stands there instead."""
    try:
        words = told(decode_raw(body, Failure).error).message or ""
    except Malformed:
        words = ""
    return errors.judged(status, words, body, retry_after)


def error_body(error: TrunklineError) -> dict[str, object]:
    """`{"message", "type", "param", "code"}`."""
    kind = ERROR_TYPES.get(error.http_status, "invalid_request_error" if error.http_status < 500 else "server_error")
    return {"message": error.sentence, "type": kind, "param": None, "code": error.code}


def write_error(error: TrunklineError, request_id: str) -> bytes:
    """`{"error": {…}, "request_id"}`."""
    return encode({"error": error_body(error), "request_id": request_id})


def says_something(raw: Raw) -> bool:
    """Whether a list that may be absent has items."""
    return not is_null(raw) and bytes(raw) != b"[]"
