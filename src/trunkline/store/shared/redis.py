"""Counters, messages and leases on Valkey or Redis, for several processes.

Every change of a counter or a lease is one script, which the server runs as one step. Times go there as durations, so that only
durations of the two clocks have to agree.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from math import ceil
from typing import Any

from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.errors import StoreUnavailable
from trunkline.store.shared.address import Address
from trunkline.store.shared.contract import MOST, Shared, checked_amount, pause
from trunkline.store.shared.leases import TtlLeases
from trunkline.store.shared.link import Link, Script, Wire
from trunkline.store.shared.memory import Switchboard

QUIET = 2.0
"""Seconds without a word from the bus after which it is asked for one, and as many more after which it counts as lost."""

TOKEN_KEPT = 30 * 86_400
"""Seconds for which the last token of a name is kept; after that the time itself is higher."""

PASSED, REFUSED = -2, -1

ADD = Script("""
local total = tonumber(redis.call('GET', KEYS[1]) or '0') + tonumber(ARGV[1])
if total > 9007199254740991 then return -2 end
local ends, left = tonumber(ARGV[2]), redis.call('PTTL', KEYS[1])
if ends > 0 or left > 0 then redis.call('INCRBY', KEYS[1], ARGV[1]) end
if ends > left and ends > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return total
""")
TAKE = Script("""
local total = tonumber(redis.call('GET', KEYS[1]) or '0') + tonumber(ARGV[1])
local ends, left = tonumber(ARGV[2]), redis.call('PTTL', KEYS[1])
if total > tonumber(ARGV[3]) or ends <= 0 then return -1 end
redis.call('INCRBY', KEYS[1], ARGV[1])
if ends > left then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return total
""")
GIVE = Script("""
local total, amount = tonumber(redis.call('GET', KEYS[1]) or '0'), ARGV[1]
if total == 0 then return 0 end
if tonumber(amount) > total then amount = string.format('%.0f', total) end
return redis.call('DECRBY', KEYS[1], amount)
""")
ACQUIRE = Script("""
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local time = redis.call('TIME')
local token = math.max(tonumber(redis.call('GET', KEYS[2]) or '0') + 1, time[1] * 1000000 + time[2])
redis.call('SET', KEYS[2], string.format('%.0f', token), 'EX', ARGV[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return token
""")
RENEW = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
""")
RELEASE = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
""")


@asynccontextmanager
async def open_redis(where: Address, clock: Clock, *, failed: Callable[[str, BaseException], None]) -> AsyncGenerator[Shared]:
    """All three on one server, while the block runs."""
    link = Link(where, clock)
    bus = RedisBus(link, clock, failed=failed)
    try:
        async with bus.running():
            yield Shared(counters=RedisCounters(link, clock), bus=bus, leases=TtlLeases(RedisTable(link), clock, failed=failed))
    finally:
        await link.aclose()


class RedisCounters:
    """Counters that all processes on a server share."""

    def __init__(self, link: Link, clock: Clock) -> None:
        self._link = link
        self._clock = clock

    async def add(self, key: str, amount: int, *, until: float) -> int:
        """See `Counters`."""
        total = await self._link.run(ADD, self._keys(key), checked_amount(amount), self._left(until))
        if total == PASSED:
            raise OverflowError(f"the counter `{key}` would pass {MOST}")
        return total

    async def take(self, key: str, amount: int, *, cap: int, until: float) -> int | None:
        """See `Counters`."""
        total = await self._link.run(TAKE, self._keys(key), checked_amount(amount), self._left(until), checked_amount(cap))
        return None if total == REFUSED else total

    async def give(self, key: str, amount: int) -> None:
        """See `Counters`."""
        await self._link.run(GIVE, self._keys(key), checked_amount(amount))

    async def read(self, key: str) -> int:
        """See `Counters`."""
        return int(await self._link.ask("GET", *self._keys(key)) or 0)

    def _keys(self, key: str) -> tuple[str]:
        return (self._link.key("count", key),)

    def _left(self, until: float) -> int:
        """Milliseconds until then."""
        return ceil((until - self._clock.now()) * 1000)


class RedisTable:
    """Who has which lease: the `Table` of all processes on a server."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def acquire(self, name: str, owner: str, seconds: float) -> int | None:
        """See `Table`."""
        keys = (*self._keys(name), self._link.key("token", f"{{{name}}}"))
        return await self._link.run(ACQUIRE, keys, owner, int(seconds * 1000), TOKEN_KEPT) or None

    async def renew(self, name: str, owner: str, seconds: float) -> bool:
        """See `Table`."""
        return bool(await self._link.run(RENEW, self._keys(name), owner, int(seconds * 1000)))

    async def release(self, name: str, owner: str) -> None:
        """See `Table`."""
        await self._link.run(RELEASE, self._keys(name), owner)

    def _keys(self, name: str) -> tuple[str]:
        return (self._link.key("lease", f"{{{name}}}"),)  # braces: both keys are on one node of a cluster


class RedisBus(Switchboard):
    """Messages to all processes on a server, over one channel of it, which every process listens to.

    Args:
        link: the server.
        clock: the time.
        failed: told of an outage, once, and of what a subscriber raised.
    """

    def __init__(self, link: Link, clock: Clock, *, failed: Callable[[str, BaseException], None]) -> None:
        super().__init__(failed)
        self._link = link
        self._clock = clock
        self._told = failed
        self._channel = link.key(str(link.address.db), "bus")  # channels do not belong to a database, as keys do
        self.listening = asyncio.Event()
        """Set while messages arrive here."""

    async def publish(self, channel: str, message: bytes) -> None:
        """See `Bus`."""
        await self._link.ask("PUBLISH", self._channel, channel.encode() + b"\n" + message)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Listen while the block runs. Whenever that begins anew, subscribers are told of a gap."""
        async with Tasks(self._told) as tasks:
            tasks.start(self._listen(), name="bus")
            yield

    async def _listen(self) -> None:
        failures = 0
        while True:
            try:
                async with self._link.wire() as wire:
                    await self._subscribe(wire)
                    failures = 0
                    self.listening.set()
                    self.gap()
                    await self._hear(wire)
            except StoreUnavailable as error:
                failures += 1
                if failures == 1:
                    self._told("bus", error)
            finally:
                self.listening.clear()
            await self._clock.sleep(pause(failures))

    async def _subscribe(self, wire: Wire) -> None:
        with self._link.told():
            await wire.send_command("SUBSCRIBE", self._channel)
            await self._next(wire)

    async def _hear(self, wire: Wire) -> None:
        with self._link.told():
            while True:
                match await self._next(wire):
                    case [b"message", _, bytes() as packed]:
                        channel, _, message = packed.partition(b"\n")
                        self.deliver(channel.decode(errors="replace"), message)
                    case _:
                        pass  # the answer to a question for a sign of life

    async def _next(self, wire: Wire) -> Any:
        """What comes next. Raises: `TimeoutError`, where nothing does though we asked for it."""
        for _ in range(2):
            if (answer := await wire.read_response(timeout=QUIET)) is not None:
                return answer
            await wire.send_command("PING")
        raise TimeoutError
