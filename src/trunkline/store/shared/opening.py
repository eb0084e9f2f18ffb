"""What several processes share, as the configuration says."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from trunkline.base.clock import Clock
from trunkline.store.shared.address import Address
from trunkline.store.shared.contract import Shared
from trunkline.store.shared.file_lease import FileLeases
from trunkline.store.shared.memory import MemoryBus, MemoryCounters


@asynccontextmanager
async def open_shared(
    where: Address | None, clock: Clock, *, data: Path, failed: Callable[[str, BaseException], None]
) -> AsyncGenerator[Shared]:
    """Counters, bus and leases while the block runs.

    Without a server, leases are file locks in the data folder: exclusive over all processes on that folder. With one, nothing waits
    for it here: it may come later, and be away at any time.

    Args:
        where: the server; `None` for memory.
        clock: the time.
        data: the data folder.
        failed: told of what goes wrong in the background, once per outage.
    """
    if where is None:
        yield Shared(counters=MemoryCounters(clock), bus=MemoryBus(failed), leases=FileLeases(data / "leases", clock))
        return
    # Only an installation that has such a server pays for its client's import (0.2 s), at its start.
    from trunkline.store.shared.redis import open_redis

    async with open_redis(where, clock, failed=failed) as shared:
        yield shared
