"""Processes on their way to being workers: how they are spawned, what they say, and how they are reaped."""

import asyncio
import fcntl
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from threading import Thread
from types import TracebackType
from typing import Self

from trunkline.base.codec import Wire, decode, encode
from trunkline.errors import BadRequest, LaunchFailed
from trunkline.host.sandbox.features import LAUNCHER

CHANNEL, TALK = 3, 4
ABOVE = 64
"""Descriptors that are handed on are first moved out of the way of those that they become."""
ENDED = "the launcher ended; its stderr may say why"


class Child:
    """A process whose parent is this one. Leaving `with` ends it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        try:
            self._watched: int | None = os.pidfd_open(pid)
        except (AttributeError, OSError):  # not Linux, or before 5.3
            self._watched = None
            Thread(target=self._wait, name=f"wait for {pid}", daemon=True).start()
        else:
            self._loop.add_reader(self._watched, self._reap)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.alive:
            self.signal(signal.SIGKILL)
            if self._watched is not None:
                self._reap()

    @property
    def alive(self) -> bool:
        """Whether it has not been reaped yet."""
        return not self._ended.done()

    async def wait(self) -> int:
        """Its exit status once it is reaped: 0 to 127, or 128 + n after signal n."""
        return await asyncio.shield(self._ended)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its group, or to it alone where it has none; to nobody once it is reaped, when its number may be another's."""
        if self.alive:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, number)

    def _reap(self) -> None:
        assert self._watched is not None
        self._loop.remove_reader(self._watched)
        os.close(self._watched)
        self._ended.set_result(_status(os.waitpid(self.pid, 0)))

    def _wait(self) -> None:
        status = _status(os.waitpid(self.pid, 0))
        with suppress(RuntimeError):  # the loop is closed: nobody asks any more
            self._loop.call_soon_threadsafe(self._ended.set_result, status)


def _status(waited: tuple[int, int]) -> int:
    code = os.waitstatus_to_exitcode(waited[1])
    return code if code >= 0 else 128 - code


@contextmanager
def nowhere() -> Generator[int]:
    """A descriptor that takes everything and keeps nothing."""
    descriptor = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class Told(Wire, frozen=True):
    """A word of a launcher: one of these."""

    pid: int = 0
    applied: bool = False
    failed: str = ""


class Talk:
    """What host and launcher say to each other, one JSON object a line. It is closed once the other side has ended, or by `close`.

    Words are taken up as they come, whoever waits: one that is lost to a cancelled wait would be a process that nobody knows of.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._read)
        self._words: deque[Told] = deque()
        self._part = b""
        self._over = False
        self._news = asyncio.Event()
        self._heard: Callable[[Told], None] = self._words.append

    async def say(self, words: object) -> None:
        """Say it. Raises: `OSError`."""
        if self._over:
            raise ConnectionResetError(ENDED)
        await self._loop.sock_sendall(self._sock, encode(words) + b"\n")

    async def hear(self) -> Told:
        """The next word. Raises: `OSError`, where there is none."""
        while not self._words:
            if self._over:
                raise ConnectionResetError(ENDED)
            self._news.clear()
            await self._news.wait()
        return self._words.popleft()

    def end(self, heard: Callable[[Told], None]) -> None:
        """Say nothing more; what still comes is told to `heard`."""
        while self._words:
            heard(self._words.popleft())
        self._heard = heard
        if not self._over:
            with suppress(OSError):  # the other side was quicker
                self._sock.shutdown(socket.SHUT_WR)

    async def ended(self) -> None:
        """Wait until the other side has ended."""
        while not self._over:
            self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        """Neither say nor hear anything more."""
        if not self._over:
            self._over = True
            self._loop.remove_reader(self._sock)
            self._sock.close()
            self._news.set()

    def _read(self) -> None:
        try:
            part = self._sock.recv(4096)
            *lines, self._part = (self._part + part).split(b"\n")
            for line in lines:
                self._heard(decode(line, Told))
        except BlockingIOError:
            return
        except (OSError, BadRequest):  # it ended with words of ours unread, or talks in tongues
            part = b""
        if not part:
            self.close()
        self._news.set()


class Birth:
    """A worker that is being made. What it says, and what its launcher says of it, come in either order."""

    def __init__(self, talk: Talk) -> None:
        self.child: Child | None = None
        self.launcher: Child | None = None
        self.talk = talk
        self._made = Told()

    async def done(self) -> Child:
        """The worker, once its sandbox is made. Raises: `OSError`, `LaunchFailed`."""
        while self.child is None or not (self._made.applied or self._made.failed):
            try:
                self._take(await self.talk.hear())
            except ConnectionResetError:
                if self._made.failed:
                    break  # there is no worker
                raise
        if self.child is None or self._made.failed:
            raise LaunchFailed(self._made.failed)
        return self.child

    async def abandon(self, *, stuck: bool) -> None:
        """Have nothing become of it: who hears no more of the host ends by itself. Returns once that is so, and all are reaped.

        A launcher is not killed, unless it is stuck: it may have forked and not have said so yet.
        """
        if self.child is not None:
            self.child.signal(signal.SIGKILL)
        if stuck and self.launcher is not None:
            self.launcher.signal(signal.SIGKILL)
        self.talk.end(self._take)
        await self.talk.ended()
        for process in (self.child, self.launcher):
            if process is not None:
                await process.wait()

    def _take(self, told: Told) -> None:
        if not told.pid:
            self._made = told
        elif self.launcher is not None and told.pid == self.launcher.pid:
            self.child = self.launcher
        else:
            self.child = Child(told.pid)


def spawn(stdout: int, stderr: int, channel: int, talk: int, *arguments: str) -> int:
    """Start a launcher in a session of its own, with an empty environment and nothing of ours but these descriptors."""
    moved = [fcntl.fcntl(given, fcntl.F_DUPFD_CLOEXEC, ABOVE) for given in (stdout, stderr, channel, talk)]
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", LAUNCHER, *arguments],
            {},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                *((os.POSIX_SPAWN_DUP2, given, becomes) for given, becomes in zip(moved, (1, 2, CHANNEL, TALK), strict=True)),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE),
        )
    finally:
        for given in moved:
            os.close(given)
