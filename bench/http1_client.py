"""CPU of HTTP clients side by side, against one server in another process: `python bench/http1_client.py [--tls] [--loop asyncio]`.

Per client: small calls (1 KB each way), large calls (100 KB there, 1 KB back), and streams whose chunks come one by one. Figures are the
client process's own CPU time, the median of interleaved rounds, and its ratio to ours. Clients that are not installed are left out.
"""

import argparse
import asyncio
import importlib.util
import multiprocessing
import ssl
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Any

import trustme
import uvloop

from trunkline_sdk.http1 import Client, tls_context

SMALL, LARGE = bytes(1_000), bytes(100_000)
CALLS, PARALLEL, STREAMS, CHUNKS = 2_000, 32, 50, 200
HEADERS = {"content-type": "application/json", "authorization": "Bearer key", "user-agent": "bench", "accept": "*/*"}
PAIRS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

Post = Callable[[bytes], Awaitable[bytes]]
Get = Callable[[], AsyncIterator[bytes]]


# ---------------------------------------------------------------------------------------------------------------- server
class Answers(asyncio.Protocol):
    """Knows just enough: a POST gets 1 KB, a GET a stream of chunks 2 ms apart."""

    ANSWER = (
        b"HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2029 00:00:00 GMT\r\nserver: bench\r\ncontent-type: application/json\r\n"
        b"x-request-id: 0123456789abcdef\r\ncontent-length: 1000\r\n\r\n" + SMALL
    )
    missing = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if not self.missing:
            head, _, data = data.partition(b"\r\n\r\n")
            if head.startswith(b"GET"):
                self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
                self.stream(CHUNKS)
                return
            self.missing = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        self.missing -= len(data)
        if not self.missing:
            self.transport.write(self.ANSWER)

    def stream(self, left: int) -> None:
        event = b'data: {"choices":[{"delta":{"content":"%06d"}}]}\n\n' % left
        self.transport.write(b"%x\r\n%b\r\n" % (len(event), event) if left else b"0\r\n\r\n")
        if left:
            asyncio.get_running_loop().call_later(0.002, self.stream, left - 1)


def serve(pipe: Connection, certificate: str | None) -> None:
    async def main() -> None:
        context = None
        if certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate)
        server = await asyncio.get_running_loop().create_server(Answers, "127.0.0.1", 0, ssl=context, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        await asyncio.Event().wait()

    uvloop.run(main())


# --------------------------------------------------------------------------------------------------------------- clients
async def ours(stack: AsyncExitStack, url: str, context: ssl.SSLContext | None) -> tuple[Post, Get]:
    client = await stack.enter_async_context(Client(tls=context))

    async def post(body: bytes) -> bytes:
        return await (await client.request("POST", url, PAIRS, body)).read()

    async def get() -> AsyncIterator[bytes]:
        return (await client.request("GET", url, PAIRS)).body

    return post, get


async def aiohttp(stack: AsyncExitStack, url: str, context: ssl.SSLContext | None) -> tuple[Post, Get]:
    import aiohttp as lib

    session = await stack.enter_async_context(
        lib.ClientSession(connector=lib.TCPConnector(limit=0, ssl=context or False), auto_decompress=False, cookie_jar=lib.DummyCookieJar())
    )

    async def post(body: bytes) -> bytes:
        async with session.post(url, data=body, headers=HEADERS) as response:
            return await response.read()

    async def get() -> AsyncIterator[bytes]:
        return (await session.get(url, headers=HEADERS)).content.iter_any()

    return post, get


async def httpx(stack: AsyncExitStack, url: str, context: ssl.SSLContext | None) -> tuple[Post, Get]:
    lib = importlib.import_module(installed("httpx", "httpx2"))
    client = await stack.enter_async_context(lib.AsyncClient(verify=context or False, limits=lib.Limits(), timeout=None, trust_env=False))

    async def post(body: bytes) -> bytes:
        return (await client.post(url, content=body, headers=HEADERS)).content

    async def get() -> AsyncIterator[bytes]:
        return (await client.send(client.build_request("GET", url, headers=HEADERS), stream=True)).aiter_raw()

    return post, get


def installed(*names: str) -> str:
    return next((name for name in names if importlib.util.find_spec(name)), "")


# ------------------------------------------------------------------------------------------------------------- measuring
async def calls(post: Post, body: bytes, count: int) -> float:
    async def worker() -> None:
        for _ in range(count // PARALLEL):
            assert len(await post(body)) == len(SMALL)

    await asyncio.gather(*(worker() for _ in range(PARALLEL)))  # connections are warm
    begin = time.process_time()
    await asyncio.gather(*(worker() for _ in range(PARALLEL)))
    return (time.process_time() - begin) / count * 1e6


async def streams(get: Get) -> float:
    async def reader() -> int:
        return sum([1 async for _ in await get()])

    begin = time.process_time()
    chunks = sum(await asyncio.gather(*(reader() for _ in range(STREAMS))))
    return (time.process_time() - begin) / chunks * 1e6


async def measure(make: Any, url: str, context: ssl.SSLContext | None) -> list[float]:
    async with AsyncExitStack() as stack:
        post, get = await make(stack, url, context)
        return [await calls(post, SMALL, CALLS), await calls(post, LARGE, CALLS // 4), await streams(get)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="uvloop")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    clients = {"trunkline_sdk.http1": ours} | ({"aiohttp": aiohttp} if installed("aiohttp") else {})
    if name := installed("httpx", "httpx2"):
        clients[name] = httpx

    authority = trustme.CA()
    with tempfile.NamedTemporaryFile() as roots, tempfile.NamedTemporaryFile() as certificate:
        authority.cert_pem.write_to_path(roots.name)
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificate.name)
        pipe, far = multiprocessing.get_context("spawn").Pipe()
        server = multiprocessing.get_context("spawn").Process(
            target=serve, args=(far, certificate.name if chosen.tls else None), daemon=True
        )
        server.start()
        url = f"{'https' if chosen.tls else 'http'}://127.0.0.1:{pipe.recv()}/v1/chat/completions"
        context = tls_context(roots.name) if chosen.tls else None
        rows: dict[str, list[list[float]]] = {name: [] for name in clients}
        for _ in range(chosen.rounds):
            for name, make in clients.items():
                with asyncio.Runner(loop_factory=uvloop.new_event_loop if chosen.loop == "uvloop" else None) as runner:
                    rows[name].append(runner.run(measure(make, url, context)))
        server.terminate()

    print(f"{chosen.loop}, {'TLS' if chosen.tls else 'TCP'}: CPU µs (times ours)")
    print(f"{'client':<22}{'call, 1 KB':>20}{'call, 100 KB':>20}{'stream chunk':>20}")
    medians = {name: [statistics.median(column) for column in zip(*rounds, strict=True)] for name, rounds in rows.items()}
    base = medians["trunkline_sdk.http1"]
    for name, row in medians.items():
        print(f"{name:<22}" + "".join(f"{value:>12.1f} ({value / unit:>4.1f})" for value, unit in zip(row, base, strict=True)))


if __name__ == "__main__":
    main()
