"""What passes through Trunkline in one dialect is the same byte for byte, but for what is named."""

import asyncio
import gzip
import json
import zlib

import brotli
import pytest

from tests.fakes import replies
from tests.fakes.upstream import Call, Upstream, Wire
from tests.wire.gateway import Gateway
from tests.wire.sides import CHAT, MESSAGES, RESPONSES, Side

EVENT_STREAM = ("content-type", "text/event-stream; charset=utf-8")

ODD = {
    "spaces": b'\r\n{ "model" :\t"%s" ,\n\n"max_tokens":64, "messages":[ {"role":"user","content":"hi"} ]  }\n ',
    "order": b'{"messages":[{"content":"hi","role":"user"}],"max_tokens":64,"model":"%s","metadata":{"z":1,"a":2}}',
    "letters": '{"model":"%s","max_tokens":64,"messages":[{"role":"user","content":"k\\u0131\u015f 🛰 \\ud83d\\udef0 \\/ 東"}]}'.encode(),
    "numbers": b'{"model":"%s","max_tokens":64,"messages":[{"role":"user","content":"hi"}],"seed_":123456789012345678901234567890,"t":1.50e+2,"z":-0.0}',
    "nested": b'{"metadata":{"model":"x","stream":true},"model":"%s","max_tokens":64,"messages":[{"role":"user","content":"\\"model\\":\\"y\\""}]}',
    "key": b'{"m\\u006fdel":"%s","max_tokens":64,"messages":[{"role":"user","content":"hi"}]}',
    "null": b'{"model":"%s","max_tokens":64,"stop_":null,"messages":[{"role":"user","content":"hi"}],"unknown":null}',
}


def odd(side: Side, name: str, model: str) -> bytes:
    """A request for a model; only Messages needs its limit."""
    body = ODD[name] if side is MESSAGES else ODD[name].replace(b'"max_tokens":64,', b"")
    return (body.replace(b'"messages"', b'"input"') if side is RESPONSES else body) % model.encode()


# -------------------------------------------------------------------------------------------------------- requests
@pytest.mark.parametrize("name", ODD)
@pytest.mark.proves("bytes.request")
async def test_a_request_goes_out_as_it_came_but_for_the_models_name(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, name: str
) -> None:
    providers_own = side.model.partition("/")[2]
    upstreams[side.first].says("hello", stream=False, times=2)
    for model in (side.model, providers_own):
        assert (await gateway.post(side.path, odd(side, name, model))).status == 200
    assert [call.body for call in upstreams[side.first].calls] == [odd(side, name, providers_own)] * 2


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        (b"", b',"stream_options":{"include_usage":true}'),
        (b',"stream_options": null', b',"stream_options": {"include_usage":true}'),
        (b',"stream_options":{ }', b',"stream_options":{ "include_usage":true}'),
        (b',"stream_options":{"a": [1]}', b',"stream_options":{"a": [1],"include_usage":true}'),
        (b',"stream_options":{"include_usage": false}', b',"stream_options":{"include_usage": true}'),
        (b',"stream_options": { "include_usage" :true }', b',"stream_options": { "include_usage" :true }'),
    ],
)
@pytest.mark.proves("bytes.request")
async def test_a_streamed_chat_request_asks_for_usage_and_is_else_as_it_came(
    gateway: Gateway, upstreams: dict[str, Upstream], options: bytes, sent: bytes
) -> None:
    body = b'{ "stream":true, "model":"gpt-mini", "messages": [{"role":"user","content":"hi"}]%s}'
    upstreams["openai"].says("hello")
    got = await gateway.post(CHAT.path, body % options)
    assert upstreams["openai"].calls[0].body == body % sent
    usages = [chunk for chunk in CHAT.grammar(got.body) if chunk.get("usage")]
    assert len(usages) == (options == sent), "the caller sees the usage that it asked for, and no other"


