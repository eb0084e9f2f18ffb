"""An extension's worker in its full sandbox, against the least that could do the same: python -m bench.workers [--into docs/performance.md].

A worker's references are a bare interpreter that starts and ends, an asyncio process that echoes a socketpair, and one that is idle. The host's end
runs on the server's loop. Each round measures all of them one right after the other.
"""

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.bars import Judged
from bench.report import show, verdicts
from trunkline.host.sandbox.features import detect
from trunkline.host.sandbox.forks import ForkServer, fork_server
from trunkline.host.sandbox.launch import Launched, Launcher, Program
from trunkline.host.sandbox.policy import Policy
from trunkline.host.sandbox.users import Users
from trunkline_sdk.channel import Call, Channel, Incoming
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.rpc.peer import Peer
from trunkline_sdk.worker import PROGRAM

MARKS = "<!-- workers: begin -->", "<!-- workers: end -->"
SMALL = "x" * 200
CHUNK = b"x" * 4096
CALLS, IN_FLIGHT, CHUNKS, PINGS, MANY, AT_ONCE = 1000, 32, 4000, 20, 50, 4

EXTENSION = """
def activate(context):
    context.handle("echo", lambda params, call: params)
    context.handle("through", through)

async def through(params, call):
    async with call.network.stream("http://bench.test/") as answer:
        async for piece in answer.body:
            yield piece
"""
ECHO = """
import asyncio, socket

class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(data)
    def connection_lost(self, error):
        over.set()

async def main():
    global over
    over = asyncio.Event()
    await asyncio.get_running_loop().connect_accepted_socket(Echo, socket.socket(fileno=FD))
    await over.wait()

asyncio.run(main())
"""
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Workers:
    """Starts them."""

    launcher: Launcher
    policy: Policy
    log: int

    @asynccontextmanager
    async def worker(self, warm: ForkServer | None = None) -> AsyncGenerator[tuple[Channel, Launched]]:
        """One that is active."""
        program = Program(file=PROGRAM, arguments={"name": "bench", "folder": self.policy.folder})
        launched = await self.launcher.launch(self.policy, program, stdout=self.log, stderr=self.log, warm=warm)
        channel = Channel(Peer("host"), lambda call: _feed(channel, call))
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: channel, launched.sock)
            channel.welcome(await channel.greeted())
            await channel.call("activate")
            yield channel, launched
        finally:
            channel.close()
            launched.kill()
            await launched.wait()


async def _feed(channel: Channel, call: Call) -> object:
    """Answer `network.stream` with chunks; they go out while the answer is on its way."""
    stream = channel.open_stream(answering=call.id)

    async def body() -> None:
        try:
            async with stream:
                for _ in range(CHUNKS):
                    await stream.send(CHUNK)
        except RpcError:  # the reader has left
            pass

    feeding = asyncio.get_running_loop().create_task(body())
    feeding.add_done_callback(_FEEDING.discard)
    _FEEDING.add(feeding)
    return {"status": 200, "url": "http://bench.test/", "headers": [], "stream": stream.number}


_FEEDING: set[asyncio.Task[None]] = set()


async def measure(workers: Workers, warm: ForkServer) -> Figures:
    """One round."""
    figures = {"bare_ms": _spawned("pass"), "imports_ms": _spawned("import asyncio, json")}
    figures |= {"warm_ms": await _ready(workers, warm), "cold_ms": await _ready(workers, None)}
    figures |= await _echo()
    async with workers.worker(warm) as (channel, launched):
        figures["warm_kb"] = _private(launched.pid)
        figures |= await _calls(channel) | await _streams(channel)
    async with workers.worker() as (_, launched):
        figures["cold_kb"] = _private(launched.pid)
    idle = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import asyncio; asyncio.run(asyncio.sleep(60))"])  # noqa: ASYNC220 - nothing else waits
    await asyncio.sleep(1)
    figures["idle_kb"] = _private(idle.pid)
    idle.kill()
    idle.wait()
    return figures


async def _ready(workers: Workers, warm: ForkServer | None) -> float:
    began = time.perf_counter()
    async with workers.worker(warm):
        return (time.perf_counter() - began) * 1000


