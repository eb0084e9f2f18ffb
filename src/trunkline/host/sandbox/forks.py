"""A warm interpreter that forks workers: what every worker imports is imported once.

It runs no extension's code, has one thread, and ends with this process. Each fork is this process's child, gets its order from it, and
makes its own sandbox: with the same steps, and the same guarantees, as a worker that was started cold.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager

from trunkline.errors import LaunchFailed
from trunkline.host.sandbox.children import Child, Talk, nowhere, spawn
from trunkline.host.sandbox.policy import Interpreter
from trunkline_sdk.worker import PRELOAD

SECONDS = 10.0
"""That the imports may take."""


class ForkServer:
    """Such an interpreter, running."""

    def __init__(self, child: Child, channel: socket.socket) -> None:
        self._child = child
        self._channel = channel

    @property
    def alive(self) -> bool:
        """Whether it still forks."""
        return self._child.alive

    def fork(self, stdout: int, stderr: int, channel: int, talk: int) -> None:
        """Have it fork a worker with these descriptors, whose order is on the talk already. Raises: `OSError`."""
        socket.send_fds(self._channel, [b"f"], [stdout, stderr, channel, talk])


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
