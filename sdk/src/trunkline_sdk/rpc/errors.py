"""What can go wrong with a call, and with a peer."""

from typing import Any, Literal

import msgspec

Code = Literal[
    "permission_denied",
    "secret_missing",
    "deadline_exceeded",
    "cancelled",
    "payload_too_large",
    "worker_exited",
    "unresponsive",
    "rate_limited",
    "invalid_params",
    "method_not_found",
    "failed",
]
"""Stable. `failed` is an error of the called code itself; a code that somebody else invents is read as `failed`."""


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error on the wire."""

    code: str
    message: str
    retryable: bool = False
    details: dict[str, Any] = {}
    extension: str = ""


class RpcError(Exception):
    """A call that has no result.

    Args:
        code: what went wrong.
        message: in words; no secrets.
        retryable: whether the same call may go well later.
        details: for programs.
        extension: whose fault it is, where the host tells that.
    """

    def __init__(
        self, code: Code, message: str, *, retryable: bool = False, details: dict[str, Any] | None = None, extension: str = ""
    ) -> None:
        super().__init__(message)
        self.code: Code = code
        self.message = message
        self.retryable = retryable
        self.details = details or {}
        self.extension = extension

    @property
    def body(self) -> ErrorBody:
        """As it travels."""
        return ErrorBody(code=self.code, message=self.message, retryable=self.retryable, details=self.details, extension=self.extension)


_CODES: dict[str, Code] = {code: code for code in Code.__args__}


def told(body: ErrorBody) -> RpcError:
    """An error that the other side told."""
    return RpcError(_CODES.get(body.code, "failed"), body.message, retryable=body.retryable, details=body.details, extension=body.extension)


class ProtocolBroken(Exception):
    """The other side does not speak the protocol: nothing more can be understood, and the connection is of no use."""
