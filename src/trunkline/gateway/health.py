"""Which targets are worth trying now, and with which credentials.

A target rests after failures of its own. What a provider says to a credential is about that one: busy, it rests at this target; not
allowed there (403), too; not accepted at all (401, 402), it rests wherever it is used. Without credentials the target is what rests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trunkline.base.clock import Clock
from trunkline.errors import (
    EgressDenied,
    LaunchFailed,
    TrunklineError,
    UpstreamBusy,
    UpstreamDenied,
    UpstreamDown,
    UpstreamError,
    UpstreamGarbled,
    UpstreamTimeout,
)
from trunkline.model.credential import Credential
from trunkline.model.target import Target

FAILURES = 5  # in a row, before a target is left alone
REST = 10.0  # seconds it is left alone then
BUSY = 1.0  # seconds a busy target is left alone, unless it says for how long
DENIED = 30.0  # seconds a credential is left alone that was not accepted; twice as long each time that it is not again
LONGEST = 3600.0  # seconds; a provider may say more, and be wrong
MOST = 10_000  # states that are remembered: callers may ask any provider for models of any name
FAULTY = UpstreamDown | UpstreamTimeout | UpstreamGarbled | EgressDenied | LaunchFailed
FORBIDDEN = 403

Place = Target | tuple[Target | str, str]
"""What may rest: a target; a credential, by its id, at one target or at a provider."""


@dataclass(slots=True)
class _State:
    credential: Credential | None = None  # another one of the same id, since it was changed, begins anew
    failures: int = 0
    until: float = 0.0  # by the monotonic clock
    busy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """Something that is left alone now.

    Attributes:
        target: what, or where the credential rests; none where it does at every target of its provider.
        credential: the id of what rests, where that is not the whole target.
        seconds: for so long yet.
    """

    target: Target | None
    credential: str
    why: Literal["busy", "failing", "denied"]
    seconds: float


class Health:
    """What the last calls to each target, with each credential, showed. What the caller did wrong never counts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._states: dict[Place, _State] = {}

    @property
    def calm(self) -> bool:
        """Nothing rests, so that nothing in particular need be asked for."""
        return not self._states

    def rest(self, target: Target, credentials: Sequence[Credential] = ()) -> float:
        """For how many seconds more the target, or each credential for it, should be left alone; 0 when it may be tried."""
        if not self._states:
            return 0.0
        resting = min((self.rest_of(each, target) for each in credentials), default=0.0)
        return max(resting, self._left(target))

    def rest_of(self, credential: Credential, target: Target) -> float:
        """For how many seconds more a credential should not be used for a target."""
        return max(self._left(place, credential) for place in _places(target, credential)) if self._states else 0.0

    def is_busy(self, target: Target, credentials: Sequence[Credential] = ()) -> bool:
        """Whether it rests because the provider said so itself: as a whole, or to the credential that is the first to be back."""
        if not self._states:
            return False
        if self._left(target):
            return self._states[target].busy
        first = min(credentials, key=lambda each: self.rest_of(each, target), default=None)
        if first is None or not self.rest_of(first, target):
            return False
        return all(self._states[place].busy for place in _places(target, first) if self._left(place, first))

    def resting(self, provider: str) -> list[Resting]:
        """What of a provider is left alone now."""
        found: list[Resting] = []
        for place, state in self._states.items():
            at, credential = place if isinstance(place, tuple) else (place, "")
            target, name = (None, at) if isinstance(at, str) else (at, at.provider)
            if name == provider and (seconds := state.until - self._clock.monotonic()) > 0:
                why = "busy" if state.busy else "denied" if credential else "failing"
                found.append(Resting(target=target, credential=credential, why=why, seconds=seconds))
        return found

    def succeeded(self, target: Target, credential: Credential | None = None) -> None:
        """A reply came to its end. It may have begun before the target asked to be left alone, so that this holds on."""
        if not self._states:
            return
        for place in (target, *(_places(target, credential) if credential else ())):
            if (state := self._states.get(place)) is None:
                continue
            if state.busy and self._left(place, credential if place != target else None):
                state.failures = 0
            else:
                del self._states[place]

    def failed(self, target: Target, error: TrunklineError, credential: Credential | None = None) -> None:
        """An attempt failed. A target that says no answers, which ends a row of failures (daemon contract, F)."""
        if isinstance(error, UpstreamError) and not isinstance(error, FAULTY) and error.upstream_status and target in self._states:
            self._states[target].failures = 0
        if isinstance(error, UpstreamBusy):
            place = (target, credential.id) if credential else target
            seconds = min(error.retry_after if error.retry_after is not None else BUSY, LONGEST)
            self._leave_alone(self._state(place, credential), seconds, busy=True)
        elif isinstance(error, UpstreamDenied):
            if credential is not None:
                here = target if error.upstream_status == FORBIDDEN else target.provider
                state = self._state((here, credential.id), credential)
                state.failures += 1
                self._leave_alone(state, min(DENIED * 2 ** min(state.failures - 1, 10), LONGEST), busy=False)
        elif isinstance(error, FAULTY):
            state = self._state(target)
            state.failures += 1
            if state.failures >= FAILURES:
                self._leave_alone(state, REST, busy=False)

    def _left(self, place: Place, credential: Credential | None = None) -> float:
        state = self._states.get(place)
        return max(0.0, state.until - self._clock.monotonic()) if state and state.credential is credential else 0.0

    def _leave_alone(self, state: _State, seconds: float, *, busy: bool) -> None:
        until = self._clock.monotonic() + seconds
        if until > state.until:
            state.until, state.busy = until, busy

    def _state(self, place: Place, credential: Credential | None = None) -> _State:
        state = self._states.get(place)
        if state is None or state.credential is not credential:
            if state is None and len(self._states) >= MOST:
                del self._states[next(iter(self._states))]
            state = self._states[place] = _State(credential)
        return state


def _places(target: Target, credential: Credential) -> tuple[Place, Place]:
    return (target, credential.id), (target.provider, credential.id)
