"""Looking up names for many who do not trust each other.

The resolver of the system takes a thread for each lookup and cannot be stopped: a name whose server never answers holds one for
half a minute. So lookups for extensions have threads of their own, and each extension a few of them.
"""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from trunkline_sdk.http1 import Address, Origin

THREADS = 8
EACH = 2

Lookup = Callable[[str, int], list[tuple[Any, Any, Any, str, Any]]]


def _look_up(host: str, port: int) -> list[tuple[Any, Any, Any, str, Any]]:
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


class Names:
    """Looks names up, in turn for each asker.

    Args:
        look_up: what blocks: host and port → what `socket.getaddrinfo` gives.
    """

    def __init__(self, look_up: Lookup = _look_up) -> None:
        self._look_up = look_up
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="names")
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def resolve(self, asker: str, origin: Origin) -> list[Address]:
        """The addresses of the origin's host, in order, each once. A lookup that nobody waits for any more still has its thread.

        Raises:
            OSError: no address.
        """
        turn = self._turns.get(asker)
        if turn is None:
            turn = self._turns[asker] = asyncio.Semaphore(EACH)
        await turn.acquire()
        loop = asyncio.get_running_loop()

        def over(_: "Future[Any]") -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(turn.release)

        lookup = self._threads.submit(self._look_up, origin.host, origin.port)
        lookup.add_done_callback(over)
        found = await asyncio.shield(asyncio.wrap_future(lookup))
        return list(dict.fromkeys(Address(family, sockaddr) for family, _, _, _, sockaddr in found))
