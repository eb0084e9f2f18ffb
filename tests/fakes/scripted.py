"""Providers and callers that follow a script, without a socket: what the gateway's own tests need of the world."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.fakes.clock import FakeClock
from tests.fakes.wallet import Wallet
from trunkline.dialects import Written
from trunkline.errors import Denied, NoCredential, TrunklineError
from trunkline.gateway.asked import Asked
from trunkline.gateway.choice import Choice
from trunkline.gateway.exchange import Exchange, Exchanges
from trunkline.gateway.health import Health
from trunkline.gateway.losses import LossRule
from trunkline.gateway.pipeline import Call, FollowUpCall, Pipeline
from trunkline.gateway.router import Router, RouteSettings, Stop, TargetSettings
from trunkline.gateway.upstream import Opened
from trunkline.model.caller import Caller
from trunkline.model.credential import Credential
from trunkline.providers import Kind, ModelSettings, Provider, Served, Settings, Wire
from trunkline.surfaces import Endpoint, FollowUp

REQUEST_ID = "rqe_test"


class Pause:
    """A place of a script where somebody waits until the test goes on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.over = asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self.over.wait()


Step = bytes | Exception | Pause


class Answer:
    """An answer whose body comes as the script says; after the last step it has ended."""

    def __init__(self, *steps: Step, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self.headers = headers
        self.closed = False
        self._steps = list(steps)

    async def __anext__(self) -> bytes:
        while self._steps:
            match self._steps.pop(0):
                case bytes(piece):
                    return piece
                case Pause() as pause:
                    await pause()
                case error:
                    raise error
        raise StopAsyncIteration

    async def read(self) -> bytes:
        parts: list[bytes] = []
        try:
            while True:
                parts.append(await self.__anext__())
        except StopAsyncIteration:
            return b"".join(parts)

    async def aclose(self) -> None:
        self.closed = True


class Upstream:
    """What each target does, call by call; the last one of its script again and again.

    Attributes:
        calls: the targets that were called; what was asked below one's path of kept objects, in its words.
        bodies: the requests that they got.
        sent: the credentials that each attempt was told of, by their ids; the last one is used.
        wants_credentials: refuses a call that lacks one which its provider's kind needs.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.bodies: list[bytes] = []
        self.sent: list[list[str]] = []
        self.wants_credentials = False
        self.headers: Sequence[tuple[bytes, bytes]] = ()
        self.secrets: tuple[str, ...] = ()
        self._scripts: dict[str, list[Answer | Exception | Pause]] = {}

    def script(self, target: str, *steps: Answer | Exception | Pause) -> None:
        self._scripts[target] = list(steps)

    async def open(
        self,
        stop: Stop,
        asked: Asked,
        headers: Sequence[tuple[bytes, bytes]],
        sent: Sequence[Credential],
        *,
        missing: NoCredential | None,
    ) -> Opened:
        self.sent.append([each.id for each in sent])
        if missing is not None and self.wants_credentials:
            raise missing
        written = asked.written(stop)
        self.bodies.append(written.body)
        answer = await self._next(str(stop.target), str(stop.target), headers)
        return Opened(answer, written, asked.passes(stop, written), self.secrets)

    async def follow(
        self,
        provider: Provider,
        wire: Wire,
        method: str,
        below: str,
        headers: Sequence[tuple[bytes, bytes]],
        sent: Sequence[Credential],
        *,
        missing: NoCredential | None,
    ) -> Opened:
        self.sent.append([each.id for each in sent])
        answer = await self._next(provider.name, f"{provider.name} {method} {below}", headers)
        return Opened(answer, Written(b""), True, self.secrets)

    async def _next(self, script: str, call: str, headers: Sequence[tuple[bytes, bytes]]) -> Answer:
        self.calls.append(call)
        self.headers = headers
        steps = self._scripts[script]
        match steps.pop(0) if len(steps) > 1 else steps[0]:
            case Answer() as answer:
                return answer
            case Pause() as pause:
                await pause()
                raise AssertionError("a pause is where a test ends the call")
            case error:
                raise error


class Outlet:
    """A caller: what it got so far."""

    def __init__(self, *, before_head: Pause | None = None, before_write: Callable[[bytes], Pause | None] = lambda _: None) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.parts: list[bytes] = []
        self.ended = False
        self.broken = False
        self._before_head = before_head
        self._before_write = before_write

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        if self._before_head is not None:
            await self._before_head()
        assert self.status == 0, "a second head"
        self.status, self.headers = status, dict(headers)

    async def write(self, data: bytes, *, more: bool) -> None:
        if (pause := self._before_write(data)) is not None:
            await pause()
        assert self.status, "a body before its head"
        assert not self.ended, "a body that goes on after its end"
        assert not self.broken, "a body that goes on after it was broken off"
        self.parts.append(data)
        self.ended = not more

    def break_off(self) -> None:
        assert not self.ended, "a body that breaks off after its end"
        self.broken = True


class Door:
    """Lets in whoever the test says."""

    def __init__(self) -> None:
        self.caller = Caller(id="key_a", kind="service", name="ann", scopes=frozenset({"inference"}))
        self.refuses: TrunklineError | None = None
        self.pause: Pause | None = None
        self.known: dict[str, str] = {}  # end users
        self.end_users: list[str] = []

    async def identify(self, headers: Sequence[tuple[bytes, bytes]], address: str) -> Caller:
        if self.pause is not None:
            await self.pause()
        if self.refuses is not None:
            raise self.refuses
        return self.caller

    async def for_end_user(self, caller: Caller, external_id: str) -> Caller:
        self.end_users.append(external_id)
        if external_id not in self.known:
            raise Denied(f"there is no end user `{external_id}`")
        return replace(caller, user=self.known[external_id])


@dataclass
class Gateway:
    """A pipeline in a scripted world. The route `fast` goes to `a/m`, then to `b/m`; the route `one` to `a/m` alone.

    Attributes:
        kind: of all providers, but for those in `kinds`.
        model: what the operator says of the model `m`.
        losses: the rules of all routes.
        served: providers that are behind daemons, by their names.
        wallet: the stored credentials.
        draw: which of several is taken; by default the first.
    """

    kind: Kind
    endpoint: Endpoint
    kinds: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    model: ModelSettings = field(default_factory=ModelSettings)
    losses: list[LossRule] = field(default_factory=list[LossRule])
    served: Mapping[str, Served] = field(default_factory=dict[str, Served])
    clock: FakeClock = field(default_factory=FakeClock)
    upstream: Upstream = field(default_factory=Upstream)
    wallet: Wallet = field(default_factory=Wallet)
    draw: Callable[[], float] = lambda: 0.0
    link: Callable[[str], str] = "https://gw.test/connect/{}".format
    exchanges: Exchanges = field(default_factory=Exchanges)
    door: Door = field(default_factory=Door)
    told: list[Exchange] = field(default_factory=list[Exchange])
    crashes: list[tuple[str, Exception]] = field(default_factory=list[tuple[str, Exception]])

    def __post_init__(self) -> None:
        self.health = Health(self.clock)
        providers = {
            name: Provider(
                name=name,
                kind=self.kinds.get(name, self.kind),
                settings=Settings(kind="compatible", base_url=f"http://{name}.test", models={"m": self.model}),
                base_url=f"http://{name}.test",
                api_key=None,
                served=self.served.get(name),
            )
            for name in "abcde"
        }
        routes = {"fast": "ab", "one": "a", "many": "abcde"}
        self.pipeline = Pipeline(
            access=self.door,
            router=Router(
                providers=providers,
                routes={
                    route: RouteSettings(
                        targets=[TargetSettings(model=f"{name}/m", order=order) for order, name in enumerate(names)], losses=self.losses
                    )
                    for route, names in routes.items()
                },
            ),
            upstream=self.upstream,
            choice=Choice(wallet=self.wallet, providers=providers, rest=self.health.rest_of, link=self.link, draw=self.draw),
            health=self.health,
            exchanges=self.exchanges,
            clock=self.clock,
            told=lambda exchange, _: self.told.append(exchange),
            crashed=lambda request_id, error: self.crashes.append((request_id, error)),
        )

    def exchange(self) -> Exchange:
        return Exchange(id=REQUEST_ID, path=self.endpoint.path, started=self.clock.monotonic(), address="192.0.2.1")

    async def carry(
        self,
        body: bytes | Pause,
        *,
        outlet: Outlet | None = None,
        exchange: Exchange | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Outlet:
        """Carry one call to its end, and give what its caller got."""

        async def read() -> bytes:
            match body:
                case Pause():
                    await body()
                    raise AssertionError("a pause is where a test ends the call")
                case bytes():
                    return body

        outlet = outlet or Outlet()
        await self.pipeline.carry(exchange or self.exchange(), Call(self.endpoint, headers, "192.0.2.1", read), outlet)
        return outlet

    async def follow(
        self, endpoint: FollowUp, method: str, told: str, action: str = "", query: str = "", headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> Outlet:
        """Ask about what a provider keeps, and give what the caller got."""
        outlet = Outlet()
        call = FollowUpCall(endpoint=endpoint, method=method, told=told, action=action, query=query, headers=headers, address="192.0.2.1")
        await self.pipeline.follow(self.exchange(), call, outlet)
        return outlet
