"""One end of a connection: bytes in, events out; what is wanted in, bytes out. Times are seconds of any clock that only moves forward."""

import heapq
import math
from collections.abc import Callable
from typing import Literal

import msgspec

from trunkline_sdk.rpc import frames, messages
from trunkline_sdk.rpc.calls import In, Out, Tombstone
from trunkline_sdk.rpc.errors import ProtocolBroken, RpcError, told
from trunkline_sdk.rpc.events import (
    Answered,
    Broken,
    Called,
    Came,
    Ended,
    Event,
    Failed,
    Greeted,
    Notified,
    Opened,
    Room,
    Stopped,
    Turned,
    Unwanted,
    Violation,
    Welcomed,
)
from trunkline_sdk.rpc.frames import FrameReader
from trunkline_sdk.rpc.messages import (
    Cancel,
    Hello,
    Limits,
    Message,
    Raw,
    Refused,
    StreamCancel,
    StreamCredit,
    StreamEnd,
    StreamOpen,
    Welcome,
)
from trunkline_sdk.rpc.streams import Sending, Taking, Turns, Waiting

TOMBSTONE_SECONDS = 60.0
"""For so long a second answer to a call is told from a late one."""

MOST_TOMBSTONES = 4096

LONGEST_SECONDS = 600.0
"""A call that names no deadline, or a later one, has this one."""

MOST_SENDING = 64 * 1024 * 1024
"""Bytes of all own streams' windows together, whatever the other side says that it takes: so much may wait here for it to read."""

MOST_ENDED = 256
"""Deadlines of calls that have ended, beyond as many as there are calls."""

MOST_VIOLATIONS = 100
"""After so many the other side is not worth listening to."""


