"""What a status or a name of a provider's error means, whatever its dialect."""

from collections.abc import Iterable

from trunkline.errors import (
    UpstreamBusy,
    UpstreamDenied,
    UpstreamDown,
    UpstreamError,
    UpstreamRefused,
    UpstreamTimeout,
)

LONGEST = 500  # characters of a provider's own words that we repeat
STATUSES = {
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "server_is_overloaded": 503,
    "service_unavailable_error": 503,
    "overloaded_error": 529,
} | dict.fromkeys(
    (
        "invalid_prompt", "data_residency_mismatch", "bio_policy", "misalignment_policy_violation", "invalid_image",
        "invalid_image_format", "invalid_base64_image", "invalid_image_url", "image_too_large", "image_too_small",
        "image_parse_error", "image_content_policy_violation", "invalid_image_mode", "image_file_too_large",
        "unsupported_image_media_type", "empty_image_file", "failed_to_download_image", "image_file_not_found",
    ),
    400,
)  # fmt: skip
"""The HTTP statuses that the vendors' names for errors stand for; the last are those of `openai.types.responses.ResponseError`."""


def judged(status: int, words: str, body: bytes, retry_after: float | None) -> UpstreamError:
    """The error for a status: whose fault it is decides who hears the provider's own words.

    Args:
        status: the provider's HTTP status, not 2xx.
        words: the provider's message, or an empty string.
        body: the provider's whole error body.
        retry_after: what its `Retry-After` says, in seconds.
    """
    return _meant(status, f" (HTTP {status})", words, body, retry_after)


def named(names: Iterable[str | int | None], words: str) -> UpstreamError:
    """The error for the names or numbers that stand inside a stream or a 200, the most exact one first."""
    return _meant(next((status for name in names if (status := _status(str(name)))), 500), "", words, b"", None)


def _status(name: str) -> int | None:
    number = int(name) if name.isdecimal() and len(name) == 3 else 0
    return number if 400 <= number < 600 else STATUSES.get(name)


def _meant(status: int, answer: str, words: str, body: bytes, retry_after: float | None) -> UpstreamError:
    if len(words) > LONGEST:  # never inside a word, which may be a key that is still to be taken out
        words = words[:LONGEST].rpartition(" ")[0] + "…"
    said = f"{answer}: {words}" if words else answer
    if status in {401, 402, 403}:
        # Its words may quote the key, and speak of an account that is not the caller's.
        return UpstreamDenied(
            f"the provider does not accept the credential that is configured for it{answer}",
            hint="The operator can check the provider's `api_key` or stored credentials, and its account.",
            upstream_status=status,
        )
    if status in {429, 503, 529}:
        return UpstreamBusy(f"the provider is busy{said}", retry_after=retry_after, upstream_status=status)
    if status == 408:
        return UpstreamTimeout(f"the provider timed out{said}", upstream_status=status)
    if status >= 500:
        return UpstreamDown(f"the provider failed{said}", retry_after=retry_after, upstream_status=status)
    return UpstreamRefused(f"the provider refused the request{said}", upstream_status=status, body=body if words else b"")
