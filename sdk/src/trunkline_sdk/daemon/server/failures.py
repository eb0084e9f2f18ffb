"""What a backend raises when it cannot do what it was asked, and what the product is told."""

import math
from typing import Literal

from trunkline_sdk.daemon.protocol.failures import TERMINAL_CODES
from trunkline_sdk.http1 import HttpError, HttpTimeout

FailureType = Literal[
    "invalid_request",
    "unauthorized",
    "forbidden",
    "not_found",
    "too_large",
    "rate_limited",
    "upstream",
    "overloaded",
    "timeout",
    "internal",
]
"""Optional `error.type` of an answer (K15), beside the status that says the same to clients that do not read it."""

_TYPES: dict[int, FailureType] = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "not_found",
    413: "too_large",
    429: "rate_limited",
    431: "too_large",
    500: "internal",
    503: "overloaded",
    504: "timeout",
}


class Failure(Exception):
    """The answer is this status; the message is shown to the product's users, so it holds no secret and no raw body of an upstream.

    An upstream's own 4xx or 5xx is passed on as it is (D5); 502 says that it could not be reached or made no sense.

    Attributes:
        status: 300 to 599. Products read 401 as "the credential is refused", 403 as "forbidden", 408, 429 and 5xx as "try again".
        retry_after: seconds.
        upstream_status: what the upstream said, where that is not `status`.
    """

    def __init__(self, status: int, message: str, *, retry_after: float | None = None, upstream_status: int = 0) -> None:
        if not 300 <= status <= 599:
            raise ValueError(f"a failure has a status from 300 to 599, not {status}")
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after
        self.upstream_status = upstream_status

    @property
    def type(self) -> FailureType:
        """What kind of failure it is."""
        return _TYPES.get(self.status, "upstream" if self.status >= 500 or self.status < 400 else "invalid_request")

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later (D2)."""
        return self.status in {408, 429} or self.status >= 500

    def headers(self) -> list[tuple[bytes, bytes]]:
        """What goes along with it."""
        return [] if self.retry_after is None else [(b"retry-after", str(max(0, math.ceil(self.retry_after))).encode())]


class GrantRefused(Failure):
    """The provider refuses the refresh token.

    `code` is its OAuth error code. Where that says that the token is void, the answer is *terminal*: the product forgets the sign-in. That
    is always a 400 with a reason, and never what network trouble, 429 or a 5xx may cause: those are a `Failure`.
    """

    def __init__(self, code: str, reason: str = "") -> None:
        super().__init__(400, reason.strip() or code.strip() or "the refresh token was refused")
        self.terminal = code.strip().lower() in TERMINAL_CODES


def failure_of(error: Exception) -> Failure | None:
    """What a product is told of an error; none is for those that nobody foresaw."""
    match error:
        case Failure():
            return error
        case TimeoutError() | HttpTimeout():
            return Failure(504, "the provider did not answer in time")
        case HttpError(sent=False):
            return Failure(502, "the provider cannot be reached")
        case HttpError():
            return Failure(502, "the provider's answer broke off or cannot be used")
        case _:
            return None
