"""Extensions on a real supervisor, with real workers in real sandboxes; times are short.

async with extensions(tmp_path) as running:
    running.write("weather", CODE)
    running.apply("weather")
    await running.until("weather", "ready")
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, generate_latest

from tests.fakes.internet import Internet
from tests.host.users import reachable
from trunkline.base.clock import SystemClock
from trunkline.base.egress import Egress, EgressSettings
from trunkline.base.log import LogSettings, open_log
from trunkline.host.broker import Broker, groups
from trunkline.host.course import Pace
from trunkline.host.keeper import Shown
from trunkline.host.methods.log import Lines
from trunkline.host.methods.network import Network
from trunkline.host.settings import ExtensionSettings
from trunkline.host.supervisor import Supervisor
from trunkline.host.worker import Patience

SOON = 30.0

QUICK = Patience(activation=20, ping=1, missed=3, lag=1.5, stuck=3, deactivate=2, terminate=1, idle=600)
"""Pings and lag in tenths of a second; `activation` has to bear a busy machine."""
EAGER = Pace(first=0.05, most=0.4, retry=0.5)

CODE = """
import asyncio, mmap, os, signal, time

async def slow(params, call):
    await asyncio.sleep(params)
    return "slept"

def activate(context):
    print("✗ hi")
    for name, handler in {
        "echo": lambda params, call: params,
        "pid": lambda params, call: os.getpid(),
        "user": lambda params, call: call.user,
        "slow": slow,
        "stick": lambda params, call: time.sleep(params),
        "stop": lambda params, call: os.kill(os.getpid(), signal.SIGSTOP),
        "exit": lambda params, call: os._exit(params),
        "print": lambda params, call: os.write(1, b"x" * params),
        "hoard": hoard,
        "fork": fork,
    }.items():
        context.handle(name, handler)

def hoard(params, call):
    # MAP_GROWSDOWN: a stack, which no limit of its own counts
    with mmap.mmap(-1, params, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100) as held:
        for at in range(0, params, 4096):
            held[at] = 1
        time.sleep(5)

def fork(params, call):
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    return True
"""


class Running:
    """A supervisor that runs."""

    def __init__(self, supervisor: Supervisor, folder: Path, data: Path, registry: CollectorRegistry, said: Callable[[], str]) -> None:
        self.supervisor = supervisor
        self.settings: dict[str, ExtensionSettings] = {}
        self.data = data
        self._folder = folder
        self._registry = registry
        self._said = said

    def write(self, name: str, code: str = CODE, **settings: Any) -> None:
        """An extension's folder, and what the operator's file says of it."""
        place = self._folder / name
        place.mkdir(exist_ok=True)
        place.chmod(0o755)
        (place / "main.py").write_text(code, encoding="utf-8")
        self.settings[name] = ExtensionSettings(path=str(place), **settings)

    def apply(self) -> None:
        self.supervisor.apply(self.settings)

    def one(self, name: str) -> Shown:
        return self.supervisor.one(name)

    async def call(self, name: str, what: str, params: object = None, *, user: str | None = None, seconds: float = SOON) -> Any:
        return json.loads(bytes(await self.supervisor.call(name, what, params, user=user, seconds=seconds)))

    async def until(self, name: str, *states: str, seconds: float = SOON) -> Shown:
        """Wait for a state."""
        return await self.when(name, lambda shown: shown.state in states, seconds=seconds)

    async def when(self, name: str, condition: Callable[[Shown], bool], *, seconds: float = SOON) -> Shown:
        shown = self.one(name)
        try:
            async with asyncio.timeout(seconds):
                while not condition(shown := self.one(name)):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"{shown}; {self.log(name)}") from None
        return shown

    def log(self, name: str) -> str:
        """What it printed."""
        path = self.data / "extensions" / name / "log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def events(self) -> list[dict[str, Any]]:
        """The host's log; only at the end."""
        return [json.loads(line) for line in self._said().splitlines()]

    def metrics(self) -> str:
        return generate_latest(self._registry).decode()


@asynccontextmanager
async def extensions(
    folder: Path, *, patience: Patience = QUICK, pace: Pace = EAGER, stream: TextIO | None = None
) -> AsyncGenerator[Running]:
    """A supervisor; at the end every process that it began is gone."""
    reachable(folder)
    kept, registry, clock, internet = StringIO(), CollectorRegistry(), SystemClock(), Internet()
    log, writer = open_log(LogSettings(format="json", level="debug"), stream or kept)

    def said() -> str:
        writer.close()
        return kept.getvalue()

    network = Network(Egress(EgressSettings()).listed, resolve=internet.resolve, connect=internet.connect)
    broker = Broker(groups(), [network, Lines(log)], clock=clock, log=log, registry=registry)
    data = folder / "data"
    try:
        async with Supervisor(
            data=data, broker=broker, clock=clock, log=log, registry=registry, patience=patience, pace=pace
        ) as supervisor:
            yield Running(supervisor, folder, data, registry, said)
        assert supervisor.shown() == []
    finally:
        writer.close()
