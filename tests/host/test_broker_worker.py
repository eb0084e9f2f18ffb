"""A real worker in its sandbox, which reaches the network by the broker and in no other way."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes.upstream import NEVER, Upstream
from tests.fakes.worker import Ground, Named
from trunkline.host.grants import Grants
from trunkline.host.line import Line
from trunkline.host.sandbox.features import detect
from trunkline.host.sandbox.launch import Launcher, Program
from trunkline.host.sandbox.policy import Policy
from trunkline.host.sandbox.users import Users
from trunkline_sdk.channel import Incoming
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.rpc.peer import Peer
from trunkline_sdk.worker import PROGRAM

pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("sandbox")]

SOON = 20.0

CODE = """
import base64
import socket

async def fetch(params, call):
    call.log.info("fetching", user="usr_b")
    answer = await call.network.fetch(params["url"], headers={"accept": "text/plain"})
    return [answer.status, answer.body.decode(), call.user]

async def relay(params, call):
    async with call.network.stream(params["url"]) as answer:
        async for piece in answer.body:
            yield piece

def escape(params, call):
    socket.create_connection(("127.0.0.1", params))

def activate(context):
    context.handle("fetch", fetch)
    context.handle("relay", relay)
    context.handle("escape", escape)
"""


@pytest.fixture
async def ground() -> AsyncGenerator[Ground]:
    made = Ground()
    yield made
    made.close()


@pytest.fixture
async def line(ground: Ground, upstream: Upstream, tmp_path: Path) -> AsyncGenerator[Line]:
    ground.internet.put("api.example.com", "8.8.8.8", upstream.base_url)
    folder = tmp_path / "extension"
    folder.mkdir()
    (folder / "main.py").write_text(CODE, encoding="utf-8")
    policy = Policy(folder=str(folder.resolve()), user=Users().take() if os.geteuid() == 0 else None)
    program = Program(file=PROGRAM, arguments={"name": "weather", "folder": policy.folder})
    async with ground.broker.handler(Named("weather"), Grants(["network:api.example.com"])) as made:
        with (tmp_path / "log").open("wb") as log:
            launched = await Launcher(await detect()).launch(policy, program, stdout=log.fileno(), stderr=log.fileno())
        try:
            channel = made.open(Peer("host"))
            await asyncio.get_running_loop().connect_accepted_socket(lambda: channel, launched.sock)
            channel.welcome(await asyncio.wait_for(channel.greeted(), SOON))
            await channel.call("activate", seconds=SOON)
            yield made
        finally:
            launched.kill()
            await launched.wait()


async def call(line: Line, name: str, params: object, **more: Any) -> Any:
    return msgspec.json.decode(await line.call(name, params, user="usr_a", seconds=SOON, **more))


@pytest.mark.proves("host.network", "host.context")
async def test_a_worker_fetches_from_a_granted_host_and_from_no_other(ground: Ground, upstream: Upstream, line: Line) -> None:
    upstream.answers(200, b"sunny")
    assert await call(line, "fetch", {"url": "http://api.example.com/"}) == [200, "sunny", "usr_a"]
    for url in ("http://other.example.com/", "http://127.0.0.1/"):
        with pytest.raises(RpcError) as refused:
            await call(line, "fetch", {"url": url})
        assert (refused.value.code, refused.value.extension) == ("permission_denied", "weather")
    with pytest.raises(RpcError, match="failed with PermissionError"):
        await call(line, "escape", int(upstream.base_url.rpartition(":")[2]))
    assert (len(upstream.calls), upstream.connections) == (1, 1)
    said = ground.lines("extension log")
    assert [(each["extension"], each["user"], each["fields"]) for each in said] == [("weather", "usr_a", {"user": "usr_b"})] * 3


@pytest.mark.proves("host.streams")
async def test_a_stream_goes_through_a_worker_and_its_end_goes_back_to_the_socket(upstream: Upstream, line: Line) -> None:
    upstream.streams([b"one", b"two"])
    upstream.streams([b"begun", NEVER])
    streams: asyncio.Queue[Incoming] = asyncio.Queue()
    calling = asyncio.create_task(call(line, "relay", {"url": "http://api.example.com/"}, opened=streams.put_nowait))
    stream = await asyncio.wait_for(streams.get(), SOON)
    assert b"".join([piece async for piece in stream]) == b"onetwo"
    assert await calling is None
    calling = asyncio.create_task(call(line, "relay", {"url": "http://api.example.com/"}, opened=streams.put_nowait))
    stream = await asyncio.wait_for(streams.get(), SOON)
    assert await asyncio.wait_for(anext(stream), SOON) == b"begun"
    calling.cancel()  # whoever asked has left
    await upstream.disconnected(timeout=SOON)
    with pytest.raises(asyncio.CancelledError):
        await calling
