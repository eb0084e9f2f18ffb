"""What an app and its clients can count on."""

import asyncio
import logging
import signal
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from sdk.tests.listen.conftest import House, until
from trunkline_sdk.listen import BODY_WHOLE, Listener

MIB = 1024 * 1024


async def test_requests_of_one_connection_are_answered_one_after_the_other(house: House) -> None:
    client = await house.visit(await house.serve())
    for path in ("/a", "/b?c=d"):
        client.get(path, "x-mixed: V\xe4lue")
        answer = await client.answer()
        assert (answer.status, answer.body) == (200, path.partition("?")[0].encode())
    first, second = house.scopes
    assert (first["type"], first["method"], first["path"], first["http_version"], first["scheme"]) == ("http", "GET", "/a", "1.1", "http")
    assert first["headers"] == [(b"host", b"t"), (b"x-mixed", "V\xe4lue".encode())]
    assert (second["raw_path"], second["query_string"]) == (b"/b", b"c=d")
    assert second["client"][0] == "127.0.0.1"


async def test_an_answer_has_a_date_and_no_server_header(house: House) -> None:
    client = await house.visit(await house.serve())
    client.get()
    headers = (await client.answer()).headers
    assert parsedate_to_datetime(headers.pop("date")).tzinfo is not None
    assert headers == {"content-length": "1"}


async def test_nothing_is_logged_and_no_signal_is_taken(house: House, caplog: pytest.LogCaptureFixture) -> None:
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    client = await house.visit(await house.serve())
    for name in ("uvicorn.access", "uvicorn.error"):
        caplog.set_level(logging.DEBUG, name)
    client.get("/?key=canary")
    await client.answer()
    client.send(b"canary\r\n\r\n")
    await client.rest()
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []


async def test_the_app_is_called_for_requests_alone() -> None:
    calls: list[Any] = []

    async def notes(*arguments: Any) -> None:
        calls.append(arguments)

    async with Listener(notes):
        pass
    assert calls == []


@pytest.mark.parametrize("size", [1, 70_000, 3 * MIB])
async def test_a_body_arrives_whole_with_a_length_or_in_chunks(house: House, size: int) -> None:
    client = await house.visit(await house.serve())
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    client.post(body)
    assert (await client.answer()).body == body
    client.send(b"POST / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n")
    for start in range(0, size, 65_536):
        client.send(b"%x;ext=1\r\n%b\r\n" % (len(body[start : start + 65_536]), body[start : start + 65_536]))
    client.send(b"0\r\n\r\n")
    assert (await client.answer()).body == body


async def test_an_app_is_told_whether_a_body_has_arrived(house: House) -> None:
    told: list[bool] = []

    async def looks(scope: Any, receive: Any, send: Any) -> None:
        told.append(scope["extensions"][BODY_WHOLE]())
        while (await receive())["more_body"]:
            pass
        told.append(scope["extensions"][BODY_WHOLE]())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    client = await house.visit(await house.serve(looks))
    client.post(b"hello")
    await client.answer()
    assert told == [True, True]
    told.clear()
    client.send(b"POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 2\r\n\r\no")
    await until(lambda: told)
    client.send(b"k")
    await client.answer()
    assert told == [False, True]


async def test_pipelined_requests_are_answered_in_order(house: House) -> None:
    client = await house.visit(await house.serve())
    client.send(b"".join(b"GET /%d HTTP/1.1\r\nhost: t\r\n\r\n" % n for n in range(50)))
    for n in range(50):
        assert (await client.answer()).body == b"/%d" % n


@pytest.mark.parametrize("offer", ["h2c", "websocket"])
@pytest.mark.parametrize("cut", [False, True], ids=["in one read", "cut before the body"])
async def test_an_offered_upgrade_is_declined_and_the_body_is_read(house: House, offer: str, cut: bool) -> None:
    client = await house.visit(await house.serve())
    head = f"POST /up HTTP/1.1\r\nhost: t\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: {offer}\r\nhttp2-settings: AA\r\ncontent-length: 5\r\n\r\n"
    client.send(head.encode() + (b"" if cut else b"hello"))
    if cut:
        await until(lambda: house.scopes)
        client.send(b"hello")
    answer = await client.answer()
    assert (answer.status, answer.body) == (200, b"hello")
    client.get("/next")
    assert (await client.answer()).body == b"/next"


