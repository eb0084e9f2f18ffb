"""What can go wrong with a stored credential. No text holds a token or a key's record.

```text
TokenError
├── BlankKey          the key says nothing
├── NotFound          there is no record, or it was revoked
├── Conflict          the record is not the one that was read: somebody signed in, out, or refreshed
├── LeaseTimeout      somebody else holds the lease for too long
├── NoRefreshToken    it cannot be renewed: the owner signs in again
├── Revoked           the provider says that the refresh token is void; the record is gone
├── InvalidRefresh    the refresh gave no access token
└── IdentityChanged   the refresh gave the tokens of another account; they were dropped
```
"""

from typing import Protocol, runtime_checkable


@runtime_checkable
class _Refusal(Protocol):
    terminal: bool


def is_terminal(error: BaseException) -> bool:
    """Whether a refresh failed because the refresh token is void: the error, or one that it was raised from, says `terminal` (D3)."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, _Refusal):
            return cause.terminal
        cause = cause.__cause__
    return False


class TokenError(Exception):
    """A credential cannot be read, kept or renewed."""


class BlankKey(TokenError):
    """A store's key holds nothing but white space."""


class NotFound(TokenError):
    """There is no such record."""


class Conflict(TokenError):
    """The record's revision is another one by now."""


class LeaseTimeout(TokenError):
    """The lease was not to be had in time."""


class NoRefreshToken(TokenError):
    """The record has no refresh token."""


class Revoked(TokenError):
    """The provider refused the refresh token for good; `__cause__` is what it said."""


class InvalidRefresh(TokenError):
    """What the refresh gave has no access token."""


class IdentityChanged(TokenError):
    """What the refresh gave belongs to another account."""
