"""What goes out: heads, framing, large bodies, and an answer that comes before all of it."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Sequence

import pytest

from sdk.tests.http1.asking import ask, sees_the_end
from sdk.tests.http1.peer import SOON, Peer, Request, Wire
from trunkline_sdk.http1 import Client, ConnectionLost, Garbled, InvalidRequest

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
TOO_LARGE = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nno!"


async def seen_by(
    peer: Peer, client: Client, method: str, path: str, headers: Sequence[tuple[bytes, bytes]] = (), body: bytes = b""
) -> Request:
    seen: asyncio.Future[Request] = asyncio.get_running_loop().create_future()

    async def script(wire: Wire) -> None:
        seen.set_result(await wire.request())
        await wire.send(b"HTTP/1.1 204 No Content\r\n\r\n")

    peer.plays(script)
    await (await client.request(method, peer.url + path, headers, body)).read()
    return await seen


async def test_the_head_goes_out_in_order_and_spelling(peer: Peer, client: Client) -> None:
    given = [(b"X-B", b"1"), (b"x-a", "é".encode()), (b"X-B", b""), (b"Authorization", b"Bearer secret")]
    seen = await seen_by(peer, client, "POST", "/v1/chat?a=%20b&c", given, b"{}")
    assert seen.line == b"POST /v1/chat?a=%20b&c HTTP/1.1"
    assert seen.headers == [
        (b"Host", b"127.0.0.1:%d" % peer.port),
        *given,
        (b"Accept-Encoding", b"identity"),
        (b"Content-Length", b"2"),
    ]
    assert seen.body == b"{}"


@pytest.mark.parametrize(("path", "target"), [("", b"/"), ("?q", b"/?q"), ("/#part", b"/"), ("//x", b"//x")])
async def test_the_target_is_the_urls_path_and_query(peer: Peer, client: Client, path: str, target: bytes) -> None:
    assert (await seen_by(peer, client, "GET", path)).line == b"GET %b HTTP/1.1" % target


@pytest.mark.parametrize(
    ("method", "length"), [("GET", None), ("DELETE", None), ("PURGE", None), ("POST", b"0"), ("PUT", b"0"), ("PATCH", b"0")]
)
async def test_an_empty_body_has_a_length_only_where_one_is_expected(peer: Peer, client: Client, method: str, length: bytes | None) -> None:
    assert (await seen_by(peer, client, method, "/")).header(b"content-length") == length


async def test_the_callers_own_accept_encoding_stands(peer: Peer, client: Client) -> None:
    seen = await seen_by(peer, client, "GET", "/", [(b"ACCEPT-encoding", b"gzip")])
    assert [value for name, value in seen.headers if name.lower() == b"accept-encoding"] == [b"gzip"]


@pytest.mark.parametrize("size", [1, 16_384, 16_385, 256 * 1024, 256 * 1024 + 1, 3_000_001])
async def test_a_body_of_any_size_arrives_whole(peer: Peer, client: Client, size: int) -> None:
    body = (bytes(range(251)) * (size // 251 + 1))[:size]
    assert (await seen_by(peer, client, "POST", "/", body=body)).body == body


async def test_an_iterator_goes_out_in_chunks_as_it_comes(peer: Peer, client: Client) -> None:
    went_on = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        await went_on.wait()
        yield b""
        yield bytes(300_000)

    async def script(wire: Wire) -> None:
        _, headers = await wire.head()
        assert (b"Transfer-Encoding", b"chunked") in headers
        assert b"Content-Length" not in dict(headers)
        assert await wire.reader.readexactly(10) == b"5\r\nfirst\r\n"
        went_on.set()
        rest = b"%x\r\n%b\r\n0\r\n\r\n" % (300_000, bytes(300_000))
        assert await wire.reader.readexactly(len(rest)) == rest
        await wire.send(OK)
        await wire.stop()

    peer.plays(script)
    assert await ask(client, peer.url, pieces()) == b"ok"
    assert not (await peer.wire()).saw_end.is_set()


@pytest.mark.parametrize("stream", [False, True], ids=["bytes", "iterator"])
async def test_an_answer_before_the_requests_end_stops_the_sending_and_is_read(peer: Peer, client: Client, stream: bool) -> None:
    sent = 0
    closed = not stream

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent, closed
        try:
            while True:
                sent += 50_000
                yield bytes(50_000)
        finally:
            closed = True

    async def refuses(wire: Wire) -> None:
        await wire.head()
        await wire.reader.readexactly(100_000)
        await wire.send(TOO_LARGE)
        wire.writer.transport.pause_reading()
        wire.reached.set()
        await asyncio.Event().wait()

    peer.plays(refuses)
    body = endless() if stream else bytes(100_000_000)
    tracemalloc.start()
    try:
        response = await client.request("POST", peer.url, body=body)
        assert closed
        assert tracemalloc.get_traced_memory()[1] < 20_000_000  # the rest was not even copied
    finally:
        tracemalloc.stop()
    assert (response.status, await response.read()) == (413, b"no!")
    assert sent < 100_000_000
    wire = await peer.wire()
    wire.writer.transport.resume_reading()
    await wire.gone()


async def test_an_answer_interrupts_a_body_iterator_that_waits(peer: Peer, client: Client) -> None:
    interrupted = asyncio.Event()

    async def waits() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            interrupted.set()

    async def refuses(wire: Wire) -> None:
        await wire.head()
        await wire.send(TOO_LARGE)
        await wire.stop()

    peer.plays(refuses)
    async with asyncio.timeout(SOON):
        response = await client.request("POST", peer.url, body=waits())
        assert await response.read() == b"no!"
    assert interrupted.is_set()
    await sees_the_end(await peer.wire())
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_an_answer_that_comes_with_a_cancellation_does_not_swallow_it(peer: Peer, client: Client) -> None:
    waiting = asyncio.Event()

    async def waits() -> AsyncIterator[bytes]:
        waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            asking.cancel()  # from outside, while the answer interrupts
            raise
        yield b"never"

    async def refuses(wire: Wire) -> None:
        await wire.head()
        await waiting.wait()
        await wire.send(TOO_LARGE)
        await wire.stop()

    peer.plays(refuses)
    asking = asyncio.create_task(ask(client, peer.url, waits()))
    with pytest.raises(asyncio.CancelledError):
        await asking
    await sees_the_end(await peer.wire())


@pytest.mark.parametrize("answer", [b"", b"nonsense"])
async def test_a_body_iterator_that_waits_is_interrupted_by_a_failure_too(peer: Peer, client: Client, answer: bytes) -> None:
    async def waits() -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.Event().wait()

    async def fails(wire: Wire) -> None:
        await wire.head()
        await wire.send(answer)
        await wire.close()

    peer.plays(fails)
    async with asyncio.timeout(SOON):
        with pytest.raises((ConnectionLost, Garbled)):
            await ask(client, peer.url, waits())


async def test_an_error_of_the_body_iterator_reaches_the_caller_and_closes_the_connection(peer: Peer, client: Client) -> None:
    async def breaks() -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.sleep(0)  # it is written at the end of the loop's turn
        raise LookupError("mine")

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.stop()

    peer.plays(script)
    with pytest.raises(LookupError, match="mine"):
        await ask(client, peer.url, breaks())
    await sees_the_end(await peer.wire())


@pytest.mark.parametrize("name", [b"Host", b"content-length", b"Transfer-Encoding", b"connection", b"Upgrade"])
async def test_what_the_client_writes_itself_is_refused(peer: Peer, client: Client, name: bytes) -> None:
    with pytest.raises(InvalidRequest, match=name.decode().lower()) as caught:
        await client.request("GET", peer.url, [(name, b"5")])
    assert not caught.value.sent
    assert peer.wires == []


@pytest.mark.parametrize("value", [b"a\r\nX-Evil: canary", b"canary\n", b"\rcanary", b"canary\0", b"canary\r\n"])
async def test_a_line_end_in_a_value_is_refused_by_the_headers_name_alone(peer: Peer, client: Client, value: bytes) -> None:
    with pytest.raises(InvalidRequest, match="`X-Mine` holds a CR, LF or NUL") as caught:
        await client.request("GET", peer.url, [(b"X-Other", b"1"), (b"X-Mine", value)])
    assert "canary" not in repr(caught.value)
    assert peer.wires == []


@pytest.mark.parametrize("name", [b"", b"X Y", b"X:", b"X\r\nY", "é".encode(), b"X\0"])
async def test_a_name_that_is_no_token_is_refused(peer: Peer, client: Client, name: bytes) -> None:
    with pytest.raises(InvalidRequest, match="no token"):
        await client.request("GET", peer.url, [(name, b"1")])
    assert peer.wires == []


@pytest.mark.parametrize("method", ["", "GET ", "GE\r\nT", "É", "CONNECT"])
async def test_a_method_that_is_none_of_ours_is_refused(peer: Peer, client: Client, method: str) -> None:
    with pytest.raises(InvalidRequest):
        await client.request(method, peer.url)
    assert peer.wires == []
