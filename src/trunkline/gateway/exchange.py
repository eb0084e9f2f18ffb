"""One request in flight, from its first byte to its line in the log."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from urllib.parse import quote

from trunkline.base.codec import Mutable, Value, field
from trunkline.errors import TrunklineError
from trunkline.model.caller import Caller
from trunkline.model.loss import Loss
from trunkline.model.usage import Usage

IN_NAMES = "/:@+=()[]"
"""What may stand in a target's name beside letters, digits and `_.-~`, as it is."""


class CallerLeft(Exception):
    """The caller went away before its call was complete."""


class Attempt(Value, frozen=True, omit_defaults=True):
    """One try at one target.

    Attributes:
        outcome: `ok`, `interrupted`, or the error's code.
        credential: the id of a stored one that it was made with.
        served: the target's provider, where that is one behind a daemon, whose name has two steps.
    """

    target: str
    outcome: str
    seconds: float
    credential: str = ""
    served: str = ""

    @property
    def provider(self) -> str:
        """Whose target it is."""
        return self.served or self.target.partition("/")[0]


class Exchange(Mutable):
    """What is known of one request; the log line and the metrics are written from it.

    Attributes:
        started: by the monotonic clock, seconds.
        end_user: for whom the call is, where that is known.
        first_byte: seconds until the caller got the first byte of a reply.
        outcome: `ok`, `interrupted` (the caller left), or the code of the error that the caller saw.
        sent: bytes of the reply's body that were written.
        end_user: what its caller calls the end user that it is for, where the caller's key acts for end users.
        client_user: whom the request names, where that is nobody's identity; cut to a length.
        facts: those of the error that the caller saw; itself it would hold, by its trace, all that the call had in hand.
        interrupted: it was stopped from outside; `cause` is what the caller is told, if it is still there.
    """

    id: str
    path: str
    started: float
    address: str
    client_request_id: str = ""
    caller: Caller | None = None
    end_user: str = ""
    client_user: str = ""
    model: str = ""
    stream: bool = False
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    status: int = 0
    outcome: str = ""
    first_byte: float | None = None
    sent: int = 0
    usage: Usage | None = None
    tool_calls: int = 0
    losses: tuple[Loss, ...] = ()
    facts: Mapping[str, str | float | None] | None = None
    interrupted: bool = False
    cause: TrunklineError | None = None
    _scope: asyncio.Timeout | None = None

    def interrupt(self, cause: TrunklineError | None = None) -> None:
        """Stop the work at its next wait: the caller left, or gets to see the cause. What has an outcome is not stopped any more."""
        if not self.interrupted and not self.outcome:
            self.interrupted, self.cause = True, cause
            if self._scope is not None:
                self._scope.reschedule(-1)

    def scope(self) -> asyncio.Timeout:
        """The part of the work that `interrupt` stops, by a `TimeoutError`."""
        self._scope = asyncio.timeout(-1 if self.interrupted else None)
        return self._scope


def attempts_header(attempts: Sequence[Attempt]) -> list[tuple[bytes, bytes]]:
    """`X-Trunkline-Attempts`: each target that was tried, and what came of it.

    A model's name is the caller's word, so what could end a header or begin another is percent-encoded.
    """
    told = ", ".join(f"{quote(attempt.target, safe=IN_NAMES)} {attempt.outcome}" for attempt in attempts)
    return [(b"x-trunkline-attempts", told.encode())] if told else []


def attempts_hint(attempts: Sequence[Attempt]) -> str:
    """The same in words, for an error that can only tell of one target; nothing, where there was but one."""
    tried = dict.fromkeys(f"`{attempt.target}` ({attempt.outcome})" for attempt in attempts)
    several = len({attempt.target for attempt in attempts}) > 1
    return f"Tried were {', '.join(tried)}." if several else ""


class Exchanges:
    """All requests in flight."""

    def __init__(self) -> None:
        self._open: dict[str, Exchange] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    async def idle(self) -> None:
        """Return when none is in flight."""
        await self._idle.wait()

    def __len__(self) -> int:
        return len(self._open)

    def held(self, exchange: Exchange) -> "Held":
        """Count an exchange as in flight, while the block runs."""
        return Held(self._open, self._idle, exchange)

    def interrupt(self, cause: TrunklineError) -> None:
        """Stop all of them: each tells its caller why in the caller's own dialect."""
        for exchange in list(self._open.values()):
            exchange.interrupt(cause)

    def interrupt_of(self, gone: Collection[str], cause: TrunklineError) -> None:
        """Stop those of keys and of users with some ids."""
        for exchange in list(self._open.values()):
            if exchange.caller is not None and (exchange.caller.id in gone or exchange.caller.user in gone):
                exchange.interrupt(cause)


class Held:
    """The time that an exchange is in flight."""

    __slots__ = ("_exchange", "_idle", "_open")

    def __init__(self, among: dict[str, Exchange], idle: asyncio.Event, exchange: Exchange) -> None:
        self._open = among
        self._idle = idle
        self._exchange = exchange

    def __enter__(self) -> None:
        self._open[self._exchange.id] = self._exchange
        self._idle.clear()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        del self._open[self._exchange.id]
        if not self._open:
            self._idle.set()
