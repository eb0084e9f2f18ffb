"""How much memory a worker holds, and how many threads, by what the kernel says of its processes; and word when that is too much.

Where no cgroup limits it, this is what does: a limit of the process itself (RLIMIT_DATA) is one of good manners, for stacks and forks are
not counted by it, and processes are counted by the kernel only for a user of their own. Pages that a fork shares with its parent count twice.
What is in the buffers of sockets is in no size of a process: each descriptor counts as if it were a full one (from Linux 6.2 on, where the
number of descriptors is to be had for one call).
"""

import asyncio
import os
from collections.abc import Iterable
from typing import NamedTuple, Protocol

EVERY = 0.05
"""Seconds between two looks; a look costs some 20 µs."""
PAGE = os.sysconf("SC_PAGESIZE")
BUFFER = 208 << 10
"""Bytes of a socket's buffer, as the kernel makes it; a worker cannot have larger ones."""


class Held(NamedTuple):
    """What a worker holds, with all that it forked.

    Attributes:
        memory: bytes.
        threads: of all its processes.
    """

    memory: int
    threads: int


class Holds(Protocol):
    """A worker."""

    def held(self) -> Held:
        """What it holds now."""
        ...


def held(pid: int) -> Held:
    """What a process and all below it hold; nothing, once it is gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return Held(0, 0)
    below = [held(int(child)) for thread in threads for child in _children(pid, thread)]
    return Held(_resident(pid, threads) + sum(each.memory for each in below), len(threads) + sum(each.threads for each in below))


def sees_forks() -> bool:
    """Whether this kernel tells of a process's children."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


async def exceeded(worker: Holds, *, memory: int, threads: int) -> Held:
    """Wait until a worker holds more than so many bytes, or threads; what it holds. Never returns of one that ends before: cancel it then."""
    while True:
        now = worker.held()
        if now.memory > memory or now.threads > threads:
            return now
        await asyncio.sleep(EVERY)


def _resident(pid: int, threads: Iterable[str]) -> int:
    """Bytes of a process, asked of its threads one after another: the first one may have ended, and knows of none then."""
    for thread in threads:
        try:
            pages = int(_read(f"/proc/{pid}/task/{thread}/statm").split()[1])
        except (OSError, IndexError):
            continue
        if pages:
            return pages * PAGE + _descriptors(pid) * BUFFER
    return 0


def _descriptors(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/fd").st_size
    except OSError:
        return 0


def _children(pid: int, thread: str) -> list[bytes]:
    try:
        return _read(f"/proc/{pid}/task/{thread}/children").split()
    except OSError:  # the thread has ended meanwhile, or the kernel does not tell
        return []


def _read(path: str) -> bytes:
    """A file, by its name as it is: `Path` has each part of one interned, and the interpreter's table of those grows by that."""
    with open(path, "rb", buffering=0) as file:
        return file.read()
