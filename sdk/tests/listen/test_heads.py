"""The head of a request: bounded in bytes and in time, and read in one way only."""

import asyncio
from typing import Any

import pytest

from sdk.tests.listen.conftest import Client, House, echo, until
from trunkline_sdk.listen import ListenLimits

KIB = 1024
LIMIT = 128 * KIB
POST = b"POST / HTTP/1.1\r\nhost: t\r\n"


def padded(size: int, path: bytes = b"/") -> bytes:
    """A request whose target and headers have so many bytes, as the limit counts them."""
    start = b"GET " + path + b" HTTP/1.1\r\nhost: t\r\n"
    counted = len(path) + len(b"host: t\r\n") + len(b"x: \r\n")
    return start + b"x: " + b"a" * (size - counted) + b"\r\n\r\n"


@pytest.mark.parametrize("step", [1_000, 65_536, 10 * LIMIT], ids=lambda step: f"reads of {step}")
async def test_a_head_may_have_128_kib_and_no_byte_more(house: House, step: int) -> None:
    listener = await house.serve()
    for size, status in ((LIMIT, 200), (LIMIT + 1, 431)):
        client = await house.visit(listener)
        request = padded(size)
        for start in range(0, len(request), step):
            client.send(request[start : start + step])
            await client.writer.drain()
        answer = await client.answer()
        assert answer.status == status
        assert ("connection" in answer.headers) == (status == 431)
    assert await client.rest() == b""
    assert len(house.scopes) == 1


async def test_a_head_of_64_mib_is_refused_long_before_it_is_read(house: House) -> None:
    listener = await house.serve()
    client = await house.visit(listener)
    client.send(b"GET / HTTP/1.1\r\nhost: t\r\nx: " + b"a" * (64 * KIB * KIB))
    assert (await client.answer()).status == 431
    await client.leave()
    await until(lambda: listener.connections == 0)


async def test_a_head_without_an_end_is_refused_when_it_is_too_large(house: House) -> None:
    client = await house.visit(await house.serve())
    client.send(b"GET / HTTP/1.1\r\nhost: t\r\n")
    for _ in range(140):
        client.send(b"x: " + b"a" * 1_019 + b"\r\n")
        await client.writer.drain()
        await asyncio.sleep(0)
    assert (await client.answer()).status == 431


async def test_a_head_of_just_the_limit_may_wait_for_its_body(house: House) -> None:
    client = await house.visit(await house.serve())
    client.send(padded(LIMIT - len(b"content-length: 2\r\n"))[:-2] + b"content-length: 2\r\n\r\n")
    await until(lambda: house.scopes)
    client.send(b"ok")
    assert (await client.answer()).body == b"ok"


async def test_many_small_headers_and_a_long_target_count_as_well(house: House) -> None:
    listener = await house.serve()
    for request in (POST + b"x: y\r\n" * 30_000 + b"\r\n", b"GET /" + b"a" * LIMIT + b" HTTP/1.1\r\nhost: t\r\n\r\n"):
        client = await house.visit(listener)
        client.send(request)
        assert (await client.answer()).status == 431
    assert house.scopes == []


async def test_a_head_too_large_behind_another_request_is_refused_after_that_ones_answer(house: House) -> None:
    client = await house.visit(await house.serve())
    client.send(POST + b"content-length: 2\r\n\r\nok" + padded(LIMIT + 1))
    assert (await client.answer()).body == b"ok"
    assert (await client.answer()).status == 431
    assert await client.rest() == b""


async def test_a_large_body_is_no_large_head(house: House) -> None:
    client = await house.visit(await house.serve())
    body = bytes(200 * KIB)
    client.send(b"".join([POST, b"content-length: %d\r\n\r\n" % len(body), body, padded(LIMIT, b"/next")]))
    assert (await client.answer()).body == body
    assert (await client.answer()).body == b"/next"


