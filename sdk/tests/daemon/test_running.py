"""A daemon is bound, served and ended."""

import asyncio
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from sdk.tests.daemon.conftest import PREFIX, operation
from sdk.tests.daemon.fixtures_daemon import Fixtures
from trunkline_sdk import http1
from trunkline_sdk.daemon.messages import ProviderInfo
from trunkline_sdk.daemon.server import Backend, Daemon
from trunkline_sdk.daemon.server.running import Exposed, named, run
from trunkline_sdk.http1 import Client


class Running:
    """A daemon in a task of its own, until a signal."""

    def __init__(self, daemon: Daemon, **options: Any) -> None:
        self._urls: asyncio.Future[tuple[str, ...]] = asyncio.get_running_loop().create_future()
        self.task = asyncio.get_running_loop().create_task(run(daemon, ready=self._urls.set_result, **{"port": 0, **options}))

    async def url(self) -> str:
        await asyncio.wait([self.task, self._urls], timeout=10, return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            await self.task
        return (await self._urls)[0]


def tell(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


async def ask(client: Client, url: str, model: str, route: str) -> bytes:
    headers = [(name.encode(), value.encode()) for name, value in operation(model).items()]
    async with await client.request("POST", url + PREFIX + route, headers, b"{}") as response:
        return await response.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_ends_at_a_signal(number: int) -> None:
    running = Running(Fixtures())
    url = await running.url()
    async with asyncio.timeout(10), Client() as client:
        assert await ask(client, url, "echo", "conf_chat/invoke") == b"{}"
        tell(number)
        await running.task
    with pytest.raises(http1.ConnectFailed):
        async with Client() as client:
            await client.request("GET", url)


async def test_those_who_are_being_answered_may_finish() -> None:
    running = Running(Fixtures(), drain_seconds=10)
    url = await running.url()
    async with asyncio.timeout(10), Client() as client:
        headers = [(name.encode(), value.encode()) for name, value in operation("drip").items()]
        response = await client.request("POST", url + PREFIX + "conf_chat/stream", headers, b"{}")
        tell()
        assert (await response.read()).endswith(b"data: [DONE]\n\n")
        await running.task


@pytest.mark.parametrize("how", ["late", "second signal"])
async def test_those_who_are_late_are_broken_off(how: str) -> None:
    daemon = Fixtures()
    running = Running(daemon, drain_seconds=0.05 if how == "late" else 60)
    url = await running.url()
    async with asyncio.timeout(10), Client() as client:
        headers = [(name.encode(), value.encode()) for name, value in operation("slow-stream").items()]
        response = await client.request("POST", url + PREFIX + "conf_chat/stream", headers, b"{}")
        assert await anext(response.body) == b'data: {"n":1}\n\n'
        tell()
        if how != "late":
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, tell)
        with pytest.raises(http1.BodyCut):
            await response.read()
        await running.task
    assert daemon.chat.cancelled == 1


async def test_without_a_secret_it_stays_on_this_machine(caplog: pytest.LogCaptureFixture) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "daemon.internal", ""):
        with pytest.raises(Exposed, match="give it a secret"):
            await run(Fixtures(), host=host, port=0)
    running = Running(Fixtures())
    await running.url()
    tell()
    async with asyncio.timeout(10):
        await running.task
    assert "no secret: every program on this machine" in caplog.text


async def test_with_a_secret_it_may_be_told_to_leave_it(caplog: pytest.LogCaptureFixture) -> None:
    running = Running(Fixtures("secret-1"), host="0.0.0.0")
    await running.url()
    tell()
    async with asyncio.timeout(10):
        await running.task
    assert "without TLS" in caplog.text
    assert "secret-1" not in caplog.text


async def test_a_unix_socket_needs_no_secret(tmp_path: Path) -> None:
    running = Running(Fixtures(), unix=tmp_path / "d.sock")
    assert await running.url() == f"unix:{tmp_path / 'd.sock'}"
    tell()
    async with asyncio.timeout(10):
        await running.task


async def test_an_address_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Exception, match=f"cannot listen on 127.0.0.1:{port}"):
            await run(Fixtures("s"), port=port)


def test_the_host_that_is_served_is_one_of_its_names() -> None:
    assert [named(host) for host in ("10.0.0.5", "daemon.internal", "0.0.0.0", "::", "")] == [
        ["10.0.0.5"],
        ["daemon.internal"],
        [],
        [],
        [],
    ]


@pytest.mark.parametrize("names", [["info"], ["a/b"], [""], ["é"], ["a" * 129], [".."], ["a", "a"]])
def test_ids_that_cannot_be(names: list[str]) -> None:  # I.16
    class Named(Backend):
        def __init__(self, name: str) -> None:
            self.info = ProviderInfo(id=name)

    with pytest.raises(ValueError, match="id"):
        Daemon(*map(Named, names))


async def test_it_serves_http_alone() -> None:
    with pytest.raises(ValueError, match="not websocket"):
        await Fixtures()({"type": "websocket", "headers": []}, None, None)
