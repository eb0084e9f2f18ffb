"""A stream of records that has opened (daemon contract, C2 to C4)."""

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from trunkline_sdk.daemon.client.transport import FAILURES, Answer
from trunkline_sdk.daemon.errors import DaemonError
from trunkline_sdk.daemon.messages import Loss
from trunkline_sdk.daemon.protocol import failures, headers
from trunkline_sdk.daemon.protocol.failures import Where
from trunkline_sdk.daemon.protocol.fixes import Fixes
from trunkline_sdk.daemon.protocol.routes import RECORD_BYTES
from trunkline_sdk.daemon.protocol.surfaces import Ending
from trunkline_sdk.http1 import HttpTimeout
from trunkline_sdk.sse import EventTooLarge, Records


class Stream:
    """Iterates over whole records, byte for byte as they came; `losses` are known from the start.

    Its end closes it, so do an error, `aclose` and leaving `async with`. Cancelling a read drops the connection.

    Raises (while iterating):
        CallFailed: It broke off, was cut (`Fixes.cut_streams_fail`), was silent for too long, or a record is too large. What came whole
            before is given first; afterwards every read raises the same.
    """

    __slots__ = (
        "_answer", "_beat", "_body", "_deadline", "_ended", "_ending", "_error", "_fixes", "_loop", "_quiet", "_ready", "_records",
        "_silence", "_where", "losses",
    )  # fmt: skip

    def __init__(
        self, answer: Answer, where: Where, surface: str, fixes: Fixes, *, deadline: float | None, record_silence: float | None
    ) -> None:
        self.losses: tuple[Loss, ...] = headers.read_losses(answer.headers)
        self._answer = answer
        self._body = aiter(answer.body)
        self._where = where
        self._fixes = fixes
        self._ending = Ending(surface if fixes.cut_streams_fail else "")
        self._loop = asyncio.get_running_loop()
        self._deadline = deadline  # of the loop's clock, for the whole stream
        self._silence = record_silence
        self._quiet: float | None = None  # since when a record has been waited for, by the same clock
        self._records = Records(limit=RECORD_BYTES)
        self._ready: deque[bytes] = deque()
        self._beat = False  # the last read brought signs of life alone
        self._error: DaemonError | None = None
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._ready and not self._ended:
            await self._fill(beats=False)
        if self._ready:
            return self._ready.popleft()
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    async def piece(self) -> bytes | None:
        """All records that came together, joined, for those who hand them on; None at the end.

        Empty where the daemon only showed that it is there, by comments between records, so that whoever waits can be told that.

        Raises:
            CallFailed: As while iterating.
        """
        ready = self._ready
        if not ready and not self._ended:
            await self._fill(beats=True)
        if len(ready) == 1:
            return ready.popleft()
        if ready:
            joined = b"".join(ready)
            ready.clear()
            return joined
        if not self._ended:
            return b""
        if self._error is not None:
            raise self._error
        return None

    async def aclose(self) -> None:
        """Drop the connection, unless the stream has ended; what was not taken is gone."""
        self._ended = True
        self._ready.clear()
        await self._answer.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def _fill(self, *, beats: bool) -> None:
        """Read until there is a record, or the end, or, where they count, signs of life."""
        self._beat = False
        try:
            if self._quiet is None and self._deadline is None:
                if self._silence is not None:
                    self._quiet = self._loop.time()
                await self._read()  # which lasts no longer than the transport's own silence, and that is no longer than ours
            if not (self._ready or self._ended or (beats and self._beat)):
                await self._read_on(beats=beats)
        except BaseException:
            await self.aclose()
            raise
        if self._ended:
            await self._answer.aclose()

    async def _read_on(self, *, beats: bool) -> None:
        """The same with our own deadlines."""
        until = self._until()
        scope = asyncio.timeout_at(until)
        try:
            async with scope:
                while not (self._ready or self._ended or (beats and self._beat)):
                    await self._read()
        except TimeoutError:
            if not scope.expired():
                raise
            self._error = (
                failures.silent(self._where) if until != self._deadline else failures.out_of_time(self._where, own=False, fixes=self._fixes)
            )
            self._ended = True

    def _until(self) -> float | None:
        if self._silence is None:
            return self._deadline
        if self._quiet is None:
            self._quiet = self._loop.time()
        silent = self._quiet + self._silence
        return silent if self._deadline is None else min(silent, self._deadline)

    async def _read(self) -> None:
        try:
            self._take(self._records.feed(await self._body.__anext__()))
            if not self._records.full:
                return
            self._error = failures.unusable(self._where)
        except StopAsyncIteration:
            self._finish()
        except EventTooLarge:
            self._error = failures.unusable(self._where)
        except HttpTimeout:
            self._error = failures.silent(self._where)
        except FAILURES:
            self._error = failures.broken(self._where)
        self._ended = True

    def _finish(self) -> None:
        last = self._records.end()
        self._take([] if last is None else [last])
        if not self._ending.complete:
            self._error = failures.broken(self._where, "was cut short: it has not the end that its surface prescribes")

    def _take(self, records: list[bytes]) -> None:
        if not records:
            self._beat = self._records.resting
            return
        self._quiet, self._beat = None, False
        if not self._ending.complete:
            for record in records:
                self._ending.see(record)
        self._ready += records