class Peer:
    """One end.

    Args:
        role: who speaks first: the worker.
        limits: what this side takes.
        longest: seconds that any call may take.

    Attributes:
        late: answers that came after nobody waited for them.
        violations: what the other side said and may not.
        dropped: pieces and notifications of the protocol about what has ended.
        frames: that came.
    """

    def __init__(self, role: Literal["host", "worker"], *, limits: Limits = Limits(), longest: float = LONGEST_SECONDS) -> None:  # noqa: B008 - a frozen record
        self._role = role
        self._ours = limits
        self._theirs = Limits()
        self._longest = longest
        self._reader = FrameReader(limits.frame_bytes)
        self._state: Literal["new", "greeted", "open", "over"] = "new"
        self._control = Waiting()
        self._turns = Turns()
        self._calls: dict[int, Out] = {}
        self._last_call = 0
        self._ended_calls: dict[int, Tombstone] = {}  # the oldest first
        self._incoming: dict[int, In] = {}
        self._last_incoming = 0
        self._sending: dict[int, Sending] = {}
        self._last_stream = 0
        self._taking: dict[int, Taking] = {}
        self._last_taken = 0
        self._deadlines: list[tuple[float, bool, int]] = []  # when, whether an own call's, which
        self.late = 0
        self.violations = 0
        self.dropped = 0
        self.frames = 0

    # ------------------------------------------------------------------------------------------------ the beginning
    def hello(self, hello: Hello) -> None:
        """A worker's first word; its limits are this peer's."""
        assert self._role == "worker"
        assert self._state == "new"
        self._state = "greeted"
        self._notice("hello", msgspec.structs.replace(hello, limits=self._ours))

    def welcome(self, hello: Hello) -> Welcome:
        """A host's answer to a hello.

        Raises:
            RpcError: there is no version that both speak; the worker is told.
        """
        assert self._role == "host"
        assert self._state == "greeted"
        least, most = hello.versions
        version = min(most, messages.VERSION)
        if version < least or version < 1:
            reason = f"the worker speaks the versions {least} to {most} of the protocol, the host {messages.VERSION}"
            self.refuse(reason)
            raise RpcError("failed", reason)
        self._theirs = hello.limits
        self._state = "open"
        welcome = Welcome(version=version, limits=self._ours)
        self._notice("welcome", welcome)
        return welcome

    def refuse(self, reason: str) -> None:
        """A host's last word."""
        self._state = "over"
        self._notice("refused", Refused(reason=reason))

    # ------------------------------------------------------------------------------------------------ own calls
    def call(
        self,
        method: str,
        params: object = None,
        *,
        now: float,
        seconds: float | None = None,
        during: int | None = None,
        context: object = None,
        urgent: bool = False,
    ) -> int:
        """Call the other side; the answer comes as `Answered` or `Failed`.

        Args:
            method: what is called.
            params: anything that has a JSON form; `Raw` goes as it is.
            now: the time.
            seconds: how long the answer may take; never longer than what is left of `during`.
            during: the call of the other side that this one is made for, and ends with.
            context: likewise; the host's word on who asks.
            urgent: also where as many calls are under way as the other side takes.

        Raises:
            RpcError: it cannot be made: `payload_too_large`, `rate_limited`, or `cancelled` where `during` is over.
        """
        assert self._state == "open"
        deadline = now + min(self._longest, math.inf if seconds is None else max(0.0, seconds))
        if during is not None:
            parent = self._incoming.get(during)
            if parent is None or parent.stopped:
                raise RpcError("cancelled", "the call that this one belongs to is over")
            deadline = min(deadline, parent.deadline)
        if len(self._calls) >= self._theirs.calls and not urgent:
            raise RpcError("rate_limited", f"{self._theirs.calls} calls are under way", retryable=True)
        number = self._last_call + 1
        made = messages.call(
            number,
            method,
            messages.json(params),
            deadline_ms=max(0, math.ceil((deadline - now) * 1000)),
            during=during,
            context=b"" if context is None else messages.json(context),
        )
        self._check_size(made)
        self._last_call = number
        self._calls[number] = Out(deadline, during)
        self._mark(deadline, number, own=True)
        self._control.append(made)
        return number

    def cancel(self, call: int, reason: str, *, now: float) -> list[Event]:
        """Wait no more for the answer to an own call; calls of the other side that were made for it are stopped."""
        if call not in self._calls:
            return []
        self._notice("cancel", Cancel(id=call, reason=reason))
        return self._end_call(call, now, answered=False)

    def notify(self, method: str, params: object = None) -> None:
        """Tell the other side something. Raises: `RpcError`, where it is too large."""
        made = messages.notification(method, messages.json(params))
        self._check_size(made)
        self._control.append(made)

    # ------------------------------------------------------------------------------------------------ their calls
    def answer(self, call: int, result: object, *, now: float) -> list[Event]:
        """The final answer to a call of the other side. One that is too large becomes an error.

        Own calls that were made for it are cancelled.
        """
        made = messages.result(call, messages.json(result))
        try:
            self._check_size(made)
        except RpcError as error:
            return self.fail(call, error, now=now)
        return self._answered(call, made, now)

    def fail(self, call: int, error: RpcError, *, now: float) -> list[Event]:
        """The same, where there is no result; an error that is too large, or has no JSON form, is told in brief."""
        return self._answered(call, messages.failure(call, error, self._theirs.frame_bytes), now)

    def _answered(self, call: int, made: bytes, now: float) -> list[Event]:
        del self._incoming[call]  # a second answer is a fault of ours
        self._control.append(made)
        return self._end_during(call, now)

    # ------------------------------------------------------------------------------------------------ own streams
    def open_stream(self, *, answering: int | None = None) -> int:
        """Begin to send pieces; the number is told to the other side in a call, or in the answer to the call that they belong to.

        Raises:
            RpcError: `rate_limited`: the other side takes no more streams.
        """
        most = min(self._theirs.streams, MOST_SENDING // self._theirs.stream_bytes)
        if len(self._sending) + self._turns.ending >= most:
            raise RpcError("rate_limited", f"{most} streams are open", retryable=True)
        self._last_stream += 1
        self._sending[self._last_stream] = Sending(self._last_stream, self._theirs)
        self._notice("stream.open", StreamOpen(stream=self._last_stream, call=-(answering or 0)))
        return self._last_stream

    @property
    def piece_bytes(self) -> int:
        """The most bytes that one piece may have: there is room for one while the other side gathers half of a window to give back."""
        return min(self._theirs.frame_bytes - 8, self._theirs.stream_bytes // 2)

    def room(self, stream: int, size: int) -> bool:
        """Whether a piece of so many bytes may be sent now; else wait for `Room`. What has ended has room: `send` tells."""
        sending = self._sending.get(stream)
        return sending is None or sending.room(size)

    def send(self, stream: int, data: bytes) -> None:
        """Send one piece, for which there is room. Raises: `RpcError`, where nobody takes it any more."""
        sending = self._sending.get(stream)
        if sending is None or sending.ended:
            raise RpcError("cancelled", "nobody takes more of this stream")
        assert sending.room(len(data))
        if not sending.waiting:
            self._turns.add(sending)
        sending.send(data)

    def end_stream(self, stream: int, error: RpcError | None = None) -> None:
        """No more pieces; with an error, those that wait are not sent."""
        sending = self._sending.pop(stream, None)
        if sending is None:
            return
        if error is not None:
            self._turns.drop(sending)
        sending.ended = True
        self._turns.ending += 1
        if not sending.waiting:
            self._turns.add(sending)
        sending.waiting.append(messages.stream_end(stream, error, self._theirs.frame_bytes))

    # ------------------------------------------------------------------------------------------------ their streams
    def used(self, stream: int, size: int) -> None:
        """A piece of so many bytes was used: the other side may send more."""
        taking = self._taking.get(stream)
        if taking is not None and (credit := taking.used(size)) is not None:
            self._notice("stream.credit", StreamCredit(stream=stream, messages=credit[0], bytes=credit[1]))

    def cancel_stream(self, stream: int, reason: str) -> None:
        """Take no more of it."""
        if self._taking.pop(stream, None) is not None:
            self._notice("stream.cancel", StreamCancel(stream=stream, reason=reason))

    # ------------------------------------------------------------------------------------------------ bytes
    def take(self, most: int = 256 * 1024) -> bytes:
        """Bytes to write, about so many at most: messages first, then a piece of each stream in turn. Empty when there is nothing."""
        parts: list[bytes] = []
        size = 0
        while self._control and size < most:
            parts.append(self._control.popleft())
            size += len(parts[-1])
        if size < most:
            for made in self._turns.frames():
                parts.append(made)
                size += len(made)
                if size >= most:
                    break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def pending(self) -> bool:
        """Whether `take` has something."""
        return bool(self._control or self._turns)

    @property
    def waiting(self) -> int:
        """Bytes of messages that wait to be written."""
        return self._control.size

    def receive(self, data: bytes, *, now: float) -> list[Event]:
        """What these bytes say.

        Raises:
            Broken: the other side cannot be understood any more. Take its `events`, and call `lost` then.
        """
        events: list[Event] = []
        try:
            self._receive(data, now, events)
        except ProtocolBroken as error:
            raise Broken(str(error), events) from None
        return events

    def _receive(self, data: bytes, now: float, events: list[Event]) -> None:
        for kind, body, oversize in self._reader.feed(data):
            self.frames += 1
            try:
                if oversize:
                    events += self._oversize(kind, body, now)
                elif kind == frames.MESSAGE:
                    events += self._message(messages.read(body), now)
                elif kind == frames.PIECE:
                    events += self._piece(*frames.read_piece(body))
                else:
                    events.append(self._violation(f"a frame of the unknown kind {kind}"))
            except messages.Unreadable as error:
                events.append(self._violation(f"a message that cannot be read: {error}"))
                events += self._not_taken(body[: frames.HEAD_BYTES], RpcError("failed", f"it cannot be read: {error}"), now)

    def tick(self, now: float) -> list[Event]:
        """End what is over time. Call it at `next_tick`, or later."""
        events: list[Event] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, own, number = heapq.heappop(self._deadlines)
            if own and number in self._calls:
                self._notice("cancel", Cancel(id=number, reason="deadline_exceeded"))
                events.append(Failed(number, RpcError("deadline_exceeded", "the answer did not come in time", retryable=True)))
                events += self._end_call(number, now, answered=False)
            elif not own and number in self._incoming:
                events += self._stop(number, "deadline_exceeded", now)
        return events

    @property
    def next_tick(self) -> float | None:
        """When something will be over time."""
        while self._deadlines:
            when, own, number = self._deadlines[0]
            if number in (self._calls if own else self._incoming):
                return when
            heapq.heappop(self._deadlines)
        return None

    def lost(self, error: RpcError) -> list[Event]:
        """The connection is over: every own call fails with this error, every call of the other side is stopped, every stream ends."""
        self._state = "over"
        events: list[Event] = [Failed(number, error) for number in self._calls]
        events += [Stopped(number, error.code) for number, each in self._incoming.items() if not each.stopped]
        events += [Ended(number, error) for number in self._taking]
        events += [Unwanted(number, error.code) for number in self._sending]
        for kept in (self._calls, self._incoming, self._taking, self._sending, self._deadlines, self._control):
            kept.clear()
        self._turns = Turns()
        return events

    # ------------------------------------------------------------------------------------------------ what came
    def _message(self, message: Message, now: float) -> list[Event]:
        if message.method is None:
            return self._answer_came(message, now)
        if message.id is not None:
            return self._called(message, now)
        if self._state != "open":
            return self._greeting(message)
        own = self._own.get(message.method)
        return [Notified(message.method, message.params)] if own is None else own(self, message.params, now)

    def _greeting(self, message: Message) -> list[Event]:
        match self._role, self._state, message.method:
            case "host", "new", "hello":
                hello = messages.params(message.params, Hello)
                self._state = "greeted"
                return [Greeted(hello)]
            case "worker", "greeted", "welcome":
                welcome = messages.params(message.params, Welcome)
                self._theirs, self._state = welcome.limits, "open"
                return [Welcomed(welcome)]
            case "worker", "greeted", "refused":
                self._state = "over"
                return [Turned(messages.params(message.params, Refused).reason)]
            case _:
                raise ProtocolBroken(f"`{message.method}` before the two have met")

    def _called(self, message: Message, now: float) -> list[Event]:
        assert message.id is not None
        assert message.method is not None
        if self._state != "open":
            raise ProtocolBroken("a call before the two have met")
        if message.id <= self._last_incoming:
            return [self._violation(f"a call with the number {message.id} after {self._last_incoming}")]
        self._last_incoming = message.id
        seconds = min(self._longest, math.inf if message.deadline_ms is None else message.deadline_ms / 1000)
        deadline = now + seconds
        if message.during is not None:
            parent = self._calls.get(message.during)
            if parent is None:
                self._control.append(messages.failure(message.id, RpcError("cancelled", "the call that this one belongs to is over")))
                return []
            deadline = min(deadline, parent.deadline)
        if len(self._incoming) >= self._ours.calls:
            refused = RpcError("rate_limited", f"{self._ours.calls} calls are under way", retryable=True)
            self._control.append(messages.failure(message.id, refused))
            return []
        self._incoming[message.id] = In(deadline, message.during)
        self._mark(deadline, message.id, own=False)
        return [Called(message.id, message.method, message.params, max(0.0, deadline - now), message.during, message.context)]

    def _answer_came(self, message: Message, now: float) -> list[Event]:
        assert message.id is not None
        call = message.id
        if call not in self._calls:
            return self._late(call)
        ended: Event = Failed(call, told(message.error)) if message.error is not None else Answered(call, message.result)
        return [ended, *self._end_call(call, now, answered=True)]

    def _late(self, call: int) -> list[Event]:
        if call > self._last_call:
            return [self._violation(f"an answer to the call {call}, which was never made")]
        ended = self._ended_calls.get(call)
        if ended is not None and ended.answered:
            return [self._violation(f"a second answer to the call {call}")]
        if ended is not None:
            ended.answered = True
        self.late += 1
        return []

    def _oversize(self, kind: int, start: bytes, now: float) -> list[Event]:
        too_large = RpcError("payload_too_large", f"more than {self._ours.frame_bytes} bytes")
        if kind == frames.PIECE:
            number, _, _ = frames.read_piece(start)
            return [self._violation("a piece that is too large"), *self._break_stream(number, too_large)]
        if kind != frames.MESSAGE or messages.head(start) is None:
            return [self._violation("a message that is too large")]
        return self._not_taken(start, too_large, now)

    def _not_taken(self, start: bytes, why: RpcError, now: float) -> list[Event]:
        """End the call that a message belongs to, by its first bytes."""
        found = messages.head(start)
        if found is None:
            return []
        call, is_answer = found
        if is_answer and call in self._calls:
            return [Failed(call, why), *self._end_call(call, now, answered=True)]
        if is_answer:
            return self._late(call)
        if call <= self._last_incoming:
            return [self._violation(f"a call with the number {call} after {self._last_incoming}")]
        self._last_incoming = call
        self._control.append(messages.failure(call, why))
        return []

    def _cancelled(self, params: Raw, now: float) -> list[Event]:
        cancel = messages.params(params, Cancel)
        return self._stop(cancel.id, cancel.reason or "cancelled", now)

    def _stop(self, call: int, reason: str, now: float) -> list[Event]:
        incoming = self._incoming.get(call)
        if incoming is None or incoming.stopped:  # answered while the cancel was on its way
            return []
        incoming.stopped = True
        return [Stopped(call, reason), *self._end_during(call, now)]

    def _stream_opened(self, params: Raw, _: float) -> list[Event]:
        opened = messages.params(params, StreamOpen)
        if opened.stream <= self._last_taken:
            return [self._violation(f"a stream with the number {opened.stream} after {self._last_taken}")]
        self._last_taken = opened.stream
        over = opened.call < 0 and -opened.call not in self._calls
        if over or len(self._taking) >= self._ours.streams:
            self._notice("stream.cancel", StreamCancel(stream=opened.stream, reason="cancelled" if over else "rate_limited"))
            return []
        self._taking[opened.stream] = Taking(self._ours)
        return [Opened(opened.stream, opened.call)]

    def _piece(self, stream: int, seq: int, data: bytes) -> list[Event]:
        taking = self._taking.get(stream)
        if taking is None:
            if stream > self._last_taken:
                return [self._violation(f"a piece of the stream {stream}, which is not open")]
            self.dropped += 1
            return []
        if wrong := taking.came(seq, len(data)):
            return [self._violation(wrong), *self._break_stream(stream, RpcError("failed", wrong))]
        return [Came(stream, data)]

    def _stream_ended(self, params: Raw, _: float) -> list[Event]:
        ended = messages.params(params, StreamEnd)
        if self._taking.pop(ended.stream, None) is None:
            self.dropped += 1
            return []
        return [Ended(ended.stream, None if ended.error is None else told(ended.error))]

    def _credited(self, params: Raw, _: float) -> list[Event]:
        credit = messages.params(params, StreamCredit)
        sending = self._sending.get(credit.stream)
        if sending is None:
            self.dropped += 1
            return []
        if not sending.credit(credit.messages, credit.bytes):
            return [self._violation(f"more room for the stream {credit.stream} than it began with")]
        return [Room(credit.stream)]

    def _unwanted(self, params: Raw, _: float) -> list[Event]:
        cancel = messages.params(params, StreamCancel)
        sending = self._sending.pop(cancel.stream, None)
        if sending is None:
            self.dropped += 1
            return []
        self._turns.drop(sending)
        return [Unwanted(cancel.stream, cancel.reason)]

    _own: dict[str, Callable[["Peer", Raw, float], list[Event]]] = {
        "cancel": _cancelled,
        "stream.open": _stream_opened,
        "stream.end": _stream_ended,
        "stream.credit": _credited,
        "stream.cancel": _unwanted,
    }

    # ------------------------------------------------------------------------------------------------ what follows
    def _mark(self, deadline: float, number: int, *, own: bool) -> None:
        """Note a call's deadline. Those of calls that have ended are swept out when they are most of all."""
        heapq.heappush(self._deadlines, (deadline, own, number))
        if len(self._deadlines) > 2 * (len(self._calls) + len(self._incoming)) + MOST_ENDED:
            self._deadlines = [each for each in self._deadlines if each[2] in (self._calls if each[1] else self._incoming)]
            heapq.heapify(self._deadlines)

    def _end_call(self, call: int, now: float, *, answered: bool) -> list[Event]:
        """An own call is over: what the other side called for it is stopped."""
        del self._calls[call]
        ended = self._ended_calls
        while ended and (ended[first := next(iter(ended))].until <= now or len(ended) >= MOST_TOMBSTONES):
            del ended[first]
        ended[call] = Tombstone(now + TOMBSTONE_SECONDS, answered)
        events: list[Event] = []
        for number, each in list(self._incoming.items()):
            if each.during == call:
                events += self._stop(number, "cancelled", now)
        return events

    def _end_during(self, call: int, now: float) -> list[Event]:
        """A call of the other side is over, or nobody waits for it: own calls that were made for it are."""
        events: list[Event] = []
        for number in [number for number, each in self._calls.items() if each.during == call]:
            events.append(Failed(number, RpcError("cancelled", "the call that this one belongs to is over")))
            events += self.cancel(number, "cancelled", now=now)
        return events

    def _break_stream(self, stream: int, error: RpcError) -> list[Event]:
        if stream not in self._taking:
            return []
        self.cancel_stream(stream, error.code)
        return [Ended(stream, error)]

    def _violation(self, what: str) -> Violation:
        if self._state != "open":
            raise ProtocolBroken(f"{what}, before the two have met")
        self.violations += 1
        if self.violations > MOST_VIOLATIONS:
            raise ProtocolBroken(f"{self.violations} things that may not be said, the last one: {what}")
        return Violation(what)

    def _notice(self, method: str, params: msgspec.Struct) -> None:
        self._control.append(messages.notification(method, params))

    def _check_size(self, made: bytes) -> None:
        if len(made) - 5 > self._theirs.frame_bytes:
            raise RpcError("payload_too_large", f"{len(made) - 5} bytes, and {self._theirs.frame_bytes} are the most")
