"""A line to a server that can be cut, go silent, and be mended: a TCP proxy on loopback, in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit


class Cut:
    """Stands between us and the server of a URL while its block runs.

    Attributes:
        url: the same URL by way of this line.
        connections: so many have been made so far.
    """

    def __init__(self, url: str) -> None:
        self._there = urlsplit(url)
        self.url = ""
        self.connections = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cut")
        self._server: asyncio.Server | None = None
        self._port = 0
        self._lines: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self.mend()
        user = f"{self._there.netloc.rpartition('@')[0]}@" if "@" in self._there.netloc else ""
        self.url = self._there._replace(netloc=f"{user}127.0.0.1:{self._port}").geturl()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self) -> None:
        """End every connection, and refuse new ones."""
        self._do(self._cut())

    def stall(self) -> None:
        """Keep connections and take new ones, and let nothing through."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def mend(self) -> None:
        """Let everything through again."""
        self._do(self._mend())

    # -------------------------------------------------------------------------------------------------- in the thread
    def _do(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _mend(self) -> None:
        self._flows.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
            self._port = self._server.sockets[0].getsockname()[1]

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for line in list(self._lines):
            line.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self._lines.add(writer)
        try:
            with suppress(OSError, asyncio.CancelledError):
                there_reads, there_writes = await asyncio.open_connection(self._there.hostname, self._there.port)
                self._lines.add(there_writes)
                try:
                    await asyncio.gather(self._pump(reader, there_writes), self._pump(there_reads, writer))
                finally:
                    self._lines.discard(there_writes)
                    there_writes.close()
        finally:
            self._lines.discard(writer)
            writer.close()
            self._tasks.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self._flows.wait()
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
