"""The same counters, bus and leases in memory and on a server, with time that a test owns."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

import redis as library

from tests.fakes.clock import FakeClock
from trunkline.base.clock import Clock, SystemClock
from trunkline.base.secret import Secret
from trunkline.store.shared.address import address
from trunkline.store.shared.contract import Bus, Counters
from trunkline.store.shared.leases import Table
from trunkline.store.shared.link import Link
from trunkline.store.shared.memory import MemoryBus, MemoryCounters, MemoryTable
from trunkline.store.shared.redis import RedisBus, RedisCounters, RedisTable

PATIENCE = 10.0
"""Seconds for a call in tests that prove something else than deadlines: the machine may be busy."""


class Place(Protocol):
    """Where counters and leases are kept."""

    clock: FakeClock

    def counters(self) -> Counters:
        """Another process's way to the same counters."""
        ...

    def table(self) -> Table:
        """Another process's way to the same leases."""
        ...

    def advance(self, seconds: float) -> None:
        """Let time pass, here and there."""
        ...

    async def aclose(self) -> None: ...


class Memory:
    """One process's memory."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self._counters = MemoryCounters(self.clock)
        self._table = MemoryTable(self.clock)

    def counters(self) -> MemoryCounters:
        return self._counters

    def table(self) -> MemoryTable:
        return self._table

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def aclose(self) -> None:
        pass


class Server:
    """A real server. Its own time cannot be moved, so what ends is moved towards it."""

    def __init__(self, url: str, prefix: str) -> None:
        self.clock = FakeClock()
        self._url, self._prefix = url, prefix
        self._links: list[Link] = []
        self._client = library.Redis.from_url(url)

    def link(self) -> Link:
        self._links.append(link_to(self._url, self._prefix, self.clock))
        return self._links[-1]

    def counters(self) -> RedisCounters:
        return RedisCounters(self.link(), self.clock)

    def table(self) -> RedisTable:
        return RedisTable(self.link())

    def advance(self, seconds: float) -> None:
        for key in self._client.scan_iter(f"{self._prefix}*"):
            left = self._client.pttl(key) - int(seconds * 1000)
            if left > 0:
                self._client.pexpire(key, left)
            else:
                self._client.delete(key)
        self.clock.advance(seconds)

    def clear(self) -> None:
        for key in self._client.scan_iter(f"{self._prefix}*"):
            self._client.delete(key)

    async def aclose(self) -> None:
        for link in self._links:
            await link.aclose()
        self.clear()
        self._client.close()


def link_to(url: str, prefix: str, clock: Clock | None = None, *, deadline: float = PATIENCE) -> Link:
    return Link(replace(address(Secret(url)), prefix=prefix), clock or SystemClock(), deadline=deadline)


@dataclass
class Heard:
    """A subscriber that remembers."""

    messages: list[bytes] = field(default_factory=list)
    gaps: int = 0
    more: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, message: bytes) -> None:
        self.messages.append(message)
        self.more.set()

    def on_gap(self) -> None:
        self.gaps += 1
        self.more.set()

    async def until(self, messages: int = 0, gaps: int = 0) -> None:
        """Return when so many have come."""
        async with asyncio.timeout(PATIENCE):
            while len(self.messages) < messages or self.gaps < gaps:
                self.more.clear()
                await self.more.wait()


class Failures(list[tuple[str, BaseException]]):
    """What was told to `failed`."""

    def __call__(self, name: str, error: BaseException) -> None:
        self.append((name, error))


@asynccontextmanager
async def bus_on(url: str, prefix: str, failed: Failures, *, deadline: float = PATIENCE) -> AsyncGenerator[RedisBus]:
    """A process's bus, listening."""
    link = link_to(url, prefix, deadline=deadline)
    bus = RedisBus(link, SystemClock(), failed=failed)
    try:
        async with bus.running():
            async with asyncio.timeout(PATIENCE):
                await bus.listening.wait()
            yield bus
    finally:
        await link.aclose()


@asynccontextmanager
async def memory_buses(failed: Failures) -> AsyncGenerator[tuple[Bus, Bus]]:
    bus = MemoryBus(failed)
    yield bus, bus


@asynccontextmanager
async def redis_buses(url: str, prefix: str, failed: Failures) -> AsyncGenerator[tuple[Bus, Bus]]:
    async with bus_on(url, prefix, failed) as one, bus_on(url, prefix, failed) as two:
        yield one, two
