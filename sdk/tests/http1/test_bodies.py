"""Bodies: how each kind ends, and that a short one is never a clean end (RFC 9112, 6 to 8)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sdk.tests.http1.asking import MakeClient, ask, sees_the_end
from sdk.tests.http1.peer import Peer, Wire
from trunkline_sdk.http1 import BodyCut, BodyTooLarge, Client, ConnectionLost, Garbled, Timeouts

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
SIZED = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"
OPEN = b"HTTP/1.1 200 OK\r\n\r\n"
MiB = 1024 * 1024


@pytest.mark.parametrize(
    "answer",
    [
        SIZED + b"hello",
        CHUNKED + b"5\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"00002\r\nhe\r\n3\r\nllo\r\n000\r\n\r\n",
        CHUNKED + b'5;name=value;other="quoted"\r\nhello\r\n0;last\r\nTrailer: dropped\r\nX: y\r\n\r\n',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
)
async def test_a_body_ends_where_its_framing_says(peer: Peer, client: Client, answer: bytes) -> None:
    peer.says(answer)
    for _ in range(2):
        response = await client.request("GET", peer.url)
        assert await response.read() == b"hello"
        assert not {b"trailer", b"x"} & {name.lower() for name, _ in response.headers}
    assert len(peer.wires) == 1


async def test_a_body_without_length_ends_with_the_connection(peer: Peer, client: Client) -> None:
    peer.ends_with(OPEN, b"hel", b"lo")
    assert await ask(client, peer.url) == b"hello"


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_an_old_server_that_closes_is_read_to_its_end(peer: Peer, client: Client, version: bytes) -> None:
    peer.ends_with(b"HTTP/%b 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\n" % version, b"hello")
    assert await ask(client, peer.url) == b"hello"
    assert await ask(client, peer.url) == b"hello"
    assert len(peer.wires) == 2


@pytest.mark.parametrize("cut", [Wire.close, Wire.cut, Wire.reset], ids=["closed", "cut", "reset"])
@pytest.mark.parametrize(
    ("answer", "arrived"),
    [
        ([SIZED], b""),
        ([SIZED, b"hell"], b"hell"),
        ([CHUNKED], b""),
        ([CHUNKED, b"5\r\nhel"], b"hel"),
        ([CHUNKED, b"5\r\nhello\r\n"], b"hello"),
        ([CHUNKED, b"5\r\nhello\r\n0\r\n"], b"hello"),
        ([CHUNKED, b"ffffffffffffffff\r\nhello"], b"hello"),
    ],
    ids=["no body", "one byte short", "no chunk", "half a chunk", "no last chunk", "half the last chunk", "far less than promised"],
)
async def test_a_short_body_is_cut_after_what_arrived(
    peer: Peer, client: Client, answer: list[bytes], arrived: bytes, cut: Callable[[Wire], Awaitable[None] | None]
) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(*answer)
        await wire.reached.wait()
        if (closing := cut(wire)) is not None:
            await closing

    peer.plays(script)
    response = await client.request("GET", peer.url)
    got = b""
    while len(got) < len(arrived):
        got += await anext(response.body)
    assert got == arrived
    (await peer.wire()).reached.set()
    for _ in range(2):  # and so it stays
        with pytest.raises(BodyCut):
            await anext(response.body)


async def test_a_reset_is_no_end_of_a_body_without_length(peer: Peer, client: Client) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(OPEN, b"hello")
        await wire.reached.wait()
        wire.reset()

    peer.plays(script)
    response = await client.request("GET", peer.url)
    assert await anext(response.body) == b"hello"
    (await peer.wire()).reached.set()
    with pytest.raises(BodyCut):
        await anext(response.body)


@pytest.mark.parametrize("server_tls", ["tls"], indirect=True)
async def test_tls_without_its_goodbye_is_no_end_of_a_body_without_length(peer: Peer, client: Client) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(OPEN, b"hello")
        await wire.reached.wait()
        wire.cut()

    peer.plays(script)
    response = await client.request("GET", peer.url)
    assert await anext(response.body) == b"hello"
    (await peer.wire()).reached.set()
    with pytest.raises(BodyCut):
        await anext(response.body)


async def test_a_whole_body_that_waits_for_a_slow_reader_survives_the_connections_end(peer: Peer, client: Client) -> None:
    body = bytes(range(256)) * 1200
    closed = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        wire.writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body))
        wire.writer.write(body)
        wire.writer.close()
        closed.set()

    peer.plays(script)
    response = await client.request("GET", peer.url)
    await closed.wait()
    got = bytearray()
    async for piece in response.body:
        got += piece
        for _ in range(20):  # the end arrives while reading is paused
            await asyncio.sleep(0)
    assert got == body


@pytest.mark.parametrize("surplus", [b"!", b"\n", b"\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nsmuggle"])
@pytest.mark.parametrize("end", [b"HTTP/1.1 204 No Content\r\n\r\n", SIZED + b"hello", CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"])
async def test_bytes_after_the_end_cost_the_connection_and_nothing_else(peer: Peer, client: Client, end: bytes, surplus: bytes) -> None:
    peer.says(end + surplus)
    expected = b"hello" if b"hello" in end else b""
    assert await ask(client, peer.url) == expected
    assert await ask(client, peer.url) == expected
    assert len(peer.wires) == 2


async def test_bytes_that_come_after_the_end_in_a_read_of_their_own_cost_the_connection(peer: Peer, client: Client) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(SIZED, b"hello")
        await wire.reached.wait()
        await wire.send(b"!")
        await wire.gone()

    peer.plays(script)
    response = await client.request("GET", peer.url)
    assert await response.read() == b"hello"
    wire = await peer.wire()
    wire.reached.set()
    await sees_the_end(wire)


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("framing", [b"content-length: 5\r\n\r\nhello", b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"])
async def test_204_and_304_have_no_body_whatever_follows(peer: Peer, client: Client, status: int, framing: bytes) -> None:
    peer.says(b"HTTP/1.1 %d Nothing\r\n%b" % (status, framing))
    response = await client.request("GET", peer.url)
    assert (response.status, await response.read()) == (status, b"")
    await ask(client, peer.url)
    assert len(peer.wires) == 2


@pytest.mark.parametrize("framing", [b"content-length: 5", b"transfer-encoding: chunked", b"content-encoding: gzip\r\ncontent-length: 5"])
async def test_the_answer_to_head_has_no_body_and_keeps_its_connection(peer: Peer, client: Client, framing: bytes) -> None:
    peer.says(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % framing)
    for _ in range(2):
        response = await client.request("HEAD", peer.url)
        assert await response.read() == b""
        assert len(response.headers) == framing.count(b":")
    assert len(peer.wires) == 1


async def test_the_answer_to_head_needs_no_framing(peer: Peer, client: Client) -> None:
    peer.says(b"HTTP/1.1 200 OK\r\n\r\n")
    response = await client.request("HEAD", peer.url)
    assert await response.read() == b""


@pytest.mark.parametrize(
    "chunk",
    [b"zz\r\nhello\r\n", b"-5\r\nhello\r\n", b"+5\r\nhello\r\n", b"0x5\r\nhello\r\n", b"5 \r\nhello\r\n", b"\r\nhello\r\n", b"5\nhello\n",
     b"11111111111111111\r\nhello\r\n", b"5\r\nhello!\r\n", b"5\r\nhello\r\n\r\n"],
)  # fmt: skip
async def test_garbage_where_a_chunk_should_be_is_garbled_after_what_arrived(peer: Peer, client: Client, chunk: bytes) -> None:
    peer.says(CHUNKED, b"2\r\nok\r\n" + chunk)
    response = await client.request("GET", peer.url)
    assert await anext(response.body) in {b"ok", b"okhello"}
    with pytest.raises(Garbled, match="bad chunk framing"):
        await anext(response.body)


@pytest.mark.parametrize("endless", [b"5;" + b"x" * 70_000, b"0\r\nx: " + b"y" * 70_000])
async def test_chunk_framing_without_end_is_garbled(peer: Peer, client: Client, endless: bytes) -> None:
    peer.says(CHUNKED, endless)
    with pytest.raises(Garbled, match="65536 bytes of chunk framing"):
        await ask(client, peer.url)


async def test_what_arrives_is_handed_on_at_once(peer: Peer, client: Client) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(CHUNKED)
        for number in range(3):
            await wire.send(b"1\r\n%d\r\n" % number)
            await wire.reached.wait()
            wire.reached.clear()
        await wire.send(b"0\r\n\r\n")

    peer.plays(script)
    response = await client.request("GET", peer.url)
    wire = await peer.wire()
    for number in range(3):
        assert await anext(response.body) == b"%d" % number
        wire.reached.set()
    assert await response.read() == b""


async def test_a_drip_of_one_byte_per_50_ms_arrives_unharmed(peer: Peer, make_client: MakeClient) -> None:
    answers = [SIZED + b"hello", CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"]

    async def drips(wire: Wire) -> None:
        await wire.request()
        answer = answers.pop()
        await wire.send(answer[:-24])
        for byte in answer[-24:]:
            await asyncio.sleep(0.05)
            await wire.send(bytes([byte]))

    peer.plays(drips)
    client = make_client(timeouts=Timeouts(first_byte=0.5, silence=0.5))
    assert await asyncio.gather(ask(client, peer.url), ask(client, peer.url)) == [b"hello", b"hello"]


async def test_a_large_body_arrives_whole(peer: Peer, client: Client) -> None:
    block = bytes(range(256)) * 4096
    peer.says(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (4 * MiB), block, block, block, block)
    assert await ask(client, peer.url) == block * 4


@pytest.mark.parametrize("answer", [SIZED + b"hello", CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"])
async def test_a_body_larger_than_the_caller_allows_is_refused(peer: Peer, client: Client, answer: bytes) -> None:
    peer.says(answer)
    assert await ask(client, peer.url, max_body=5) == b"hello"
    with pytest.raises(BodyTooLarge, match="more than 4 bytes"):
        await ask(client, peer.url, max_body=4)


async def test_an_end_before_any_byte_is_a_lost_connection(peer: Peer, client: Client) -> None:
    peer.ends_with()
    with pytest.raises(ConnectionLost) as caught:
        await ask(client, peer.url)
    assert caught.value.sent
    assert len(peer.wires) == 1
