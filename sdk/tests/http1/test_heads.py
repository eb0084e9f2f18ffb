"""Heads of answers: what is taken, what is refused, what comes before them (RFC 9112, 2 to 6)."""

import pytest

from sdk.tests.http1.asking import MakeClient, ask
from sdk.tests.http1.peer import Peer, Wire
from trunkline_sdk.http1 import Client, Garbled, Limits

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def test_the_head_comes_in_order_and_spelling(peer: Peer, client: Client) -> None:
    peer.says(b"HTTP/1.1 299 Whatever It Is\r\nX-B: 1\r\nx-a:\t two \t\r\nX-B: \xc3\xa9\r\ncontent-length: 0\r\n\r\n")
    response = await client.request("GET", peer.url)
    assert response.status == 299
    assert response.headers == [(b"X-B", b"1"), (b"x-a", b"two"), (b"X-B", "é".encode()), (b"content-length", b"0")]
    assert await response.read() == b""


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 199 ?\r\n\r\n",
    ],
)
async def test_informational_answers_are_skipped(peer: Peer, client: Client, interim: bytes) -> None:
    peer.says(interim + OK)
    assert await ask(client, peer.url) == b"ok"
    peer.says(interim, OK)
    assert await ask(client, peer.url) == b"ok"


async def test_informational_answers_without_end_are_refused(peer: Peer, client: Client) -> None:
    peer.says(b"HTTP/1.1 100 Continue\r\n\r\n" * 9 + OK)
    with pytest.raises(Garbled, match="more than 8 informational"):
        await ask(client, peer.url)


async def test_a_head_at_the_limits_is_taken(peer: Peer, client: Client) -> None:
    fields = b"".join(b"x-%d: 1\r\n" % number for number in range(198))
    start = b"HTTP/1.1 200 OK\r\n" + fields + b"content-length: 2\r\nlong: "
    peer.says(start + b"a" * (65_536 - len(start) - 4) + b"\r\n\r\nok")
    response = await client.request("GET", peer.url)
    assert len(response.headers) == 200
    assert await response.read() == b"ok"


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nlong: " + b"a" * 70 * 1024 + b"\r\n\r\n", "more than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\nlong: " + b"a" * 70 * 1024, "more than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: 1\r\n" * 300 + b"\r\n", "more than 200 header fields"),
        (b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n", "bad head"),
        (b"HTTP/1.1 200 OK\r\nspaced : 1\r\n\r\n", "bad head"),
        (b"HTTP/1.1 200 OK\r\n: nameless\r\n\r\n", "bad head"),
        (b"HTTP/1.1 200 OK\r\nx: folded\r\n value\r\n\r\n", "bad head"),
        (b"HTTP/1.1 200 OK\r\nx: folded\r\n\tvalue\r\n\r\n", "bad head"),
        (b"HTTP/1.1 200 OK\r\nx: nul\0\r\n\r\n", "bad head"),
        (b"HTTP/1.1 200 OK\r\nx: bare\rreturn\r\n\r\n", "bad head"),
        (b"HTTP/1.1 200 OK\nx: 1\n\n", "line end without CR"),
        (b"HTTP/1.1 20 OK\r\n\r\n", "bad head"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "bad head"),
        (b"HTTP/1.1 two OK\r\n\r\n", "bad head"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "no HTTP/1.1"),
        (b"HTTP/1.2 200 OK\r\n\r\n", "no HTTP/1.1"),
        (b"\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "no HTTP/1.1"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "no HTTP/1.1"),
        (b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", "switched protocols"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok", "bad head"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nok", "bad head"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok", "bad head"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok", "bad head"),
        (b"HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\nok", "bad head"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\nok", "bad head"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "bad head"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n", "bad head"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "transfer coding"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n\r\n2\r\nok\r\n0\r\n\r\n", "transfer coding"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\nok", "transfer coding"),
        (b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "transfer coding"),
    ],
    ids=lambda value: value[:40].decode("ascii", "backslashreplace") if isinstance(value, bytes) else "",
)
async def test_a_head_that_breaks_the_rules_is_garbled(peer: Peer, client: Client, head: bytes, why: str) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(head)
        await wire.stop()

    peer.plays(script)
    with pytest.raises(Garbled, match=why) as caught:
        await ask(client, peer.url)
    assert caught.value.sent
    await (await peer.wire()).saw_end.wait()


async def test_equal_content_lengths_are_one(peer: Peer, client: Client) -> None:
    peer.says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nx: 1\r\ncontent-length:2\r\n\r\nok")
    response = await client.request("GET", peer.url)
    assert await response.read() == b"ok"
    assert response.headers == [(b"Content-Length", b"2"), (b"x", b"1")]


@pytest.mark.parametrize("start", [b"H", b"HTTP/1.1 200 OK\r\ncontent-le", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r"])
async def test_an_end_inside_the_head_is_garbled(peer: Peer, client: Client, start: bytes) -> None:
    peer.ends_with(start)
    with pytest.raises(Garbled, match="broke off inside its head"):
        await ask(client, peer.url)
    assert len(peer.wires) == 1


async def test_an_end_after_an_informational_answer_is_garbled(peer: Peer, client: Client) -> None:
    peer.ends_with(b"HTTP/1.1 100 Continue\r\n\r\n")
    with pytest.raises(Garbled, match="broke off"):
        await ask(client, peer.url)


async def test_the_limits_are_the_clients_to_choose(peer: Peer, make_client: MakeClient) -> None:
    client = make_client(limits=Limits(head_bytes=60, fields=2, informational=0))
    peer.says(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    assert await ask(client, peer.url) == b"ok"
    for head in (
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 60 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na:\r\nb:\r\nc:\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ):
        async with Peer(peer.tls) as other:
            other.ends_with(head)
            with pytest.raises(Garbled):
                await ask(client, other.url)
