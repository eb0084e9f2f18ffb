"""Every error anyone can see: what happened, whose fault it is, and what to do next.

    TrunklineError
    ├── CallerError      wrong or not allowed; never retried
    ├── UpstreamError    a provider failed; the next target may try
    ├── ExtensionError   an extension failed
    └── OperatorError    this installation is misconfigured

The class says what programs need: a stable `code`, the HTTP `status`, the `fault` and whether asking again can help.
The instance says what people need: a message, a hint, and facts for the log. None of the three ever holds a secret.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

Fault = Literal["caller", "upstream", "extension", "operator"]


class TrunklineError(Exception):
    """The root of all errors that are meant for somebody.

    Attributes:
        message: what happened, with the value that was wrong.
        hint: what to do next, or an empty string.
        retry_after: seconds to wait before asking again, where known.
        facts: ids and numbers for the log line.
    """

    code: ClassVar[str]
    status: ClassVar[int]
    fault: ClassVar[Fault]
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None, **facts: str | float | None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.retry_after = retry_after
        self.facts = facts

    @property
    def http_status(self) -> int:
        """The status of the answer: the class's own, except where an upstream's status is handed on."""
        return self.status

    @property
    def sentence(self) -> str:
        """The message and the hint as one text, for clients that show only one."""
        return f"{self.message}. {self.hint}" if self.hint else self.message


# ---------------------------------------------------------------------------------------------------------- caller
class CallerError(TrunklineError):
    """The request is wrong or not allowed. Asking again unchanged gives the same answer."""

    fault = "caller"


class BadRequest(CallerError):
    """The request cannot be read; the message names the field and the value."""

    code = "bad_request"
    status = 400


class Unauthenticated(CallerError):
    """There is no key, or not one that is known and valid."""

    code = "unauthenticated"
    status = 401


class OutOfCredit(CallerError):
    """The caller's balance does not cover what the request may cost."""

    code = "out_of_credit"
    status = 402


class Denied(CallerError):
    """The caller is known, and may not do this."""

    code = "denied"
    status = 403


class NotFound(CallerError):
    """There is no such model, path or object."""

    code = "not_found"
    status = 404


class MethodNotAllowed(CallerError):
    """The path exists, but not for this HTTP method.

    Attributes:
        allow: the methods that it answers, as the header `Allow` lists them.
    """

    code = "method_not_allowed"
    status = 405

    def __init__(self, message: str, *, hint: str = "", allow: str = "") -> None:
        super().__init__(message, hint=hint)
        self.allow = allow


class SlowRequest(CallerError):
    """The request's body did not arrive in time."""

    code = "request_timeout"
    status = 408


class Conflict(CallerError):
    """The object has changed, or exists already."""

    code = "conflict"
    status = 409


class PreconditionFailed(CallerError):
    """The object is not at the revision that `If-Match` names: somebody changed it meanwhile."""

    code = "precondition_failed"
    status = 412


class TooLarge(CallerError):
    """The body is larger than this server accepts; the message has the number."""

    code = "too_large"
    status = 413


class UnsupportedEncoding(CallerError):
    """The body's `Content-Encoding` is not one that this server decodes."""

    code = "unsupported_encoding"
    status = 415


class UnsupportedMedia(CallerError):
    """The body's `Content-Type` is not one that this path reads."""

    code = "unsupported_media_type"
    status = 415


class LossRefused(CallerError):
    """The request cannot be carried to this provider without a loss that nobody allowed; the message names what."""

    code = "loss_refused"
    status = 422


class PreconditionRequired(CallerError):
    """This object is changed only under `If-Match`, so that no change of somebody else is lost."""

    code = "precondition_required"
    status = 428


class LimitReached(CallerError):
    """A limit on requests, tokens or money is reached; `retry_after` says for how long."""

    code = "limit_reached"
    status = 429
    retryable = True


# -------------------------------------------------------------------------------------------------------- upstream
class UpstreamError(TrunklineError):
    """A provider failed.

    Attributes:
        upstream_status: the HTTP status that the provider answered with, if it did.
        body: the provider's own error body, free of our credentials, where it may be handed on.
        headers: of the provider's answer, those that the caller gets too.
        said_to: the credential that it was said to, where that is a newer one than the call began with.
    """

    fault = "upstream"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        retry_after: float | None = None,
        upstream_status: int | None = None,
        body: bytes = b"",
        **facts: str | float | None,
    ) -> None:
        super().__init__(message, hint=hint, retry_after=retry_after, **facts)
        self.upstream_status = upstream_status
        self.body = body
        self.headers: Sequence[tuple[bytes, bytes]] = ()
        self.said_to: object = None


