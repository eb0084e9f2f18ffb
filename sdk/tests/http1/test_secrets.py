"""No error, repr or log line holds a header's value, the query, the path or a body."""

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator

import pytest

from sdk.tests.http1.asking import MakeClient, dead_port
from sdk.tests.http1.peer import Peer, Wire
from trunkline_sdk.http1 import Client, HttpError, Limits, Timeouts

CANARY = "canary-7f3a"
SECRET = CANARY.encode()
CHUNKED = b"HTTP/1.1 200 OK\r\nx-secret: " + SECRET + b"\r\ntransfer-encoding: chunked\r\n\r\n"


def shown(error: BaseException | None) -> str:
    """The error as logs show it, with what it was raised from."""
    text = ""
    while error is not None:
        text += f"{error!r} {error} {vars(error)}"
        error = error.__cause__ or error.__context__
    return text


async def everything(client: Client, url: str, **settings: object) -> None:
    headers = [(b"authorization", b"Bearer " + SECRET), (b"x-" + SECRET, SECRET)]
    async with await client.request("POST", f"{url}/{CANARY}?key={CANARY}", headers, SECRET, **settings) as response:
        assert CANARY not in f"{response!r} {response.body!r}"
        await response.read()


ANSWERS = {
    "garbled head": b"HTTP/1.1 200 OK\r\n" + SECRET + b"\r\n\r\n",
    "another protocol": SECRET + b"\r\n\r\n",
    "bad status": b"HTTP/1.1 " + SECRET + b"\r\n\r\n",
    "bad length": b"HTTP/1.1 200 OK\r\ncontent-length: " + SECRET + b"\r\n\r\n",
    "bad coding": b"HTTP/1.1 200 OK\r\ntransfer-encoding: " + SECRET + b"\r\n\r\n",
    "large head": b"HTTP/1.1 200 OK\r\nx: " + SECRET * 10_000 + b"\r\n\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\nx: " + SECRET,
    "bad chunk": CHUNKED + SECRET + b"\r\n",
    "bad second chunk": CHUNKED + b"2\r\nok\r\n" + SECRET + b"\r\n",
    "cut": CHUNKED + b"ff\r\n" + SECRET,
    "unknown encoding": b"HTTP/1.1 200 OK\r\ncontent-encoding: " + SECRET + b"\r\n\r\n" + SECRET,
    "broken encoding": b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + SECRET,
    "bomb": b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(SECRET * 100_000),
    "nothing": b"",
}


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_failing_exchange_tells_no_secret(
    peer: Peer, make_client: MakeClient, caplog: pytest.LogCaptureFixture, answer: str
) -> None:
    caplog.set_level(logging.DEBUG)
    asyncio.get_running_loop().set_debug(True)
    client = make_client(limits=Limits(unfolded_bytes=100_000))
    peer.ends_with(ANSWERS[answer])
    with pytest.raises(HttpError) as caught:
        await everything(client, peer.url)
    assert CANARY not in shown(caught.value)
    assert CANARY not in caplog.text
    assert CANARY not in f"{client!r} {vars(client)}"


async def test_a_late_answer_tells_no_secret(peer: Peer, make_client: MakeClient) -> None:
    for sent in (b"", b"HTTP/1.1 200 OK\r\nx: " + SECRET, CHUNKED + b"ff\r\n" + SECRET):

        async def script(wire: Wire, sent: bytes = sent) -> None:
            await wire.request()
            await wire.send(sent)
            await wire.stop()

        peer.plays(script)
        with pytest.raises(HttpError) as caught:
            await everything(make_client(timeouts=Timeouts(first_byte=0.05, silence=0.05)), peer.url)
        assert CANARY not in shown(caught.value)


async def test_a_body_over_the_limit_tells_no_secret(peer: Peer, client: Client) -> None:
    peer.says(CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(SECRET), SECRET))
    with pytest.raises(HttpError) as caught:
        await everything(client, peer.url, max_body=3)
    assert CANARY not in shown(caught.value)


async def test_a_peer_out_of_reach_tells_no_secret(client: Client) -> None:
    port = dead_port()
    for scheme in ("http", "https"):
        with pytest.raises(HttpError) as caught:
            await everything(client, f"{scheme}://127.0.0.1:{port}")
        assert CANARY not in shown(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"ftp://{CANARY}/",
        f"http://user:{CANARY}@127.0.0.1/",
        f"http://127.0.0.1:{CANARY}/",
        f"http://[{CANARY}]/",
        f"http://{CANARY}!/",
        f"http:///{CANARY}",
        f"http://127.0.0.1/ {CANARY}",
        f"http://127.0.0.1/é?{CANARY}",
        f"http://127.0.0.1/\n{CANARY}",
        CANARY,
    ],
)
async def test_an_unreadable_url_is_not_repeated(client: Client, url: str) -> None:
    with pytest.raises(HttpError) as caught:
        await client.request("GET", url)
    assert CANARY not in shown(caught.value)


async def test_a_bad_header_tells_no_secret(client: Client) -> None:
    for pair in ((b"x", SECRET + b"\r\n"), (SECRET + b"\r\n", b"1"), (b"content-length", SECRET)):
        with pytest.raises(HttpError) as caught:
            await client.request("GET", f"http://127.0.0.1/{CANARY}", [pair])
        assert CANARY not in shown(caught.value)


async def test_an_iterator_that_loses_its_connection_tells_no_secret(peer: Peer, client: Client) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield SECRET
            await asyncio.sleep(0)

    async def script(wire: Wire) -> None:
        await wire.head()
        wire.reset()

    peer.plays(script)
    with pytest.raises(HttpError) as caught:
        await client.request("POST", f"{peer.url}/?{CANARY}", body=pieces())
    assert CANARY not in shown(caught.value)
