"""A raw server that plays a script on each connection, so that tests decide every byte and every end."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Self

import trustme

Script = Callable[["Wire"], Awaitable[None]]
SOON = 1.0
"""Seconds within which the peer must see that the client has gone (G18)."""


class Request(NamedTuple):
    line: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


class Wire:
    """One accepted connection. `reached` is set where a test wants to step in, `saw_end` when the client's end was seen."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.reached = asyncio.Event()
        self.saw_end = asyncio.Event()

    async def head(self) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        line, *fields = (await self.reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
        return line, [(name, value.strip()) for name, _, value in (field.partition(b":") for field in fields)]

    async def request(self) -> Request:
        line, headers = await self.head()
        request = Request(line, headers, b"")
        if (length := request.header(b"content-length")) is not None:
            return request._replace(body=await self.reader.readexactly(int(length)))
        if request.header(b"transfer-encoding") is None:
            return request
        body = b""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            body += await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
        assert await self.reader.readexactly(2) == b"\r\n"
        return request._replace(body=body)

    async def send(self, *pieces: bytes) -> None:
        """Each piece in a write of its own, and the loop gets a turn between them."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """Do nothing more but see the client go."""
        self.reached.set()
        await self.gone()

    async def gone(self) -> None:
        """The client closes the connection."""
        async with asyncio.timeout(5 * SOON):
            try:
                while await self.reader.read(65536):
                    pass
            except ConnectionError:
                pass
        self.saw_end.set()

    async def close(self) -> None:
        """With a goodbye where there is TLS."""
        self.writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()

    def cut(self) -> None:
        """The socket closes; TLS gets no goodbye."""
        self.writer.transport.abort()

    def reset(self) -> None:
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def server_context(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2", "http/1.1"])
    certificate.configure_cert(context)
    return context


def after(*sent: bytes) -> Script:
    """Take the request, send this, and then nothing more."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(*sent)
        await wire.stop()

    return script


class Peer:
    """Listens on loopback; the first connection plays the first script, and so on; the last script repeats."""

    def __init__(self, tls: ssl.SSLContext | None, *scripts: Script) -> None:
        self.tls = tls
        self.scripts = list(scripts)
        self.wires: list[Wire] = []
        self.open = 0
        self.most_open = 0
        self.faults: list[BaseException] = []
        self._arrived = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def plays(self, *scripts: Script) -> None:
        self.scripts = list(scripts)

    def says(self, *pieces: bytes) -> None:
        """Answer each request so, over and over."""

        async def script(wire: Wire) -> None:
            while True:
                await wire.request()
                await wire.send(*pieces)

        self.plays(script)

    def ends_with(self, *pieces: bytes) -> None:
        """Answer one request so, and close."""

        async def script(wire: Wire) -> None:
            await wire.request()
            await wire.send(*pieces)
            await wire.close()

        self.plays(script)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def wire(self, number: int = 0) -> Wire:
        """The connection of that number, once it is there."""
        async with asyncio.timeout(SOON), self._arrived:
            await self._arrived.wait_for(lambda: len(self.wires) > number)
        return self.wires[number]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self.tls, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert not self.faults, self.faults

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        wire = Wire(reader, writer)
        script = self.scripts[min(len(self.wires), len(self.scripts) - 1)]
        self.wires.append(wire)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        async with self._arrived:
            self._arrived.notify_all()
        try:
            await script(wire)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client has gone; whether it should have is the test's question
        except asyncio.CancelledError:
            pass  # the test is over
        except BaseException as fault:  # noqa: BLE001 - it is raised at the end of the test
            self.faults.append(fault)
        finally:
            self.open -= 1
            self._tasks.discard(task)
            writer.transport.abort()
