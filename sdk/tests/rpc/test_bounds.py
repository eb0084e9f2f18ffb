"""What a peer keeps of the other side is bounded, whatever that one says and however it goes."""

import asyncio
import socket

import pytest

from trunkline_sdk.channel import Channel, Guard
from trunkline_sdk.rpc import frames
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.rpc.messages import Hello, Limits
from trunkline_sdk.rpc.peer import MOST_ENDED, MOST_SENDING, Peer


def met(limits: Limits = Limits()) -> tuple[Peer, Peer]:  # noqa: B008 - a frozen record
    host, worker = Peer("host"), Peer("worker", limits=limits)
    worker.hello(Hello())
    host.receive(worker.take(), now=0.0)
    host.welcome(Hello(limits=limits))
    worker.receive(host.take(), now=0.0)
    return host, worker


@pytest.mark.proves("worker.bounded")
def test_deadlines_of_calls_that_have_ended_are_swept_out() -> None:
    host, worker = met()
    for number in range(1, 5001):
        host.call("tool", now=0.0, seconds=500)
        worker.receive(host.take(), now=0.0)
        worker.answer(number, None, now=0.0)
        host.receive(worker.take(), now=0.0)
    for peer in (host, worker):
        assert len(peer._deadlines) <= MOST_ENDED + 2
    assert host.next_tick is None


def test_deadlines_of_calls_in_flight_are_kept_when_others_are_swept_out() -> None:
    host, worker = met()
    kept = host.call("slow", now=0.0, seconds=7)
    worker.receive(host.take(), now=0.0)
    for number in range(kept + 1, 2000):
        host.call("tool", now=0.0, seconds=500)
        worker.receive(host.take(), now=0.0)
        worker.answer(number, None, now=0.0)
        host.receive(worker.take(), now=0.0)
    assert (host.next_tick, worker.next_tick) == (7.0, 7.0)
    assert [type(event).__name__ for event in host.tick(7.0)] == ["Failed"]
    assert [type(event).__name__ for event in worker.tick(7.0)] == ["Stopped"]


@pytest.mark.proves("worker.bounded")
def test_a_worker_that_takes_much_in_a_stream_is_sent_few_streams() -> None:
    window = MOST_SENDING // 2
    host, _ = met(Limits(stream_bytes=window, stream_messages=4096, streams=4096))
    for _ in range(2):
        assert host.room(host.open_stream(), window)
    with pytest.raises(RpcError) as refused:
        host.open_stream()
    assert refused.value.code == "rate_limited"


@pytest.mark.proves("worker.bounded")
def test_streams_that_have_ended_count_until_they_are_written() -> None:
    """Else the ones of a worker that does not read would be without end, and a new one would be told before the end of an old one."""
    host, worker = met(Limits(streams=2))
    first, second = host.open_stream(), host.open_stream()
    for stream in (first, second):
        host.send(stream, b"x")
    host.end_stream(first)
    with pytest.raises(RpcError) as refused:
        host.open_stream()
    assert refused.value.code == "rate_limited"
    worker.receive(host.take(), now=0.0)
    third = host.open_stream()
    host.end_stream(second, RpcError("failed", "broke off"))
    host.receive(worker.take(), now=0.0)
    events = worker.receive(host.take(), now=0.0)
    assert [type(event).__name__ for event in events] == ["Opened", "Ended"]
    assert host.open_stream() == third + 1


def test_an_urgent_call_goes_beyond_the_limit() -> None:
    host, _ = met(Limits(calls=1))
    host.call("tool", now=0.0)
    with pytest.raises(RpcError):
        host.call("tool", now=0.0)
    assert host.call("ping", now=0.0, urgent=True) == 2


def test_what_waits_is_counted_until_it_is_taken() -> None:
    host, _ = met()
    host.call("tool", "x" * 1000, now=0.0)
    waiting = host.waiting
    assert waiting > 1000
    assert len(host.take()) == waiting
    assert host.waiting == 0
    host.call("tool", "x" * 1000, now=0.0)
    host.lost(RpcError("worker_exited", "gone"))
    assert host.waiting == 0


@pytest.mark.parametrize("body", [b'{"id":1,"result":%b}', b'{"id":1,"error":{"code":"x","message":"","details":{"a":%b}}}'])
def test_an_answer_that_is_nested_too_deeply_fails_its_call_alone(body: bytes) -> None:
    host, _ = met()
    host.call("one", now=0.0)
    host.call("two", now=0.0)
    deep = frames.frame(frames.MESSAGE, body % (b"[" * 100_000 + b"]" * 100_000))
    events = host.receive(deep + frames.frame(frames.MESSAGE, b'{"id":2,"result":1}'), now=0.0)
    assert [type(event).__name__ for event in events] == ["Violation", "Failed", "Answered"]


@pytest.mark.proves("worker.bounded")
async def test_a_worker_that_does_not_read_is_called_no_more() -> None:
    channel = Channel(Peer("host"), lambda _: asyncio.sleep(0), guard=Guard(refused=1 << 20))
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(frames.frame(frames.MESSAGE, b'{"method":"hello","params":{}}'))
        await asyncio.get_running_loop().connect_accepted_socket(lambda: channel, ours)
        channel.welcome(await channel.greeted())
        calls = [asyncio.ensure_future(channel.call("tool", "x" * 900_000)) for _ in range(5)]
        ended = await asyncio.wait_for(asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED), 5)
        codes = [task.exception().code for task in ended[0]]  # type: ignore[union-attr]
        assert set(codes) == {"unresponsive"}
        assert 1 <= len(codes) < 5
        channel.close()
        await asyncio.gather(*calls, return_exceptions=True)
