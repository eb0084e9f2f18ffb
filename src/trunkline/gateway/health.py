"""Which targets are worth trying now."""

from dataclasses import dataclass

from trunkline.base.clock import Clock
from trunkline.errors import EgressDenied, LaunchFailed, TrunklineError, UpstreamBusy, UpstreamDown, UpstreamGarbled, UpstreamTimeout
from trunkline.model.target import Target

FAILURES = 5  # in a row, before a target is left alone
REST = 10.0  # seconds it is left alone then
BUSY = 1.0  # seconds a busy target is left alone, unless it says for how long
LONGEST = 3600.0  # seconds; a provider may say more, and be wrong
MOST = 10_000  # targets that are remembered: callers may ask any provider for models of any name
FAULTY = UpstreamDown | UpstreamTimeout | UpstreamGarbled | EgressDenied | LaunchFailed


@dataclass(slots=True)
class _State:
    failures: int = 0
    until: float = 0.0  # by the monotonic clock
    busy: bool = False


class Health:
    """What the last calls to each target showed. What the caller did wrong never counts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._states: dict[Target, _State] = {}

    def rest(self, target: Target) -> float:
        """For how many seconds more the target asked to be, or should be, left alone; 0 when it may be tried."""
        state = self._states.get(target)
        return max(0.0, state.until - self._clock.monotonic()) if state else 0.0

    def is_busy(self, target: Target) -> bool:
        """Whether it rests because it said so itself."""
        state = self._states.get(target)
        return state is not None and state.busy and self.rest(target) > 0

    def succeeded(self, target: Target) -> None:
        """A reply came to its end. It may have begun before the target asked to be left alone, so that this holds on."""
        if (state := self._states.get(target)) is None:
            return
        if self.is_busy(target):
            state.failures = 0
        else:
            del self._states[target]

    def failed(self, target: Target, error: TrunklineError) -> None:
        """An attempt failed."""
        if isinstance(error, UpstreamBusy):
            self._leave_alone(self._state(target), min(error.retry_after if error.retry_after is not None else BUSY, LONGEST), busy=True)
        elif isinstance(error, FAULTY):
            state = self._state(target)
            state.failures += 1
            if state.failures >= FAILURES:
                self._leave_alone(state, REST, busy=False)

    def _leave_alone(self, state: _State, seconds: float, *, busy: bool) -> None:
        until = self._clock.monotonic() + seconds
        if until > state.until:
            state.until, state.busy = until, busy

    def _state(self, target: Target) -> _State:
        state = self._states.get(target)
        if state is None:
            if len(self._states) >= MOST:
                del self._states[next(iter(self._states))]
            state = self._states[target] = _State()
        return state
