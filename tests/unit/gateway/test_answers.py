"""What a provider's answer becomes on its way: nothing that nobody asked for, and no credential of ours."""

import json
from collections.abc import Iterable, Sequence

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.daemon_calls import NO_DAEMONS
from tests.fakes.wallet import Wallet
from trunkline.dialects import Dialect, Written
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.gateway.asked import Asked
from trunkline.gateway.choice import Choice
from trunkline.gateway.exchange import Exchange, Exchanges
from trunkline.gateway.health import Health
from trunkline.gateway.pipeline import Call, Pipeline
from trunkline.gateway.relay import Stream
from trunkline.gateway.router import Stop
from trunkline.gateway.upstream import Opened, Upstream
from trunkline.model.caller import Caller
from trunkline.model.target import Target
from trunkline.providers import Kind, Provider
from trunkline.providers.compatible import PROVIDER as COMPATIBLE
from trunkline.providers.echo import PROVIDER as ECHO
from trunkline.surfaces import Endpoint

CANARY = "sk-canary/0123456789"


def stop(kind: Kind, dialect: Dialect) -> Stop:
    provider = Provider(name="p", kind=kind, settings=kind.settings(kind="x"), base_url=None, api_key=None)
    wire = provider.wire(dialect, "chat")
    assert wire is not None
    return Stop(Target("p", "m"), provider, wire)


async def echoed(dialect: Dialect, body: bytes) -> bytes:
    clock = FakeClock()
    request = dialect.read_request(body, "chat")
    opened = await Upstream(http=None, servers={}, daemons=NO_DAEMONS, clock=clock).open(stop(ECHO, dialect), Asked(request, dialect), [])  # type: ignore[arg-type]
    reader = dialect.read_events(request=request, written=opened.written, repairs=frozenset())
    stream = Stream(opened.answer, reader, clock, secrets=opened.secrets)
    out = await stream.begin()
    while not stream.done:
        out += await stream.next()
    assert stream.usage is not None
    return out


@pytest.mark.parametrize(("options", "asked"), [({}, False), ({"stream_options": {"include_usage": True}}, True)])
async def test_echo_shows_the_usage_of_a_stream_only_to_whom_asks_for_it(options: dict[str, object], *, asked: bool) -> None:
    body = json.dumps({"model": "p/m", "stream": True, "messages": [{"role": "user", "content": "hi you"}], **options}).encode()
    out = await echoed(OPENAI_CHAT, body)
    *chunks, done = out.removesuffix(b"\n\n").split(b"\n\n")
    choices = [json.loads(chunk.removeprefix(b"data: "))["choices"] for chunk in chunks]
    assert done == b"data: [DONE]"
    assert choices.count([]) == asked
    assert "".join(choice[0]["delta"].get("content", "") for choice in choices if choice) == "hi you"


async def test_echo_speaks_messages_too() -> None:
    body = b'{"model":"p/m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}'
    out = await echoed(ANTHROPIC, body)
    assert out.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')


class Answer:
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.headers: Sequence[tuple[bytes, bytes]] = ()
        self._pieces = iter(pieces)

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration

    async def read(self) -> bytes:
        return b"".join(self._pieces)

    async def aclose(self) -> None:
        pass


class Outlet:
    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    async def start(self, status: int, headers: object) -> None:
        self.status = status

    async def write(self, data: bytes, *, more: bool) -> None:
        self.body += data

    def break_off(self) -> None:
        raise AssertionError("what is whole does not break off")


class Around:
    """All that a pipeline asks of others, with one provider that answers as the test says."""

    def __init__(self, dialect: Dialect, answer: bytes) -> None:
        self.dialect = dialect
        self.answer = answer

    async def identify(self, headers: object, address: str) -> Caller:
        return Caller(id="key_a", kind="service", name="k", scopes=frozenset({"inference"}))

    def stops(self, model: str, dialect: Dialect, operation: object) -> list[Stop]:
        kind = Kind(title="x", speaks=COMPATIBLE.speaks if dialect == OPENAI_CHAT else ECHO.speaks)
        return [stop(kind, dialect)]

    async def open(self, where: Stop, request: object, headers: object, sent: object, *, missing: object) -> Opened:
        return Opened(Answer([self.answer]), Written(b""), passes=True, secrets=(CANARY,))


async def answered(dialect: Dialect, answer: bytes, *, stream: bool) -> Outlet:
    around, clock, outlet = Around(dialect, answer), FakeClock(), Outlet()
    pipeline = Pipeline(
        access=around,
        router=around,  # type: ignore[arg-type]
        upstream=around,  # type: ignore[arg-type]
        choice=Choice(wallet=Wallet(), providers={}, rest=lambda credential, target: 0.0, link=str),
        health=Health(clock),
        exchanges=Exchanges(),
        clock=clock,
        told=lambda exchange, seconds: None,
        crashed=lambda request_id, error: pytest.fail(f"{error!r}"),
    )

    async def body() -> bytes:
        return json.dumps({"model": "m", "max_tokens": 9, "stream": stream}).encode()

    exchange = Exchange(id="rqe_a", path="/", started=0.0, address="")
    await pipeline.carry(exchange, Call(Endpoint("/", "chat", dialect), [], "", body), outlet)
    assert exchange.outcome != "ok"
    assert CANARY not in str(exchange)
    return outlet


@pytest.mark.proves("G19")
@pytest.mark.parametrize("spelling", [CANARY, CANARY.replace("/", "%2F"), CANARY.replace("/", "\\/")])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_an_error_that_comes_with_200_is_told_without_our_key(spelling: str, *, stream: bool) -> None:
    error = b'{"error":{"message":"quota of ' + spelling.encode() + b' is used up","code":429}}'
    outlet = await answered(OPENAI_CHAT, b"data: " + error + b"\n\n" if stream else error, stream=stream)
    assert outlet.status == 429
    assert b"is used up" in outlet.body
    assert b"canary" not in outlet.body


@pytest.mark.proves("G19")
async def test_an_error_event_before_the_reply_is_told_without_our_key() -> None:
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"' + CANARY.encode() + b' waits"}}\n\n'
    outlet = await answered(ANTHROPIC, error, stream=True)
    assert (outlet.status, json.loads(outlet.body)["error"]["type"]) == (529, "overloaded_error")
    assert b"canary" not in outlet.body
