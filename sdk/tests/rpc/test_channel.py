"""Channels: two ends on one socketpair."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Literal

import msgspec
import pytest

from trunkline_sdk.channel import Call, Channel, Incoming, Outgoing
from trunkline_sdk.rpc import frames
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.rpc.messages import Hello, Raw
from trunkline_sdk.rpc.peer import Peer

Answers = Callable[[Call], Awaitable[object]]


class Pair:
    """A host and a worker that have met; what each answers can be set."""

    def __init__(self) -> None:
        self.answers: dict[str, Answers] = {}
        self.crashes: list[str] = []
        self.odd: list[str] = []
        self.host = Channel(Peer("host"), self._handle, odd=self.odd.append)
        self.worker = Channel(Peer("worker"), self._handle, crashed=lambda call, error: self.crashes.append(f"{call.method}: {error}"))

    async def _handle(self, call: Call) -> object:
        return await self.answers[call.method](call)

    async def meet(self) -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        await loop.connect_accepted_socket(lambda: self.host, ours)
        await loop.connect_accepted_socket(lambda: self.worker, theirs)

        async def welcome() -> None:
            self.host.welcome(await self.host.greeted())

        await asyncio.gather(welcome(), self.worker.hello(Hello(sdk="test")))


@pytest.fixture
async def pair() -> AsyncGenerator[Pair]:
    made = Pair()
    await made.meet()
    yield made
    made.worker.close()
    made.host.close()
    await made.host.drained()
    await made.worker.drained()


def read(raw: Raw) -> Any:
    return msgspec.json.decode(raw)


async def test_a_call_is_answered_and_calls_back(pair: Pair) -> None:
    async def tool(call: Call) -> object:
        return [read(call.params), read(await pair.worker.call("fetch", 1, during=call.id))]

    async def fetch(call: Call) -> object:
        return {"during": call.during, "context": bytes(call.context).decode()}

    pair.answers |= {"tool": tool, "fetch": fetch}
    assert read(await pair.host.call("tool", {"a": 1}, seconds=5, context={"user": "u"})) == [{"a": 1}, {"during": 1, "context": ""}]


async def test_a_call_whose_time_is_up_at_once_harms_no_other_of_the_same_turn(pair: Pair) -> None:
    async def echo(call: Call) -> object:
        return read(call.params)

    pair.answers["echo"] = echo
    late, well = await asyncio.gather(pair.host.call("echo", 1, seconds=0.0), pair.host.call("echo", 2, seconds=5), return_exceptions=True)
    assert isinstance(late, RpcError)
    assert late.code == "deadline_exceeded"
    assert isinstance(well, Raw)
    assert read(well) == 2


async def test_an_error_keeps_its_code_and_a_fault_keeps_its_text_to_itself(pair: Pair) -> None:
    async def denied(_: Call) -> object:
        raise RpcError("permission_denied", "not granted", details={"permission": "network"})

    async def broken(_: Call) -> object:
        raise ValueError("secret-text")

    pair.answers |= {"denied": denied, "broken": broken}
    with pytest.raises(RpcError) as refused:
        await pair.host.call("denied")
    assert (refused.value.code, refused.value.details) == ("permission_denied", {"permission": "network"})
    with pytest.raises(RpcError) as failed:
        await pair.host.call("broken")
    assert failed.value.code == "failed"
    assert "secret-text" not in failed.value.message
    assert pair.crashes == ["broken: secret-text"]


@pytest.mark.proves("worker.protocol")
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RpcError("rate_limited", "later", retryable=True, details={"at": object()}), "later"),
        (RpcError("rate_limited", "half a letter: \ud83d", retryable=True), "half a letter: \\ud83d"),
        (RpcError("rate_limited", "x" * 2000, retryable=True, details={"all": "y" * (1 << 20)}), "x" * 500),
    ],
    ids=["no JSON", "no Unicode", "too large"],
)
async def test_an_error_that_cannot_be_told_whole_is_told_in_brief(pair: Pair, error: RpcError, message: str) -> None:
    async def broken(call: Call) -> object:
        async with pair.worker.open_stream(answering=call.id):
            raise error

    pair.answers["broken"] = broken
    opened: asyncio.Future[Incoming] = asyncio.get_running_loop().create_future()
    with pytest.raises(RpcError) as failed:
        await pair.host.call("broken", seconds=5, opened=opened.set_result)
    with pytest.raises(RpcError) as ended:
        await asyncio.wait_for(anext(await opened), 5)
    for told in (failed.value, ended.value):
        assert (told.code, told.message, told.retryable, told.details) == ("rate_limited", message, True, {})
    assert pair.odd == []


async def test_a_deadline_stops_the_work_and_the_next_call_is_well(pair: Pair) -> None:
    stopped = asyncio.Event()

    async def slow(_: Call) -> object:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def quick(_: Call) -> object:
        return "well"

    pair.answers |= {"slow": slow, "quick": quick}
    with pytest.raises(RpcError) as late:
        await pair.host.call("slow", seconds=0.05)
    assert late.value.code == "deadline_exceeded"
    await asyncio.wait_for(stopped.wait(), 5)
    assert read(await pair.host.call("quick")) == "well"


async def test_a_caller_that_is_cancelled_cancels_the_work_and_what_it_called(pair: Pair) -> None:
    began, inner, outer = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def tool(call: Call) -> object:
        try:
            return await pair.worker.call("fetch", during=call.id)
        finally:
            outer.set()

    async def fetch(_: Call) -> object:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            inner.set()

    pair.answers |= {"tool": tool, "fetch": fetch}
    task = asyncio.ensure_future(pair.host.call("tool"))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(inner.wait(), 5)
    await asyncio.wait_for(outer.wait(), 5)


async def test_a_call_that_is_stopped_before_its_first_step_is_answered_all_the_same(pair: Pair) -> None:
    async def never(_: Call) -> object:
        raise AssertionError("it was to be stopped before")

    pair.answers["never"] = never
    task = asyncio.ensure_future(pair.host.call("never"))
    await asyncio.sleep(0)
    task.cancel()  # the call and its cancel go out together
    with pytest.raises(asyncio.CancelledError):
        await task

    async def quick(_: Call) -> object:
        return 1

    pair.answers["quick"] = quick
    await pair.host.call("quick")
    assert pair.host.peer.late == 1
    assert pair.odd == []


async def test_a_stream_waits_for_its_reader_and_calls_pass_it(pair: Pair) -> None:
    sent = [bytes([n % 256]) * 40_000 for n in range(40)]
    under_way = 0

    async def ping(_: Call) -> object:
        return "pong"

    async def produce() -> None:
        nonlocal under_way
        async with pair.worker.open_stream() as stream:
            pair.worker.notify("here", stream.number)
            for data in sent:
                await stream.send(data)
                under_way += len(data)

    pair.answers["ping"] = ping
    producing = asyncio.ensure_future(produce())
    while 1 not in pair.host._incoming:  # pyright: ignore[reportPrivateUsage] - nobody is told of an opened stream but by its user
        await asyncio.sleep(0)
    stream = pair.host.stream(1)
    assert read(await pair.host.call("ping")) == "pong"
    for _ in range(100):
        await asyncio.sleep(0)
    assert under_way <= 256 * 1024  # nobody has read anything
    assert b"".join([data async for data in stream]) == b"".join(sent)
    await producing


@pytest.mark.parametrize("how", ["cancelled", "too late", "refused"])
async def test_a_stream_that_answers_a_call_which_came_to_nothing_ends(pair: Pair, how: str) -> None:
    opened: asyncio.Future[Outgoing] = asyncio.get_running_loop().create_future()

    async def produce(call: Call) -> object:
        opened.set_result(pair.worker.open_stream(answering=call.id))
        if how == "refused":
            raise RpcError("failed", "no")
        await asyncio.Event().wait()
        return None

    pair.answers["produce"] = produce
    task = asyncio.ensure_future(pair.host.call("produce", seconds=0.1 if how == "too late" else None))
    stream = await opened
    if how == "cancelled":
        while not pair.host._incoming:  # pyright: ignore[reportPrivateUsage] - nobody is told of an opened stream but by its user
            await asyncio.sleep(0)
        task.cancel()
    with pytest.raises((asyncio.CancelledError, RpcError)):
        await task

    async def endless() -> None:
        while True:
            await stream.send(b"x" * 1000)

    with pytest.raises(RpcError) as unwanted:
        await asyncio.wait_for(endless(), 5)
    assert unwanted.value.code == "cancelled"
    assert pair.odd == []


async def test_a_reader_that_leaves_ends_the_sending(pair: Pair) -> None:
    async def produce(call: Call) -> object:
        stream = pair.worker.open_stream(answering=call.id)

        async def endless() -> str:
            async with stream:
                while True:
                    await stream.send(b"x" * 1000)

        producing.append(asyncio.ensure_future(endless()))
        return stream.number

    producing: list[asyncio.Future[str]] = []
    pair.answers["produce"] = produce
    number: int = read(await pair.host.call("produce"))
    async with pair.host.stream(number) as stream:
        assert stream.call == -1
        assert await anext(stream) == b"x" * 1000
    with pytest.raises(RpcError) as over:
        await asyncio.wait_for(producing[0], 5)
    assert over.value.code == "cancelled"


async def test_a_stream_that_breaks_off_is_no_clean_end(pair: Pair) -> None:
    async def produce(call: Call) -> object:
        stream = pair.worker.open_stream(answering=call.id)
        await stream.send(b"some")
        stream.end(RpcError("failed", "broke off"))
        return stream.number

    pair.answers["produce"] = produce
    stream = pair.host.stream(read(await pair.host.call("produce")))
    with pytest.raises(RpcError) as broken:
        async for _ in stream:
            pass
    assert broken.value.code == "failed"


async def test_when_the_other_side_is_gone_everything_fails_at_once(pair: Pair) -> None:
    waiting = asyncio.Event()

    async def hang(_: Call) -> object:
        waiting.set()
        await asyncio.Event().wait()
        return None

    pair.answers["hang"] = hang
    stream = pair.host.open_stream()
    task = asyncio.ensure_future(pair.host.call("hang", seconds=60))
    await waiting.wait()
    pair.worker.close()
    with pytest.raises(RpcError) as gone:
        await task
    assert gone.value.code == "worker_exited"
    await pair.host.wait_closed()
    with pytest.raises(RpcError):
        await pair.host.call("hang")
    with pytest.raises(RpcError):
        await stream.send(b"x")


@pytest.mark.proves("worker.protocol")
async def test_what_nobody_asked_for_yet_keeps_nothing_else_from_its_end(pair: Pair) -> None:
    async def produce(call: Call) -> object:
        pair.worker.open_stream(answering=call.id)
        await asyncio.Event().wait()
        return None

    pair.answers["produce"] = produce
    task = asyncio.ensure_future(pair.host.call("produce", seconds=60))
    while not pair.host._incoming:  # pyright: ignore[reportPrivateUsage] - nobody is told of an opened stream but by its user
        await asyncio.sleep(0)
    async with pair.host.open_stream() as stream:
        pair.worker.close()
        with pytest.raises(RpcError):
            await asyncio.wait_for(stream.send(b"x" * (1 << 20)), 5)
    with pytest.raises(RpcError) as gone:
        await task
    assert gone.value.code == "worker_exited"


async def test_pieces_behind_the_failure_of_their_call_are_passed_over(pair: Pair) -> None:
    calls = [asyncio.ensure_future(pair.host.call("tool")) for _ in range(2)]
    await asyncio.sleep(0)
    pair.host.data_received(
        frame(b'{"method":"stream.open","params":{"stream":1,"call":-1}}')
        + frame(b'{"id":1,"error":{"code":"failed","message":"no"}}')
        + frames.piece(1, 0, b"x")
        + frame(b'{"method":"stream.end","params":{"stream":1}}')
        + frame(b'{"id":2,"result":"well"}')
    )
    with pytest.raises(RpcError):
        await calls[0]
    assert read(await calls[1]) == "well"


async def test_bytes_that_are_no_frames_end_the_connection(pair: Pair) -> None:
    pair.host.data_received(b"\xff" * 100)
    assert pair.host.closed
    assert pair.odd == ["a frame of 4294967295 bytes"]


async def test_a_call_knows_its_number_before_the_other_side_calls_for_it(pair: Pair) -> None:
    known: list[int] = []

    async def tool(call: Call) -> object:
        return read(await pair.worker.call("fetch", during=call.id))

    async def fetch(call: Call) -> object:
        return call.during in known

    pair.answers |= {"tool": tool, "fetch": fetch}
    assert read(await pair.host.call("tool", began=known.append)) is True
    with pytest.raises(RpcError):
        await pair.host.call("tool", "x" * (2 << 20), began=known.append)
    assert known == [1]


async def test_a_sender_that_waits_for_something_else_is_told_that_nobody_takes_more(pair: Pair) -> None:
    told = asyncio.Event()

    async def streamed(call: Call) -> object:
        stream = pair.host.open_stream(answering=call.id)
        stream.on_unwanted = told.set
        return stream.number

    pair.answers["streamed"] = streamed
    await pair.worker.stream(read(await pair.worker.call("streamed"))).aclose()
    await asyncio.wait_for(told.wait(), 5)


@pytest.mark.proves("worker.protocol")
@pytest.mark.parametrize("nonsense", [(9).to_bytes(4, "big") + b"\0nonsense", b"\xff" * 8], ids=["often", "no frames"])
async def test_what_was_said_before_nonsense_counts(nonsense: bytes) -> None:
    """An answer in the same bytes as what ends the connection is still the answer, and nobody waits for ever."""
    channel = Channel(Peer("host"), handle=lambda _: asyncio.sleep(0))
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(frame(b'{"method":"hello","params":{}}'))
        await asyncio.get_running_loop().connect_accepted_socket(lambda: channel, ours)
        channel.welcome(await channel.greeted())
        calls = [asyncio.ensure_future(channel.call("tool")) for _ in range(2)]
        await asyncio.sleep(0)
        theirs.sendall(frame(b'{"id":1,"result":"well"}') + nonsense * 101)
        assert read(await asyncio.wait_for(calls[0], 5)) == "well"
        with pytest.raises(RpcError) as gone:
            await asyncio.wait_for(calls[1], 5)
        assert gone.value.code == "worker_exited"


@pytest.mark.parametrize("role", ["host", "worker"])
async def test_who_is_gone_before_the_two_have_met_is_an_error_that_says_so(role: Literal["host", "worker"]) -> None:
    channel = Channel(Peer(role), handle=lambda _: asyncio.sleep(0))
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(frame(b'{"method":"hello","params":{}}') if role == "host" else b"")
    await asyncio.get_running_loop().connect_accepted_socket(lambda: channel, ours)
    hello = await channel.greeted() if role == "host" else Hello()
    await channel.wait_closed()
    with pytest.raises(RpcError) as gone:
        channel.welcome(hello) if role == "host" else await channel.hello(hello)
    assert gone.value.code == "worker_exited"


def frame(body: bytes) -> bytes:
    return (len(body) + 1).to_bytes(4, "big") + b"\0" + body
