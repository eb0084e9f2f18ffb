"""What a relay takes of a daemon: an invoke's answer as it arrives, a stream's records together."""

import asyncio

import pytest

from sdk.tests.daemon.client.answers import AGAIN, FAILOVER, NEUTRAL, answer, chunked, cuts, failure, keeps, seen
from sdk.tests.daemon.client.conftest import MakeClient
from sdk.tests.http1.asking import sees_the_end
from sdk.tests.http1.peer import Peer, Wire, after
from sdk.tests.http1.peer import Request as Asked
from trunkline_sdk.daemon.client import Arriving, Client, Options, Request, Stream
from trunkline_sdk.daemon.messages import Credential, Loss

CHAT = Request("chat_completions", "m", b"{}")
OTHER = Request("videos", "m", b"{}")
SPEECH = Request("audio_speech", "m", b"{}")
MIB = 1024 * 1024
LOSSES = b"X-Losses: W3sicGF0aCI6ImEifV0=\r\n"


async def whole(arriving: Arriving) -> bytes:
    async with asyncio.timeout(10), arriving:
        return b"".join([part async for part in arriving])


async def pieces(stream: Stream) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(10), stream:
        while (piece := await stream.piece()) is not None:
            found.append(piece)
        assert await stream.piece() is None
    return found


# --------------------------------------------------------------------------------------------------------------- arriving
async def test_an_answer_begins_before_it_ends(peer: Peer, client: Client) -> None:
    go = asyncio.Event()
    asked: list[Asked] = []

    async def script(wire: Wire) -> None:
        asked.append(await wire.request())
        await wire.send(*chunked(b"\xff\xfb", headers=LOSSES + b"Content-Type: audio/mpeg\r\n", end=False))
        await go.wait()
        await wire.send(b"2\r\n\x00\x01\r\n0\r\n\r\n")

    peer.plays(script)
    arriving = await client.begin("p", SPEECH, Credential(token="t"))
    assert (arriving.content_type, arriving.losses) == ("audio/mpeg", (Loss(path="a"),))
    assert await anext(arriving) == b"\xff\xfb"
    go.set()
    assert await whole(arriving) == b"\x00\x01"
    assert asked[0].line == b"POST /extension/v1/p/invoke HTTP/1.1"
    assert (asked[0].header(b"accept"), asked[0].header(b"x-credential-token")) == (None, b"t")


async def test_an_answer_that_does_not_begin_fails_as_an_invoke_does(peer: Peer, client: Client) -> None:
    keeps(peer, answer(b'{"error":"busy"}', 503))
    error = await failure(client.begin("p", CHAT))
    assert seen(error) == ("upstream", AGAIN)
    assert str(error) == "extension p invoke failed: busy"


