"""What providers said that they have, and which answers may still come in (daemon contract, F). Pure: the loop is `gateway.discovery`.

A look begins with a fence, which says the generation of its key. Whoever knows that what is under way is worth nothing anymore (another
credential, another address) invalidates hard: the generation grows, what was known is gone, and the look's result is refused. Soft
says only that it is time to look again. A failed look keeps the old list, which is stale then.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from trunkline.catalog.listing import Found

SCHEMA = 1
"""What an `Evidence` holds; what an earlier version kept is looked for again."""

Status = Literal["synced", "not_synced", "empty", "error"]

DETAILS = {
    "no_credential": "the provider has no credential",
    "upstream_denied": "the provider refuses the credential",
    "upstream_refused": "the provider has no such list",
    "upstream_busy": "the provider asks to come back later",
    "upstream_down": "the provider cannot be reached",
    "upstream_timeout": "the provider did not answer in time",
    "upstream_garbled": "the provider's answer is not a list of models",
    "egress_denied": "the provider's address may not be dialled",
    "sign_in_needed": "somebody has to sign in to the provider",
    "daemon_refused": "the provider's daemon does not accept its secret",
}
"""What a failure code means here; the provider's own words are never told."""


class StateChanged(Exception):
    """What was under way has been overtaken, and its result is not taken."""


@dataclass(frozen=True, slots=True)
class Key:
    """Whose list it is.

    Attributes:
        provider: its name.
        settings: a digest of where it is and where its credential comes from: with others it may list other models.
    """

    provider: str
    settings: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a look showed.

    Attributes:
        status: `not_probed` where nobody has looked.
        models: in the provider's order.
        left_out: rows that could not be read.
        observed_at: when, in seconds since the Unix epoch.
        schema: what was kept then.
    """

    status: Literal["not_probed", "discovered", "empty", "failed"] = "not_probed"
    models: tuple[Found, ...] = ()
    left_out: int = 0
    observed_at: float = 0.0
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """How it stands with a list.

    Attributes:
        status: `not_synced` before the first look.
        failure_code: of the last look, by our own codes; empty where it went well.
        detail: the same for people, in our own words.
        upstream_status: the HTTP status of that failure, if it had one.
        stale: the list is older than it should be.
        from_cache: the list is not from this process's last look.
        observed_at: when the list was seen; `None` where there is none.
        left_out: rows of it that could not be read.
    """

    status: Status = "not_synced"
    failure_code: str = ""
    detail: str = ""
    upstream_status: int | None = None
    stale: bool = False
    from_cache: bool = False
    observed_at: float | None = None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Fence:
    """A look that is under way."""

    key: Key
    generation: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a look failed."""

    code: str
    status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    generation: int = 0
    evidence: Evidence = field(default_factory=Evidence)
    cached: bool = False
    failure: Failure | None = None
    failures: int = 0
    looked_at: float = float("-inf")
    soft: bool = False
    looking: int | None = None  # the generation of the look under way


