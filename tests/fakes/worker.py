"""A broker that meets workers: real channels on a socketpair, the fake internet behind the broker, and workers that do what a test says.

async with ground.meet("weather", ["network:api.example.com"]) as met:
    met.answers["tool"] = tool                              # what the worker does when it is called
    assert await met.asks("network.fetch", {"url": "http://api.example.com/"})
    assert await met.line.call("tool", user="usr_a", seconds=5)
"""

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import StringIO
from typing import Any

from prometheus_client import CollectorRegistry

from tests.fakes.clock import FakeClock
from tests.fakes.internet import Internet
from trunkline.base.egress import Egress, EgressSettings
from trunkline.base.log import LogSettings, open_log
from trunkline.host.broker import Broker, groups
from trunkline.host.grants import Grants
from trunkline.host.line import Line
from trunkline.host.methods.log import Lines
from trunkline.host.methods.network import Network
from trunkline_sdk.channel import Call, Channel
from trunkline_sdk.rpc.messages import Hello
from trunkline_sdk.rpc.peer import Peer

PATIENCE = 5.0

Answers = Callable[[Call], Awaitable[object]]


@dataclass(frozen=True)
class Named:
    name: str


class Meeting:
    """A line, and the worker at its other end."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.answers: dict[str, Answers] = {}
        self.heard: list[tuple[str, Any]] = []
        self.worker = Channel(Peer("worker"), self._handle)

    async def _handle(self, call: Call) -> object:
        if call.method != "call":
            return await self.answers[call.method](call)
        return await self.answers[json.loads(bytes(call.params))["name"]](call)

    async def asks(self, method: str, params: object = None, *, during: int | None = None, **more: Any) -> Any:
        """The worker calls the host."""
        return json.loads(bytes(await self.worker.call(method, params, during=during, seconds=PATIENCE, **more)))


class Ground:
    """What the broker stands on."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.internet = Internet()
        self.registry = CollectorRegistry()
        self._stream = StringIO()
        self.log, self._writer = open_log(LogSettings(format="json", level="debug"), self._stream)
        self.broker = self.make()

    def make(self, *allow: str, stalled: float = 60.0, tls: ssl.SSLContext | None = None) -> Broker:
        """Another broker, with other rules."""
        network = Network(
            Egress(EgressSettings(allow=list(allow))).listed,
            tls=tls,
            stalled=stalled,
            resolve=self.internet.resolve,
            connect=self.internet.connect,
        )
        self.registry = CollectorRegistry()
        return Broker(groups(), [network, Lines(self.log)], clock=self.clock, log=self.log, registry=self.registry)

    def lines(self, event: str) -> list[dict[str, Any]]:
        """What was logged about something; the log ends with that."""
        self._writer.close()
        found = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [line for line in found if line["event"] == event]

    def close(self) -> None:
        self._writer.close()

    @asynccontextmanager
    async def meet(self, name: str, granted: Iterable[str] = (), *, operator: Iterable[str] = ()) -> AsyncGenerator[Meeting]:
        """A worker that means well, until a test says otherwise."""
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        async with self.broker.handler(Named(name), Grants(granted, operator=operator)) as line:
            met = Meeting(line)
            channel = line.open(Peer("host"), heard=lambda method, params: met.heard.append((method, json.loads(bytes(params)))))
            await loop.connect_accepted_socket(lambda: channel, ours)
            await loop.connect_accepted_socket(lambda: met.worker, theirs)

            async def welcome() -> None:
                channel.welcome(await channel.greeted())

            await asyncio.gather(welcome(), met.worker.hello(Hello(sdk="test")))
            yield met
            met.worker.close()
            await met.worker.drained()

    @asynccontextmanager
    async def liar(self, name: str, granted: Iterable[str] = ()) -> AsyncGenerator["Liar"]:
        """A worker that writes whatever it likes, and has said hello."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        async with self.broker.handler(Named(name), Grants(granted)) as line:
            channel = line.open(Peer("host"))
            await asyncio.get_running_loop().connect_accepted_socket(lambda: channel, ours)
            with theirs:
                liar = Liar(line, theirs)
                await liar.send({"method": "hello", "params": {"sdk": "test"}})
                channel.welcome(await channel.greeted())
                assert (await liar.next())["method"] == "welcome"
                yield liar


class Liar:
    """The raw end of a worker."""

    def __init__(self, line: Line, sock: socket.socket) -> None:
        self.line = line
        self._sock = sock
        self._buffer = b""

    async def send(self, *messages: object) -> None:
        """Messages as they stand."""
        await self.raw(b"".join(frame(json.dumps(each).encode()) for each in messages))

    async def raw(self, data: bytes) -> None:
        async with asyncio.timeout(PATIENCE):  # `wait_for` of Python 3.11 may swallow a cancellation
            await asyncio.get_running_loop().sock_sendall(self._sock, data)

    async def next(self) -> Any:
        """The host's next message."""
        (length,) = struct.unpack("!I", await self._take(4))
        body = await self._take(length)
        return json.loads(body[1:]) if body[0] == 0 else body

    async def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            async with asyncio.timeout(PATIENCE):
                more = await asyncio.get_running_loop().sock_recv(self._sock, 65536)
            assert more, "the host has closed"
            self._buffer += more
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken


def frame(body: bytes, kind: int = 0) -> bytes:
    return struct.pack("!IB", len(body) + 1, kind) + body
