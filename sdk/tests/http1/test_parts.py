"""The parts that need no peer: URLs, decoders, the deadline."""

import asyncio
import gzip
from weakref import ref

import pytest

from trunkline_sdk.deadline import Deadline
from trunkline_sdk.http1 import InvalidRequest
from trunkline_sdk.http1.decoders import Gzip
from trunkline_sdk.http1.urls import Target, split


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://Example.COM", Target("http", "example.com", 80, b"example.com", b"/")),
        ("HTTPS://example.com/a%20b?c#d", Target("https", "example.com", 443, b"example.com", b"/a%20b?c")),
        ("https://example.com:443/", Target("https", "example.com", 443, b"example.com", b"/")),
        ("http://example.com:443/", Target("http", "example.com", 443, b"example.com:443", b"/")),
        ("http://[::1]:8080/x", Target("http", "::1", 8080, b"[::1]:8080", b"/x")),
        ("http://2852039166/", Target("http", "2852039166", 80, b"2852039166", b"/")),
        ("http://under_score.test/", Target("http", "under_score.test", 80, b"under_score.test", b"/")),
    ],
)
def test_a_url_says_where_to_go(url: str, target: Target) -> None:
    assert split(url) == target


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/relative",
        "example.com",
        "ftp://example.com/",
        "http://",
        "http:///path",
        "http://:80/",
        "http://user@example.com/",
        "http://good.test\\@evil.test/",
        "http://example.com:0x50/",
        "http://example.com:99999/",
        "http://exa mple.com/",
        "http://example.com/a b",
        "http://example.com/\r\nx: 1",
        "http://example.com/\t",
        "http://bücher.example/",
        "http://example.com/ü",
        "http://[::1",
        "http://[fe80::1%25eth0]/",
        "http://[v1.x]/",
        "http://127.0.0.1%2f.evil.test/",
        "http://a,b/",
        "http://./",
        "http://a..b/",
        f"http://{'a' * 64}.b/",
    ],
)
def test_a_url_that_may_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        split(url)


def test_an_empty_gzip_member_between_two_hides_neither() -> None:
    decoder = Gzip()
    assert decoder.decode(gzip.compress(b"one") + gzip.compress(b"") + gzip.compress(b"two"), 100) == b"one"
    assert not decoder.finished
    assert decoder.decode(b"", 100) == b"two"
    assert decoder.finished


def test_a_decoder_gives_no_more_than_asked_for() -> None:
    decoder = Gzip()
    out = [decoder.decode(gzip.compress(bytes(1000)), 300)]
    while piece := decoder.decode(b"", 300):
        out.append(piece)
    assert [len(piece) for piece in out] == [300, 300, 300, 100]
    assert decoder.finished


async def test_a_deadline_that_moves_rings_once_at_its_last_place() -> None:
    loop = asyncio.get_running_loop()
    rang = asyncio.Event()
    deadline = Deadline(loop, rang.set)
    start = loop.time()
    deadline.set(10.0)
    deadline.set(0.05)
    deadline.set(0.15)
    await asyncio.wait_for(rang.wait(), 2)
    assert loop.time() - start >= 0.14
    rang.clear()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(rang.wait(), 0.1)


async def test_a_deadline_does_not_hold_who_has_it() -> None:
    loop = asyncio.get_running_loop()
    rang, later = asyncio.Event(), asyncio.Event()
    deadline, gone = Deadline(loop, rang.set), ref(rang)
    deadline.set(0.01)
    loop.call_later(0.02, later.set)
    del rang
    assert gone() is None
    await later.wait()  # nobody is told, and nothing is raised


async def test_a_cleared_or_stopped_deadline_never_rings() -> None:
    loop = asyncio.get_running_loop()
    rang = asyncio.Event()
    cleared, stopped = Deadline(loop, rang.set), Deadline(loop, rang.set)
    cleared.set(0.02)
    cleared.clear()
    stopped.set(0.02)
    stopped.stop()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(rang.wait(), 0.1)


async def test_a_deadline_works_after_it_rang() -> None:
    loop = asyncio.get_running_loop()
    rang = asyncio.Event()
    deadline = Deadline(loop, rang.set)
    for _ in range(2):
        deadline.set(0.01)
        await asyncio.wait_for(rang.wait(), 2)
        rang.clear()
