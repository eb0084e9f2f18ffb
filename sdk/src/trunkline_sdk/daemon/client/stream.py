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
from trunkline_sdk.sse import EventTooLarge, Records


class Stream:
    """Iterates over whole records, byte for byte as they came; `losses` are known from the start.

    Its end closes it, so do an error, `aclose` and leaving `async with`. Cancelling a read drops the connection.

    Raises (while iterating):
        CallFailed: It broke off, was cut (`Fixes.cut_streams_fail`), was silent for too long, or a record is too large. What came whole
            before is given first; afterwards every read raises the same.
    """

    __slots__ = (
        "_answer",
        "_body",
        "_deadline",
        "_ended",
        "_ending",
        "_error",
        "_fixes",
        "_ready",
        "_records",
        "_silence",
        "_where",
        "losses",
    )

    def __init__(
        self, answer: Answer, where: Where, surface: str, fixes: Fixes, *, deadline: float | None, record_silence: float | None
    ) -> None:
        self.losses: tuple[Loss, ...] = headers.read_losses(answer.headers)
        self._answer = answer
        self._body = aiter(answer.body)
        self._where = where
        self._fixes = fixes
        self._ending = Ending(surface if fixes.cut_streams_fail else "")
        self._deadline = deadline  # of the loop's clock, for the whole stream
        self._silence = record_silence
        self._records = Records(limit=RECORD_BYTES)
        self._ready: deque[bytes] = deque()
        self._error: DaemonError | None = None
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._ready and not self._ended:
            await self._fill()
        if self._ready:
            return self._ready.popleft()
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Drop the connection, unless the stream has ended; what was not taken is gone."""
        self._ended = True
        self._ready.clear()
        await self._answer.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def _fill(self) -> None:
        """Read until there is a record, or the end."""
        until = self._until()
        scope = asyncio.timeout_at(until)
        try:
            async with scope:
                while not self._ready and not self._ended:
                    await self._read()
        except TimeoutError:
            if not scope.expired():
                raise
            own = until != self._deadline
            self._error = (
                failures.broken(self._where, "was silent for too long")
                if own
                else failures.out_of_time(self._where, own=False, fixes=self._fixes)
            )
            await self.aclose()
        except BaseException:
            await self.aclose()
            raise
        if self._ended:
            await self._answer.aclose()

    def _until(self) -> float | None:
        if self._silence is None:
            return self._deadline
        silent = asyncio.get_running_loop().time() + self._silence
        return silent if self._deadline is None else min(silent, self._deadline)

    async def _read(self) -> None:
        try:
            self._take(self._records.feed(b""))  # a record that was too large behind whole ones
            chunk = await anext(self._body, None)
            if chunk is not None:
                self._take(self._records.feed(chunk))
                return
            last = self._records.end()
            self._take([] if last is None else [last])
            if not self._ending.complete:
                self._error = failures.broken(self._where, "was cut short: it has not the end that its surface prescribes")
        except EventTooLarge:
            self._error = failures.unusable(self._where)
        except FAILURES:
            self._error = failures.broken(self._where)
        self._ended = True

    def _take(self, records: list[bytes]) -> None:
        for record in records:
            self._ending.see(record)
        self._ready += records
