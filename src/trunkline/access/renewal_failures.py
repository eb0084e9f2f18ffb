"""What a caller is told when a sign-in cannot be renewed. No text holds a token: those of the daemon's client are cleaned of them."""

from trunkline.errors import (
    SignInNeeded,
    TrunklineError,
    UpstreamBusy,
    UpstreamDenied,
    UpstreamDown,
    UpstreamGarbled,
    UpstreamTimeout,
)
from trunkline.providers.daemon import secret_refused
from trunkline_sdk.daemon.errors import CallFailed, DaemonError, RefreshRefused
from trunkline_sdk.daemon.tokenstore import (
    Conflict,
    IdentityChanged,
    LeaseTimeout,
    NoRefreshToken,
    NotFound,
    Revoked,
    TokenError,
)

_NEEDS_A_PERSON: dict[type[TokenError], str] = {
    NotFound: "has ended",
    Revoked: "has ended",
    Conflict: "was changed meanwhile",
    NoRefreshToken: "cannot be renewed",
    IdentityChanged: "was renewed for another account, whose tokens were dropped",
}


def sign_in_needed(provider: str, link: str, what: str = "has ended") -> SignInNeeded:
    """A person has to do something."""
    return SignInNeeded(f"the sign-in to `{provider}` {what}", hint=f"Sign in again: {link}")


def as_ours(provider: str, link: str, error: TokenError | DaemonError | TimeoutError) -> TrunklineError:
    """The error for one of the coordinator's, of the daemon's client (D3), or for a provider that took too long.

    Args:
        provider: `DAEMON/ID`.
        link: where one signs in to it.
        error: what went wrong.
    """
    if what := next((words for kind, words in _NEEDS_A_PERSON.items() if isinstance(error, kind)), ""):
        return sign_in_needed(provider, link, what)
    match error:
        case LeaseTimeout() | TimeoutError():
            return UpstreamTimeout(f"the provider `{provider}` took too long to renew a sign-in")
        case RefreshRefused():
            return _refused(provider, error)
        case CallFailed(kind="configuration"):
            return secret_refused(provider)
        case CallFailed(kind="transport"):
            return UpstreamDown(f"the provider `{provider}` cannot renew a sign-in: {error}")
        case _:
            return UpstreamGarbled(f"the provider `{provider}` cannot renew a sign-in: {error}")


def _refused(provider: str, error: RefreshRefused) -> TrunklineError:
    text = f"the provider `{provider}` does not renew a sign-in: {error}"
    match error.status:
        case 429 | 503 | 529:
            return UpstreamBusy(text, upstream_status=error.status)
        case status if status == 408 or status >= 500:
            return UpstreamDown(text, upstream_status=status)
        case status if status < 400:
            return UpstreamGarbled(text, upstream_status=status)
        case status:
            return UpstreamDenied(text, upstream_status=status)
