"""Where a key stands in a request. Pure."""

from collections.abc import Sequence


def credential(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    """The key that a request presents, from headers with names in lower case.

    OpenAI's SDKs send `Authorization: Bearer`, Anthropic's `x-api-key`. Where both stand, `Authorization` counts (Switchboard
    contract, A.1).
    """
    other: bytes | None = None
    for name, value in headers:
        if name == b"authorization":
            scheme, _, key = value.partition(b" ")
            return key.strip().decode("latin-1") if scheme.lower() == b"bearer" else None
        if name == b"x-api-key":
            other = value
    return None if other is None else other.strip().decode("latin-1")