@pytest.mark.config(providers={"openai": {"stream_usage": False}})
@pytest.mark.proves("bytes.request")
async def test_a_provider_that_refuses_the_wish_for_usage_is_not_asked(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    body = b'{"model":"gpt-mini","stream":true,"messages":[{"role":"user","content":"hi"}]}'
    upstreams["openai"].says("hello")
    await gateway.post(CHAT.path, body)
    assert upstreams["openai"].calls[0].body == body


@pytest.mark.proves("bytes.request")
async def test_a_streamed_message_request_goes_out_as_it_came(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    body = b'{"max_tokens": 64, "stream": true, "model": "%s", "messages": [{"role":"user","content":"hi"}] }'
    upstreams["anthropic"].says("hello")
    await gateway.post(MESSAGES.path, body % b"anthropic/claude-sonnet")
    assert upstreams["anthropic"].calls[0].body == body % b"claude-sonnet"


@pytest.mark.parametrize("encoding", ["gzip", "br"])
@pytest.mark.proves("bytes.request")
async def test_a_compressed_request_goes_out_unfolded(gateway: Gateway, upstreams: dict[str, Upstream], side: Side, encoding: str) -> None:
    body = odd(side, "letters", side.model.partition("/")[2])
    folded = gzip.compress(body) if encoding == "gzip" else brotli.compress(body)
    upstreams[side.first].says("hello")
    assert (await gateway.post(side.path, folded, [("content-encoding", encoding)])).status == 200
    call = upstreams[side.first].calls[0]
    assert call.body == body
    assert call.header("content-encoding") is None
    assert call.header("content-length") == str(len(body))


@pytest.mark.parametrize("key", ["model", "stream", "messages", "max_tokens", "metadata"])
@pytest.mark.proves("bytes.request")
async def test_a_key_that_stands_twice_is_refused_since_nobody_can_say_which_counts(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, key: str
) -> None:
    values = {"model": f'"{side.model}"', "stream": "false", "messages": "[]", "max_tokens": "64", "metadata": "{}"}
    pairs = ",".join(f'"{name}":{value}' for name, value in [*values.items(), (key, values[key])])
    got = await gateway.post(side.path, f"{{{pairs}}}".encode())
    assert got.status == 400
    assert side.error(got.json())[1] == "bad_request"
    assert upstreams[side.first].calls == []


# --------------------------------------------------------------------------------------------------------- replies
REPLIES = {
    CHAT: '\n{ "id":"x" , "object":"chat.completion","big":123456789012345678901234567890, "n":1.50e2,\r\n"choices":[{"index":0,'
    '"message":{"role":"assistant","content":"k\\u0131\u015f 🛰","\\u0061nd":null},"finish_reason":"stop","logprobs":null}] }\n\n',
    MESSAGES: '\n{ "type":"message","id":"x","role":"assistant" ,"model":"m","big":123456789012345678901234567890, "n":1.50e2,\r\n"content":['
    '{"type":"text","text":"k\\u0131\u015f 🛰"},{"type":"later_kind","\\u0061":[]}],"stop_reason":"end_turn","usage":{"input_tokens":1} }\n\n',
    RESPONSES: '\n{ "id":"x" , "object":"response","big":123456789012345678901234567890, "n":1.50e2,\r\n"status":"completed","output":['
    '{"type":"message","content":[{"type":"output_text","text":"k\\u0131\u015f 🛰","\\u0061nd":null}]},{"type":"later_kind"}] }\n\n',
}


@pytest.mark.parametrize("encoding", ["", "chunked", "gzip", "deflate", "br"])
@pytest.mark.proves("bytes.reply")
async def test_a_reply_comes_back_as_it_was_written(gateway: Gateway, upstreams: dict[str, Upstream], side: Side, encoding: str) -> None:
    body = REPLIES[side].encode()
    if encoding == "chunked":
        upstreams[side.first].streams([body[:7], body[7:91], body[91:]], headers=[("content-type", "application/json; v=1")])
    else:
        folded = {"gzip": gzip.compress, "br": brotli.compress, "deflate": zlib.compress}.get(encoding, bytes)(body)
        headers = [("content-encoding", encoding)] if encoding else []
        upstreams[side.first].answers(200, folded, headers=[("content-type", "application/json; v=1"), *headers])
    got = await gateway.ask(side)
    assert got.body == body
    assert got.headers["content-type"] == "application/json; v=1"
    assert got.headers["content-length"] == str(len(body))
    assert "content-encoding" not in got.headers


# --------------------------------------------------------------------------------------------------------- streams
def stream_of(side: Side, *, usage: bool = False) -> list[bytes]:
    """A stream with text and tool calls, in events."""
    calls = [replies.ToolCall(id="a", name="f", arguments='{"x": "kåş 🛰 東"}'), replies.ToolCall(id="b", name="g")]
    return [*replies.events(side.dialect, replies.Reply("kåş 🛰 東 one two", calls, model="m"), include_usage=usage)]


@pytest.mark.proves("bytes.stream", "stream.grammar")
async def test_a_stream_comes_back_as_it_was_written(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    events = stream_of(side)
    odd = [
        b": hello\n\n",
        b"id: 7\n" + events[0],
        *events[1:3],
        b": ping\n: pong\n\n",
        b"retry: 5\n" + events[3],
        *events[4:],
        b": bye\n\n",
    ]
    upstreams[side.first].streams(odd, headers=[EVENT_STREAM])
    got = await gateway.ask(side, stream=True)
    assert got.body == b"".join(odd[:-1]), "what follows the end is nobody's"
    assert got.headers["content-type"] == EVENT_STREAM[1]
    assert got.headers["cache-control"] == "no-cache"
    assert "content-length" not in got.headers


@pytest.mark.proves("bytes.stream")
async def test_a_usage_chunk_that_only_we_asked_for_is_taken_out_and_nothing_else(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    events = stream_of(CHAT, usage=True)
    assert b'"usage":null' in events[0]
    assert b'"choices":[],"usage":{' in events[-2]
    upstreams["openai"].streams(events, times=2)
    got = await gateway.ask(CHAT, stream=True)
    asked = await gateway.ask(CHAT, stream=True, stream_options={"include_usage": True})
    assert got.body == b"".join(events[:-2] + events[-1:])
    assert asked.body == b"".join(events)
    assert [(await gateway.told())["tokens"] for _ in range(2)] == [{"input": 12, "output": 9}] * 2


PRELUDE = (b'"delta":{"role":"assistant"', b"event: message_start", b"event: response.created", b"event: response.in_progress")


@pytest.mark.proves("bytes.stream")
async def test_every_event_goes_out_before_the_next_is_written(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    seen = asyncio.Semaphore(0)
    events = stream_of(side)

    async def script(_: Call, wire: Wire) -> None:
        await wire.head(200, [EVENT_STREAM, ("transfer-encoding", "chunked")])
        for event in events:
            await wire.chunk(event)
            if not any(each in event for each in PRELUDE):  # a stream begins with its first visible part
                await seen.acquire()
        await wire.chunk(b"")

    upstreams[side.first].does(script)
    response = await gateway.begin(side)
    chunks: list[bytes] = []
    async for chunk in response.body:
        chunks.append(chunk)
        seen.release()
    assert b"".join(chunks) == b"".join(events)
    if side is CHAT:
        assert chunks == [events[0] + events[1], *events[2:]]


@pytest.mark.parametrize("side", [CHAT, MESSAGES], ids=str)  # the events of Responses are numbered
@pytest.mark.proves("bytes.stream")
async def test_many_events_in_one_read_come_back_as_they_were_written(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    middle = stream_of(side)[{CHAT: 1, MESSAGES: 3}[side]]
    assert json.loads(middle.split(b"data: ")[1])
    first, rest = stream_of(side)[:4], stream_of(side)[4:]
    whole = b"".join(first) + middle * 5000 + b"".join(rest)
    upstreams[side.first].streams([whole])
    assert (await gateway.ask(side, stream=True)).body == whole
