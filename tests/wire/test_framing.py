"""However a provider frames its stream, and however the network cuts it, it reads and comes back the same."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes import replies
from tests.fakes.upstream import Call, Script, Upstream, Wire
from tests.wire.gateway import Gateway, Got
from tests.wire.sides import CHAT, MESSAGES, Side

TEXT = "kåş 🛰 東 one two"
CALLS = [replies.ToolCall(id="a", name="f", arguments='{"x": "kåş 🛰 東"}'), replies.ToolCall(id="b", name="g", arguments='{"y": [1, 2]}')]


def stream_of(side: Side) -> bytes:
    return b"".join(replies.events(side.dialect, replies.Reply(TEXT, CALLS, model="m"), include_usage=True))


def in_pieces(pieces: Sequence[bytes]) -> Script:
    """A stream without chunks, whose end is the connection's; each piece is read before the next is sent."""

    async def script(_: Call, wire: Wire) -> None:
        await wire.head(200, [("content-type", "text/event-stream"), ("connection", "close")])
        for piece in pieces:
            await wire.send(piece)
            for _ in range(3):  # this loop reads it then
                await asyncio.sleep(0)
        wire.close()

    return script


async def told_of(gateway: Gateway, side: Side, script: Script) -> tuple[Got, dict[str, Any]]:
    """What came back, and what the log says that it was."""
    gateway.upstreams[side.first].does(script)
    got = await gateway.ask(side, stream=True, **({"stream_options": {"include_usage": True}} if side is CHAT else {}))
    line = await gateway.told()
    return got, {name: line.get(name) for name in ("outcome", "tokens", "tool_calls")}


STOP = '"stop"'
WHOLE = {"outcome": "ok", "tokens": {"input": 12, "output": 9}, "tool_calls": 2}


@pytest.mark.proves("G1")
async def test_a_read_boundary_inside_a_character_changes_nothing(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    chunk = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}'
    role = '{"role":"assistant","content":"k\u0131ş 🛰 東"}'
    event = f"data: {chunk % (role, 'null')}\n\n".encode()
    rest = f"data: {chunk % ('{}', STOP)}\n\ndata: [DONE]\n\n".encode()
    for place in range(1, len(event)):
        upstreams["openai"].does(in_pieces([event[:place], event[place:], rest]))
        got = await gateway.ask(CHAT, stream=True)
        assert got.body == event + rest, f"cut at {place}"
        assert CHAT.said(got.body) == "k\u0131ş 🛰 東"


def two_lines(stream: bytes) -> bytes:
    """Each event's data in two lines, which a reader joins by a line end, where JSON lets one stand."""
    return re.sub(rb'^data: \{"', b'data:{\ndata:"', stream, flags=re.MULTILINE)


FRAMINGS: dict[str, Callable[[bytes], bytes]] = {
    "CRLF": lambda stream: stream.replace(b"\n", b"\r\n"),
    "CR": lambda stream: stream.replace(b"\n", b"\r"),
    "mixed": lambda stream: b"\n".join(line + b"\r" * (number % 2) for number, line in enumerate(stream.split(b"\n"))),
    "no space": lambda stream: re.sub(rb"^(data|event): ", rb"\1:", stream, flags=re.MULTILINE),
    "two lines": two_lines,
    "comments": lambda stream: stream.replace(b"data:", b": hello\n:\ndata:").replace(b"\n\n", b"\n: bye\n\n"),
    "blank lines": lambda stream: stream.replace(b"\n\n", b"\n\n\n\n"),
    "an id": lambda stream: stream.replace(b"data:", b"id: 1\ndata:"),
}


@pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS)
@pytest.mark.proves("G2", "stream.grammar")
async def test_every_framing_of_events_reads_as_the_plain_one(gateway: Gateway, side: Side, framing: Callable[[bytes], bytes]) -> None:
    plain = stream_of(side)
    stream = framing(plain)
    assert stream != plain
    for size in (1, 7, len(stream)):
        got, told = await told_of(gateway, side, in_pieces([stream[at : at + size] for at in range(0, len(stream), size)]))
        assert told == WHOLE
        assert side.said(got.body) == TEXT
        assert got.body.rstrip(b"\r\n") == stream.rstrip(b"\r\n")


@given(places=st.lists(st.integers(1, 2500), max_size=12), ends=st.sampled_from([b"\n", b"\r\n", b"\r"]))
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.proves("stream.any-split")
async def test_however_a_stream_is_cut_it_comes_back_and_reads_the_same(
    gateway: Gateway, side: Side, places: list[int], ends: bytes
) -> None:
    stream = stream_of(side).replace(b"\n", ends)
    cuts = sorted({0, *(place for place in places if place < len(stream)), len(stream)})
    got, told = await told_of(gateway, side, in_pieces([stream[a:b] for a, b in pairwise(cuts)]))
    assert told == WHOLE
    assert got.body.rstrip(b"\r\n") == stream.rstrip(b"\r\n")


