"""What tests do with a client, and the places it cannot reach."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from sdk.tests.http1.peer import SOON, Wire
from trunkline_sdk.http1 import Address, Client

MakeClient = Callable[..., Client]


async def ask(client: Client, url: str, body: bytes | AsyncIterator[bytes] = b"{}", **settings: object) -> bytes:
    response = await client.request("POST", url, body=body, **settings)
    return await response.read()


async def cancelled(task: "asyncio.Task[object]") -> None:
    task.cancel()
    async with asyncio.timeout(SOON):
        with pytest.raises(asyncio.CancelledError):
            await task


async def sees_the_end(wire: Wire) -> None:
    await asyncio.wait_for(wire.saw_end.wait(), SOON)


def loopback(port: int) -> Address:
    return Address(socket.AF_INET, ("127.0.0.1", port))


def dead_port() -> int:
    """Where connecting is refused."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return closed.getsockname()[1]


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """Where connecting hangs: the queue is full, and the kernel drops what comes after it."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as stack:
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        yield full.getsockname()[1]


def open_sockets() -> int:
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(descriptor.readlink()).startswith("socket:")
    return found
