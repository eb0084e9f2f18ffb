"""Times, ends and interruptions of a daemon's answers (daemon contract, C)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from sdk.tests.daemon.conftest import Asking, Site, operation, pieces_of, until
from trunkline_sdk import http1
from trunkline_sdk.daemon.messages import ModelInfo, OAuthStartRequest, ProviderInfo
from trunkline_sdk.daemon.server import Backend, Call, Daemon, DaemonLimits, Failure, Reply, Stream

ROUTES = ["p/invoke", "p/stream"]


class Held(Backend):
    """Waits where its test says, until that lets it go on."""

    info = ProviderInfo(id="p", name="P", surfaces=("chat_completions",), credential="none", oauth_methods=("device",))

    def __init__(self, at: str = "") -> None:
        self._at = at
        self.go = asyncio.Event()
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.closed = asyncio.Event()

    async def hold(self, place: str) -> None:
        if place == self._at:
            self.waiting.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise

    async def models(self, credential: Any) -> list[ModelInfo]:
        await self.hold("models")
        return []

    async def oauth_start(self, request: OAuthStartRequest) -> Any:
        await self.hold("oauth")

    async def invoke(self, call: Call) -> Reply:
        await self.hold("head")
        return Reply(self.body())

    async def stream(self, call: Call) -> Stream:
        await self.hold("head")
        return Stream(self.body())

    async def body(self) -> AsyncIterator[bytes]:
        try:
            await self.hold("first")
            yield b"data: 1\n\n"
            await self.hold("second")
            yield b"data: 2\n\n"
        finally:
            self.closed.set()


async def read(response: http1.Response, size: int) -> bytes:
    """The body's beginning, as soon as it is here."""
    got = b""
    async for piece in response.body:
        got += piece
        if len(got) >= size:
            break
    return got


async def read_until_cut(response: http1.Response) -> bytes:
    got = b""
    try:
        async for piece in response.body:
            got += piece
    except http1.BodyCut:
        return got
    raise AssertionError("the body is whole")


# -------------------------------------------------------------------------------------------------- X-Timeout: I.19
@pytest.mark.parametrize("route", ROUTES)
async def test_an_answer_that_does_not_begin_in_time_is_504(site: Site, route: str) -> None:  # I.19
    held = Held("head")
    asking = await site.serve(Daemon(held))
    answer = await asking.ask(route, b"{}", headers=operation("m", x_timeout="0.05"))
    assert (answer.status, answer.json["error"]["type"]) == (504, "timeout")
    assert held.cancelled.is_set()


async def test_an_invoke_whose_body_does_not_begin_in_time_is_504(site: Site) -> None:  # I.19
    answer = await (await site.serve(Daemon(Held("first")))).ask("p/invoke", b"{}", headers=operation("m", x_timeout="0.05"))
    assert answer.status == 504


@pytest.mark.parametrize(
    ("route", "at", "seen"), [("p/stream", "first", b""), ("p/stream", "second", b"data: 1\n\n"), ("p/invoke", "second", b"data: 1\n\n")]
)
async def test_a_longer_pause_breaks_the_answer(site: Site, route: str, at: str, seen: bytes) -> None:  # I.19
    held = Held(at)
    asking = await site.serve(Daemon(held))
    response = await asking.open(route, b"{}", headers=operation("m", x_timeout="0.05"))
    got = await read_until_cut(response)
    assert (response.status, got) == (200, seen)
    assert held.closed.is_set()


