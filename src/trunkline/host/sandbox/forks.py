"""A warm interpreter that forks workers: what every worker imports is imported once.

It runs no extension's code, has one thread, and ends with this process. Each fork is this process's child, gets its order from it, and
makes its own sandbox: with the same steps, and the same guarantees, as a worker that was started cold.
"""

import asyncio
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from types import TracebackType
from typing import Self

from trunkline.base.clock import Clock
from trunkline.base.codec import encode
from trunkline.errors import LaunchFailed
from trunkline.host.sandbox.children import Child, Talk, nowhere, spawn
from trunkline.host.sandbox.policy import Interpreter
from trunkline_sdk.worker import PRELOAD

SECONDS = 10.0
"""That the imports may take."""
FIRST, MOST, CALM = 1.0, 60.0, 600.0
"""Seconds from one start to the next at least: the first time, each time twice as long, never longer; and of a life after which that is
forgotten."""


class ForkServer:
    """Such an interpreter, running."""

    def __init__(self, child: Child, channel: socket.socket) -> None:
        self._child = child
        self._channel = channel

    @property
    def alive(self) -> bool:
        """Whether it still forks."""
        return self._child.alive

    def fork(self, namespaces: Sequence[str], stdout: int, stderr: int, channel: int, talk: int) -> bool:
        """Have it fork a worker with these descriptors, whose order is on the talk already. Whether it was asked: it may have ended."""
        try:
            socket.send_fds(self._channel, [encode(namespaces)], [stdout, stderr, channel, talk])
        except OSError:
            return False
        return True

    def end(self) -> None:
        """End it: it does not do what it is asked. The workers that it forked stay."""
        self._child.signal(signal.SIGKILL)


class Warm:
    """One such interpreter after another. As `async with`: at the end there is none.

    Args:
        interpreter: whose files are imported.
        clock: the time.
        told: told why there is none for a while.
    """

    def __init__(self, interpreter: Interpreter, clock: Clock, told: Callable[[str], None]) -> None:
        self._interpreter = interpreter
        self._clock = clock
        self._told = told
        self._stack = AsyncExitStack()
        self._server: ForkServer | None = None
        self._started = 0.0
        self._pause = 0.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._stack.aclose()

    async def ready(self) -> ForkServer | None:
        """The one that runs; where none does, a new one, or nothing if the last was started a moment ago. One at a time."""
        if self._server is not None:
            if self._server.alive:
                return self._server
            self._server = None
            await self._stack.aclose()
            self._told("the interpreter that forks workers has ended")
        lived = self._clock.monotonic() - self._started
        if self._pause and lived < self._pause:
            return None
        self._pause = min(MOST, 2 * self._pause) if self._pause and lived < CALM else FIRST
        self._started = self._clock.monotonic()
        try:
            self._server = await self._stack.enter_async_context(fork_server(self._interpreter))
        except LaunchFailed as error:
            self._told(error.message)
        return self._server


@asynccontextmanager
async def fork_server(interpreter: Interpreter, preload: Sequence[str] = PRELOAD) -> AsyncGenerator[ForkServer]:
    """Start one, with modules imported; at the end it is gone, and the workers that it forked stay.

    Raises:
        LaunchFailed: it did not come up.
    """
    with ExitStack() as kept:
        channel, theirs = socket.socketpair()
        talk, their_talk = socket.socketpair()
        kept.enter_context(channel)
        channel.setblocking(False)
        talking = Talk(talk)
        kept.callback(talking.close)
        with theirs, their_talk, nowhere() as unheard:
            child = kept.enter_context(Child(spawn(unheard, 2, theirs.fileno(), their_talk.fileno(), "serve")))
            theirs.close()
            their_talk.close()
            try:
                async with asyncio.timeout(SECONDS):
                    await talking.say({"packages": interpreter.packages, "preload": preload})
                    await talking.hear()
            except (OSError, TimeoutError) as error:
                raise LaunchFailed(f"the interpreter that forks workers does not start: {error or 'it took too long'}") from error
        yield ForkServer(child, channel)
