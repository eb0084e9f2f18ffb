"""A client that leaves is seen at once, with a task that waits for it and without."""

import asyncio
from typing import Any

import pytest

from sdk.tests.listen.conftest import House, until
from trunkline_sdk.listen import ON_DISCONNECT


class Waiting:
    """An app that only registers a callback: no `receive()` waits for the client."""

    def __init__(self, *, begin: bool = False) -> None:
        self.begin = begin
        self.running = asyncio.Event()
        self.calls = 0
        self.lost = asyncio.Event()

    def tell(self) -> None:
        self.calls += 1
        self.lost.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope["extensions"][ON_DISCONNECT](self.tell)
        while (await receive())["more_body"]:
            pass
        if self.begin:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        self.running.set()
        await self.lost.wait()


@pytest.mark.parametrize("begin", [False, True], ids=["before the answer", "within the answer"])
@pytest.mark.parametrize("size", [0, 5, 200_000, 5_000_000], ids=lambda size: f"body of {size}")
@pytest.mark.parametrize("how", ["FIN", "RST", "half"])
async def test_the_callback_is_called_once_when_the_client_leaves(house: House, begin: bool, size: int, how: str) -> None:
    app = Waiting(begin=begin)
    listener = await house.serve(app)
    client = await house.visit(listener)
    client.post(bytes(size))
    async with asyncio.timeout(10):
        await app.running.wait()
        if how == "RST":
            client.writer.get_extra_info("socket").setsockopt(1, 13, b"\x01\0\0\0\0\0\0\0")  # SO_LINGER of no seconds
        if how == "half":
            client.writer.write_eof()
        else:
            await client.leave()
        await app.lost.wait()
    await until(lambda: listener.connections == 0)
    assert app.calls == 1


async def test_receive_says_so_as_well(house: House) -> None:
    said = asyncio.get_running_loop().create_future()

    async def listens(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["more_body"] is False
        said.set_result(await receive())

    client = await house.visit(await house.serve(listens))
    client.get()
    await until(lambda: house.scopes)
    await client.leave()
    async with asyncio.timeout(10):
        assert await said == {"type": "http.disconnect"}


async def test_a_callback_registered_too_late_is_called_at_once(house: House) -> None:
    called = asyncio.get_running_loop().create_future()

    async def late(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await receive()
        scope["extensions"][ON_DISCONNECT](lambda: called.set_result(None))
        assert called.done()

    client = await house.visit(await house.serve(late))
    client.get()
    await until(lambda: house.scopes)
    await client.leave()
    async with asyncio.timeout(10):
        await called


async def test_the_callback_is_not_called_after_a_whole_answer(house: House) -> None:
    calls: list[str] = []

    async def answers(scope: Any, receive: Any, send: Any) -> None:
        scope["extensions"][ON_DISCONNECT](lambda: calls.append(scope["path"]))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    listener = await house.serve(answers)
    client = await house.visit(listener)
    for _ in range(2):
        client.get()
        await client.answer()
    await client.leave()
    await until(lambda: listener.connections == 0)
    assert calls == []


@pytest.mark.parametrize("behind", [b"", b"garbage\r\n\r\n"], ids=["", "garbage behind them"])
async def test_with_pipelined_requests_the_one_that_runs_is_told(house: House, behind: bytes) -> None:
    told: list[str] = []
    running = asyncio.Event()
    lost = asyncio.Event()

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        scope["extensions"][ON_DISCONNECT](lambda: (told.append(scope["path"]), lost.set()))
        running.set()
        await lost.wait()
        assert await receive() == {"type": "http.disconnect"}
        await send({"type": "http.response.start", "status": 200, "headers": []})  # goes nowhere, and says nothing

    client = await house.visit(await house.serve(waits))
    client.get("/1")
    client.get("/2")
    client.send(behind)
    async with asyncio.timeout(10):
        await running.wait()
        await client.leave()
        await lost.wait()
    assert told == ["/1"]


@pytest.mark.parametrize("how", ["whole", "half"])
async def test_an_app_held_up_by_a_slow_client_goes_on_when_that_one_leaves(house: House, how: str) -> None:
    over = asyncio.Event()

    async def floods(scope: Any, receive: Any, send: Any) -> None:
        lost: list[bool] = []
        scope["extensions"][ON_DISCONNECT](lambda: lost.append(True))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not lost:
            await send({"type": "http.response.body", "body": bytes(65_536), "more_body": True})
        over.set()

    listener = await house.serve(floods)
    client = await house.visit(listener, limit=1024)
    client.get()
    await until(lambda: any(connection.flow.write_paused for connection in listener._shared.connections))
    if how == "half":
        client.writer.write_eof()
    else:
        await client.leave()
    async with asyncio.timeout(10):
        await over.wait()
