"""The way to the server: deadlines, pauses, what is told of failures."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from redis.asyncio.connection import Connection

from tests.fakes.clock import FakeClock
from tests.fakes.cut import Cut
from tests.services import REDIS
from tests.store.shared.places import Failures, link_to
from trunkline.base.clock import SystemClock
from trunkline.base.secret import Secret
from trunkline.errors import ConfigInvalid, StoreUnavailable
from trunkline.store.shared.address import address
from trunkline.store.shared.contract import pause
from trunkline.store.shared.link import MOST_CONNECTIONS, Link
from trunkline.store.shared.redis import RedisCounters, open_redis

needs_redis = pytest.mark.needs("redis")
LATER = 1e12
"""An end that is far away for both clocks."""


@pytest.fixture
def cut() -> Iterator[Cut]:
    with Cut(os.environ[REDIS]) as line:
        yield line


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def link(cut: Cut, redis_prefix: str, clock: FakeClock) -> AsyncIterator[Link]:
    link = link_to(cut.url, redis_prefix, clock, deadline=0.5)
    yield link
    await link.aclose()


# ------------------------------------------------------------------------------------------------------------ outages
@needs_redis
@pytest.mark.proves("shared.outage")
async def test_a_server_that_was_away_is_used_again_without_a_restart(cut: Cut, link: Link, clock: FakeClock) -> None:
    counters, until = RedisCounters(link, clock), clock.now() + 60
    assert await counters.add("k", 1, until=until) == 1
    cut.cut()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await counters.add("k", 1, until=until)
    cut.mend()
    with pytest.raises(StoreUnavailable, match="is away") as caught:
        await counters.add("k", 1, until=until)
    assert caught.value.retry_after == pause(2)
    clock.advance(pause(2))
    assert await counters.add("k", 1, until=until) == 2


@needs_redis
async def test_one_connection_that_was_lost_while_idle_is_no_failure(cut: Cut, link: Link, clock: FakeClock) -> None:
    counters, until = RedisCounters(link, clock), clock.now() + 60
    for total in range(1, 5):
        assert await counters.add("k", 1, until=until) == total
        await asyncio.to_thread(cut.cut)
        await asyncio.to_thread(cut.mend)
        await asyncio.sleep(0)


@needs_redis
async def test_a_connection_that_breaks_before_the_command_is_sent_is_replaced(
    link: Link, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing_to_see(_: object) -> bool:
        return False

    counters, until = RedisCounters(link, clock), clock.now() + 60
    assert await counters.add("k", 1, until=until) == 1
    monkeypatch.setattr(Connection, "can_read", nothing_to_see)
    link._idle[0]._writer.transport.abort()
    await asyncio.sleep(0)
    assert await counters.add("k", 1, until=until) == 2


@needs_redis
async def test_calls_during_an_outage_fail_at_once_and_the_pauses_grow(cut: Cut, link: Link, clock: FakeClock) -> None:
    await link.ask("PING")
    cut.cut()
    pauses = []
    for _ in range(9):
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await link.ask("PING")
        left = link._closed_until - clock.monotonic()
        pauses.append(left)
        if left > 0:
            for _ in range(100):
                with pytest.raises(StoreUnavailable, match="is away"):
                    await link.ask("PING")
        clock.advance(left)
    assert pauses == pytest.approx([0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2, 2])
    cut.mend()
    assert await link.ask("PING") in {b"PONG", "PONG"}
    cut.cut()
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await link.ask("PING")
    assert link._closed_until <= clock.monotonic(), "after a success it begins anew"


@needs_redis
@pytest.mark.proves("shared.outage")
async def test_a_server_that_does_not_answer_costs_a_call_its_deadline_and_no_more(cut: Cut, link: Link) -> None:
    await link.ask("PING")
    cut.stall()
    loop = asyncio.get_running_loop()
    began = loop.time()
    answers = await asyncio.gather(*(link.ask("PING") for _ in range(3 * MOST_CONNECTIONS)), return_exceptions=True)
    assert all(isinstance(answer, StoreUnavailable) and "in time" in answer.message for answer in answers)
    assert loop.time() - began < 5
    assert link._failures == 1, "those that fail together are one failure"
    cut.mend()
    assert await link.ask("PING") is not None


@needs_redis
async def test_a_call_whose_answer_did_not_come_is_never_made_again(cut: Cut, link: Link, redis_url: str, redis_prefix: str) -> None:
    near = link_to(redis_url, redis_prefix)
    for _ in range(5):
        await link.ask("PING")
        cut.stall()
        with pytest.raises(StoreUnavailable):
            await link.ask("INCR", link.key("n"))
        cut.mend()
        link._failures = 0
    assert int(await near.ask("GET", link.key("n")) or 0) <= 5
    await near.ask("DEL", link.key("n"))
    await near.aclose()


@needs_redis
async def test_a_call_that_is_cancelled_leaves_no_answer_for_the_next_one(link: Link) -> None:
    for _ in range(20):
        task = asyncio.get_running_loop().create_task(link.ask("ECHO", "first"))
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await link.ask("ECHO", "second") == b"second"


@needs_redis
async def test_connections_are_used_again_and_never_more_than_so_many(cut: Cut, link: Link) -> None:
    for _ in range(50):
        await link.ask("PING")
    assert cut.connections == 1
    link._deadline = 10
    await asyncio.gather(*(link.ask("PING") for _ in range(10 * MOST_CONNECTIONS)))
    assert cut.connections <= MOST_CONNECTIONS


@needs_redis
async def test_a_server_that_forgot_the_scripts_is_given_them_again(
    link: Link, clock: FakeClock, redis_url: str, redis_prefix: str
) -> None:
    counters = RedisCounters(link, clock)
    await link.ask("SCRIPT", "FLUSH")
    assert await counters.add("k", 2, until=clock.now() + 9) == 2
    assert await counters.take("k", 2, cap=9, until=clock.now() + 9) == 4


@needs_redis
async def test_a_server_need_not_be_there_at_the_start(redis_prefix: str, failed: Failures) -> None:
    with Cut(os.environ[REDIS]) as cut:
        cut.cut()
        where = replace(address(Secret(cut.url)), prefix=redis_prefix)
        async with asyncio.timeout(20), open_redis(where, SystemClock(), failed=failed) as shared:
            with pytest.raises(StoreUnavailable):
                await shared.counters.add("k", 1, until=LATER)
            with pytest.raises(StoreUnavailable):
                await shared.bus.publish("c", b"1")
            with pytest.raises(StoreUnavailable):
                async with shared.leases.held("n"):
                    pytest.fail("nobody can know who has it")
            cut.mend()
            await shared.bus.listening.wait()
            async with shared.leases.held("n") as lease:
                assert lease.held


# ------------------------------------------------------------------------------------------------- what a server answers
@asynccontextmanager
async def server(answer: bytes) -> AsyncIterator[str]:
    """A server that answers everything alike, behind a password."""

    tasks: set[asyncio.Task[None] | None] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        while await reader.read(4096):
            writer.write(answer)
            await writer.drain()
            if answer == b"":
                break
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with listening:
        try:
            yield f"redis://ann:hunter2@127.0.0.1:{listening.sockets[0].getsockname()[1]}/0"
        finally:
            await asyncio.gather(*tasks)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"-WRONGPASS invalid username-password pair or user is disabled.\r\n", "does not accept"),
        (b"-NOAUTH Authentication required.\r\n", "does not accept"),
        (b"-NOPERM this user has no permissions to run the 'auth' command\r\n", "does not accept"),
        (b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "no memory left"),
        (b"-READONLY You can't write against a read only replica.\r\n", "replica"),
        (b"-LOADING Redis is loading the dataset in memory\r\n", "loading"),
        (b"-MISCONF Redis is configured to save RDB snapshots\r\n", "MISCONF"),
        (b"-ERR unknown command hunter2\r\n", "refused a command (ERR)"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "cannot be reached"),
        (b"", "cannot be reached"),
    ],
    ids=lambda value: value[:9].decode() if isinstance(value, bytes) else "",
)
async def test_what_a_server_refuses_is_told_in_words_without_the_password(answer: bytes, words: str) -> None:
    async with server(answer) as url:
        link = Link(address(Secret(url)), FakeClock())
        with pytest.raises(StoreUnavailable) as caught:
            await link.ask("SET", "k", "hunter2")
        await link.aclose()
        assert words in caught.value.message
        assert "127.0.0.1:" in caught.value.message
        assert caught.value.hint
        assert "hunter2" not in caught.value.sentence + repr(link.address) + repr(caught.value.facts)


# -------------------------------------------------------------------------------------------------------------- the URL
@pytest.mark.parametrize(
    ("url", "place", "expected"),
    [
        ("redis://host", "host:6379", {"kind": "tcp", "db": 0, "prefix": "trunkline", "username": None, "password": None}),
        ("valkey://host:1234/7", "host:1234", {"kind": "tcp", "db": 7}),
        ("rediss://ann:p%40ss@host/0", "host:6379", {"kind": "tls", "username": "ann", "password": Secret("p@ss")}),
        ("valkeys://:p%2Fss@host?prefix=acme", "host:6379", {"kind": "tls", "password": Secret("p/ss"), "prefix": "acme"}),
        ("redis://[::1]:99/", "::1:99", {"host": "::1"}),
        ("unix:///run/valkey.sock?prefix=a.b-c_d:e", "/run/valkey.sock", {"kind": "unix", "prefix": "a.b-c_d:e"}),
    ],
)
def test_a_url_says_where_a_server_is(url: str, place: str, expected: dict[str, object]) -> None:
    read = address(Secret(url))
    assert read.place == place
    assert {name: getattr(read, name) for name in expected} == expected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hunter2",
        "http://hunter2@host",
        "redis://",
        "redis://:hunter2@/0",
        "redis://:hunter2/0@host",
        "redis://:hunter2?x@host",
        "redis://ann:hunter2@host:port/0",
        "redis://ann:hunter2@host/name",
        "redis://ann:hunter2@host/0?password=x",
        "redis://ann:hunter2@host/0?prefix=",
        "redis://ann:hunter2@host/0?prefix=a*",
        "redis://ann:hunter2@host/0?ca=/etc/hostname",
        "rediss://ann:hunter2@host/0?ca=/nowhere.pem",
        "unix://",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        address(Secret(url))
    assert "hunter2" not in caught.value.sentence
    assert "store.shared" in caught.value.message
    assert caught.value.hint


def test_tls_is_checked_and_goes_by_the_authority_that_was_named() -> None:
    where = replace(address(Secret("rediss://host")), authority="/ca.pem")
    context = Link(where, FakeClock())._made().ssl_context
    assert (context.ca_certs, context.check_hostname, context.cert_reqs.name) == ("/ca.pem", True, "CERT_REQUIRED")
