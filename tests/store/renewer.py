"""A process that uses a sign-in. Run by tests: `renewer.py DATABASE LEASES TTL VAULT_KEY DAEMON`.

It says `ready`, and then for each line of `SECONDS CALLS` on stdin moves its clock that far from the real one, has so many calls ask for
the credential at once, and says what came: `{"tokens": […], "errors": […], "asked": …}`, the last one how often it asked the daemon so far.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from trunkline.access.connections import Connections
from trunkline.access.key_sources import FileSource
from trunkline.access.vault import Vault
from trunkline.base.clock import SystemClock
from trunkline.base.secret import Secret
from trunkline.errors import TrunklineError
from trunkline.model.credential import INSTALLATION
from trunkline.store.engine import open_engine
from trunkline.store.shared.address import address
from trunkline.store.shared.contract import Leases
from trunkline.store.shared.file_lease import FileLeases
from trunkline.store.shared.leases import TtlLeases
from trunkline_sdk.daemon.client import Client
from trunkline_sdk.daemon.messages import Record

SIGNED = "up/signed"


class Clock(SystemClock):
    """The real time, and some more."""

    ahead = 0.0

    def now(self) -> float:
        return SystemClock.now() + self.ahead


def failed(name: str, error: BaseException) -> None:
    print(name, repr(error), file=sys.stderr)


@asynccontextmanager
async def opened(where: str, ttl: float) -> AsyncGenerator[Leases]:
    if not where.startswith("redis"):
        yield FileLeases(Path(where), SystemClock())
        return
    from trunkline.store.shared.link import Link
    from trunkline.store.shared.redis import RedisTable

    link = Link(address(Secret(where)), SystemClock(), deadline=5)
    yield TtlLeases(RedisTable(link), SystemClock(), failed=failed, ttl=ttl)
    await link.aclose()


async def main(database: str, where: str, ttl: float, key: str, daemon: str) -> None:
    engine, clock, asked = open_engine(database), Clock(), 0
    async with opened(where, ttl) as leases, Client(daemon) as client:

        async def refresh(record: Record) -> Record:
            nonlocal asked
            asked += 1
            return await client.refresh("signed", record)

        connections = Connections(
            engine, Vault(engine, FileSource(Path(key))), clock, leases, refresher=lambda _: refresh, link=str, failed=failed
        )

        async def call() -> str:
            [credential] = connections.of(SIGNED)[INSTALLATION]
            return (await connections.fresh(credential)).secret.reveal()

        async with connections.running():
            print("ready", flush=True)
            while line := await asyncio.to_thread(sys.stdin.readline):
                seconds, calls = line.split()
                clock.ahead = float(seconds)
                came = await asyncio.gather(*(call() for _ in range(int(calls))), return_exceptions=True)
                errors = [each.code if isinstance(each, TrunklineError) else repr(each) for each in came if isinstance(each, BaseException)]
                tokens = sorted({each for each in came if isinstance(each, str)})
                print(json.dumps({"tokens": tokens, "errors": sorted(set(errors)), "asked": asked}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4], sys.argv[5]))
