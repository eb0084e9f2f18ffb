"""Many calls, large ones and slow ones: connections are used again, nothing is mixed up, nothing piles up."""

import asyncio
import json

import pytest

from tests.fakes import replies
from tests.fakes.upstream import Call, Upstream, Wire
from tests.wire.gateway import Gateway, question
from tests.wire.sides import CHAT, MESSAGES, Side

MIB = 1 << 20
CHUNKED = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]


@pytest.mark.proves("connections")
async def test_calls_in_a_row_use_one_connection(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    for number in range(12):
        match number % 4:
            case 0:
                upstreams[side.first].says("one two")
            case 1:
                upstreams[side.first].answers(400, {"type": "error", "error": {"message": "wrong", "type": "api_error"}})
            case 2:
                upstreams[side.first].streams([*side.stream(), b": bye\n\n"])
            case _:
                upstreams[side.first].says("one two")
        got = await gateway.ask(side, stream=number % 4 in {2, 3})
        assert got.status == (400 if number % 4 == 1 else 200)
        await gateway.told()
    assert upstreams[side.first].connections == 1


@pytest.mark.proves("connections")
async def test_a_connection_that_ended_meanwhile_is_nobodys_failure(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    async def script(call: Call, wire: Wire) -> None:
        body = json.dumps(replies.whole(side.dialect, replies.Reply("one two"))).encode()
        await wire.head(200, [("content-length", str(len(body)))])
        await wire.send(body)
        wire.close()  # without a word about it in the head

    for _ in range(5):
        upstreams[side.first].does(script)
        assert (await gateway.ask(side)).status == 200
        assert len((await gateway.told())["attempts"]) == 1
    assert upstreams[side.first].connections == 5


@pytest.mark.proves("connections")
async def test_calls_at_the_same_time_are_not_mixed_up(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    async def script(call: Call, wire: Wire) -> None:
        asked = call.json()
        said = asked["input"] if "input" in asked else asked["messages"][0]["content"]
        await wire.head(200, CHUNKED)
        for event in side.stream(f"{said} {said} {said}"):
            await wire.chunk(event)
            await asyncio.sleep(0)
        await wire.chunk(b"")

    upstreams[side.first].does(script, times=None)
    words = [f"word{number}" for number in range(60)]
    async with asyncio.TaskGroup() as group:
        asks = [group.create_task(gateway.ask(side, stream=True, **side.asking(word))) for word in words]
    assert [side.said(ask.result().body) for ask in asks] == [f"{word} {word} {word}" for word in words]
    assert len({ask.result().headers["x-request-id"] for ask in asks}) == len(words)


@pytest.mark.proves("bytes.request", "bytes.reply")
async def test_large_requests_and_replies_pass_whole(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    text = "kåş 🛰 東 " * (6 * MIB // 16)
    body = json.dumps(question(side, model=side.model.partition("/")[2], **side.asking(text))).encode()
    reply = json.dumps(replies.whole(side.dialect, replies.Reply(text)), ensure_ascii=False).encode()
    upstreams[side.first].answers(200, reply)
    got = await gateway.post(side.path, body)
    assert got.body == reply
    assert upstreams[side.first].calls[0].body == body
    assert (await gateway.told())["sent"] == len(reply)


@pytest.mark.proves("bytes.stream")
async def test_one_event_may_be_large(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    whole = b"".join(side.stream("x" * (3 * MIB) + " two"))
    upstreams[side.first].streams([whole[at : at + 65_000] for at in range(0, len(whole), 65_000)])
    assert (await gateway.ask(side, stream=True)).body == whole


@pytest.mark.parametrize("side", [CHAT, MESSAGES], ids=str)  # the events of Responses are numbered
@pytest.mark.proves("bytes.stream")
async def test_a_caller_that_reads_slowly_slows_its_provider_and_gets_it_all(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    whole = side.stream("x" * 32_000 + " two")
    events = [*whole[: side.shown - 1], *[whole[side.shown - 1]] * 350, *whole[side.shown :]]
    size = len(b"".join(events))
    assert size > 10 * MIB
    upstreams[side.first].streams(events)
    response = await gateway.begin(side)
    first = await anext(response.body)
    held = -1
    while held != (now := sum(len(answer.body) for answer in gateway.recording.answers)):  # until all buffers are full
        held = now
        await asyncio.sleep(0.1)
    assert held < 8 * MIB, "the rest is still with the provider"
    assert len(first + await response.read()) == size
    assert (await gateway.told())["sent"] == size


@pytest.mark.proves("connections")
async def test_informational_answers_are_passed_over(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    body = json.dumps(replies.whole(side.dialect, replies.Reply("one two"))).encode()
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    upstreams[side.first].raw(early + b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    got = await gateway.ask(side)
    assert (got.status, got.body) == (200, body)
