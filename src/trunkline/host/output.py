"""What workers print: one bounded file for each extension, written beside the event loop."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path

from trunkline.base.clock import Clock

LONGEST_LINE = 8192
"""Bytes of a line that are kept."""
PER_SECOND, BURST = 64 * 1024, 512 * 1024
"""Bytes that an extension may print in the long run, and at once; what is more is dropped, and counted."""
LEAST_COST = 64
"""Bytes that a line counts as at least: a short one is as much work."""
MOST_FILE = 1024 * 1024
"""Bytes of the file; then it becomes `log.1`, in the place of the one before."""


class Output:
    """One extension's file.

    Args:
        path: of the file; its folder is made.
        clock: the time.
        threads: in which it is written.
        failed: told once when it cannot be, until it can again.
    """

    def __init__(self, path: Path, clock: Clock, threads: Executor, failed: Callable[[OSError], None]) -> None:
        self._path = path
        self._clock = clock
        self._threads = threads
        self._failed = failed
        self._broken = False
        self._allowance = float(BURST)
        self._at = clock.monotonic()
        self._dropped = 0
        self._lines: list[bytes] = []
        self._held = 0
        self._writing: asyncio.Future[None] | None = None

    @property
    def full(self) -> bool:
        """Whether there was too much: then nothing is kept before there is room for a long line again."""
        now = self._clock.monotonic()
        self._allowance = min(float(BURST), self._allowance + (now - self._at) * PER_SECOND)
        self._at = now
        return self._dropped > 0 and self._allowance < LONGEST_LINE

    def drop(self, lines: int) -> None:
        """Count lines that are not kept."""
        self._dropped += lines

    def line(self, text: bytes) -> bool:
        """Keep a line, without its end; whether there was room for it."""
        kept = text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE] + f"… ({len(text)} bytes in all)".encode()
        cost = max(LEAST_COST, len(kept) + 1)
        if self.full or self._allowance < cost or self._held > BURST:  # the last: a disk that hangs
            self.drop(1)
            return False
        self._allowance -= cost
        if self._dropped:
            self._lines.append(f"… {self._dropped} lines are left out: there were too many at once".encode())
            self._dropped = 0
        self._lines.append(kept)
        self._held += cost
        self._write()
        return True

    async def written(self) -> None:
        """Wait until all of it is in the file."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    def _write(self) -> None:
        if self._writing is None and self._lines:
            lines, self._lines, self._held = self._lines, [], 0
            self._writing = asyncio.get_running_loop().run_in_executor(self._threads, _append, self._path, b"\n".join(lines) + b"\n")
            self._writing.add_done_callback(self._wrote)

    def _wrote(self, job: "asyncio.Future[None]") -> None:
        self._writing = None
        error = job.exception()
        if isinstance(error, OSError) and not self._broken:
            self._failed(error)
        self._broken = error is not None
        self._write()


def _append(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists() and path.stat().st_size > MOST_FILE:  # before it grows, so that it does not where that fails
        path.replace(path.with_name(path.name + ".1"))
    with path.open("ab") as file:
        file.write(data)


class Pipe(asyncio.Protocol):
    """The host's end of one worker's stdout and stderr."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._rest = b""
        self._closed = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(cls, output: Output) -> "tuple[Pipe, asyncio.ReadTransport, int]":
        """One, its transport, and the descriptor to write to."""
        ours, theirs = os.pipe()
        try:
            transport, pipe = await asyncio.get_running_loop().connect_read_pipe(lambda: cls(output), os.fdopen(ours, "rb", buffering=0))
        except BaseException:
            os.close(theirs)
            raise
        return pipe, transport, theirs

    async def drained(self, seconds: float) -> None:
        """Wait for the end of what is printed, so long at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._closed)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._output.full:  # looked through, and not taken apart
            self._output.drop(data.count(b"\n"))
            self._rest = data[data.rfind(b"\n") + 1 :]
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for number, line in enumerate(lines, 1):
            if not self._output.line(line):
                self._output.drop(len(lines) - number)
                break
        if len(self._rest) > 2 * LONGEST_LINE:
            self._output.line(self._rest)
            self._rest = b""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """See `asyncio.Protocol`."""
        if self._rest:
            self._output.line(self._rest)
        self._closed.set_result(None)
