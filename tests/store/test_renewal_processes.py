"""Sign-ins among real processes: renewed together, killed while they are; over a strict OAuth server that takes a refresh token once."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.authorization import AuthorizationServer
from tests.fakes.daemon import FakeDaemon
from tests.services import REDIS
from tests.store.renewer import SIGNED
from trunkline.access.connection_rows import ConnectionRows, Place
from trunkline.access.key_sources import FileSource
from trunkline.access.token_store import TokenStore
from trunkline.access.vault import Vault
from trunkline.base.clock import SystemClock
from trunkline.store.engine import open_engine
from trunkline.store.shared.file_lease import FileLeases
from trunkline_sdk.daemon.client import Client
from trunkline_sdk.daemon.messages import Flow, OAuthStartRequest
from trunkline_sdk.daemon.server import DaemonLimits

SCRIPT = Path(__file__).with_name("renewer.py")
EXPIRIES, CALLS = 20, 100
HOUR = 3600.0
TTL = 3.0
PATIENCE = 60.0
KEY = Place("", "", SIGNED).key
FORGETS = DaemonLimits(remembered_seconds=0)


class Site:
    """A database with a sign-in, the daemon that renews it, and processes that use it."""

    def __init__(self, stack: AsyncExitStack, url: str, folder: Path, leases: str) -> None:
        self._stack = stack
        self._url = url
        self._key = folder / "vault.key"
        self._leases = leases
        self.auth = AuthorizationServer()
        self.daemon = FakeDaemon("http://127.0.0.1:9", self.auth)

    async def begin(self, *, limits: DaemonLimits) -> None:
        await self._stack.enter_async_context(self.auth)
        self.daemon = FakeDaemon("http://127.0.0.1:9", self.auth, limits=limits)
        await self._stack.enter_async_context(self.daemon)
        await self.sign_in()

    async def sign_in(self) -> None:
        """As a person does, with a code."""
        engine = open_engine(self._url)
        rows = ConnectionRows(engine, Vault(engine, FileSource(self._key)), SystemClock())
        async with Client(self.daemon.url) as client:
            driver = client.driver("signed")
            begun = await driver.start(OAuthStartRequest(method="device"))
            self.auth.approve(begun.user_code)
            result = await driver.poll(Flow(method="device", secrets=begun.secrets))
        with ThreadPoolExecutor(1) as threads:
            await TokenStore(rows, FileLeases(self._key.parent / "none", SystemClock()), threads, SystemClock()).save(KEY, result.record)
        engine.dispose()

    async def process(self) -> "User":
        argv = [sys.executable, str(SCRIPT), self._url, self._leases, str(TTL), str(self._key), self.daemon.url]
        process = await asyncio.create_subprocess_exec(*argv, stdin=PIPE, stdout=PIPE)
        user = User(process)
        self._stack.push_async_callback(user.end)
        async with asyncio.timeout(PATIENCE):
            assert await user.line() == "ready"
        return user


class User:
    """A process that uses the sign-in."""

    def __init__(self, process: Process) -> None:
        self.process = process

    async def line(self) -> str:
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode().strip()

    def ask(self, ahead: float, calls: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{ahead} {calls}\n".encode())

    async def came(self, ahead: float, calls: int = CALLS) -> Any:
        self.ask(ahead, calls)
        async with asyncio.timeout(PATIENCE):
            return json.loads(await self.line())

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@pytest.fixture
async def site(url: str, tmp_path: Path, redis_prefix: str) -> AsyncGenerator[Site]:
    """Leases by files beside SQLite; beside PostgreSQL on the other server, where there is one."""
    server = os.environ.get(REDIS)
    file = url.startswith("sqlite") or server is None
    async with AsyncExitStack() as stack:
        yield Site(stack, url, tmp_path, str(tmp_path / "leases") if file else f"{server}?prefix={redis_prefix.rstrip(':')}")


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.proves("connections.once")
async def test_two_processes_with_a_hundred_calls_each_renew_once_in_each_of_twenty_expiries(site: Site) -> None:
    await site.begin(limits=FORGETS)
    users = [await site.process(), await site.process()]
    seen: set[str] = set()
    for number in range(1, EXPIRIES + 1):
        site.auth.lifetime = (number + 1) * HOUR  # by the processes' clocks each token is good for an hour
        came = await asyncio.gather(*(user.came(number * HOUR) for user in users))
        assert [each["errors"] for each in came] == [[], []]
        [token] = {token for each in came for token in each["tokens"]}
        assert token not in seen
        seen.add(token)
        assert site.auth.refreshes == sum(each["asked"] for each in came) == number
    assert site.auth.violations == []


@asynccontextmanager
async def killed_while_it_renews(site: Site, limits: DaemonLimits) -> AsyncGenerator[User]:
    """Another process, after one was killed that had a refresh token exchanged and not yet got the answer."""
    await site.begin(limits=limits)
    dies, lives = await site.process(), await site.process()
    site.auth.lifetime = 3 * HOUR
    site.auth.hold()
    dies.ask(HOUR, 1)
    await until(lambda: site.auth.held)
    dies.process.kill()
    await dies.process.wait()
    site.auth.release()
    await until(lambda: not site.auth.held)
    yield lives


@pytest.mark.proves("connections.killed")
async def test_a_sign_in_survives_a_process_that_is_killed_while_it_renews(site: Site) -> None:
    async with killed_while_it_renews(site, DaemonLimits()) as lives:
        for number, ahead in enumerate((HOUR, 3 * HOUR), 1):
            came = await lives.came(ahead)
            assert (came["errors"], came["asked"], site.auth.refreshes) == ([], number, number)
            [token] = came["tokens"]
            assert site.auth.account_of(token) == "account-1"
    assert site.auth.violations == []


@pytest.mark.proves("connections.killed", "connections.revoked")
async def test_where_the_daemon_forgets_the_answer_a_person_signs_in_again(site: Site) -> None:
    async with killed_while_it_renews(site, FORGETS) as lives:
        await until(lambda: not site.daemon.daemon._renewals._tasks)
        came = await lives.came(HOUR)
        assert (came["errors"], came["tokens"]) == (["sign_in_needed"], [])
        await site.sign_in()
        came = await retried(lives)
        assert (came["errors"], len(came["tokens"])) == ([], 1)
    assert site.auth.violations == ["a refresh token was used twice"]


async def retried(user: User) -> Any:
    """What comes once the process has seen the new sign-in, which it does within seconds."""
    async with asyncio.timeout(PATIENCE):
        while (came := await user.came(HOUR))["errors"]:
            await asyncio.sleep(0.05)
    return came
