"""An answer that cannot be completed is cut, so that no client takes it for whole."""

import asyncio
import logging
from typing import Any

import pytest

from sdk.tests.listen.conftest import House, until
from trunkline_sdk.listen import BREAK_OFF, ON_DISCONNECT


@pytest.mark.parametrize("size", [3, 500_000])
async def test_what_was_sent_arrives_and_the_end_does_not(house: House, size: int, caplog: pytest.LogCaptureFixture) -> None:
    told: list[bool] = []

    async def breaks(scope: Any, receive: Any, send: Any) -> None:
        scope["extensions"][ON_DISCONNECT](lambda: told.append(True))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(size), "more_body": True})
        scope["extensions"][BREAK_OFF]()
        await send({"type": "http.response.body", "body": b"goes nowhere"})

    listener = await house.serve(breaks)
    client = await house.visit(listener)
    with caplog.at_level(logging.WARNING):
        client.get()
        status, headers = await client.head()
        rest = await client.rest()
    assert (status, headers["transfer-encoding"]) == (200, "chunked")
    assert rest == b"%x\r\n" % size + bytes(size) + b"\r\n"
    assert told == []
    assert caplog.records == []
    await until(lambda: listener.connections == 0)


async def test_a_pipelined_request_behind_it_is_not_answered(house: House) -> None:
    broken = asyncio.Event()

    async def breaks(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        scope["extensions"][BREAK_OFF]()
        broken.set()

    client = await house.visit(await house.serve(breaks))
    client.get("/1")
    client.get("/2")
    async with asyncio.timeout(10):
        await broken.wait()
    assert b"200 OK" in (rest := await client.rest())
    assert rest.count(b"HTTP/1.1") == 1
    assert [scope["path"] for scope in house.scopes] == ["/1"]


async def test_an_old_client_whose_body_breaks_off_sees_a_reset_and_no_end(house: House) -> None:
    told = asyncio.Event()

    async def breaks(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await told.wait()
        scope["extensions"][BREAK_OFF]()

    client = await house.visit(await house.serve(breaks))
    client.get(version="1.0")
    await client.head()
    assert await client.reader.readexactly(5) == b"begun"
    told.set()
    with pytest.raises(ConnectionResetError):
        await client.rest()
