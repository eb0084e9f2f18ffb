"""A process that wants a lease. Run by tests: `contender.py KIND WHERE LOG ROUNDS TTL`.

With rounds, it takes and leaves the lease so many times, and writes to the log when it begins and ends, with its token. Without, it
takes the lease once, says so on stdout, and answers every line on stdin with whether it still believes to have it.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from trunkline.base.clock import SystemClock
from trunkline.base.secret import Secret
from trunkline.store.shared import file_lease, leases
from trunkline.store.shared.address import address
from trunkline.store.shared.contract import Leases


@asynccontextmanager
async def opened(kind: str, where: str, ttl: float) -> AsyncGenerator[Leases]:
    clock = SystemClock()
    if kind == "file":
        yield file_lease.FileLeases(Path(where), clock)
        return
    from trunkline.store.shared.link import Link
    from trunkline.store.shared.redis import RedisTable

    link = Link(address(Secret(where)), clock, deadline=5)
    yield leases.TtlLeases(RedisTable(link), clock, failed=lambda name, error: print(name, repr(error), file=sys.stderr), ttl=ttl)
    await link.aclose()


async def race(all_leases: Leases, log: str, rounds: int) -> None:
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)  # the kernel puts what two processes write in one order
    for _ in range(rounds):
        async with all_leases.held("race") as lease:
            os.write(file, f"begin {lease.token} {os.getpid()}\n".encode())
            await asyncio.sleep(0)
            os.write(file, f"end {lease.token} {os.getpid()}\n".encode())
        await asyncio.sleep(0.0002)  # so that the other has a chance
    os.close(file)


async def hold(all_leases: Leases) -> None:
    async with all_leases.held("race") as lease:
        print(f"held {lease.token}", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(lease.held, lease.lost.is_set(), flush=True)


async def main(kind: str, where: str, log: str, rounds: int, ttl: float) -> None:
    for module in (file_lease, leases):
        module.FIRST_LOOK = module.LAST_LOOK = 0.0002  # contend as hard as can be
    async with opened(kind, where, ttl) as all_leases:
        print("ready", flush=True)
        sys.stdin.readline()
        await (race(all_leases, log, rounds) if rounds else hold(all_leases))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])))
