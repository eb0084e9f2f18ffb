"""How much memory a worker holds, by what the kernel says of its processes; and word when that is too much.

Where no cgroup limits it, this is what does: a limit of the process itself (RLIMIT_DATA) is one of good manners, for shared mappings and
forks are not counted by it. Pages that a fork shares with its parent count twice.
"""

import asyncio
import os
from pathlib import Path
from typing import Protocol

EVERY = 0.05
"""Seconds between two looks; a look costs some 20 µs."""
PAGE = os.sysconf("SC_PAGESIZE")


class Holds(Protocol):
    """A worker."""

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        ...

    def resident(self) -> int:
        """Bytes."""
        ...


def resident(pid: int) -> int:
    """Bytes in memory of a process and of all below it; of one that is gone, 0."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        below = [child for thread in os.listdir(f"/proc/{pid}/task") for child in _children(pid, thread)]
    except (OSError, IndexError):
        return 0
    return pages * PAGE + sum(resident(int(child)) for child in below)


async def exceeded(worker: Holds, most: int) -> int:
    """Wait until a worker holds more than so many bytes; how many. Never returns of one that ends before: cancel it then."""
    while True:
        if (held := worker.resident()) > most:
            return held
        await asyncio.sleep(EVERY)


def _children(pid: int, thread: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii").split()
    except OSError:  # the thread has ended meanwhile, or the kernel does not tell
        return []
