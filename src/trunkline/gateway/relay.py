"""A stream on its way to the caller: forwarding what came, and reading along.

Nothing is shown before the first frame that is part of a reply, so that until then another target may still take over. After
it a failure is an error event in the caller's dialect: a stream never ends as if it were complete when it is not. Of what nobody reads
(sound), the first bytes are the first frame, and a failure after them breaks the connection.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

from trunkline.base.clock import Clock
from trunkline.base.secret import scrub
from trunkline.dialects import EventReader, EventWriter, Frame
from trunkline.dialects._names import Names
from trunkline.errors import TrunklineError, UpstreamDenied, UpstreamError, UpstreamGarbled
from trunkline.gateway.losses import comment
from trunkline.gateway.upstream import Answer
from trunkline.model.event import Ended, Event, Failed, Finished, Lost, Started, ToolCallStarted, Used
from trunkline.model.loss import Loss, report
from trunkline.model.usage import Usage
from trunkline_sdk import sse

HOLD_SECONDS = 2.0  # a longer prelude (pings while a model thinks) is shown, and gives up the right to another target
HOLD_BYTES = 64 << 10
SETTLE_SECONDS = 0.1
GRACE_SECONDS = 2.0  # for the end mark of a reply whose finish reason and usage are there


class Broken(Exception):
    """A stream failed after something of it was shown.

    Attributes:
        error: why.
        native: the provider's own error event, where it sent one; the caller may get it as it is.
    """

    def __init__(self, error: TrunklineError, native: bytes = b"") -> None:
        super().__init__(error.message)
        self.error = error
        self.native = native


class Translation:
    """Says in the caller's dialect what a provider says in its own.

    Attributes:
        losses: what of the reply the caller's dialect has no word for.
        failed: something was said that the caller's dialect cannot say, so that the reply is none.
    """

    __slots__ = ("_keep_alive", "_names", "_start", "_tell", "_writer", "failed", "losses")

    def __init__(self, writer: EventWriter, start: Started, names: Names, keep_alive: bytes, *, tell: bool) -> None:
        self._writer = writer
        self._start = start  # what the reply says of itself where its provider does not
        self._names = names
        self._keep_alive = keep_alive
        self._tell = tell  # the caller wants the losses inside the stream
        self.losses: list[Loss] = []
        self.failed = False

    def write(self, frame: Frame) -> bytes:
        """What one frame says. One that says nothing only shows that the provider is there.

        Raises:
            UpstreamGarbled: it cannot be said.
        """
        if not frame.events:
            return b"" if frame.visible else self._keep_alive
        try:
            return b"".join(map(self._event, frame.events))
        except UpstreamGarbled:
            self.failed = True
            raise

    def _event(self, event: Event) -> bytes:
        match event:
            case Lost(loss):
                self.losses.append(loss)
            case ToolCallStarted():
                event = self._names.started(event)
            case Started(reply_id, model, created):
                start = self._start
                event = Started(reply_id or start.id, model or start.model, created or start.created)
            case Ended() if self._tell and self.losses:
                return comment(report(self.losses)) + self._writer.write(event)
            case _:
                pass
        return self._writer.write(event)


class Opaque:
    """A reply that nobody reads, handed on as it arrives. It has no place for an error event: where it fails, its connection breaks.

    Attributes:
        done: the end came.
    """

    __slots__ = ("_answer", "done")

    losses: ClassVar[Sequence[Loss]] = ()
    usage: ClassVar[Usage | None] = None
    tool_calls: ClassVar[int] = 0

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.done = False

    async def begin(self) -> bytes:
        """The first bytes.

        Raises:
            UpstreamError: it failed before them; nothing was shown.
        """
        try:
            return await self._answer.__anext__()
        except StopAsyncIteration:
            raise UpstreamGarbled("the provider's reply is empty") from None

    async def next(self) -> bytes:
        """The bytes that came next; none at the end.

        Raises:
            Broken: it failed.
        """
        try:
            return await self._answer.__anext__()
        except StopAsyncIteration:
            self.done = True
            return b""
        except UpstreamError as error:
            raise Broken(error) from None

    async def settle(self) -> None:
        """Nothing is left to read: the end of the body is the end of the reply."""


class Stream:
    """One stream, and what has been read of it so far.

    Attributes:
        usage: what the provider says was used.
        tool_calls: how many tool calls began.
        done: the end was read; whatever may still follow is nobody's.
    """

    __slots__ = (
        "_answer", "_clock", "_deadline", "_events", "_failure", "_finished", "_reader", "_secrets", "_translation", "_visible",
        "done", "tool_calls", "usage",
    )  # fmt: skip

    def __init__(
        self, answer: Answer, reader: EventReader, clock: Clock, *, secrets: tuple[str, ...] = (), translation: Translation | None = None
    ) -> None:
        self._answer = answer
        self._reader = reader
        self._clock = clock
        self._secrets = secrets
        self._translation = translation
        self._events = sse.Events()
        self._failure: Broken | None = None
        self._deadline: float | None = None  # by the loop's clock
        self._visible = False
        self._finished = False
        self.usage: Usage | None = None
        self.tool_calls = 0
        self.done = False

    @property
    def losses(self) -> Sequence[Loss]:
        """What of the reply the caller's dialect has no word for."""
        return self._translation.losses if self._translation else ()

    async def begin(self) -> bytes:
        """The bytes up to and with the first part of the reply.

        Raises:
            UpstreamError: it failed before that; nothing was shown.
        """
        held: list[bytes] = []
        size = 0
        deadline = self._clock.monotonic() + HOLD_SECONDS
        while not self.done:
            try:
                piece = await self._next()
            except Broken as broken:
                raise broken.error from None
            if self._failure is not None and not self._visible:
                raise self._failure.error
            held.append(piece)
            size += len(piece)
            if self._visible or size > HOLD_BYTES or self._clock.monotonic() > deadline:
                break
        return b"".join(held)

    async def next(self) -> bytes:
        """The bytes that came next, whole events only, possibly none; ask until `done`.

        Raises:
            Broken: it failed; the caller is owed an error event.
        """
        if self._failure is not None:
            raise self._failure
        try:
            return await self._next()
        except UpstreamError as error:
            raise Broken(error) from None

    async def settle(self) -> None:
        """Give an answer whose end was read a moment to end as HTTP too, so that its connection can serve again."""
        with suppress(TimeoutError, UpstreamError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await self._answer.read()

    async def _next(self) -> bytes:
        try:
            return self._take(await (self._in_grace() if self._finished and self._is_complete() else self._answer.__anext__()))
        except StopAsyncIteration:
            return self._out(self._reader.end())
        except UpstreamError:
            if (closing := self._closing()) is None:
                raise
            return self._out(closing)

    def _is_complete(self) -> bool:
        """Whether a reply that is finished lacks nothing but the mark of the end."""
        return self.usage is not None and self._closing() is not None

    async def _in_grace(self) -> bytes:
        """What still comes after a reply that is complete: nobody waits long for a mark that a provider forgets."""
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + GRACE_SECONDS
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._answer.__anext__()
        except TimeoutError:
            raise StopAsyncIteration from None

    def _take(self, chunk: bytes) -> bytes:
        """What of a chunk may go out. A failure in it counts after the events before it."""
        out: list[bytes] = []
        try:
            for event in self._events.feed(chunk):
                out.append(self._out(self._reader.read(event)))
                if self.done or self._failure is not None:
                    break
        except Broken as broken:
            self._failure = broken
            return b"".join(out)
        except UpstreamError as error:
            self._failure = Broken(error)
        except sse.EventTooLarge:
            self._failure = Broken(UpstreamGarbled("an event of the provider's stream is too large"))
        if self._failure is not None and (closing := self._closing()) is not None:
            self._failure = None
            out.append(self._out(closing))
        return out[0] if len(out) == 1 else b"".join(out)

    def _out(self, frame: Frame) -> bytes:
        """Note what a frame says, and give what the caller gets of it.

        Raises:
            Broken: it cannot be told in the caller's dialect.
        """
        ended = False
        for said in frame.events:
            if isinstance(said, Used):
                self.usage = said.usage
            elif isinstance(said, ToolCallStarted):
                self.tool_calls += 1
            elif isinstance(said, Finished):
                self._finished = True
            elif isinstance(said, Ended):
                ended = True
            elif isinstance(said, Failed):
                self._fail(said.error, frame.raw)
                return b""
        try:
            out = frame.raw if self._translation is None else self._translation.write(frame)
        except UpstreamError as error:
            raise Broken(error) from None
        self._visible = self._visible or frame.visible
        self.done = self.done or ended
        return out

    def _fail(self, error: UpstreamError, native: bytes) -> None:
        """What a provider says of our credential is for the operator, the caller's own key is fine; all else the caller may see."""
        error.message = scrub(error.message.encode(), self._secrets).decode()
        shown = self._translation is None and not isinstance(error, UpstreamDenied)
        self._failure = Broken(error, scrub(native, self._secrets) if shown else b"")

    def _closing(self) -> Frame | None:
        """The end of a reply that is complete already: what goes wrong after it is nobody's business."""
        if self._translation is not None and self._translation.failed:
            return None
        try:
            return self._reader.end()
        except UpstreamError:
            return None
