"""Providers behind daemons that people connect, and how they answer a sign-in, by script and without a socket."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import Engine

from tests.fakes.clock import FakeClock
from trunkline.access.connecting import Connecting
from trunkline.access.connections import Connections
from trunkline.access.flows import Flows
from trunkline.access.key_sources import FileSource
from trunkline.access.sign_ins import SignIns
from trunkline.access.vault import Vault
from trunkline.base.log import Logger
from trunkline.errors import NotFound
from trunkline.providers import Kind, Provider, Served, Settings
from trunkline.store.shared.file_lease import FileLeases
from trunkline_sdk.daemon.messages import Authorization, Flow, OAuthStartRequest, PollResult, Record, Secrets

T = TypeVar("T")
A = TypeVar("A", Authorization, PollResult, Record)

STATE, VERIFIER, DEVICE_CODE = "state-canary-0123456789", "verifier-canary-0123456789", "device-canary-0123456789"
ACCESS, REFRESH = "access-canary-0123456789", "refresh-canary-0123456789"
CANARIES = (STATE, VERIFIER, DEVICE_CODE, ACCESS, REFRESH)

RECORD = Record(access_token=ACCESS, refresh_token=REFRESH, token_type="Bearer", account_id="ann@vendor.test")
DEVICE = Authorization(
    user_code="ABCD-EFGH",
    verification_uri="https://vendor.test/device",
    verification_uri_complete="https://vendor.test/device?code=ABCD-EFGH",
    interval=timedelta(seconds=7),
    expires_in=timedelta(minutes=3),
    secrets=Secrets(device_code=DEVICE_CODE),
)
PAGE = Authorization(
    authorization_url=f"https://vendor.test/authorize?state={STATE}",
    secrets=Secrets(state=STATE, verifier=VERIFIER, redirect_uri="https://vendor.test/shown", driver_data={"step": "one"}),
)


def served(name: str, **told: object) -> Provider:
    """A provider behind a daemon."""
    daemon, _, provider = name.partition("/")
    kind = Kind(title="Daemon", speaks=())
    given = {"credential": "oauth", "methods": ("browser", "device", "manual"), "refreshable": True, "title": provider.title(), **told}
    return Provider(
        name=name,
        kind=kind,
        settings=Settings(kind="daemon"),
        base_url="http://127.0.0.1:1",
        api_key=None,
        served=Served(daemon, provider, **given),  # pyright: ignore[reportArgumentType] - what a test says of it
    )


@dataclass
class Script:
    """How a provider's sign-in goes: `begins`, `polls` and `gives` are its answers, or what it raises; the rest is what it was asked."""

    begins: Authorization | Exception | None = None
    polls: list[PollResult | Exception] = field(default_factory=list[PollResult | Exception])
    gives: Record | Exception = RECORD
    started: list[OAuthStartRequest] = field(default_factory=list[OAuthStartRequest])
    polled: list[Flow] = field(default_factory=list[Flow])
    exchanged: list[tuple[str, Flow]] = field(default_factory=list[tuple[str, Flow]])

    async def start(self, request: OAuthStartRequest) -> Authorization:
        self.started.append(request)
        return _given(self.begins or (DEVICE if request.method == "device" else PAGE))

    async def poll(self, flow: Flow) -> PollResult:
        self.polled.append(flow)
        return _given(self.polls.pop(0))

    async def exchange(self, flow: Flow, code: str) -> Record:
        self.exchanged.append((code, flow))
        return _given(self.gives)


@dataclass
class Joining:
    """What knows them: `home/plan` and `home/key`, and `other/plan` too; `home/open` needs nothing."""

    script: Script = field(default_factory=Script)
    providers: Mapping[str, Provider] = field(
        default_factory=lambda: {
            each.name: each
            for each in (
                served("home/plan"),
                served("home/coder", methods=("manual",)),
                served("home/key", credential="token", methods=()),
                served("home/old", credential="", methods=()),
                served("home/open", credential="none", methods=()),
                served("other/plan"),
            )
        }
    )

    def driver(self, name: str) -> Script:
        if name not in self.providers:
            raise NotFound(f"there is no provider `{name}`")
        return self.script


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def info(self, event: str, **facts: Any) -> None:
        self.lines.append({"event": event, **facts})


class Desk:
    """The services behind `/sign-ins` and `/connections`, over a database."""

    def __init__(self, engine: Engine, folder: Path, clock: FakeClock) -> None:
        self.engine = engine
        self.clock = clock
        self.daemons = Joining()
        self.log = Lines()
        self.vault = Vault(engine, FileSource(folder / "vault.key"))
        log = cast(Logger, self.log)
        self.connections = Connections(
            engine, self.vault, clock, FileLeases(folder / "leases", clock), refresher=_nobody, link=str, failed=_nobody
        )
        self.flows = Flows(engine, self.vault, clock, run)
        self.sign_ins = SignIns(flows=self.flows, daemons=self.daemons, keep=self.connections.save, clock=clock, log=log)
        self.connecting = Connecting(self.connections, self.daemons, log)

    @property
    def script(self) -> Script:
        return self.daemons.script


async def run(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)


def _nobody(*_: object) -> Any:
    raise AssertionError("nothing is renewed here")


def _given(answer: A | Exception) -> A:
    if isinstance(answer, Exception):
        raise answer
    return answer