def _spawned(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
    return (time.perf_counter() - began) * 1000


async def _calls(channel: Channel) -> Figures:
    async def one() -> object:
        return await channel.call("call", {"name": "echo", "params": SMALL})

    took = await _each(one)
    began = time.perf_counter()

    async def several() -> None:
        for _ in range(CALLS // 10):
            await one()

    await asyncio.gather(*(several() for _ in range(IN_FLIGHT)))
    return {"call_us": took, "calls": IN_FLIGHT * (CALLS // 10) / (time.perf_counter() - began)}


async def _streams(channel: Channel) -> Figures:
    opened: asyncio.Future[Incoming] = asyncio.get_running_loop().create_future()
    began = time.perf_counter()
    calling = asyncio.ensure_future(channel.call("call", {"name": "through"}, opened=opened.set_result))
    chunks = 0
    async for _ in await opened:
        chunks += 1
    await calling
    through = chunks / (time.perf_counter() - began)
    stalled: asyncio.Future[Incoming] = asyncio.get_running_loop().create_future()
    calling = asyncio.ensure_future(channel.call("call", {"name": "through"}, opened=stalled.set_result))
    async with await stalled as stream:
        await anext(stream)
        pings = [await _each(lambda: channel.call("call", {"name": "echo"}), 1) for _ in range(PINGS)]
    await asyncio.wait([calling])
    calling.exception()
    return {"chunks": through, "ping_ms": max(pings) / 1000}


async def _echo() -> Figures:
    ours, theirs = socket.socketpair()
    child = subprocess.Popen(  # noqa: ASYNC220 - nothing else waits
        [sys.executable, "-I", "-S", "-c", ECHO.replace("FD", str(theirs.fileno()))], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
    )
    theirs.close()
    reader, writer = await asyncio.open_unix_connection(sock=ours)

    async def one() -> object:
        writer.write(SMALL.encode())
        return await reader.readexactly(len(SMALL))

    await one()
    took = await _each(one)

    async def send() -> None:
        for _ in range(CHUNKS):
            writer.write(CHUNK)
            await writer.drain()

    began = time.perf_counter()
    sending = asyncio.ensure_future(send())
    for _ in range(CHUNKS):
        await reader.readexactly(len(CHUNK))
    await sending
    chunks = CHUNKS / (time.perf_counter() - began)
    writer.close()
    await writer.wait_closed()
    child.wait()
    return {"echo_us": took, "echo_chunks": chunks}


async def _each(one: Callable[[], Awaitable[object]], times: int = CALLS) -> float:
    """The median, in microseconds, one after the other."""
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        await one()
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e6


def _private(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


async def _many(workers: Workers, warm: ForkServer | None) -> float:
    """Seconds until so many workers are active at the same time."""
    turn, all_are, active = asyncio.Semaphore(AT_ONCE), asyncio.Event(), 0

    async def one() -> None:
        nonlocal active
        async with turn:
            starting = workers.worker(warm)
            await starting.__aenter__()
        active += 1
        if active == MANY:
            all_are.set()
        await all_are.wait()
        took.append(time.perf_counter() - began)
        await starting.__aexit__(None, None, None)

    took: list[float] = []
    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(MANY)))
    return min(took)


def judge(rounds: Sequence[Figures], many: Figures) -> list[Judged]:
    """The bars W1 to W4."""

    def ratio(one: str, other: str) -> list[float]:
        return [figures[one] / figures[other] for figures in rounds]

    def figure(name: str, scale: float = 1.0) -> list[float]:
        return [figures[name] * scale for figures in rounds]

    return [
        Judged("W1", "forked warm until active, against a bare interpreter's life", ratio("warm_ms", "bare_ms"), most=4),
        Judged("W1", "the same in time", figure("warm_ms"), "ms"),
        Judged("W1", "started cold, against an interpreter that imports asyncio and json", ratio("cold_ms", "imports_ms"), most=4),
        Judged("W1", "the same in time", figure("cold_ms"), "ms"),
        Judged("W2", "a call of 200 B, median, against an echo on a socketpair", ratio("call_us", "echo_us"), most=3),
        Judged("W2", "the same in time", figure("call_us"), "µs"),
        Judged("W2", f"calls per second, {IN_FLIGHT} in flight", figure("calls"), "/s"),
        Judged("W3", "chunks of 4 KiB through a worker, against the echo", ratio("chunks", "echo_chunks"), least=1 / 3),
        Judged("W3", "the same per second", figure("chunks"), "/s"),
        Judged("W3", "the slowest call beside a stalled stream", figure("ping_ms"), "ms"),
        Judged("W4", "private memory, forked warm, against an idle asyncio process", ratio("warm_kb", "idle_kb"), most=2),
        Judged("W4", "the same, started cold", ratio("cold_kb", "idle_kb"), most=2),
        Judged("W4", "private memory, started cold", figure("cold_kb", 1 / 1024), "MB"),
        Judged("W4", f"{MANY} workers active, {AT_ONCE} starting at once, warm", [many["warm_s"]], "s"),
        Judged("W4", "the same cold", [many["cold_s"]], "s"),
    ]


async def run(rounds: int) -> str:
    """Measure; a table."""
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "wb") as nowhere:  # noqa: ASYNC230, PTH123 - nothing else waits
        (Path(folder) / "main.py").write_text(EXTENSION, encoding="utf-8")
        policy = Policy(folder=os.path.realpath(folder), user=Users().take() if os.geteuid() == 0 else None)  # noqa: ASYNC240 - as above
        workers = Workers(Launcher(await detect()), policy, nowhere.fileno())
        async with fork_server(policy.interpreter) as warm:
            await measure(workers, warm)
            figures = [await measure(workers, warm) for _ in range(rounds)]
            many = {"warm_s": await _many(workers, warm), "cold_s": await _many(workers, None)}
        tier = workers.launcher.plan(policy).tier
    load = f"the machine's load was {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    return f"{rounds} interleaved rounds, the sandbox of tier {tier}; {load}.\n\n{verdicts(judge(figures, many))}"


def main() -> None:
    """Print the table, or put it between the marks in a page."""
    parser = argparse.ArgumentParser(prog="python -m bench.workers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--into", type=Path, help="a page with the marks between which it goes")
    given = parser.parse_args()
    text = uvloop.run(run(given.rounds))
    show(text, given.into, MARKS)


if __name__ == "__main__":
    main()
