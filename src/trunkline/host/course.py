"""What becomes of an extension's worker, one after another. Pure, but for a clock and a source of chance that are handed in.

             begin            activated              silent
    idle ───────────▶ starting ────────▶ ready ◀──────────────▶ unresponsive
     ▲ ▲                 │                 │        well             │
     │ └── stopping ◀────┴─── stop ────────┴─────────────────────────┤
     │        │ ended                                                │ ended, unasked
     │        ▼                                                      ▼
     │     disabled        failed_config (it would fail again)  ◀──  how?  ──▶ backoff ──▶ (begin)
     └──────────────────────────────────────────────────────────────── too often ──▶ crash_loop ──▶ (begin, when it is called)

A process exists in `starting`, `ready`, `unresponsive` and `stopping` at most; a new one begins in none of these.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from trunkline.base.clock import Clock

State = Literal["starting", "ready", "idle", "stopping", "backoff", "crash_loop", "failed_config", "disabled", "unresponsive"]
Rest = Literal["idle", "disabled"]

RUNNING: frozenset[State] = frozenset({"starting", "ready", "unresponsive", "stopping"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How soon a worker that crashed comes back. Source of the numbers: the extension host's design, section 4.

    Attributes:
        first: seconds before the first new start; each further one takes twice as long.
        spread: by how much of itself a time may be shorter or longer.
        most: seconds that none is longer than.
        calm: seconds in `ready` after which all is forgotten.
        crashes: so many within `window` seconds are too many.
        window: of time in which crashes count, in seconds.
        retry: seconds between two tries of one that crashed too often.
    """

    first: float = 1.0
    spread: float = 0.2
    most: float = 60.0
    calm: float = 600.0
    crashes: int = 5
    window: float = 300.0
    retry: float = 60.0


class Course:
    """One extension's.

    Args:
        clock: the time.
        chance: a number from 0 to 1, each time another.
        pace: the numbers.

    Attributes:
        state: now.
        reason: why, in words.
        since: when it came to that; seconds since the epoch.
        next_attempt: when the next start may be, where there is one to come; likewise.
        restarts: how often a worker was started that had crashed.
    """

    def __init__(self, clock: Clock, chance: Callable[[], float], pace: Pace = Pace()) -> None:
        self._clock = clock
        self._chance = chance
        self._pace = pace
        self.state: State = "idle"
        self.reason = "it was not started yet"
        self.since = clock.now()
        self.next_attempt: float | None = None
        self.restarts = 0
        self._due = 0.0
        self._crashes: deque[float] = deque()
        self._tries = 0  # since it was calm
        self._tripped = False
        self._ready_at: float | None = None
        self._rest: Rest = "idle"

    # ------------------------------------------------------------------------------------------------ questions
    @property
    def running(self) -> bool:
        """Whether there may be a process."""
        return self.state in RUNNING

    def may_begin(self, *, called: bool) -> bool:
        """Whether a worker may be started now; `called`: somebody asks for it."""
        match self.state:
            case "idle":
                return called
            case "backoff":
                return self.seconds_left == 0
            case "crash_loop":
                return called and self.seconds_left == 0
            case _:
                return False

    @property
    def seconds_left(self) -> float:
        """Until the next start may be."""
        return max(0.0, self._due - self._clock.monotonic())

    @property
    def crashes(self) -> int:
        """How many there were within the window, at the last one."""
        return len(self._crashes)

    # ------------------------------------------------------------------------------------------------ what happens
    def begin(self) -> None:
        """A worker is started."""
        assert self.state in {"idle", "backoff", "crash_loop"}, self.state
        if self.state != "idle":
            self.restarts += 1
        self._to("starting", self.reason if self.state != "idle" else "")

    def activated(self) -> None:
        """It is ready."""
        if self.state == "starting":
            self._ready_at = self._clock.monotonic()
            self._to("ready", "")

    def silent(self, reason: str) -> None:
        """It does not answer, or its loop does not turn."""
        if self.state == "ready":
            self._to("unresponsive", reason)

    def well(self) -> None:
        """It answers again."""
        if self.state == "unresponsive":
            self._to("ready", "")

    def stop(self, rest: Rest, reason: str) -> None:
        """It is not wanted any more, for the time being or at all."""
        self._rest = rest
        if self.state == "stopping":
            self.reason = reason
        else:
            self._to("stopping" if self.running else rest, reason)

    def wanted(self, reason: str) -> None:
        """Whatever kept it from being started is forgotten."""
        if not self.running:
            self._forget()
            self._to("idle", reason)

    def postpone(self, seconds: float) -> None:
        """The next start is put off by so much."""
        self._wait(self.seconds_left + seconds)

    def ended(self, reason: str, *, again: bool = True) -> bool:
        """Nothing is left of its process. Whether it has just been found to crash too often.

        Args:
            reason: how it ended.
            again: whether another one may fare better.
        """
        assert self.running, self.state
        now = self._clock.monotonic()
        if self._ready_at is not None and now - self._ready_at >= self._pace.calm:
            self._forget()
        self._ready_at = None
        if self.state == "stopping":
            self._to(self._rest, self.reason)
            return False
        if not again:
            self._to("failed_config", reason)
            return False
        return self._crashed(now, reason)

    def _crashed(self, now: float, reason: str) -> bool:
        self._crashes.append(now)
        while now - self._crashes[0] > self._pace.window:
            self._crashes.popleft()
        if self._tripped or len(self._crashes) >= self._pace.crashes:
            first, self._tripped = not self._tripped, True
            self._to("crash_loop", reason)
            self._wait(self._pace.retry)
            return first
        usual = min(self._pace.most, self._pace.first * 2**self._tries)
        self._tries = min(self._tries + 1, 32)
        self._to("backoff", reason)
        self._wait(min(self._pace.most, usual * (1 + self._pace.spread * (2 * self._chance() - 1))))
        return False

    def _forget(self) -> None:
        self._crashes.clear()
        self._tries = 0
        self._tripped = False

    def _wait(self, seconds: float) -> None:
        self._due = self._clock.monotonic() + seconds
        self.next_attempt = self._clock.now() + seconds

    def _to(self, state: State, reason: str) -> None:
        self.state, self.reason, self.since, self.next_attempt = state, reason, self._clock.now(), None