@pytest.mark.parametrize(
    "flood",
    [b"1;" + b"a" * 2_000_000 + b"\r\nx\r\n", b"0\r\n" + b"x: y\r\n" * 300_000, b"0\r\nx: " + b"y" * 2_000_000],
    ids=["chunk extension", "trailers", "one trailer"],
)
async def test_what_surrounds_a_body_is_bounded_too(house: House, flood: bytes) -> None:
    client = await house.visit(await house.serve())
    client.send(POST + b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n" + flood)
    assert (await client.answer()).status == 431


@pytest.mark.parametrize(
    "request_",
    [
        POST + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        POST + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        POST + b"content-length: 3\r\ncontent-length: 3\r\n\r\nabc",
        POST + b"content-length: 3, 3\r\n\r\nabc",
        POST + b"content-length: +3\r\n\r\nabc",
        POST + b"content-length: 0x3\r\n\r\nabc",
        POST + b"content-length: -3\r\n\r\nabc",
        POST + b"content-length: 1 2\r\n\r\nabc",
        POST + b"content-length:\r\n\r\n",
        POST + b"content-length: 99999999999999999999\r\n\r\nabc",
        POST + b"content-length : 3\r\n\r\nabc",
        POST + b"transfer-encoding: xchunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        POST + b"transfer-encoding: identity\r\n\r\nabc",
        POST + b"transfer-encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        POST + b"transfer-encoding: chunked, identity\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        POST + b"transfer-encoding: \x0bchunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\nhost: t\n\n",
        b"GET / HTTP/1.1\r\nhost: t\n\r\n",
        b"GET / HTTP/1.1\r\nhost: t\r\n\n",
        POST + b"x: a\rcontent-length: 3\r\n\r\nabc",
        POST + b"x: a\x00b\r\n\r\n",
        POST + b"x: a\r\n b\r\n\r\n",
        POST + b"no colon\r\n\r\n",
        POST + b": no name\r\n\r\n",
        POST + "ä: b\r\n\r\n".encode(),
        b"GET / HTTP/1.1\r\n host: t\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: t\r\nhost: t\r\n\r\n",
        b"CONNECT t:443 HTTP/1.1\r\nhost: t\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET t HTTP/1.1\r\nhost: t\r\n\r\n",
        "GET /ä HTTP/1.1\r\nhost: t\r\n\r\n".encode(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=lambda request_: repr(request_.removeprefix(POST))[2:60],
)
async def test_what_could_be_read_in_two_ways_is_refused(house: House, request_: bytes) -> None:
    client = await house.visit(await house.serve())
    client.send(request_)
    answer = await client.answer()
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert await client.rest() == b""
    assert house.scopes == []


@pytest.mark.parametrize("line", [b"GET / HTTP/2.0", b"GET / HTTP/0.9", b"GET /"])
async def test_another_version_is_refused(house: House, line: bytes) -> None:
    client = await house.visit(await house.serve())
    client.send(line + b"\r\n\r\n")
    assert (await client.answer()).status == 505


@pytest.mark.parametrize("garbage", [b"3\nabc", b"0x3\r\nabc", b"-3\r\nabc", b"fffffffffffffffff\r\nabc", b"3\r\nabc\n0\r\n\r\n"])
async def test_a_broken_chunk_refuses_its_request_and_tells_the_app(house: House, garbage: bytes) -> None:
    heard = asyncio.get_running_loop().create_future()

    async def listens(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            pass
        heard.set_result(message)

    client = await house.visit(await house.serve(listens, limits=ListenLimits(linger_seconds=3600)))
    client.send(POST + b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n")
    await until(lambda: house.scopes)
    client.send(garbage)
    async with asyncio.timeout(10):
        assert await heard == {"type": "http.disconnect"}
    assert (await client.answer()).status == 400


async def test_what_comes_behind_a_refusal_is_read_and_dropped(house: House) -> None:
    client = await house.visit(await house.serve(limits=ListenLimits(linger_seconds=3600)))
    client.send(POST + b"transfer-encoding: chunked\r\n\r\n%x\r\n" % 100_000 + bytes(100_000) + b"garbage" * 3_000_000)
    async with asyncio.timeout(10):
        await client.writer.drain()
    assert (await client.answer()).status == 400


async def test_a_broken_body_breaks_an_answer_that_has_begun(house: House) -> None:
    async def begins(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    client = await house.visit(await house.serve(begins))
    client.send(POST + b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n")
    assert (await client.head())[0] == 200
    client.send(b"garbage\r\n")
    assert await client.rest() == b"5\r\nbegun\r\n"


async def test_garbage_behind_requests_leaves_their_answers_whole(house: House) -> None:
    go = asyncio.Event()

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"whole"})

    listener = await house.serve(waits)
    client = await house.visit(listener)
    client.get()
    client.get()
    client.send(b"garbage\r\n\r\n")
    await until(lambda: any(connection._deaf for connection in listener._shared.connections))
    go.set()
    assert (await client.answer()).body == b"whole"
    assert (await client.answer()).body == b"whole"
    assert (await client.answer()).status == 400
    assert await client.rest() == b""


# ------------------------------------------------------------------------------------------------------------- time

QUICK = ListenLimits(head_seconds=0.05, linger_seconds=0.05)


async def test_a_head_that_does_not_end_in_time_is_answered_408(house: House) -> None:
    client = await house.visit(await house.serve(limits=QUICK))
    client.send(b"GET / HTTP/1.1\r\nhost: ")
    assert (await client.answer()).status == 408
    assert await client.rest() == b""
    assert house.scopes == []


async def test_a_client_that_says_nothing_is_closed_without_a_word(house: House) -> None:
    client = await house.visit(await house.serve(limits=QUICK))
    assert await client.rest() == b""


async def test_single_bytes_do_not_lengthen_the_time(house: House) -> None:
    client = await house.visit(await house.serve(limits=QUICK))

    async def drip(client: Client) -> None:
        for byte in b"GET / HTTP/1.1\r\nhost: " + b"a" * 10_000:
            client.send(bytes([byte]))
            await asyncio.sleep(0.002)

    async with asyncio.TaskGroup() as group:
        dripping = group.create_task(drip(client))
        assert (await client.answer()).status == 408
        assert dripping.cancel()


@pytest.mark.parametrize("part", [b"GET", b"\r\n"], ids=["half a head", "line ends"])
async def test_a_second_request_has_its_own_time(house: House, part: bytes) -> None:
    client = await house.visit(await house.serve(limits=QUICK))
    client.get()
    assert (await client.answer()).status == 200
    client.send(part)
    assert (await client.answer()).status == 408


@pytest.mark.parametrize(
    "parts",
    [[b"content-length: 2\r\n\r\no", b"k"], [b"transfer-encoding: chunked\r\n\r\n", b"2", b"\r\nok\r\n", b"0\r\n\r\n"]],
    ids=["with a length", "in chunks"],
)
async def test_a_slow_body_and_a_slow_answer_are_not_a_slow_head(house: House, parts: list[bytes]) -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        async def later(message: dict[str, Any]) -> None:
            await asyncio.sleep(0.1)  # twice the time for a head
            await send(message)

        await echo(scope, receive, later)

    client = await house.visit(await house.serve(slow, limits=QUICK))
    client.send(POST)
    for part in parts:
        client.send(part)
        await asyncio.sleep(0.1)
    assert (await client.answer()).body == b"ok"
    client.get("/next")
    assert (await client.answer()).body == b"/next"


async def test_an_idle_connection_is_closed(house: House) -> None:
    client = await house.visit(await house.serve(limits=ListenLimits(idle_seconds=0)))
    client.get()
    assert (await client.answer()).status == 200
    assert await client.rest() == b""


async def test_a_client_that_does_not_close_after_a_refusal_is_closed(house: House) -> None:
    listener = await house.serve(limits=QUICK)
    client = await house.visit(listener)
    client.send(b"garbage\r\n\r\n")
    assert (await client.answer()).status == 400
    await until(lambda: listener.connections == 0)