async def test_a_client_that_asks_first_is_told_to_go_on(house: House) -> None:
    client = await house.visit(await house.serve())
    client.send(b"POST / HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
    assert await client.head() == (100, {})
    client.send(b"ok")
    assert (await client.answer()).body == b"ok"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_client_that_wants_the_connection_closed_gets_that(house: House, version: str) -> None:
    client = await house.visit(await house.serve())
    client.get("/", "connection: close", version=version)
    assert (await client.answer()).headers["connection"] == "close"
    assert await client.rest() == b""


@pytest.mark.parametrize("length", [[], [(b"content-length", b"6")]], ids=["stream", "whole"])
async def test_an_old_client_gets_no_chunks_and_a_stream_ends_with_its_connection(house: House, length: list[tuple[bytes, bytes]]) -> None:
    async def tells(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": length})
        for piece, more in ((b"one", True), (b"", True), (b"two", True), (b"", False)):
            await send({"type": "http.response.body", "body": piece, "more_body": more})

    client = await house.visit(await house.serve(tells))
    client.get("/", version="1.0")
    status, headers = await client.head()
    assert (status, headers["connection"], "transfer-encoding" in headers) == (200, "close", False)
    assert await client.rest() == b"onetwo"


async def test_trailers_do_not_become_headers(house: House) -> None:
    async def late(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        names = b",".join(name for name, _ in scope["headers"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(names))]})
        await send({"type": "http.response.body", "body": names})

    client = await house.visit(await house.serve(late))
    client.send(b"POST / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nauthorization: forged\r\n\r\n")
    assert (await client.answer()).body == b"host,transfer-encoding"


async def test_an_app_that_fails_answers_500_or_breaks_its_stream(house: House, caplog: pytest.LogCaptureFixture) -> None:
    async def fails(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/late":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        raise LookupError

    listener = await house.serve(fails)
    client = await house.visit(listener)
    client.get()
    assert (await client.answer()).status == 500
    client = await house.visit(listener)
    client.get("/late")
    await client.head()
    assert await client.rest() == b"5\r\nbegun\r\n"
    assert [record.name for record in caplog.records] == ["uvicorn.error"] * 2


async def test_a_client_that_does_not_read_holds_up_the_app_and_not_the_memory(house: House) -> None:
    piece = bytes(65_536)
    total = 50 * MIB
    held: list[int] = []

    async def floods(scope: Any, receive: Any, send: Any) -> None:
        (connection,) = listener._shared.connections
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % total)]})
        for start in range(0, total, len(piece)):
            await send({"type": "http.response.body", "body": piece, "more_body": start + len(piece) < total})
            held.append(connection.transport.get_write_buffer_size())

    listener = await house.serve(floods)
    client = await house.visit(listener, limit=1024)
    client.get()
    await until(lambda: any(connection.flow.write_paused for connection in listener._shared.connections))
    assert len(held) < total // len(piece)
    await client.head()
    assert len(await client.reader.readexactly(total)) == total
    assert max(held) <= 64 * 1024 + len(piece)


async def test_an_early_answer_reaches_a_client_that_is_still_sending(house: House) -> None:
    async def refuses(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    listener = await house.serve(refuses)
    client = await house.visit(listener)
    client.send(b"POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 99999999\r\n\r\n" + bytes(20 * MIB))
    assert (await client.answer()).status == 413
    assert await client.rest() == b""
    await client.leave()
    await until(lambda: listener.connections == 0)


async def test_many_clients_leave_nothing_behind(house: House) -> None:
    listener = await house.serve()
    for _ in range(10):
        clients = [await house.visit(listener) for _ in range(20)]
        for client in clients:
            client.get()
        assert {(await client.answer()).status for client in clients} == {200}
        assert listener.connections == 20
        await asyncio.gather(*(client.leave() for client in clients))
        await until(lambda: listener.connections == 0)