class UpstreamRefused(UpstreamError):
    """The provider says that the request itself is wrong; its status and words are handed on."""

    code = "upstream_refused"
    status = 400

    @property
    def http_status(self) -> int:
        """The provider's own status: it speaks to the caller."""
        return self.upstream_status or self.status


class UpstreamDenied(UpstreamError):
    """The provider does not accept our credential (401, 402 or 403). The caller's key is fine."""

    code = "upstream_denied"
    status = 502


class UpstreamBusy(UpstreamError):
    """The provider is rate-limited or overloaded (429, 503 or 529)."""

    code = "upstream_busy"
    status = 429
    retryable = True

    @property
    def http_status(self) -> int:
        """The provider's own status, so that clients tell a rate limit from an overload."""
        return self.upstream_status or self.status


class UpstreamDown(UpstreamError):
    """The provider cannot be reached, or broke off, or answered 5xx."""

    code = "upstream_down"
    status = 502
    retryable = True


class UpstreamTimeout(UpstreamError):
    """The provider did not connect, begin or go on in time; the message says which."""

    code = "upstream_timeout"
    status = 504
    retryable = True


class UpstreamGarbled(UpstreamError):
    """The provider's answer breaks the rules of HTTP or of its own wire format."""

    code = "upstream_garbled"
    status = 502
    retryable = True


# ------------------------------------------------------------------------------------------------------- extension
class ExtensionError(TrunklineError):
    """An extension failed."""

    fault = "extension"
    status = 502


class ManifestInvalid(ExtensionError):
    """An extension's manifest cannot be used; the message names the field."""

    code = "manifest_invalid"


class PermissionDenied(ExtensionError):
    """An extension asked for what it was not granted."""

    code = "permission_denied"


class WorkerCrashed(ExtensionError):
    """An extension's process ended during a call."""

    code = "worker_crashed"
    retryable = True


class WorkerTimeout(ExtensionError):
    """An extension did not answer in time."""

    code = "worker_timeout"
    status = 504
    retryable = True


class CallFailed(ExtensionError):
    """An extension answered a call with an error of its own."""

    code = "call_failed"


# -------------------------------------------------------------------------------------------------------- operator
class OperatorError(TrunklineError):
    """This installation is misconfigured; its operator can mend it."""

    fault = "operator"
    status = 503


class ConfigInvalid(OperatorError):
    """The configuration cannot be used; the message names the key and the value."""

    code = "config_invalid"


class NoCredential(OperatorError):
    """A provider needs a credential and none is configured."""

    code = "no_credential"


class SignInNeeded(NoCredential):
    """A provider is called with a person's sign-in, and there is none, or it has ended. The hint says where to sign in; another model may be tried."""

    code = "sign_in_needed"
    status = 403


class DaemonRefused(OperatorError):
    """An extension daemon does not accept the secret that is configured for it."""

    code = "daemon_refused"


class EgressDenied(OperatorError):
    """The address of an upstream may not be dialled."""

    code = "egress_denied"


class StoreUnavailable(OperatorError):
    """The database cannot be opened, read or written."""

    code = "store_unavailable"


class StoreFull(StoreUnavailable):
    """The database has no room left on its disk; what was being written is not there."""

    code = "store_full"
    status = 507


class StoreReadOnly(StoreUnavailable):
    """The database can be read and not written to: a file, a folder, or a standby server."""

    code = "store_read_only"


class VaultUnavailable(OperatorError):
    """The key of the vault is missing, cannot be used or is used up, or a stored secret does not open with it."""

    code = "vault_unavailable"


class MigrationNeeded(OperatorError):
    """The database's schema is not the one this version works with."""

    code = "migration_needed"


class BackupUnusable(OperatorError):
    """A backup cannot be read: the passphrase is another one, or the file is cut or changed."""

    code = "backup_unusable"


class ListenFailed(OperatorError):
    """The server cannot listen where it was told to."""

    code = "listen_failed"


class LaunchFailed(OperatorError):
    """A process that Trunkline runs, a local model's or an extension's worker, does not start; the message says why."""

    code = "launch_failed"


class SandboxTooWeak(OperatorError):
    """This machine cannot keep an extension as apart as it has to be; the message says what is missing."""

    code = "sandbox_too_weak"


class FetchFailed(OperatorError):
    """A model's files cannot be fetched; the message has the installer's last words."""

    code = "fetch_failed"


class ShuttingDown(OperatorError):
    """This server is being stopped or restarted."""

    code = "shutting_down"
    retryable = True


class Internal(OperatorError):
    """A fault in Trunkline itself; the log has it under the request id."""

    code = "internal"
    status = 500
