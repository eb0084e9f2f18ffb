"""Each wait for a provider has its own limit, and an error that says which one it was."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.upstream import NEVER, Call, Upstream, Wire
from tests.wire.gateway import Gateway
from tests.wire.sides import Side

SHORT = {"timeouts": {"connect": 0.2, "first_byte": 0.3, "silence": 0.5}}
LIMITS = {"providers": {"openai": SHORT, "anthropic": SHORT, "pro": SHORT}}
WAITS = {
    "connect": "0.2 s for name, TCP and TLS",
    "first_byte": "0.3 s for the first byte of the answer",
    "silence": "0.5 s for more of the body",
}


@pytest.fixture
async def deaf() -> AsyncIterator[str]:
    """Where connections are accepted and never spoken to."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.fixture
def config(config: dict[str, Any], deaf: str) -> dict[str, Any]:
    """Two providers more, who do not even shake hands."""
    for kind in ("openai", "anthropic"):
        config["providers"][f"deaf-{kind}"] = config["providers"][kind] | {"base_url": deaf, "models": []}
    return config


def check(side: Side, status: int, error: tuple[str, str, str], which: str) -> None:
    kind, code, message = error
    assert (status, code) == (504, "upstream_timeout")
    assert kind == ("timeout_error" if side.dialect == "anthropic" else "server_error")
    assert [name for name, words in WAITS.items() if words in message] == [which]


@pytest.mark.config(**LIMITS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.proves("deadlines")
async def test_a_connection_that_is_not_made(gateway: Gateway, side: Side, stream: bool) -> None:
    got = await gateway.ask(side, model=f"deaf-{side.first}/m", stream=stream)
    check(side, got.status, side.error(got.json()), "connect")


@pytest.mark.config(**LIMITS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.proves("deadlines")
async def test_an_answer_that_does_not_begin(gateway: Gateway, upstreams: dict[str, Upstream], side: Side, stream: bool) -> None:
    upstreams[side.first].hangs()
    got = await gateway.ask(side, stream=stream)
    check(side, got.status, side.error(got.json()), "first_byte")
    await upstreams[side.first].disconnected()
    assert len(upstreams[side.first].calls) == 1, "who was too slow once is not waited for again"


@pytest.mark.config(**LIMITS)
@pytest.mark.proves("deadlines")
async def test_a_whole_answer_that_stops(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    upstreams[side.first].raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", NEVER)
    got = await gateway.ask(side)
    check(side, got.status, side.error(got.json()), "silence")
    await upstreams[side.first].disconnected()


@pytest.mark.config(**LIMITS)
@pytest.mark.proves("deadlines", "stream.never-clean")
async def test_a_stream_that_stops(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    upstreams[side.first].streams([*side.stream()[: side.shown], NEVER])
    got = await gateway.ask(side, stream=True)
    check(side, 504, side.failure(got.body), "silence")
    await upstreams[side.first].disconnected()


@pytest.mark.config(**LIMITS)
@pytest.mark.proves("deadlines")
async def test_a_stream_that_keeps_coming_is_not_cut_however_long_it_takes(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    upstreams[side.first].streams(side.stream("one two three four five six"), pause=0.1)
    got = await gateway.ask(side, stream=True)
    assert side.said(got.body) == "one two three four five six"
    assert (await gateway.told())["ms"] > 700


@pytest.mark.config(**LIMITS)
@pytest.mark.proves("deadlines")
async def test_comments_of_a_provider_that_thinks_count_as_life(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    upstreams[side.first].streams([b": thinking\n\n"] * 6 + side.stream(), pause=0.1)
    got = await gateway.ask(side, stream=True)
    assert side.said(got.body) == "one two three"


@pytest.mark.proves("failover", "bytes.stream")
async def test_a_long_prelude_is_shown_and_gives_up_the_other_targets(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    gone = asyncio.Event()
    start, ping = side.stream()[0], b": thinking\n\n"

    async def script(_: Call, wire: Wire) -> None:
        await wire.head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])
        await wire.chunk(start)
        for _ in range(20):  # this loop reads it then
            await asyncio.sleep(0)
        gateway.clock.advance(3)
        await wire.chunk(ping)
        await gone.wait()
        wire.close()

    upstreams[side.first].does(script)
    response = await gateway.begin(side, model=side.route)
    assert await anext(response.body) == start + ping
    gone.set()
    rest = await response.read()
    assert side.failure(rest)[1] == "upstream_down"
    assert upstreams[side.second].calls == []
