"""`trunkline_sdk.rpc` over an asyncio transport: the same for the host and for a worker.

    channel = Channel(Peer("worker"), handle)
    await loop.connect_accepted_socket(lambda: channel, sock)
    value = await channel.call("network.fetch", {"url": url}, during=call.id)

Every call of the other side is a task of its own; it is cancelled when nobody waits for its answer. One that ends in anything but an
`RpcError` is told as `failed`, without its text. How much can be under way is bounded by what this side's limits say. A host reads no more
for a while of a worker that does not read, or floods it (`Guard`); a worker always reads on, for two that both wait would wait for ever.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import NamedTuple, Self, cast

import msgspec

from trunkline_sdk.rpc.errors import RpcError
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
from trunkline_sdk.rpc.messages import Hello, Raw, Welcome
from trunkline_sdk.rpc.peer import Peer

MOST_UNCLAIMED = 64
"""Streams that have ended and nobody has asked for: so many are kept, the youngest. As many may have come at once as there are calls."""


class Call(NamedTuple):
    """A call of the other side.

    Attributes:
        seconds: that are left for the answer.
        during: the own call that it was made for; `None` for none.
        context: JSON, or empty.
    """

    id: int
    method: str
    params: Raw
    seconds: float
    during: int | None
    context: Raw


class Guard(NamedTuple):
    """What a host bears of a worker before it reads no more of it for a while.

    Attributes:
        unread: bytes of messages that wait for the worker to read.
        refused: the same, before it is called no more.
        per_second: frames that are read in a second; 16 KiB count as one more. A second's worth may come at once.
    """

    unread: int = 4 * 1024 * 1024
    refused: int = 64 * 1024 * 1024
    per_second: float = 40_000.0


Handle = Callable[[Call], Awaitable[object]]
"""Answers one call: with anything that has a JSON form. Raises: `RpcError`."""


class Channel(asyncio.Protocol):
    """One connection.

    Args:
        peer: this end, new.
        handle: answers the calls of the other side.
        heard: told of its notifications.
        crashed: told of what a `handle` raised that is no `RpcError`.
        odd: told of what the other side may not say.
        gone: what calls fail with once the connection is lost.
        guard: a host's, against its worker.
    """

    def __init__(
        self,
        peer: Peer,
        handle: Handle,
        *,
        heard: Callable[[str, Raw], None] = lambda _method, _params: None,
        crashed: Callable[[Call, BaseException], None] = lambda _call, _error: None,
        odd: Callable[[str], None] = lambda _what: None,
        gone: Callable[[], RpcError] = lambda: RpcError("worker_exited", "the other side is gone"),
        guard: Guard | None = None,
    ) -> None:
        self.peer = peer
        self._handle = handle
        self._heard = heard
        self._crashed = crashed
        self._odd = odd
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._guard = guard
        self._deaf = False
        self._spent = 0.0  # of the guard's frames, at the time of the last read
        self._read_at = self._loop.time()
        self._rest: asyncio.TimerHandle | None = None
        self._ready: asyncio.Future[Hello | Welcome] = self._loop.create_future()
        self._closed: asyncio.Future[str] = self._loop.create_future()
        self._waiting: dict[int, asyncio.Future[Raw]] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._incoming: dict[int, Incoming] = {}
        self._openings: dict[int, Callable[[Incoming], None]] = {}  # by the own call that asks for them
        self._unclaimed: dict[int, Incoming] = {}  # that ended before anybody asked for them
        self._outgoing: dict[int, Outgoing] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings = 0.0
        self._soon = False  # a flush is to come in this turn

    # ------------------------------------------------------------------------------------------------ the beginning
    async def greeted(self) -> Hello:
        """To a host: the worker's hello. Answer it with `welcome`. Raises: `RpcError`, where the connection ends before it."""
        hello = await asyncio.shield(self._ready)
        assert isinstance(hello, Hello)
        return hello

    def welcome(self, hello: Hello) -> Welcome:
        """Take the worker. Raises: `RpcError`, where there is no version that both speak, or the worker has gone meanwhile."""
        if self._closed.done():
            raise self._gone()
        try:
            return self.peer.welcome(hello)
        finally:
            self._flush()

    async def hello(self, hello: Hello) -> Welcome:
        """To a worker: introduce it. Raises: `RpcError`, where the host does not want it, or has gone."""
        if self._closed.done():
            raise self._gone()
        self.peer.hello(hello)
        self._flush()
        welcome = await asyncio.shield(self._ready)
        assert isinstance(welcome, Welcome)
        return welcome

    # ------------------------------------------------------------------------------------------------ calls
    async def call(
        self,
        method: str,
        params: object = None,
        *,
        seconds: float | None = None,
        during: int | None = None,
        context: object = None,
        urgent: bool = False,
        opened: Callable[["Incoming"], None] | None = None,
        began: Callable[[int], None] = lambda _number: None,
    ) -> Raw:
        """The result, as JSON. A caller that is cancelled cancels the call.

        Args:
            method: what is called.
            params: anything that has a JSON form.
            seconds: how long the answer may take.
            during: the call of the other side that this one is made for.
            context: likewise as `params`.
            urgent: also where as many calls are under way as the other side takes.
            opened: given each stream that the other side opens to answer it, as soon as it does; else they are asked for by number.
            began: told the call's number, before the other side can know of it: what that one calls meanwhile may be `during` it.

        Raises:
            RpcError: there is none.
        """
        if self._closed.done():
            raise self._gone()
        if self._guard is not None and self.peer.waiting > self._guard.refused:
            raise RpcError("unresponsive", "it does not read what it is sent", retryable=True)
        number = self.peer.call(method, params, now=self._loop.time(), seconds=seconds, during=during, context=context, urgent=urgent)
        began(number)
        self._flush()
        answer = self._waiting[number] = self._loop.create_future()
        if opened is not None:
            self._openings[number] = opened
        try:
            return await answer
        except asyncio.CancelledError:
            if self._waiting.pop(number, None) is not None:
                self._take(self.peer.cancel(number, "cancelled", now=self._loop.time()))
            self._leave_streams(number)
            raise
        finally:
            self._openings.pop(number, None)
            del answer  # it holds the error, whose trace holds this frame

    def notify(self, method: str, params: object = None) -> None:
        """Tell the other side something; once the connection is lost, nobody. Raises: `RpcError`, where it is too large."""
        if not self._closed.done():
            self.peer.notify(method, params)
            self._flush()

    # ------------------------------------------------------------------------------------------------ streams
    def open_stream(self, *, answering: int | None = None) -> "Outgoing":
        """Send a stream; tell its `number` in a call, or in the answer to the call that it belongs to. Raises: `RpcError`."""
        if self._closed.done():
            raise self._gone()
        stream = Outgoing(self, self.peer.open_stream(answering=answering))
        self._outgoing[stream.number] = stream
        self._flush()
        return stream

    def stream(self, number: int) -> "Incoming":
        """A stream that the other side has told. Raises: `RpcError`, where there is none of that number."""
        stream = self._incoming.get(number) or self._unclaimed.pop(number, None)
        if stream is None:
            raise RpcError("invalid_params", f"there is no stream {number}")
        stream.claimed = True
        return stream

    # ------------------------------------------------------------------------------------------------ the end
    @property
    def closed(self) -> bool:
        """Whether the connection is over."""
        return self._closed.done()

    @property
    def busy(self) -> bool:
        """Whether a call or a stream of either side is under way."""
        return bool(self._waiting or self._running or self._incoming or self._outgoing)

    async def wait_closed(self) -> str:
        """Wait for the end of the connection; why it ended, or an empty text."""
        return await asyncio.shield(self._closed)

    def close(self, why: str = "") -> None:
        """End the connection at once: own calls fail, calls of the other side are cancelled."""
        if self._closed.done():
            return
        self._closed.set_result(why)
        for timer in (self._timer, self._rest):
            if timer is not None:
                timer.cancel()
        if not self._ready.done():
            self._ready.set_exception(self._gone())
            self._ready.exception()  # whoever waits is told; nobody need wait
        self._take(self.peer.lost(self._gone()))
        if self._transport is not None:
            self._transport.abort()

    async def drained(self) -> None:
        """Wait until the tasks of the other side's calls have ended; after `close`."""
        if self._running:
            await asyncio.wait(list(self._running.values()))

    # ------------------------------------------------------------------------------------------------ of asyncio
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has the methods, and is none
        self._flush()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        before = self.peer.frames
        try:
            events = self.peer.receive(data, now=self._loop.time())
        except Broken as error:
            self._take(error.events)
            self._odd(str(error))
            self.close(str(error))
            return
        if self._guard is not None:
            self._spend(self.peer.frames - before + len(data) / 16_384, self._guard.per_second)
        self._take(events)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.close("" if exc is None else str(exc))

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._paused = True

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._paused = False
        self._flush()

    # ------------------------------------------------------------------------------------------------ what came
    def _take(self, events: list[Event]) -> None:
        for event in events:
            self._one(event)
        self._flush()

    def _one(self, event: Event) -> None:  # noqa: C901, PLR0912 - a case for each event
        """Pass it on. What came with an event before may have ended the stream that this one is about."""
        match event:
            case Came(number, data):
                if (incoming := self._incoming.get(number)) is not None:
                    incoming.came(data)
            case Answered(number, result):
                self._settle(number, result)
            case Failed(number, error):
                self._settle(number, error)
            case Room(number):
                if (outgoing := self._outgoing.get(number)) is not None:
                    outgoing.wake()
            case Called():
                self._start(Call(*event))
            case Stopped(number):
                if (task := self._running.get(number)) is not None:
                    task.cancel()
            case Notified(method, params):
                self._heard(method, params)
            case Opened(number, call):
                self._opened(Incoming(self, number, call))
            case Ended(number, error):
                if (incoming := self._incoming.pop(number, None)) is not None:
                    self._ended(incoming, error)
            case Unwanted(number):
                if (outgoing := self._outgoing.pop(number, None)) is not None:
                    outgoing.unwanted()
            case Greeted(hello):
                self._ready.set_result(hello)
            case Welcomed(welcome):
                self._ready.set_result(welcome)
            case Turned(reason):
                self._ready.set_exception(RpcError("failed", reason))
            case Violation(what):
                self._odd(what)

    def _opened(self, stream: "Incoming") -> None:
        self._incoming[stream.number] = stream
        if (opened := self._openings.get(-stream.call)) is not None:
            stream.claimed = True
            opened(stream)

    def _ended(self, stream: "Incoming", error: RpcError | None) -> None:
        stream.over(error)
        if not stream.claimed:
            self._unclaimed[stream.number] = stream
            if len(self._unclaimed) > MOST_UNCLAIMED:
                del self._unclaimed[next(iter(self._unclaimed))]

    def _leave_streams(self, call: int) -> None:
        """An own call came to nothing: nobody will ask for the streams that were opened to answer it."""
        for stream in [stream for stream in self._incoming.values() if stream.call == -call and not stream.claimed]:
            self.leave(stream.number, "cancelled")

    def _settle(self, number: int, value: Raw | RpcError) -> None:
        if isinstance(value, RpcError):
            self._leave_streams(number)
        answer = self._waiting.pop(number, None)
        if answer is None or answer.done():
            return
        if isinstance(value, RpcError):
            answer.set_exception(value)
        else:
            answer.set_result(value)

    def _start(self, call: Call) -> None:
        async def handled() -> None:
            value = await self._handle(call)
            result = value if isinstance(value, Raw) else Raw(msgspec.json.encode(value))
            del self._running[call.id]  # answered here, and not a turn of the loop later
            if not self._closed.done():
                self._take(self.peer.answer(call.id, result, now=self._loop.time()))

        task = self._running[call.id] = self._loop.create_task(handled(), name=f"answer {call.method}")
        task.add_done_callback(lambda task: self._fail(call, task))

    def _fail(self, call: Call, task: asyncio.Task[None]) -> None:
        """Give the one final answer to a call of the other side that has no result, also to one that was cancelled before its first step."""
        error = RpcError("cancelled", "it was cancelled") if task.cancelled() else task.exception()
        if error is None:
            return
        waited_for = self._running.pop(call.id, None) is not None
        if not isinstance(error, RpcError):
            self._crashed(call, error)
            error = RpcError("failed", f"`{call.method}` failed with {type(error).__name__}")
        if waited_for and not self._closed.done():
            self._take(self.peer.fail(call.id, error, now=self._loop.time()))

    # ------------------------------------------------------------------------------------------------ bytes and time
    def _flush_soon(self) -> None:
        """Streams are written once a turn: each write may wake the other side, and costs most then."""
        if not self._soon:
            self._soon = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._soon = False
        if self._transport is not None and not self._closed.done():
            while not self._paused and self.peer.pending:
                self._transport.write(self.peer.take())
            self._listen(self._transport)
        self._set_timer()

    def _spend(self, frames: float, per_second: float) -> None:
        now = self._loop.time()
        self._spent = max(0.0, self._spent - (now - self._read_at) * per_second) + frames
        self._read_at = now
        if self._spent > per_second and self._rest is None:
            self._rest = self._loop.call_later(self._spent / per_second - 1, self._rested)

    def _rested(self) -> None:
        self._rest = None
        self._flush()

    def _listen(self, transport: asyncio.Transport) -> None:
        """Read on, or not for now."""
        deaf = self._guard is not None and (self._rest is not None or self.peer.waiting > self._guard.unread)
        if deaf != self._deaf:
            self._deaf = deaf
            if deaf:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def _set_timer(self) -> None:
        when = None if self._closed.done() else self.peer.next_tick
        if self._timer is not None:
            if when is None or self._rings <= when:  # it fires early once, and is set anew then
                return
            self._timer.cancel()
        self._timer = None
        if when is not None:
            self._rings = when  # what uvloop gives for a time that is now does not tell it
            self._timer = self._loop.call_at(when, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._take(self.peer.tick(self._loop.time()))

    # ------------------------------------------------------------------------------------------------ for its streams
    def used(self, stream: int, size: int) -> None:
        """A piece of a stream was used."""
        self.peer.used(stream, size)
        self._flush_soon()

    def leave(self, stream: int, reason: str) -> None:
        """Take no more of a stream."""
        self._incoming.pop(stream, None)
        self.peer.cancel_stream(stream, reason)
        self._flush()

    def write(self, stream: int, data: bytes) -> None:
        """Send a piece, for which there is room."""
        self.peer.send(stream, data)
        self._flush_soon()

    def end(self, stream: int, error: RpcError | None) -> None:
        """End an own stream."""
        if self._outgoing.pop(stream, None) is not None:
            self.peer.end_stream(stream, error)
            self._flush_soon()


class Incoming:
    """A stream of the other side: iterate over its pieces. A piece counts as used when the next one is asked for.

    Leave `async with`, or call `aclose`, and the rest is not wanted.

    Raises (while iterating):
        RpcError: it ended too soon.
    """

    def __init__(self, channel: Channel, number: int, call: int) -> None:
        self._channel = channel
        self.number = number
        self.call = call
        self.claimed = False
        self._pieces: deque[bytes] = deque()
        self._in_use = -1
        self._ended = False
        self._error: RpcError | None = None
        self._wake = asyncio.Event()

    def came(self, data: bytes) -> None:
        """A piece came."""
        self._pieces.append(data)
        self._wake.set()

    def over(self, error: RpcError | None) -> None:
        """Nothing more will come."""
        self._ended, self._error = True, error
        self._wake.set()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._in_use >= 0:
            self._channel.used(self.number, self._in_use)
            self._in_use = -1
        while not self._pieces:
            if self._ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        data = self._pieces.popleft()
        self._in_use = len(data)
        return data

    async def aclose(self) -> None:
        """Take no more of it."""
        if not self._ended:
            self._ended, self._error = True, RpcError("cancelled", "nobody takes more of this stream")
            self._channel.leave(self.number, "cancelled")
        self._pieces.clear()
        self._wake.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Outgoing:
    """A stream to the other side. Leaving `async with` ends it: well, or, by an exception, as not complete.

    Attributes:
        on_unwanted: called when nobody takes more of it, for who waits for something else than room meanwhile.
    """

    def __init__(self, channel: Channel, number: int) -> None:
        self._channel = channel
        self.number = number
        self.on_unwanted: Callable[[], object] = lambda: None
        self._most = channel.peer.piece_bytes
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Look again whether there is room."""
        self._wake.set()

    def unwanted(self) -> None:
        """Nobody takes more."""
        self._wake.set()
        self.on_unwanted()

    async def send(self, data: bytes) -> None:
        """Send bytes, when there is room for them. Raises: `RpcError`, where nobody takes them any more."""
        for start in range(0, len(data), self._most) or (0,):
            part = data[start : start + self._most]
            while not self._channel.peer.room(self.number, len(part)):
                self._wake.clear()
                await self._wake.wait()
            self._channel.write(self.number, part)

    def end(self, error: RpcError | None = None) -> None:
        """It is complete, or, with an error, will not be."""
        self._channel.end(self.number, error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        match error:
            case None:
                self.end()
            case RpcError():
                self.end(error)
            case asyncio.CancelledError():
                self.end(RpcError("cancelled", "it was cancelled"))
            case _:
                self.end(RpcError("failed", f"it broke off with {type(error).__name__}"))
