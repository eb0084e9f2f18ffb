"""Child processes that do not outlive their parent.

    this process ──lifeline──▶ guard (own session) ──▶ the program (own process group)

The program and everything in its group die within milliseconds of this process, however it ends: the kernel closes the lifeline
(a pipe), and the guard kills the group. That holds on Linux and macOS; on Linux the program also dies with the guard.
"""

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, cast

GUARD = str(Path(__file__).with_name("_guard.py"))
STDIN, STDOUT = 0, 1
LONGEST_LINE = 8192
"""Bytes of a line that are kept; the rest of it is dropped."""
STRAGGLERS = 0.5
"""Seconds after the end in which output may still arrive: a process that left the group may hold the pipes open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to run.

    Attributes:
        argv: the program and its arguments. Everybody on the machine can read them.
        env: its whole environment; nothing is inherited. (Where the locale is C, CPython adds `LC_CTYPE`: PEP 538.)
        stdin: what it reads first. The pipe stays open until the process ends; with `None` there is nothing to read.
        hears: is told each line of stdout and stderr, without its end.
        keep: so many of the last lines are remembered.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    stdin: bytes | None = field(default=None, repr=False)
    hears: Callable[[str], None] | None = None
    keep: int = 40


class Process:
    """A running child. As `async with`, it is terminated at the end."""

    __slots__ = ("_lifeline", "_output", "_transport")

    def __init__(self, transport: asyncio.SubprocessTransport, output: "_Output", lifeline: int) -> None:
        self._transport = transport
        self._output = output
        self._lifeline: int | None = lifeline
        output.ended.add_done_callback(lambda _: self._hang_up())

    @classmethod
    async def start(cls, command: Command) -> Self:
        """Start a program. One that cannot be run ends with status 127 and says why in its last words."""
        ours, lifeline = os.pipe()
        try:
            transport, output = await asyncio.get_running_loop().subprocess_exec(
                lambda: _Output(command),
                *(sys.executable, "-I", "-S", GUARD, str(ours), *command.argv),
                env=dict(command.env),
                stdin=asyncio.subprocess.DEVNULL if command.stdin is None else asyncio.subprocess.PIPE,
                pass_fds=(ours,),
                start_new_session=True,
            )
        except BaseException:
            os.close(lifeline)
            raise
        finally:
            os.close(ours)
        if command.stdin is not None:
            cast(asyncio.WriteTransport, transport.get_pipe_transport(STDIN)).write(command.stdin)
        return cls(transport, output, lifeline)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.terminate()

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._transport.get_returncode() is None

    @property
    def last_words(self) -> list[str]:
        """The last lines of its stdout and stderr."""
        return list(self._output.lines)

    async def first_line(self) -> str | None:
        """The first line of its stdout, or `None` when it ended without one."""
        return await asyncio.shield(self._output.first)

    async def wait(self) -> int:
        """Its exit status, once it has ended and is reaped: 0 to 127, or 128 + n after signal n."""
        return await asyncio.shield(self._output.ended)

    async def terminate(self, grace: float = 5.0) -> int:
        """End it: SIGTERM to its group, after so many seconds SIGKILL. A cancelled call kills at once. Returns the exit status."""
        try:
            if self._lifeline is not None and self.alive:
                with suppress(BrokenPipeError, TimeoutError):
                    os.write(self._lifeline, b"t")
                    async with asyncio.timeout(grace):
                        return await self.wait()
        finally:
            self._hang_up()
        return await self.wait()

    def _hang_up(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


class _Output(asyncio.SubprocessProtocol):
    """Collects lines. Callbacks instead of reader tasks: nothing to start, nothing to cancel."""

    def __init__(self, command: Command) -> None:
        loop = asyncio.get_running_loop()
        self.lines: deque[str] = deque(maxlen=command.keep)
        self.first: asyncio.Future[str | None] = loop.create_future()
        self.ended: asyncio.Future[int] = loop.create_future()
        self._loop = loop
        self._hears = command.hears
        self._unfinished: dict[int, bytes] = {}
        self._stragglers: asyncio.TimerHandle | None = None
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, rest = (self._unfinished.get(fd, b"") + data).split(b"\n")
        self._unfinished[fd] = rest[:LONGEST_LINE]
        for line in lines:
            self._hear(fd, line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if rest := self._unfinished.pop(fd, b""):
            self._hear(fd, rest)

    def process_exited(self) -> None:
        assert self._transport is not None
        self._stragglers = self._loop.call_later(STRAGGLERS, self._transport.close)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Called when the process is reaped and its pipes are closed."""
        assert self._transport is not None
        if self._stragglers is not None:
            self._stragglers.cancel()
        if not self.first.done():
            self.first.set_result(None)
        self.ended.set_result(cast(int, self._transport.get_returncode()))
        self._transport.close()  # all is closed already; asyncio wants to be told

    def _hear(self, fd: int, line: bytes) -> None:
        text = line[:LONGEST_LINE].decode(errors="replace").rstrip("\r")
        self.lines.append(text)
        if fd == STDOUT and not self.first.done():
            self.first.set_result(text)
        if self._hears is not None:
            self._hears(text)
