"""However the bytes of an answer are split into reads, its head and body are the same; and no bytes at all break the reader."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trunkline_sdk.http1 import HttpError, Limits, Timeouts
from trunkline_sdk.http1.connection import Connection
from trunkline_sdk.outbox import Outbox

TOKEN = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~", min_size=1, max_size=12).map(str.encode)
FRAMING = {b"content-length", b"transfer-encoding", b"connection", b"upgrade", b"content-encoding", b"proxy-connection"}
VALUE = st.binary(max_size=30).map(lambda raw: bytes(byte for byte in raw if byte >= 32 and byte != 127).strip())
FIELDS = st.lists(st.tuples(TOKEN.filter(lambda name: name.lower() not in FRAMING), VALUE), max_size=6)


@dataclass(frozen=True)
class Answer:
    raw: bytes
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    reusable: bool


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    raw = b""
    for status in draw(st.lists(st.sampled_from([100, 102, 103, 150]), max_size=3)):
        raw += head(status, draw(FIELDS))
    status = draw(st.integers(200, 599))
    fields = draw(FIELDS)
    body = draw(st.binary(max_size=200))
    framing = draw(st.sampled_from(["length", "chunks", "close"]))
    if status in {204, 304}:
        return Answer(raw + head(status, fields), status, fields, b"", reusable=True)
    match framing:
        case "length":
            fields = [*fields, (b"Content-Length", b"%d" % len(body))]
            raw += head(status, fields) + body
        case "chunks":
            fields = [(b"transfer-encoding", b"chunked"), *fields]
            raw += head(status, fields)
            cuts = sorted(draw(st.sets(st.integers(1, max(len(body) - 1, 1)), max_size=5)))
            for begin, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
                if piece := body[begin:end]:
                    raw += b"%x%b\r\n%b\r\n" % (len(piece), draw(st.sampled_from([b"", b";a=b", b';c="d"'])), piece)
            raw += b"0\r\n" + draw(st.sampled_from([b"", b"trailer: 1\r\n"])) + b"\r\n"
        case _:
            raw += head(status, fields) + body
    return Answer(raw, status, fields, body, reusable=framing != "close")


def head(status: int, fields: list[tuple[bytes, bytes]]) -> bytes:
    return b"HTTP/1.1 %d Reason\r\n%b\r\n" % (status, b"".join(b"%b: %b\r\n" % pair for pair in fields))


class Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.aborted = self.paused = False

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def get_write_buffer_size(self) -> int:
        return 0


class Owner:
    def __init__(self) -> None:
        self.back = False

    def opened(self, connection: Connection, /) -> None: ...

    def freed(self, connection: Connection, /) -> None:
        self.back = True

    def ended(self, connection: Connection, /) -> None: ...

    def closed(self, connection: Connection, /) -> None: ...


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A clock and a place for timers; it never runs."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def read(loop: asyncio.AbstractEventLoop, reads: list[bytes], *, method: str = "GET") -> tuple[int, list[tuple[bytes, bytes]], bytes, bool]:
    """Head, body, and whether the connection went back; raises what an exchange raises."""
    owner, wire = Owner(), Wire()
    connection = Connection(owner, "peer.test", Limits(), Outbox(loop), loop)
    connection.connection_made(wire)
    connection.begin(method, Timeouts())
    answering = connection.answer(request_whole=True)
    assert answering.send(None) is not None  # it waits
    body = b""
    for data in reads:
        connection.data_received(data)
        while (piece := connection.take()) is not None:
            assert piece
            body += piece
    if not connection.complete:
        connection.eof_received()
    assert connection.answered
    try:
        answering.send(None)
    except StopIteration as done:
        answer = done.value
    if not connection.complete:
        with pytest.raises(HttpError) as caught:
            connection.more().send(None)
        raise caught.value
    connection.release()
    connection.abort()
    return answer.status, answer.headers, body, owner.back


@settings(deadline=None)
@given(answer=answers(), data=st.data())
def test_any_split_of_any_valid_answer_reads_the_same(loop: asyncio.AbstractEventLoop, answer: Answer, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, max(len(answer.raw) - 1, 1)), max_size=12), label="cuts"))
    reads = [answer.raw[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(answer.raw)], strict=True)]
    assert read(loop, reads) == (answer.status, answer.headers, answer.body, answer.reusable)


@settings(deadline=None)
@given(answer=answers())
def test_byte_by_byte_reads_the_same(loop: asyncio.AbstractEventLoop, answer: Answer) -> None:
    reads = [answer.raw[at : at + 1] for at in range(len(answer.raw))]
    assert read(loop, reads) == (answer.status, answer.headers, answer.body, answer.reusable)


@settings(deadline=None)
@given(answer=answers(), data=st.data())
def test_any_proper_start_of_an_answer_with_an_end_of_its_own_is_an_error(
    loop: asyncio.AbstractEventLoop, answer: Answer, data: st.DataObject
) -> None:
    if not answer.reusable:
        return
    cut = data.draw(st.integers(0, len(answer.raw) - 1), label="cut")
    with pytest.raises(HttpError):
        read(loop, [answer.raw[:cut]] if cut else [])


@settings(deadline=None)
@given(answer=answers(), surplus=st.binary(min_size=1, max_size=20), together=st.booleans())
def test_anything_after_the_end_costs_the_connection(
    loop: asyncio.AbstractEventLoop, answer: Answer, surplus: bytes, together: bool
) -> None:
    if not answer.reusable:
        return
    reads = [answer.raw + surplus] if together else [answer.raw, surplus]
    assert read(loop, reads) == (answer.status, answer.headers, answer.body, False)


@settings(deadline=None)
@given(
    reads=st.lists(st.binary(min_size=1, max_size=80), max_size=6),
    start=st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", head(200, [(b"transfer-encoding", b"chunked")])]),
)
@example(reads=[b"HTTP/1.1 200 OK\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"], start=b"")
def test_no_bytes_break_the_reader(loop: asyncio.AbstractEventLoop, reads: list[bytes], start: bytes) -> None:
    try:
        status, _, _, _ = read(loop, [start, *reads] if start else reads)
    except HttpError:
        return
    assert 200 <= status <= 999
