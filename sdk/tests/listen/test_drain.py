"""Draining: who can finish in time does, the others are told, nothing is left."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from sdk.tests.listen.conftest import House, until
from trunkline_sdk.listen import Listener


class Streams:
    """An app that begins a stream and ends it when it is told how."""

    def __init__(self) -> None:
        self.running = 0
        self.end: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/quiet":
            self.running += 1
            last = await asyncio.shield(self.end)
            await send({"type": "http.response.start", "status": 200, "headers": []})
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"begun ", "more_body": True})
            self.running += 1
            last = await asyncio.shield(self.end)
        await send({"type": "http.response.body", "body": last})


async def refused(house: House, listener: Listener) -> bool:
    try:
        await house.visit(listener)
    except ConnectionRefusedError:
        return True
    return False


async def test_answers_under_way_are_finished_and_say_that_they_were_the_last(house: House) -> None:
    app = Streams()
    listener = await house.serve(app)
    idle, quiet, begun = [await house.visit(listener) for _ in range(3)]
    quiet.get("/quiet")
    begun.get("/")
    assert (await begun.head())[1].get("connection") is None
    await until(lambda: app.running == 2)
    async with asyncio.TaskGroup() as group:
        draining = group.create_task(listener.drain(10, ending=pytest.fail))
        assert await idle.rest() == b""
        assert await refused(house, listener)
        assert not draining.done()
        app.end.set_result(b"done")
        answer = await quiet.answer()
        assert (answer.body, answer.headers["connection"]) == (b"done", "close")
        assert await begun.rest() == b"6\r\nbegun \r\n4\r\ndone\r\n0\r\n\r\n"
        assert await quiet.rest() == b""
    assert listener.connections == 0


async def test_after_the_time_the_app_ends_its_streams_itself(house: House) -> None:
    app = Streams()
    listener = await house.serve(app)
    client = await house.visit(listener)
    client.get()
    await until(lambda: app.running)
    await listener.drain(0.01, ending=lambda: app.end.set_result(b"error"))
    assert (await client.answer()).body == b"begun error"
    assert await client.rest() == b""
    assert listener.connections == 0


async def test_what_does_not_end_is_cut_and_its_app_cancelled(house: House) -> None:
    app = Streams()
    listener = await house.serve(app)
    client = await house.visit(listener)
    client.get()
    await until(lambda: app.running)
    told: list[str] = []
    await listener.drain(0.01, ending=lambda: told.append("end"), grace=0.01)
    assert told == ["end"]
    assert listener.connections == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await client.answer()


async def test_nothing_under_way_is_nothing_to_wait_for(house: House) -> None:
    listener = await house.serve()
    clients = [await house.visit(listener) for _ in range(3)]
    clients[0].get()
    await clients[0].answer()
    async with asyncio.timeout(5):
        await listener.drain(60, ending=pytest.fail)
    assert {await client.rest() for client in clients} == {b""}


async def test_a_client_that_was_accepted_in_the_last_moment_is_closed(house: House) -> None:
    listener = await house.serve()
    listener._shared.draining = True  # the moment between the last accept and the first look at the connections
    client = await house.visit(listener)
    assert await client.rest() == b""


async def test_work_behind_the_answer_is_waited_for(house: House) -> None:
    booked = asyncio.Event()
    go = asyncio.Event()

    async def books(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})
        await go.wait()
        booked.set()

    listener = await house.serve(books)
    client = await house.visit(listener)
    client.get()
    await client.answer()
    async with asyncio.TaskGroup() as group:
        group.create_task(listener.drain(10))
        assert await client.rest() == b""
        go.set()
    assert booked.is_set()


async def test_a_client_that_does_not_read_cannot_hold_up_the_end(house: House) -> None:
    async def floods(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": bytes(65_536), "more_body": True})
            await asyncio.sleep(0)  # nobody is there: `send` gives up at once

    listener = await house.serve(floods)
    client = await house.visit(listener, limit=1024)
    client.get()
    await until(lambda: any(connection.flow.write_paused for connection in listener._shared.connections))
    await listener.aclose()
    assert listener.connections == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_twice_and_closing_what_never_started_is_harmless() -> None:
    listener = Listener(Streams())
    await listener.aclose()
    await listener.start()
    await listener.drain(1)
    await listener.aclose()


async def test_nothing_holds_a_closed_listener() -> None:
    listener = Listener(Streams())
    await listener.start()
    await listener.aclose()
    last = weakref.ref(listener)
    del listener
    await asyncio.sleep(0)
    gc.collect()
    assert last() is None
