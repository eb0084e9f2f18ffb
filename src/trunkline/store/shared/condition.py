"""How a Valkey or Redis server is before somebody relies on it."""

from trunkline.base.clock import SystemClock
from trunkline.errors import StoreReadOnly, StoreUnavailable
from trunkline.store.shared.address import Address
from trunkline.store.shared.link import Link


async def look(where: Address) -> str:
    """What it is, in a few words.

    Raises:
        StoreUnavailable: it cannot be reached, or throws away what it should keep.
        StoreReadOnly: it is a replica.
    """
    link = Link(where, SystemClock())
    try:
        answer: bytes = await link.ask("INFO")
    finally:
        await link.aclose()
    found = dict(line.split(":", 1) for line in answer.decode().splitlines() if ":" in line)
    software = f"Valkey {found['valkey_version']}" if "valkey_version" in found else f"Redis {found.get('redis_version', '?')}"
    policy = found.get("maxmemory_policy", "noeviction")
    if found.get("role", "master") != "master":
        raise StoreReadOnly(f"`{where.place}` is a replica", hint="Let `store.shared` name the primary.")
    if policy != "noeviction":
        raise StoreUnavailable(
            f"`{where.place}` throws counters and leases away when its memory is full (`maxmemory-policy {policy}`)",
            hint="Set `maxmemory-policy noeviction`: a counter that is gone is a limit that is not kept.",
        )
    kept = "kept over a restart" if found.get("aof_enabled") == "1" else "forgotten by a restart"
    return f"{software} at {where.place}; counters and leases are {kept}"