class Board:
    """The lists of all providers. Times are seconds since the Unix epoch.

    Args:
        ttl: how long a list is fresh.
        retry: seconds after a failed look; doubled after each further one, up to the `ttl`.
    """

    def __init__(self, *, ttl: float = 900.0, retry: float = 30.0) -> None:
        self.ttl = ttl
        self._retry = retry
        self._states: dict[Key, _State] = {}

    def evidence(self, key: Key) -> Evidence:
        """What is known, fresh or not."""
        return self._state(key).evidence

    def due(self, key: Key, now: float) -> bool:
        """Whether it is time to look."""
        state = self._state(key)
        if state.looking is not None:
            return False
        if state.failures:
            wait = min(self._retry * 2 ** min(state.failures - 1, 20), max(self.ttl, self._retry))
            return now - state.looked_at >= wait or (state.soft and now - state.looked_at >= self._retry)
        return state.soft or not self._fresh(state, now)

    def begin(self, key: Key) -> Fence | None:
        """Begin a look; none where one is under way."""
        state = self._state(key)
        if state.looking is not None:
            return None
        self._states[key] = replace(state, looking=state.generation, soft=False)
        return Fence(key, state.generation)

    def rebase(self, fence: Fence) -> Fence:
        """Go on with a look over exactly one hard invalidation, which it has caused itself. Raises: `StateChanged`."""
        state = self._state(fence.key)
        if state.generation != fence.generation + 1 or state.looking not in {None, fence.generation}:
            raise StateChanged
        self._states[fence.key] = replace(state, looking=state.generation)
        return Fence(fence.key, state.generation)

    def finish(self, fence: Fence, models: tuple[Found, ...], now: float, *, left_out: int = 0) -> Evidence:
        """Take what a look showed. Raises: `StateChanged`."""
        state = self._ended(fence)
        evidence = Evidence(status="discovered" if models else "empty", models=models, left_out=left_out, observed_at=now)
        self._states[fence.key] = replace(state, evidence=evidence, cached=False, failure=None, failures=0, looked_at=now)
        return evidence

    def fail(self, fence: Fence, failure: Failure, now: float) -> None:
        """Note that a look failed; what was known stays. Raises: `StateChanged`."""
        state = self._ended(fence)
        evidence = replace(state.evidence, status="failed") if state.evidence.status == "not_probed" else state.evidence
        self._states[fence.key] = replace(state, evidence=evidence, failure=failure, failures=state.failures + 1, looked_at=now)

    def leave(self, fence: Fence) -> None:
        """End a look that showed nothing, neither good nor bad. Never raises."""
        state = self._state(fence.key)
        if state.looking == fence.generation:
            self._states[fence.key] = replace(state, looking=None)

    def adopt(self, key: Key, evidence: Evidence) -> None:
        """Take what was kept from before, unless something newer is known."""
        state = self._state(key)
        if evidence.schema == SCHEMA and evidence.observed_at > state.evidence.observed_at:
            self._states[key] = replace(state, evidence=evidence, cached=True)

    def invalidate(self, key: Key, *, hard: bool) -> None:
        """Look again soon; hard: and forget what was known, and refuse what a look under way will show."""
        state = self._state(key)
        if hard:
            self._states[key] = _State(generation=state.generation + 1)
        else:
            self._states[key] = replace(state, soft=True)

    def keep(self, wanted: Callable[[Key], bool]) -> None:
        """Forget the keys that nobody wants anymore."""
        self._states = {key: state for key, state in self._states.items() if wanted(key)}

    def diagnosis(self, key: Key, now: float) -> Diagnosis:
        """How it stands."""
        state = self._state(key)
        evidence, failure = state.evidence, state.failure
        seen = evidence.observed_at if evidence.status in {"discovered", "empty"} else None
        status: Status = "not_synced" if seen is None else "synced" if evidence.models else "empty"
        return Diagnosis(
            status="error" if failure else status,
            failure_code=failure.code if failure else "",
            detail=DETAILS.get(failure.code, "the provider could not be asked") if failure else "",
            upstream_status=failure.status if failure else None,
            stale=seen is not None and (failure is not None or not self._fresh(state, now)),
            from_cache=seen is not None and (state.cached or failure is not None),
            observed_at=seen,
            left_out=evidence.left_out,
        )

    def _state(self, key: Key) -> _State:
        return self._states.get(key) or _State()

    def _fresh(self, state: _State, now: float) -> bool:
        evidence = state.evidence
        return evidence.status in {"discovered", "empty"} and evidence.schema == SCHEMA and 0 <= now - evidence.observed_at < self.ttl

    def _ended(self, fence: Fence) -> _State:
        """The state without the look. Raises: `StateChanged`."""
        state = self._state(fence.key)
        if state.generation != fence.generation or state.looking != fence.generation:
            raise StateChanged
        return replace(state, looking=None)
