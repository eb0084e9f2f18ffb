from collections.abc import Sequence

import pytest

from tests.fakes.clock import FakeClock
from trunkline.dialects import Dialect, Written
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.errors import TrunklineError
from trunkline.gateway.relay import Stream
from trunkline.gateway.upstream import Headers
from trunkline.server.daemon.stream import Records
from trunkline_sdk import sse
from trunkline_sdk.daemon.server import Failure

CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}'
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}'
DONE = b"data: [DONE]"
SECRET = "canary-0001"


class Body:
    headers: Headers = ()

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = iter(pieces)
        self.closed = False

    async def __anext__(self) -> bytes:
        for piece in self.pieces:
            return piece
        raise StopAsyncIteration

    async def read(self) -> bytes:
        return b"".join(self.pieces)

    async def aclose(self) -> None:
        self.closed = True


def told(error: TrunklineError) -> Failure:
    return Failure(502, error.message)


def records(body: Body, dialect: Dialect = OPENAI_CHAT) -> Records:
    fields = b'"max_tokens":1,' if dialect is ANTHROPIC else b""
    request = dialect.read_request(b'{"model":"m",%b"messages":[],"stream":true}' % fields, "chat")
    reader = dialect.read_events(request=request, written=Written(b""), repairs=frozenset())
    return Records(Stream(body, reader, FakeClock(), secrets=(SECRET,)), body, told)


async def read(*pieces: bytes, dialect: Dialect = OPENAI_CHAT) -> bytes:
    return b"".join([piece async for piece in records(Body(pieces), dialect)])


async def test_what_is_whole_passes_to_the_byte_however_it_is_cut() -> None:
    text = b": hi\n\n" + CHUNK + b"\r\n\r\n" + b"event: x\n" + STOP + b"\n\n" + DONE + b"\n\n"
    for size in range(1, len(text) + 1):
        assert await read(*(text[at : at + size] for at in range(0, len(text), size))) == text


async def test_nothing_waits_for_what_comes_later() -> None:
    pieces = records(Body([CHUNK + b"\n\n" + STOP, b"\n\n", DONE + b"\n\n"]))
    assert [piece async for piece in pieces] == [CHUNK + b"\n\n", STOP + b"\n\n", DONE + b"\n\n"]


async def test_lines_that_products_cannot_read_are_written_anew() -> None:
    text = b"\xef\xbb\xbf" + CHUNK + b"\r\r" + STOP + b"\r\r" + DONE + b"\r\r"
    for size in range(1, len(text) + 1):
        said = await read(*(text[at : at + size] for at in range(0, len(text), size)))
        reader = sse.Records()
        assert [record.split() for record in reader.feed(said)] == [CHUNK.split(), STOP.split(), DONE.split()]
        assert reader.end() is None


@pytest.mark.parametrize("tail", [(), (DONE,), (USAGE + b"\n\n",), (b'data: {"usa',)])
async def test_an_end_that_lacks_only_its_mark_gets_it(tail: tuple[bytes, ...]) -> None:
    said = await read(CHUNK + b"\n\n", STOP + b"\n\n", *tail)
    assert said.startswith(CHUNK + b"\n\n" + STOP + b"\n\n")
    assert said.endswith(DONE + b"\n\n")


@pytest.mark.parametrize("tail", [b"", CHUNK, b'data: {"choices":[{"finish_reason":"st', b": only a comment", b"data: {\n\n"])
async def test_an_end_before_the_answers_is_no_end(tail: bytes) -> None:
    with pytest.raises(Failure):
        await read(CHUNK + b"\n\n", tail)


async def test_an_error_event_passes_without_the_credential_and_ends_the_stream() -> None:
    event = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"%b"}}\n\n'
    said = await read(event % SECRET.encode(), b'event: ping\ndata: {"type":"ping"}\n\n', dialect=ANTHROPIC)
    assert said == event % b"***"


async def test_it_closes_what_it_reads_even_before_the_first_read() -> None:
    body = Body([])
    await records(body).aclose()
    assert body.closed