async def test_an_answer_that_breaks_off_says_so_behind_what_came(peer: Peer, client: Client) -> None:
    cuts(peer, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    arriving = await client.begin("p", CHAT)
    assert await anext(arriving) == b"half"
    for _ in range(2):
        error = await failure(anext(arriving))
        assert seen(error) == ("transport", AGAIN)
        assert not error.timed_out


async def test_an_answer_may_be_as_large_as_an_invokes(peer: Peer, client: Client) -> None:
    keeps(peer, answer(b"x" * (64 * MIB)))
    assert len(await whole(await client.begin("p", CHAT))) == 64 * MIB
    keeps(peer, answer(b"x" * (64 * MIB + 1)))
    assert seen(await failure(whole(await client.begin("p", CHAT)))) == ("upstream", NEUTRAL)


async def test_leaving_an_answer_drops_the_connection(peer: Peer, client: Client) -> None:
    peer.plays(after(*chunked(b"half", end=False)))
    async with await client.begin("p", CHAT) as arriving:
        assert await anext(arriving) == b"half"
        task = asyncio.ensure_future(anext(arriving))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await sees_the_end(peer.wires[0])


async def test_a_wait_that_was_too_long_is_told_with_what_it_was_for_and_without_the_address(peer: Peer, make_client: MakeClient) -> None:
    peer.plays(after())
    client = make_client(options=Options(header_seconds=0.05))
    for call in (client.invoke("p", CHAT), client.begin("p", CHAT), client.stream("p", CHAT), client.models("p")):
        error = await failure(call)
        assert error.timed_out
        assert str(error).endswith(" got no answer from the daemon: waited 0.05 s for the first byte of the answer")
        assert seen(error) == ("transport", AGAIN)


async def test_no_answer_pauses_longer_than_records_may(peer: Peer, make_client: MakeClient) -> None:
    client = make_client(options=Options(record_silence=0.05))
    peer.plays(after(*chunked(b"data: 1\n\n", end=False)))
    arriving = await client.begin("p", CHAT)
    assert await anext(arriving) == b"data: 1\n\n"
    late = await failure(anext(arriving))
    assert (late.timed_out, seen(late)) == (True, ("transport", AGAIN))
    stream = await client.stream("p", CHAT)
    assert await anext(stream) == b"data: 1\n\n"
    late = await failure(anext(stream))
    assert (late.timed_out, seen(late), str(late)) == (True, ("transport", FAILOVER), "extension p stream was silent for too long")


# ----------------------------------------------------------------------------------------------------------------- pieces
async def test_records_that_come_together_are_one_piece(peer: Peer, client: Client) -> None:
    keeps(peer, answer(b"data: 1\n\n: hb\n\ndata: 2\n\ndata: 3"))
    assert await pieces(await client.stream("p", OTHER)) == [b"data: 1\n\ndata: 2\n\n", b"data: 3\n\n"]


async def test_signs_of_life_are_empty_pieces_and_parts_of_records_are_none(peer: Peer, client: Client) -> None:
    steps = [b": hb\n\n", b": hb\n\n", b"data: ", b"1\n", b"\n", b"event: x\n\n", b"data: 2\n\n"]

    async def script(wire: Wire) -> None:
        await wire.request()
        head, *rest = chunked(*steps)
        await wire.send(head)
        for number, chunk in enumerate(rest):
            await turns[number].wait()
            await wire.send(chunk)

    turns = [asyncio.Event() for _ in range(len(steps) + 1)]
    peer.plays(script)
    async with asyncio.timeout(10), await client.stream("p", OTHER) as stream:
        found: list[bytes | None] = []
        for step in ([0], [1], [2, 3, 4], [5], [6], [7]):
            for number in step:
                turns[number].set()
            found.append(await stream.piece())
    assert found == [b"", b"", b"data: 1\n\n", b"", b"data: 2\n\n", None]


@pytest.mark.parametrize("beats", [True, False])
async def test_signs_of_life_do_not_hide_a_silent_stream_from_a_relay(peer: Peer, make_client: MakeClient, *, beats: bool) -> None:
    told = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(*chunked(b"data: 1\n\n", end=False))
        try:
            while beats and not told.is_set():
                await wire.send(b"6\r\n: hb\n\n\r\n")
        except ConnectionError:
            pass
        await wire.gone()

    peer.plays(script)
    stream = await make_client(options=Options(record_silence=0.1)).stream("p", CHAT)
    assert await stream.piece() == b"data: 1\n\n"
    late = await failure(pieces(stream))
    told.set()
    assert (late.timed_out, seen(late)) == (True, ("transport", FAILOVER))
    assert "silent" in str(late)


async def test_the_callers_deadline_holds_for_pieces(peer: Peer, client: Client) -> None:
    peer.plays(after(*chunked(b"data: 1\n\n", end=False)))
    stream = await client.stream("p", CHAT, within=0.05)
    assert await stream.piece() == b"data: 1\n\n"
    assert seen(await failure(stream.piece())) == ("transport", NEUTRAL)
    await sees_the_end(peer.wires[0])


async def test_a_piece_comes_before_the_failure_behind_it(peer: Peer, client: Client) -> None:
    cuts(peer, *chunked(b"data: 1\n\ndata: 2\n\ndata: ha", end=False))
    stream = await client.stream("p", CHAT)
    assert await stream.piece() == b"data: 1\n\ndata: 2\n\n"
    for _ in range(2):
        assert seen(await failure(stream.piece())) == ("transport", FAILOVER)