@pytest.mark.parametrize("route", ROUTES)
async def test_a_steady_answer_may_take_longer_in_all(site: Site, route: str) -> None:  # I.19
    async def steady() -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        for _ in range(12):
            beat = loop.create_future()
            loop.call_later(0.05, beat.set_result, None)
            await beat
            yield b"data: x\n\n"

    class Steady(Held):
        async def body(self) -> AsyncIterator[bytes]:
            async for piece in steady():
                yield piece

    loop = asyncio.get_running_loop()
    began = loop.time()
    answer = await (await site.serve(Daemon(Steady()))).ask(route, b"{}", headers=operation("m", x_timeout="0.5"))
    assert (answer.status, answer.body) == (200, b"data: x\n\n" * 12)
    assert loop.time() - began > 0.5


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("90.5", 90.5), ("300", 300), ("420", 420), ("1e3", 77), ("-1", 77), ("0", 77), ("5s", 77), ("", 77), (None, 77), ("99999", 3600)],
)
async def test_a_timeout_is_read_or_passed_over(
    site: Site, header: str | None, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:  # I.19
    seen: list[float | None] = []

    class Telling(Held):
        async def invoke(self, call: Call) -> Reply:
            seen.append(call.timeout)
            return Reply(b"{}")

    asking = await site.serve(Daemon(Telling(), limits=DaemonLimits(default_seconds=77)))
    headers = operation("m") if header is None else operation("m", x_timeout=header)
    for _ in range(2):
        assert (await asking.ask("p/invoke", b"{}", headers=headers)).status == 200
    assert seen == [seconds] * 2
    assert caplog.text.count("X-Timeout") == (seconds == 77 and header is not None)  # C1: said once


# --------------------------------------------------------------------------------------------------- leaving: I.20
@pytest.mark.parametrize("at", ["head", "first", "second"])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_product_that_leaves_cancels_at_once(site: Site, route: str, at: str, caplog: pytest.LogCaptureFixture) -> None:  # I.20
    caplog.set_level("INFO")
    held = Held(at)
    asking = await site.serve(Daemon(held))
    product = asyncio.get_running_loop().create_task(asking.ask(route, b"{}", headers=operation("m")))
    async with asyncio.timeout(10):
        await held.waiting.wait()
        product.cancel()
        await held.cancelled.wait()
        if at != "head":
            await held.closed.wait()
    await until(lambda: "outcome=left" in caplog.text)
    assert [record.levelname for record in caplog.records if record.name != "asyncio"] == ["INFO"]


@pytest.mark.parametrize(("at", "route", "body"), [("models", "p/models", None), ("oauth", "p/oauth/start", {"method": "device"})])
async def test_so_do_models_and_sign_ins(site: Site, at: str, route: str, body: Any) -> None:  # I.20
    held = Held(at)
    asking = await site.serve(Daemon(held))
    product = asyncio.get_running_loop().create_task(asking.ask(route, body))
    async with asyncio.timeout(10):
        await held.waiting.wait()
        product.cancel()
        await held.cancelled.wait()


async def test_a_list_of_models_has_an_end(site: Site) -> None:
    asking = await site.serve(Daemon(Held("models"), limits=DaemonLimits(control_seconds=0.05)))
    assert (await asking.ask("p/models")).status == 504


# --------------------------------------------------------------------------------------------------- flushing: I.21
async def test_the_head_goes_before_the_first_record_and_each_record_by_itself(site: Site) -> None:  # I.21
    held = Held("first")
    asking = await site.serve(Daemon(held))
    async with asyncio.timeout(10):
        response = await asking.open("p/stream", b"{}", headers=operation("m"))
        assert response.status == 200
        await held.waiting.wait()
        held.go.set()
        assert await read(response, 18) == b"data: 1\n\ndata: 2\n\n"
        await response.read()
    second = Held("second")
    asking = await site.serve(Daemon(second))
    async with asyncio.timeout(10), await asking.open("p/stream", b"{}", headers=operation("m")) as response:
        assert await read(response, 9) == b"data: 1\n\n"
        assert second.waiting.is_set()


async def test_a_silent_stream_gets_keepalives_between_its_records(site: Site) -> None:
    held = Held("second")
    asking = await site.serve(Daemon(held, limits=DaemonLimits(keepalive_seconds=0.01)))
    async with asyncio.timeout(10), await asking.open("p/stream", b"{}", headers=operation("m")) as response:
        got = await read(response, 50)
        held.go.set()
        got += await response.read()
    kept, rest = got.removeprefix(b"data: 1\n\n"), b"data: 2\n\n"
    assert kept.replace(b": keepalive\n\n", b"") == rest
    assert kept.count(b": keepalive\n\n") >= 3


async def test_keepalives_do_not_hide_a_silent_provider(site: Site) -> None:
    asking = await site.serve(Daemon(Held("second"), limits=DaemonLimits(keepalive_seconds=0.01)))
    response = await asking.open("p/stream", b"{}", headers=operation("m", x_timeout="0.1"))
    with pytest.raises(http1.BodyCut):
        await response.read()


# ---------------------------------------------------------------------------------------------------- failing: I.10
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "error", [Failure(502, "x"), ValueError("x"), http1.BodyCut("x"), TimeoutError()], ids=lambda error: type(error).__name__
)
async def test_what_fails_after_its_beginning_is_broken_off(site: Site, route: str, error: Exception) -> None:  # I.10
    class Failing(Held):
        async def body(self) -> AsyncIterator[bytes]:
            yield b"data: 1\n\ndata: half"
            raise error

    asking = await site.serve(Daemon(Failing()))
    response = await asking.open(route, b"{}", headers=operation("m"))
    got = await read_until_cut(response)
    assert got == (b"data: 1\n\n" if route == "p/stream" else b"data: 1\n\ndata: half")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (http1.ConnectFailed("x"), 502),
        (http1.ConnectionLost("x"), 502),
        (http1.Garbled("x"), 502),
        (http1.FirstByteTimeout("h", "x", 1), 504),
        (http1.ConnectTimeout("h", "x", 1), 504),
        (TimeoutError(), 504),
        (KeyError("x"), 500),
    ],
)
@pytest.mark.parametrize("route", ROUTES)
async def test_what_fails_before_it_has_a_status(site: Site, route: str, error: Exception, status: int) -> None:  # D5
    class Failing(Held):
        async def hold(self, place: str) -> None:
            raise error

    answer = await (await site.serve(Daemon(Failing()))).ask(route, b"{}", headers=operation("m"))
    assert (answer.status, answer.json["error"]["code"]) == (status, status)


