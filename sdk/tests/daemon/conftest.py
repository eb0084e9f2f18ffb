"""Daemons on loopback, asked by our HTTP client; nothing of them may be left at the end."""

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop

from trunkline_sdk.daemon.server import Daemon
from trunkline_sdk.http1 import Client, Response, Timeouts
from trunkline_sdk.listen import Listener

PREFIX = "/extension/v1/"
ROOT = Path(__file__).parents[3]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        error = self.json["error"]
        return error if isinstance(error, str) else error["message"]


class Asking:
    """One daemon, and a product that asks it by hand."""

    def __init__(self, daemon: Daemon, listener: Listener, client: Client, secret: str) -> None:
        self.daemon = daemon
        self.listener = listener
        self._client = client
        self._secret = secret

    @property
    def url(self) -> str:
        return self.listener.urls[0]

    async def open(self, route: str, body: bytes | None = None, *, method: str = "", headers: Mapping[str, str] | None = None) -> Response:
        fields = {"authorization": f"Bearer {self._secret}"} if self._secret else {}
        fields |= headers or {}
        pairs = [(name.encode(), value.encode()) for name, value in fields.items()]
        return await self._client.request(method or ("GET" if body is None else "POST"), self.url + PREFIX + route, pairs, body or b"")

    async def ask(self, route: str, body: bytes | Any = None, **options: Any) -> Answer:
        """What comes back for a body of bytes, or of JSON."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        async with asyncio.timeout(10), await self.open(route, body, **options) as response:
            headers = {name.decode().lower(): value.decode() for name, value in response.headers}
            return Answer(response.status, headers, await response.read())

    async def operate(self, model: str, *, route: str = "conf_chat/invoke", body: bytes = b"{}", **headers: str) -> Answer:
        return await self.ask(route, body, headers=operation(model, **headers))


def operation(model: str, **headers: str) -> dict[str, str]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"x-surface": "chat_completions", "x-model": model, "content-type": "application/json"} | given


class Site:
    """Daemons and who asks them."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def serve(self, daemon: Daemon, *, secret: str = "", **options: Any) -> Asking:
        self._stack.push_async_callback(daemon.aclose)
        listener = await self._stack.enter_async_context(Listener(daemon, **options))
        client = await self._stack.enter_async_context(Client(timeouts=Timeouts(first_byte=10, silence=10)))
        return Asking(daemon, listener, client, secret)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    async with AsyncExitStack() as stack:
        yield Site(stack)
    assert faults == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until it holds."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


async def pieces_of(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def records(body: bytes) -> Sequence[bytes]:
    return [record + b"\n\n" for record in body.split(b"\n\n")[:-1]]


@asynccontextmanager
async def program(*arguments: str | Path, **environment: str) -> AsyncIterator[tuple[Process, str]]:
    """A daemon as a program of its own, and where it says that it listens."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=PIPE, stderr=STDOUT, env={**os.environ, "PORT": "0", "PYTHONWARNINGS": "error", **environment}
    )
    assert process.stdout is not None
    said, found = "", None
    try:
        async with asyncio.timeout(30):
            while found is None:
                line = (await process.stdout.readline()).decode()
                said += line
                assert line, said
                found = re.search(r"http://127\.0\.0\.1:\d+", line)
        yield process, found[0]
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def fixtures_program(**environment: str) -> AbstractAsyncContextManager[tuple[Process, str]]:
    path = os.pathsep.join([str(ROOT), *sys.path])
    return program("-m", "sdk.tests.daemon.fixtures_daemon", PYTHONPATH=path, **environment)
