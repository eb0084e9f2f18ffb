"""Streams: records whole, ends told apart."""

import asyncio
import contextlib
import itertools

import pytest

from sdk.tests.daemon.client.answers import AGAIN, FAILOVER, NEUTRAL, answer, chunked, cuts, keeps, seen
from sdk.tests.daemon.client.conftest import MakeClient
from sdk.tests.http1.asking import sees_the_end
from sdk.tests.http1.peer import Peer, Wire, after
from trunkline_sdk.daemon.client import Client, Options, Request, Stream
from trunkline_sdk.daemon.errors import CallFailed
from trunkline_sdk.daemon.messages import Loss
from trunkline_sdk.daemon.protocol.surfaces import Ending

CHAT = Request("chat_completions", "m", b"{}")
OTHER = Request("videos", "m", b"{}")
MIB = 1024 * 1024

VECTOR = (
    b': hb\n\ndata: {"n":1}\n\nevent: tick\n\ndata:\n\nevent: part\r\ndata: {"n":2}\r\n\r\n'
    b": in\ndata:one\ndata: two\n\ndata: [DONE]\n\ndata: rest"
)
RECORDS = [
    b'data: {"n":1}\n\n',
    b'event: part\r\ndata: {"n":2}\r\n\r\n',
    b": in\ndata:one\ndata: two\n\n",
    b"data: [DONE]\n\n",
    b"data: rest\n\n",
]


async def drained(stream: Stream) -> tuple[list[bytes], CallFailed | None]:
    """Every record, and the error at the end; read once more, the end is the same."""
    records: list[bytes] = []
    ends: list[CallFailed | None] = []
    async with asyncio.timeout(10), stream:
        while len(ends) < 2:
            try:
                record = await anext(stream, None)
            except CallFailed as error:
                ends.append(error)
            else:
                records += [] if record is None else [record]
                ends += [None] if record is None else []
    assert ends[0] is ends[1]
    return records, ends[0]


async def test_the_reference_vector_comes_as_its_records(peer: Peer, client: Client) -> None:
    """I.6"""
    losses = b"X-Losses: W3sicGF0aCI6ImEifV0=\r\n"
    asked = keeps(peer, *chunked(VECTOR, headers=losses))
    stream = await client.stream("p", CHAT)
    assert stream.losses == (Loss(path="a"),)
    assert await drained(stream) == (RECORDS, None)
    assert asked[0].line == b"POST /extension/v1/p/stream HTTP/1.1"
    assert asked[0].header(b"accept") == b"text/event-stream"


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_records_survive_any_split(peer: Peer, client: Client, size: int) -> None:
    """I.6"""
    pieces = [VECTOR[begin : begin + size] for begin in range(0, len(VECTOR), size)]
    keeps(peer, *chunked(*pieces))
    assert await drained(await client.stream("p", CHAT)) == (RECORDS, None)


@pytest.mark.parametrize("body", [b"", b": only a comment\n\n", b"\n\n\n"])
async def test_an_empty_stream_is_one_where_no_end_is_prescribed(peer: Peer, client: Client, strict: Client, body: bytes) -> None:
    """I.6"""
    keeps(peer, answer(body))
    assert await drained(await client.stream("p", OTHER)) == ([], None)
    assert await drained(await strict.stream("p", CHAT)) == ([], None)
    records, error = await drained(await client.stream("p", CHAT))
    assert records == []
    assert error is not None
    assert "cut short" in str(error)
    assert seen(error) == ("transport", FAILOVER)


async def test_a_record_of_4_mib_is_the_largest(peer: Peer, client: Client, make_client: MakeClient) -> None:
    """I.7"""
    full = b"data: " + b"x" * (4 * MIB - 8) + b"\n\n"
    pieces = [full[begin : begin + 50_000] for begin in range(0, len(full), 50_000)]
    keeps(peer, *chunked(*pieces, b"data: [DONE]\n\n"))
    assert await drained(await client.stream("p", CHAT)) == ([full, b"data: [DONE]\n\n"], None)
    for before in (b"", b": c\n"):
        large = (before or b"data: x\n") + full
        pieces = [b"data: first\n\n", *(large[begin : begin + 50_000] for begin in range(0, len(large), 50_000))]
        cuts(peer, *chunked(*pieces))
        records, error = await drained(await make_client().stream("p", CHAT))
        assert records == [b"data: first\n\n"]
        assert error is not None
        assert seen(error) == ("upstream", NEUTRAL)


async def test_keep_alives_do_not_add_up(peer: Peer, client: Client) -> None:
    """I.7"""
    beats = b": keep-alive\n\n" * 10_000
    keeps(peer, *chunked(*[beats] * 50, b"data: [DONE]\n\n"))
    assert await drained(await client.stream("p", CHAT)) == ([b"data: [DONE]\n\n"], None)


async def test_a_stream_that_breaks_gives_what_came_whole_and_may_fail_over(peer: Peer, client: Client, strict: Client) -> None:
    """I.10"""
    cuts(peer, *chunked(b"data: 1\n\n", b"data: [DONE]\n\ndata: ha", end=False))
    for one in (client, strict):
        records, error = await drained(await one.stream("p", CHAT))
        assert records == [b"data: 1\n\n", b"data: [DONE]\n\n"]
        assert error is not None
        assert seen(error) == ("transport", FAILOVER)


