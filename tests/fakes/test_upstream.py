"""The fake provider does what it is told, and sees what is wrong with what it is asked."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme

from tests.fakes.replies import Dialect, Thought, ToolCall
from tests.fakes.upstream import NEVER, Call, Upstream, Wire
from tests.wire.grammar import anthropic, openai_chat, openai_responses

PATH: dict[Dialect, str] = {"openai_chat": "/v1/chat/completions", "anthropic": "/v1/messages", "openai_responses": "/v1/responses"}
HEADERS = {
    "openai_chat": "authorization: Bearer k\r\n",
    "anthropic": "x-api-key: k\r\nanthropic-version: 2023-06-01\r\n",
    "openai_responses": "authorization: Bearer k\r\n",
}
ASKED: dict[Dialect, dict[str, Any]] = {
    "openai_chat": {"messages": [{"role": "user", "content": "hi"}]},
    "anthropic": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
    "openai_responses": {"input": "hi", "include": ["reasoning.encrypted_content"]},
}
THOUGHTS = [Thought("first this", "c2ln", "ZW5j", "rs_1"), Thought(encrypted="aGlk", id="rs_2")]
CALLS = [ToolCall("look_up", '{"where": "k\\u0131\\u015f"}', "a"), ToolCall("stop", id="b")]


class Reader:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def head(self) -> tuple[int, dict[str, str]]:
        first, *fields = (await self.reader.readuntil(b"\r\n\r\n"))[:-4].decode().split("\r\n")
        return int(first.split(" ")[1]), dict(field.split(": ", 1) for field in fields)

    async def chunk(self) -> bytes:
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        status, headers = await self.head()
        if "content-length" in headers:
            return status, headers, await self.reader.readexactly(int(headers["content-length"]))
        body = b""
        while piece := await self.chunk():
            body += piece
        return status, headers, body


@pytest.fixture
async def up() -> AsyncIterator[Upstream]:
    async with asyncio.timeout(10), Upstream() as up:
        yield up


async def ask(
    up: Upstream, dialect: Dialect = "openai_chat", *, headers: str | None = None, path: str | None = None, **fields: Any
) -> Reader:
    url = urlsplit(up.base_url)
    client = Reader(*await asyncio.open_connection(url.hostname, url.port))
    body = {"model": "m"} | ASKED[dialect] | fields
    text = json.dumps({key: value for key, value in body.items() if value is not ...}).encode()
    head = f"POST {path or PATH[dialect]} HTTP/1.1\r\nHost: t\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n"
    client.writer.write((head + (HEADERS[dialect] if headers is None else headers) + "\r\n").encode() + text)
    return client


@pytest.mark.parametrize("thoughts", [[], THOUGHTS], ids=["at once", "after thoughts"])
@pytest.mark.parametrize("calls", [[], CALLS], ids=["text", "tool calls"])
@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "openai_responses"])
async def test_what_it_says_obeys_the_grammar_of_its_dialect(
    up: Upstream, dialect: Dialect, calls: list[ToolCall], thoughts: list[Thought]
) -> None:
    up.says("hello there 🛰", tool_calls=calls, thoughts=thoughts, times=None)
    fields = {"stream_options": {"include_usage": True}} if dialect == "openai_chat" else {}
    client = await ask(up, dialect, stream=True, **fields)
    status, headers, stream = await client.answer()
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    events = {"openai_chat": openai_chat, "anthropic": anthropic, "openai_responses": openai_responses}[dialect].check(stream)
    assert "🛰" in stream.decode()
    assert all(f'"call_id":"{call.id}"' in stream.decode() or f'"id":"{call.id}"' in stream.decode() for call in calls)
    assert all((thought.signature.encode() in stream or thought.encrypted.encode() in stream) for thought in thoughts)
    client.writer.close()

    client = await ask(up, dialect)
    status, headers, body = await client.answer()
    assert (status, headers["content-type"]) == (200, "application/json")
    whole = json.loads(body)
    usage = {"openai_chat": events[-1], "anthropic": events[-2], "openai_responses": events[-1].get("response", {})}[dialect]["usage"]
    assert whole["usage"] == usage
    assert len(calls) == body.count(b'"name":')
    if dialect == "openai_responses":
        assert whole == events[-1]["response"]
    client.writer.close()
    await up.idle()
    assert (up.connections, up.disconnects, up.violations) == (2, 0, [])
    assert [call.path for call in up.calls] == [PATH[dialect]] * 2


async def test_what_is_encrypted_of_a_thought_is_told_only_to_who_asks_for_it(up: Upstream) -> None:
    up.says("hello", thoughts=THOUGHTS)
    client = await ask(up, "openai_responses", include=...)
    body = json.loads((await client.answer())[2])
    assert [item["type"] for item in body["output"]] == ["reasoning", "reasoning", "message"]
    assert "encrypted_content" not in body["output"][0]
    client.writer.close()


async def test_usage_is_streamed_only_to_who_asks_for_it(up: Upstream) -> None:
    up.says("hello", usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}, times=None)
    client = await ask(up, stream=True)
    assert b"usage" not in (await client.answer())[2]
    client.writer.close()


async def test_answers_come_in_the_order_they_were_scripted_on_one_connection(up: Upstream) -> None:
    up.answers(529, {"error": {"message": "busy"}}, retry_after=7)
    up.answers(429, retry_after=datetime(2026, 11, 29, 12, 0, 20, tzinfo=UTC))
    up.answers(200, b"\x00raw", headers=[("x-request-id", "r1")], times=None)
    seen = []
    client = await ask(up)
    for again in range(4):
        if again:
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer k\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            client.writer.write(head.encode() + body)
        status, headers, content = await client.answer()
        seen.append((status, headers.get("retry-after"), headers.get("x-request-id"), content))
    assert seen == [
        (529, "7", None, b'{"error": {"message": "busy"}}'),
        (429, "Sun, 29 Nov 2026 12:00:20 GMT", None, b""),
        (200, None, "r1", b"\x00raw"),
        (200, None, "r1", b"\x00raw"),
    ]
    client.writer.close()
    assert (up.connections, up.violations) == (1, [])


async def test_a_request_is_kept_to_the_byte(up: Upstream) -> None:
    up.answers()
    client = await ask(up, headers="Authorization: Bearer k\r\nX-Odd:  V\xe4lue \r\n", path="/v1/chat/completions?a=b%20c")
    await client.answer()
    (call,) = up.calls
    assert (call.method, call.path) == ("POST", "/v1/chat/completions?a=b%20c")
    assert call.headers[-1] == (b"X-Odd", "V\xe4lue".encode())
    assert call.header("HOST") == "t"
    assert call.body == b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
    client.writer.close()


async def test_steps_are_held_back_until_their_gate_opens(up: Upstream) -> None:
    gate = asyncio.Event()
    up.streams([b"", {"n": 1}, gate, {"type": "ping"}], pause=0.001)
    client = await ask(up)
    assert (await client.head())[0] == 200
    assert await client.chunk() == b'data: {"n":1}\n\n'
    early = asyncio.create_task(client.chunk())
    await asyncio.sleep(0.01)
    assert not early.done()
    gate.set()
    assert await early == b'event: ping\ndata: {"type":"ping"}\n\n'
    assert await client.chunk() == b""
    client.writer.close()


@pytest.mark.parametrize("cut", ["close", "reset"])
async def test_a_cut_stream_ends_within_an_event_and_without_its_last_chunk(up: Upstream, cut: Any) -> None:
    up.says("one two three four", cut=cut)
    client = await ask(up, stream=True)
    await client.head()
    try:
        rest = await client.reader.read()
    except ConnectionResetError:
        assert cut == "reset"
    else:
        assert cut == "close"
        assert not rest.endswith(b"0\r\n\r\n")
        assert b"\n\n" not in rest[-40:]
    client.writer.close()
    assert up.violations == []


@pytest.mark.parametrize("script", ["hangs", "silent", "gated"])
async def test_a_client_that_leaves_early_is_counted(up: Upstream, script: str) -> None:
    match script:
        case "hangs":
            up.hangs()
        case "silent":
            up.streams([b"data: 1\n\n", NEVER])
        case _:
            up.answers(gate=asyncio.Event())
    client = await ask(up)
    await up.called()
    assert (up.open, up.disconnects) == (1, 0)
    client.writer.close()
    await up.disconnected()
    await up.idle()
    assert up.disconnects == 1


async def test_a_client_that_leaves_within_its_request_is_counted(up: Upstream) -> None:
    url = urlsplit(up.base_url)
    _, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(b"POST / HTTP/1.1\r\nHost: t\r\ncontent-length: 9\r\n\r\nhalf")
    await writer.drain()
    writer.close()
    await up.disconnected()
    assert up.calls == []


async def test_nobody_leaving_is_not_waited_for_in_vain(up: Upstream) -> None:
    with pytest.raises(TimeoutError):
        await up.disconnected(0.01)


async def test_framing_may_be_as_wrong_as_a_test_wants(up: Upstream) -> None:
    up.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab")
    up.drops()
    client = await ask(up)
    assert await client.reader.read() == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"
    client.writer.close()
    client = await ask(up)
    assert await client.reader.read() == b""
    client.writer.close()
    assert up.violations == []


async def test_a_script_that_fails_and_a_request_without_a_script_are_findings(up: Upstream) -> None:
    async def fails(_: Call, wire: Wire) -> None:
        raise LookupError("oops")

    up.does(fails)
    for _ in range(2):
        client = await ask(up)
        assert await client.reader.read() == b""
        client.writer.close()
    assert up.violations == [
        "the script failed: LookupError('oops')",
        "the script failed: AssertionError('nobody said how to answer POST /v1/chat/completions')",
    ]


async def test_a_stopped_provider_refuses_new_connections(up: Upstream) -> None:
    up.stop()
    with pytest.raises(ConnectionRefusedError):
        await ask(up)


@pytest.mark.parametrize(
    "request_",
    [
        b"POST / HTTP/1.0\r\nHost: t\r\n\r\n",
        b"POST / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: t\r\nhost: t\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: t\r\nX: a\nb\r\n\r\n",
        b"POST http://t/ HTTP/1.1\r\nHost: t\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: t\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\na",
        b"POST / HTTP/1.1\r\nHost: t\r\ncontent-length: 0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: t\r\ncontent-length: +1\r\n\r\na",
        b"POST / HTTP/1.1\r\nHost: t\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: t\r\ntransfer-encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: t\r\ntransfer-encoding: gzip\r\n\r\n",
    ],
)
async def test_what_is_no_clean_http_is_a_violation(up: Upstream, request_: bytes) -> None:
    url = urlsplit(up.base_url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(request_)
    assert await reader.read() == b""
    writer.close()
    assert len(up.violations) == 1
    assert "is no HTTP/1.1" in up.violations[0]


async def test_it_speaks_tls_with_the_context_it_is_given() -> None:
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(server)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with Upstream(tls=server) as up:
        up.answers(200, b"safe")
        url = urlsplit(up.base_url)
        assert url.scheme == "https"
        client = Reader(*await asyncio.open_connection(url.hostname, url.port, ssl=trusting, server_hostname="localhost"))
        client.writer.write(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
        assert (await client.answer())[2] == b"safe"
        client.writer.close()
        await up.idle()


async def test_a_chunked_request_is_read(up: Upstream) -> None:
    up.answers()
    url = urlsplit(up.base_url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(b"POST / HTTP/1.1\r\nHost: t\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
    assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
    assert up.calls[0].body == b"abc"
    writer.close()