@pytest.mark.parametrize("side", [CHAT, MESSAGES], ids=str)  # Responses tells its text once more as a whole
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.proves("G1", "bytes.stream", "bytes.reply")
async def test_a_character_that_the_provider_cut_into_two_halves_changes_nothing(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, stream: bool
) -> None:
    """As servers do that count text in UTF-16 units."""
    if stream:
        whole = b"".join(side.stream("one two")).replace(b'"one"', b'"\\ud83d"').replace(b'" two"', b'"\\udef0 \\\\ud83d"')
        upstreams[side.first].streams([whole])
    else:
        whole = json.dumps(replies.whole(side.dialect, replies.Reply("one"))).replace('"one"', '"\\udef0\\ud83d"').encode()
        upstreams[side.first].answers(200, whole)
    got = await gateway.ask(side, stream=stream)
    assert got.body == whole
    assert (await gateway.told())["outcome"] == "ok"
    assert not stream or side.said(got.body).encode("utf-16", "surrogatepass").decode("utf-16") == "🛰 \\ud83d"


# -------------------------------------------------------------------------------------------------------- grammar
@pytest.mark.proves("G3", "stream.grammar")
async def test_a_messages_stream_has_one_start_with_usage_and_one_stop_whatever_pings_come(gateway: Gateway) -> None:
    events = [*replies.events("anthropic", replies.Reply(TEXT, CALLS, model="m"))]
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    stream = b"".join([events[0], ping, *(each for event in events[1:-1] for each in (event, ping)), events[-1]])
    got, told = await told_of(gateway, MESSAGES, in_pieces([stream]))
    assert got.body == stream
    assert told == WHOLE
    kinds = [event["type"] for event in MESSAGES.grammar(got.body)]
    assert (kinds[0], kinds[1], kinds.count("message_start"), kinds.count("message_stop")) == ("message_start", "ping", 1, 1)


def broken_starts() -> dict[str, bytes]:
    start, *rest = replies.events("anthropic", replies.Reply(TEXT, [], model="m"))
    message = json.loads(start.split(b"data: ")[1])
    del message["message"]["usage"]
    return {"two": b"".join([start, start, *rest]), "no usage": b"".join([replies.named(message), *rest]), "none": b"".join(rest)}


@pytest.mark.parametrize("stream", broken_starts().values(), ids=broken_starts())
@pytest.mark.proves("G3", "failover")
async def test_a_messages_stream_with_a_wrong_start_is_not_passed_on(
    gateway: Gateway, upstreams: dict[str, Upstream], stream: bytes
) -> None:
    upstreams["anthropic"].does(in_pieces([stream]), times=None)
    upstreams["spare"].says("here I am")
    alone = await gateway.ask(MESSAGES, stream=True)
    assert (alone.status, MESSAGES.error(alone.json())[1]) == (502, "upstream_garbled")
    assert "message_start" in MESSAGES.error(alone.json())[2]
    assert MESSAGES.said((await gateway.ask(MESSAGES, model="smart", stream=True)).body) == "here I am"


@pytest.mark.proves("G3", "stream.never-clean")
async def test_a_second_start_within_a_messages_stream_ends_it_with_an_error(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    events = [*replies.events("anthropic", replies.Reply(TEXT, [], model="m"))]
    upstreams["anthropic"].does(in_pieces([*events[:5], events[0], *events[5:]]))
    got = await gateway.ask(MESSAGES, stream=True)
    assert MESSAGES.grammar(got.body)[-1]["type"] == "error"
    assert MESSAGES.failure(got.body)[1] == "upstream_garbled"


@pytest.mark.proves("G4")
async def test_usage_beside_the_last_finish_reason_is_kept_with_cached_tokens_apart(
    gateway: Gateway, upstreams: dict[str, Upstream]
) -> None:
    head = b'"id":"c","object":"chat.completion.chunk","created":1,"model":"m"'
    stream = (
        b'data: {%b,"choices":[{"index":0,"delta":{"role":"assistant","content":"hello"},"finish_reason":null}]}\n\n' % head
        + b'data: {%b,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":900,"completion_tokens":7,' % head
        + b'"total_tokens":907,"prompt_tokens_details":{"cached_tokens":800}}}\n\ndata: [DONE]\n\n'
    )
    upstreams["openai"].does(in_pieces([stream]))
    got = await gateway.ask(CHAT, stream=True)
    assert got.body == stream, "a chunk with a choice is the caller's, usage and all"
    assert (await gateway.told())["tokens"] == {"input": 100, "cache_read": 800, "output": 7}
