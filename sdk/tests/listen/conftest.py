"""A raw client, because the listener is judged by bytes; every test runs on both event loops."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop

from trunkline_sdk.listen import Listener

Handler = Callable[[dict[str, Any], Callable[[], Awaitable[Any]], Callable[[dict[str, Any]], Awaitable[None]]], Awaitable[None]]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def get(self, path: str = "/", *headers: str, version: str = "1.1") -> None:
        self.send("\r\n".join([f"GET {path} HTTP/{version}", "host: t", *headers, "", ""]).encode())

    def post(self, body: bytes, *headers: str, path: str = "/") -> None:
        self.send("\r\n".join([f"POST {path} HTTP/1.1", "host: t", f"content-length: {len(body)}", *headers, "", ""]).encode() + body)

    async def head(self) -> tuple[int, dict[str, str]]:
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1").split("\r\n")
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1"
        fields = [line.partition(": ")[::2] for line in lines]
        assert len(dict(fields)) == len(fields), "a header comes twice"
        return int(status), dict(fields)

    async def answer(self) -> Answer:
        async with asyncio.timeout(10):
            status, headers = await self.head()
            if "content-length" in headers:
                return Answer(status, headers, await self.reader.readexactly(int(headers["content-length"])))
            body = b""
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            assert await self.reader.readexactly(2) == b"\r\n"
            return Answer(status, headers, body)

    async def rest(self) -> bytes:
        """What still comes until the other side closes."""
        async with asyncio.timeout(10):
            return await self.reader.read()

    async def leave(self) -> None:
        if not self.writer.is_closing():
            self.writer.transport.abort()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


async def echo(scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    body = b""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message["body"]
        more = message["more_body"]
    body = body or scope["path"].encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


class House:
    """Listeners and their clients; all are closed at the end, and nothing may be left."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.scopes: list[dict[str, Any]] = []

    async def serve(self, app: Handler = echo, **options: Any) -> Listener:
        async def seen(scope: dict[str, Any], receive: Any, send: Any) -> None:
            self.scopes.append(scope)
            await app(scope, receive, send)

        return await self._stack.enter_async_context(Listener(seen, **options))

    async def visit(self, listener: Listener, **options: Any) -> Client:
        url = urlsplit(listener.urls[0])
        if url.scheme == "unix":
            client = Client(*await asyncio.open_unix_connection(url.path))
        else:
            client = Client(*await asyncio.open_connection(url.hostname, url.port, **options))
        self._stack.push_async_callback(client.leave)
        return client


@pytest.fixture
async def house() -> AsyncIterator[House]:
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    async with AsyncExitStack() as stack:
        yield House(stack)
    assert faults == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until it holds."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)