async def test_a_wrong_content_length_is_a_break(peer: Peer, client: Client) -> None:
    """I.10"""
    cuts(peer, b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\ndata: [DONE]\n\n")
    records, error = await drained(await client.stream("p", CHAT))
    assert records == [b"data: [DONE]\n\n"]
    assert error is not None
    assert seen(error) == ("transport", FAILOVER)


ENDS = {
    "chat_completions": [
        b"data: [DONE]\n\n",
        b"data:[DONE]\r\n\r\n",
        b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n',
        b'data: {"error":{"message":"x"}}\n\n',
    ],
    "responses": [
        b"event: response.completed\ndata: {}\n\n",
        b'data: {"type":"response.failed"}\n\n',
        b'data: {"sequence":1, "type": "response.incomplete"}\n\n',
        b'event: error\ndata: {"type":"error"}\n\n',
    ],
    "messages": [
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
        b'data: {"type":"message_stop"}\n\n',
        b"event: error\ndata: {}\n\n",
    ],
    "audio_speech": [b"data: anything\n\n"],
}
NO_ENDS = {
    "chat_completions": [
        b'data: {"choices":[{"delta":{"content":"[DONE]"},"finish_reason":null}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\"finish_reason\\":\\"stop\\" \\n data: [DONE]"}}]}\n\n',
    ],
    "responses": [
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"response.completed"}\n\n',
        b'data: {"delta":"\\"type\\":\\"response.completed\\""}\n\n',
    ],
    "messages": [b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"message_stop"}}\n\n'],
}


@pytest.mark.parametrize(("surface", "record"), [(surface, record) for surface, records in ENDS.items() for record in records])
async def test_a_surface_s_own_end_is_an_end(peer: Peer, client: Client, surface: str, record: bytes) -> None:
    """K2"""
    keeps(peer, answer(b"data: first\n\n" + record + b": bye\n\n"))
    assert (await drained(await client.stream("p", CHAT._replace(surface=surface))))[1] is None


@pytest.mark.parametrize(("surface", "record"), [(surface, record) for surface, records in NO_ENDS.items() for record in records])
async def test_a_polite_end_without_it_is_none(peer: Peer, client: Client, strict: Client, surface: str, record: bytes) -> None:
    """K2"""
    keeps(peer, answer(record))
    records, error = await drained(await client.stream("p", CHAT._replace(surface=surface)))
    assert records == [record]
    assert error is not None
    assert seen(error) == ("transport", FAILOVER)
    assert (await drained(await strict.stream("p", CHAT._replace(surface=surface))))[1] is None


def test_an_end_once_seen_stays_seen() -> None:
    ending = Ending("chat_completions")
    for record, complete in ((b"data: 1\n\n", False), (b"data: [DONE]\n\n", True), (b"data: {}\n\n", True)):
        ending.see(record)
        assert ending.complete is complete


async def test_leaving_drops_the_connection(peer: Peer, client: Client) -> None:
    """I.9"""
    peer.plays(after(*chunked(b"data: 1\n\n", end=False)))
    async with await client.stream("p", CHAT) as stream:
        assert await anext(stream) == b"data: 1\n\n"
    await sees_the_end(peer.wires[0])
    assert await anext(stream, None) is None


async def test_cancelling_a_read_drops_the_connection(peer: Peer, client: Client) -> None:
    """I.9"""
    peer.plays(after(*chunked(b"data: 1\n\n", end=False)))
    stream = await client.stream("p", CHAT)
    assert await anext(stream) == b"data: 1\n\n"
    task = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await sees_the_end(peer.wires[0])


async def test_the_caller_s_deadline_covers_the_stream_and_is_final(peer: Peer, client: Client) -> None:
    peer.plays(after(*chunked(b"data: 1\n\n", end=False)))
    records, error = await drained(await client.stream("p", CHAT, within=0.05))
    assert records == [b"data: 1\n\n"]
    assert error is not None
    assert seen(error) == ("transport", NEUTRAL)
    await sees_the_end(peer.wires[0])


async def test_a_stream_that_only_keeps_alive_is_silent(peer: Peer, make_client: MakeClient) -> None:
    """K17"""
    told = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(*chunked(b"data: 1\n\n", end=False))
        with contextlib.suppress(ConnectionError):
            while not told.is_set():
                await wire.send(b"6\r\n: hb\n\n\r\n")
        await wire.gone()

    peer.plays(script)
    stream = await make_client(options=Options(record_silence=0.1)).stream("p", CHAT)
    records, error = await drained(stream)
    told.set()
    assert records == [b"data: 1\n\n"]
    assert error is not None
    assert "silent" in str(error)
    assert seen(error) == ("transport", FAILOVER)


async def test_a_stream_that_does_not_open_is_as_an_invoke(peer: Peer, client: Client) -> None:
    keeps(peer, answer(b'{"error":"busy"}', 503))
    with pytest.raises(CallFailed, match="extension p stream failed: busy") as caught:
        await client.stream("p", CHAT)
    assert seen(caught.value) == ("upstream", AGAIN)


async def test_many_streams_run_at_once(peer: Peer, client: Client) -> None:
    keeps(peer, *chunked(*(bytes([byte]) for byte in VECTOR)))
    streams = [await client.stream("p", CHAT) for _ in range(20)]
    ended = await asyncio.gather(*map(drained, streams))
    assert all(found == (RECORDS, None) for found in ended)
    assert len(list(itertools.chain(*(records for records, _ in ended)))) == 100
