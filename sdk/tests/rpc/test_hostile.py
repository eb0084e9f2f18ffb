"""A worker that says anything at all: nothing but its own connection ends, and every call of the host's has one end."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline_sdk.channel import Call, Channel, Incoming
from trunkline_sdk.rpc import frames
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.rpc.messages import Hello, Raw, encode, failure, notification, result
from trunkline_sdk.rpc.peer import Peer

NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 5, 2**31, 2**53 - 1, -1, 1.5, None, "1"])
ERRORS = st.sampled_from([{"code": "failed", "message": "m"}, {"code": "x", "message": "", "details": {"a": [1]}}, {}, None])
CALLS = st.fixed_dictionaries(
    {"id": NUMBERS, "method": st.sampled_from(["x", "", None])}, optional={"during": NUMBERS, "deadline_ms": NUMBERS}
)
ANSWERS = st.fixed_dictionaries({"id": NUMBERS}, optional={"result": st.sampled_from([1, None, "p" * 5000]), "error": ERRORS})
STREAMS = st.fixed_dictionaries({"stream": NUMBERS}, optional={"call": NUMBERS, "messages": NUMBERS, "bytes": NUMBERS, "error": ERRORS})
TOLD = st.sampled_from(["stream.open", "stream.end", "stream.credit", "stream.cancel", "cancel", "hello", "welcome", "log"])
NOTICES = st.fixed_dictionaries({"method": TOLD, "params": st.one_of(STREAMS, st.fixed_dictionaries({"id": NUMBERS}), NUMBERS)})
FEW = st.integers(1, 5)
POLITE = st.one_of(
    st.builds(lambda stream, call: notification("stream.open", {"stream": stream, "call": -call}), FEW, FEW),
    st.builds(lambda stream: notification("stream.end", {"stream": stream}), FEW),
    st.builds(lambda stream: notification("stream.credit", {"stream": stream, "messages": 8, "bytes": 9000}), FEW),
    st.builds(lambda call: result(call, b"1"), FEW),
    st.builds(lambda call: failure(call, RpcError("failed", "no")), FEW),
    st.builds(lambda call: frames.frame(frames.MESSAGE, b'{"id":%d,"method":"x"}' % call), FEW),
)
SAID = st.one_of(
    POLITE,
    st.one_of(CALLS, ANSWERS, NOTICES).map(lambda message: frames.frame(frames.MESSAGE, encode(message))),
    st.builds(frames.piece, st.integers(0, 5), st.integers(0, 3), st.sampled_from([b"", b"x" * 100, b"x" * 5000])),
    st.builds(frames.frame, st.integers(0, 2), st.binary(max_size=12)),
    st.sampled_from([b"\0\0\0\2\0{", frames.frame(frames.MESSAGE, b'{"id":1,"result":' + b"[" * 9000), b"\0\0\0"]),
)


class Nowhere(asyncio.Transport):
    """Takes what is written, and is closed when it is aborted."""

    aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert data

    def pause_reading(self) -> None:
        """Nobody reads."""

    def resume_reading(self) -> None:
        """As before."""

    def abort(self) -> None:
        self.aborted = True


async def hear(said: list[bytes], cut: int) -> None:
    """Have a host hear it, in the midst of calls and streams of its own."""

    async def handle(call: Call) -> object:
        async with channel.open_stream(answering=call.id) as stream:
            await stream.send(b"x" * 3000)
        return stream.number

    transport, streams, notices = Nowhere(), list[Incoming](), list[str]()
    channel = Channel(Peer("host"), handle, heard=lambda method, _: notices.append(method))
    channel.connection_made(transport)
    channel.data_received(notification("hello", Hello()))
    channel.welcome(await channel.greeted())
    calls: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(channel.call("x", opened=streams.append if n % 2 else None)) for n in range(4)
    ]
    outgoing = channel.open_stream()
    sending = asyncio.ensure_future(outgoing.send(b"x" * 1_000_000))
    await asyncio.sleep(0)
    data = b"".join(said)
    for start in range(0, len(data), cut):
        if not channel.closed:
            channel.data_received(data[start : start + cut])
        if start % 3 == 0:
            await asyncio.sleep(0)
    channel.close()
    ends = await asyncio.wait_for(asyncio.gather(*calls, sending, return_exceptions=True), 5)
    assert all(isinstance(end, Raw | RpcError) for end in ends[:-1])
    assert isinstance(ends[-1], RpcError)
    for stream in streams:
        try:
            async with asyncio.timeout(5):
                async for _ in stream:
                    pass
        except RpcError:
            pass
    await channel.drained()
    assert transport.aborted
    assert not channel.busy


@pytest.mark.proves("worker.protocol")
@given(st.lists(SAID, max_size=25), st.sampled_from([1 << 20, 4096, 7]))
@settings(max_examples=150, deadline=None)
def test_whatever_a_worker_says_the_host_goes_on(said: list[bytes], cut: int) -> None:
    asyncio.run(hear(said, cut))