@pytest.mark.parametrize(("size", "whole"), [(64, True), (65, False)])
async def test_a_record_over_the_limit_breaks_the_stream(site: Site, size: int, whole: bool) -> None:  # I.7
    class Large(Held):
        def body(self) -> AsyncIterator[bytes]:
            return pieces_of(b"data: " + b"x" * (size - 8) + b"\n\n")

    asking = await site.serve(Daemon(Large(), limits=DaemonLimits(record_bytes=64)))
    response = await asking.open("p/stream", b"{}", headers=operation("m"))
    if whole:
        assert len(await response.read()) == size
    else:
        with pytest.raises(http1.BodyCut):
            await response.read()


async def test_a_content_type_that_no_header_can_hold_is_an_error(site: Site) -> None:
    class Odd(Held):
        async def invoke(self, call: Call) -> Reply:
            return Reply(b"", "text/plain\r\nx-evil: 1")

    assert (await (await site.serve(Daemon(Odd()))).ask("p/invoke", b"{}", headers=operation("m"))).status == 500


# ------------------------------------------------------------------------------------------------ limits and ending
async def test_no_more_operations_than_the_limit(site: Site) -> None:
    held = Held("head")
    asking = await site.serve(Daemon(held, limits=DaemonLimits(operations=1)))
    first = asyncio.get_running_loop().create_task(asking.ask("p/invoke", b"{}", headers=operation("m")))
    async with asyncio.timeout(10):
        await held.waiting.wait()
        second = await asking.ask("p/stream", b"{}", headers=operation("m"))
        assert (second.status, second.headers["retry-after"]) == (503, "1")
        assert (await asking.ask("p/models")).status == 200
        held.go.set()
        assert (await first).status == 200
    assert (await asking.ask("p/invoke", b"{}", headers=operation("m"))).status == 200


async def test_a_draining_daemon_refuses_what_comes_and_finishes_what_is_there(site: Site) -> None:
    held = Held("head")
    asking = await site.serve(Daemon(held))
    first = asyncio.get_running_loop().create_task(asking.ask("p/invoke", b"{}", headers=operation("m")))
    async with asyncio.timeout(10):
        await held.waiting.wait()
        asking.daemon.drain()
        second = await asking.ask("p/models")
        assert (second.status, second.error) == (503, "the daemon is ending")
        assert "retry-after" in second.headers
        held.go.set()
        assert (await first).status == 200


@pytest.mark.parametrize("at", ["head", "second"])
async def test_an_ending_daemon_tells_those_whose_answer_has_not_begun_and_breaks_the_others(site: Site, at: str) -> None:
    held = Held(at)
    asking = await site.serve(Daemon(held))
    first = asyncio.get_running_loop().create_task(asking.ask("p/stream", b"{}", headers=operation("m")))
    async with asyncio.timeout(10):
        await held.waiting.wait()
        await asking.listener.drain(0, ending=asking.daemon.end)
        if at == "head":
            answer = await first
            assert (answer.status, answer.error) == (503, "the daemon is ending")
        else:
            with pytest.raises(http1.BodyCut):
                await first
        await held.cancelled.wait()


# ---------------------------------------------------------------------------------------------- other ASGI servers
async def asgi(daemon: Daemon, receive: Callable[[], Awaitable[Any]]) -> list[dict[str, Any]]:
    """Ask the app as a server without our extensions does."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(name.encode(), value.encode()) for name, value in operation("m").items()]
    scope = {"type": "http", "method": "POST", "path": "/extension/v1/p/stream", "headers": [(b"host", b"localhost"), *headers]}
    await daemon(scope, receive, send)
    return sent


@pytest.mark.parametrize("at", ["head", "second"])
async def test_leaving_is_noticed_on_other_servers_too(at: str) -> None:  # I.20
    held = Held(at)
    messages = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.request", "body": b"}", "more_body": False}]

    async def receive() -> Any:
        if messages:
            return messages.pop(0)
        await held.waiting.wait()
        return {"type": "http.disconnect"}

    async with asyncio.timeout(10):
        sent = await asgi(Daemon(held), receive)
    assert held.cancelled.is_set()
    assert [message["type"] for message in sent] == ([] if at == "head" else ["http.response.start", "http.response.body"])


async def test_leaving_within_the_body_asks_nobody() -> None:
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    assert await asgi(Daemon(Held()), receive) == []


async def test_a_broken_stream_is_not_completed_on_other_servers() -> None:  # I.10
    class Failing(Held):
        async def body(self) -> AsyncIterator[bytes]:
            yield b"data: 1\n\n"
            raise Failure(502, "x")

    left = asyncio.Event()
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        if not messages:
            await left.wait()
        return messages.pop()

    sent = await asgi(Daemon(Failing()), receive)
    assert [message.get("more_body") for message in sent] == [None, True]


async def test_a_body_that_does_not_come_is_refused(site: Site) -> None:
    asking: Asking = await site.serve(Daemon(Held(), limits=DaemonLimits(body_seconds=0.05)))
    reader, writer = await asyncio.open_connection("127.0.0.1", int(asking.url.rpartition(":")[2]))
    writer.write(b"POST /extension/v1/p/invoke HTTP/1.1\r\nhost: localhost\r\nx-surface: chat_completions\r\ncontent-length: 5\r\n\r\n{")
    async with asyncio.timeout(10):
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 400 ")
    writer.close()
