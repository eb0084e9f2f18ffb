"""What can go wrong with a daemon, and what a router may do about it (daemon contract, D1).

```text
DaemonError
├── AddressRefused     a base URL that breaks the rules
├── CallFailed         info, models, invoke, stream, and whatever got no answer
├── SurfaceNotServed   the provider does not list the surface; nothing was sent
├── RefreshRefused     the daemon answered, and not with a new record
└── StepRefused        a sign-in step that came to nothing
```

Texts name the provider and the route. They hold no address, no header value, no body, and of the daemon's reason one line of at most 512
letters. A caller that cancels gets its own `asyncio.CancelledError`, never one of these.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["", "auth", "forbidden", "rate_limited", "transport", "upstream", "configuration", "invalid_request", "unsupported"]
Disposition = Literal["retryable", "failover", "terminal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """What follows from a failure.

    `status` is the daemon's HTTP status, 0 where there was none. `circuit`: it counts towards opening the provider's circuit.
    `retry_after`: seconds to hold the credential back, 0 for none.
    """

    status: int = 0
    retryable: bool = False
    failover: bool = False
    circuit: bool = False
    retry_after: float = 0.0

    @property
    def disposition(self) -> Disposition:
        """What to do next, at most."""
        if self.retryable:
            return "retryable"
        return "failover" if self.failover else "terminal"


TERMINAL = Classification()
FAILOVER = Classification(failover=True)
AGAIN = Classification(retryable=True, failover=True, circuit=True)


class DaemonError(Exception):
    """All errors of this package; `classification` is terminal where nothing else is said."""

    classification: Classification = TERMINAL


class AddressRefused(DaemonError, ValueError):
    """The base URL breaks a rule (A1), which the text states; the URL is not in it."""


class CallFailed(DaemonError):
    """`kind` is the class of D1, `reason` the daemon's own words, cleaned, or empty; `timed_out`: a deadline of ours passed."""

    def __init__(
        self, message: str, kind: Kind, classification: Classification = TERMINAL, *, reason: str = "", timed_out: bool = False
    ) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.classification = classification
        self.reason = reason
        self.timed_out = timed_out


class SurfaceNotServed(DaemonError):
    """Another provider may serve `surface`."""

    classification = FAILOVER

    def __init__(self, provider: str, surface: str) -> None:
        super().__init__(f"extension {provider} does not serve the surface `{surface}`")
        self.provider = provider
        self.surface = surface


class RefreshRefused(DaemonError):
    """`terminal`: the login is over, and its owner must sign in anew; otherwise the record is kept (D3)."""

    def __init__(self, message: str, *, provider: str, status: int, reason: str, terminal: bool) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status
        self.reason = reason
        self.terminal = terminal


class StepRefused(DaemonError):
    """`step` is `start`, `poll` or `exchange`; a flow that is polled stays pending (D4)."""

    def __init__(self, message: str, *, provider: str, step: str, status: int, reason: str) -> None:
        super().__init__(message)
        self.provider = provider
        self.step = step
        self.status = status
        self.reason = reason
