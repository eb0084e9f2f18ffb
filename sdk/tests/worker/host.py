"""A host's end for tests: it starts real workers, answers them, and hears what they tell."""

import asyncio
import json
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec

import trunkline_sdk
from trunkline_sdk.channel import Call, Channel
from trunkline_sdk.rpc.messages import Hello, Raw
from trunkline_sdk.rpc.peer import Peer
from trunkline_sdk.worker import PROGRAM

LAUNCHER = str(Path(__file__).with_name("launcher.py"))
IMPORTS = [str(Path(trunkline_sdk.__file__).parents[1]), str(Path(msgspec.__file__).parents[1])]
SOON = 20.0
"""Seconds; whatever a test waits for comes long before."""

Answer = Callable[[Call], Awaitable[object]]


class Worker:
    """One started worker, and the host's end of its connection."""

    def __init__(self, process: Process, log: Path) -> None:
        self.process = process
        self.channel = Channel(Peer("host"), self._handle, heard=self._hear, odd=self.odd_was)
        self.answers: dict[str, Answer] = {}
        self.odd: list[str] = []
        self._log = log
        self._heard: list[tuple[str, Any]] = []
        self._news = asyncio.Event()

    async def _handle(self, call: Call) -> object:
        return await self.answers[call.method](call)

    def _hear(self, method: str, params: Raw) -> None:
        self._heard.append((method, read(params)))
        self._news.set()

    def odd_was(self, what: str) -> None:
        self.odd.append(what)

    @property
    def said(self) -> str:
        """What it wrote to stdout and stderr."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    async def meet(self) -> Hello:
        hello = await self.channel.greeted()
        self.channel.welcome(hello)
        return hello

    async def ask(self, method: str, params: object = None, *, seconds: float = SOON, context: object = None) -> Any:
        return read(await self.channel.call(method, params, seconds=seconds, context=context))

    async def call(self, name: str, params: object = None, *, seconds: float = SOON, context: object = None) -> Any:
        return await self.ask("call", {"name": name, "params": params}, seconds=seconds, context=context)

    async def hears(self, method: str) -> Any:
        """The next notification of this name; those before it are passed over."""
        async with asyncio.timeout(SOON):
            while True:
                while self._heard:
                    name, params = self._heard.pop(0)
                    if name == method:
                        return params
                self._news.clear()
                await self._news.wait()

    async def ends(self) -> int:
        """Its exit status; negative for a signal."""
        return await asyncio.wait_for(self.process.wait(), SOON)


def read(raw: Raw) -> Any:
    return msgspec.json.decode(raw)


class Starts:
    """Starts workers in a folder of the test's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0

    @asynccontextmanager
    async def bare(
        self, main: str, *, controls: Sequence[Mapping[str, str]] = (), name: str = "main.py", **files: str
    ) -> AsyncGenerator[Worker]:
        """A worker whose host has not heard its hello yet; `files` are modules beside the main one."""
        self._count += 1
        folder = self.folder / f"extension-{self._count}"
        folder.mkdir()
        for file, text in {"main": main, **files}.items():
            (folder / f"{file}.py").write_text(dedent(text), encoding="utf-8")
        ours, theirs = socket.socketpair()
        order = {
            "descriptor": theirs.fileno(),
            "imports": IMPORTS,
            "program": PROGRAM,
            "controls": list(controls),
            "arguments": {"name": f"extension-{self._count}", "folder": str(folder), "main": name},
        }
        log = self.folder / f"log-{self._count}"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", LAUNCHER, json.dumps(order)),
                env={},
                stdin=DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        theirs.close()
        worker = Worker(process, log)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: worker.channel, ours)
        try:
            yield worker
        finally:
            worker.channel.close()
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            await worker.channel.drained()

    @asynccontextmanager
    async def __call__(self, main: str, **files: str) -> AsyncGenerator[Worker]:
        """A worker that the host has welcomed."""
        async with self.bare(main, **files) as worker:
            await asyncio.wait_for(worker.meet(), SOON)
            yield worker
