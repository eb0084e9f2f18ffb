import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import brotli
import pytest

from trunkline.errors import BadRequest, SlowRequest, TooLarge, UnsupportedEncoding
from trunkline.gateway.exchange import CallerLeft
from trunkline.net.decoding import DECODERS
from trunkline.server import body as body_module
from trunkline.server.body import MOST_ENCODINGS, Receive, read_body

try:
    from compression import zstd
except ImportError:
    from backports import zstd

LIMIT = 1000
PACK = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd.compress}


def sends(*pieces: bytes, then: str = "end") -> Receive:
    """A client's pieces; `then` the body ends, the client leaves, or nothing comes."""

    async def messages() -> AsyncIterator[MutableMapping[str, Any]]:
        for number, piece in enumerate(pieces, 1):
            yield {"type": "http.request", "body": piece, "more_body": then != "end" or number < len(pieces)}
        if then == "leaves":
            yield {"type": "http.disconnect"}
        await asyncio.Event().wait()

    stream = messages()
    return lambda: anext(stream)


async def read(receive: Receive, limit: int = LIMIT, **headers: str) -> bytes:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return await read_body(receive, named, limit)


async def test_a_body_is_the_same_in_one_piece_and_in_many() -> None:
    assert await read(sends(b"hello world")) == b"hello world"
    assert await read(sends(b"hel", b"", b"lo w", b"orld")) == b"hello world"
    assert await read(sends(b"")) == b""


async def test_a_body_at_the_limit_is_read() -> None:
    assert len(await read(sends(b"x" * LIMIT))) == LIMIT
    assert len(await read(sends(b"x" * (LIMIT - 1), b"x"))) == LIMIT


@pytest.mark.parametrize(
    "pieces", [(b"x" * (LIMIT + 1),), (b"x" * LIMIT, b"x"), (b"x" * 600, b"x" * 600, b"x")], ids=["one", "two", "three"]
)
async def test_a_body_over_the_limit_is_refused_with_the_number(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(TooLarge, match=str(LIMIT)):
        await read(sends(*pieces))


async def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes() -> None:
    with pytest.raises(TooLarge):
        await asyncio.wait_for(read(sends(then="nothing"), content_length=str(LIMIT + 1)), 5)


@pytest.mark.parametrize("encoding", PACK)
async def test_a_compressed_body_is_unfolded(encoding: str) -> None:
    body = bytes(range(256)) * 3
    packed = PACK[encoding](body)
    assert await read(sends(packed), content_encoding=encoding) == body
    assert await read(sends(packed[:9], packed[9:]), content_encoding=encoding.upper()) == body
    assert await read(sends(PACK[encoding](b"")), content_encoding=encoding) == b""


@pytest.mark.parametrize("encoding", PACK)
async def test_a_large_compressed_body_comes_whole(encoding: str) -> None:
    body = bytes(range(251)) * 20_000
    assert await read(sends(PACK[encoding](body)), limit=len(body), content_encoding=encoding) == body


@pytest.mark.proves("limits")
@pytest.mark.parametrize("encoding", PACK)
async def test_a_bomb_is_refused_with_the_number_and_not_unfolded(encoding: str) -> None:
    unfolded: list[int] = []

    class Counting:
        def __init__(self) -> None:
            self._decoder = DECODERS[encoding.encode()]()

        @property
        def finished(self) -> bool:
            return self._decoder.finished

        def decode(self, data: bytes, limit: int, /) -> bytes:
            piece = self._decoder.decode(data, limit)
            unfolded.append(len(piece))
            return piece

    bomb = PACK[encoding](bytes(10_000_000))
    assert len(bomb) < 20_000
    with pytest.raises(TooLarge, match="20000"):
        await read_body(sends(bomb), [(b"content-encoding", encoding.encode())], 20_000, {encoding.encode(): Counting})
    assert sum(unfolded) < 200_000


async def test_a_bomb_within_a_bomb_is_refused() -> None:
    with pytest.raises(TooLarge):
        await read(sends(gzip.compress(gzip.compress(bytes(10_000_000)))), limit=100_000, content_encoding="gzip, gzip")


async def test_encodings_are_undone_in_their_order() -> None:
    packed = brotli.compress(gzip.compress(b"hello"))
    assert await read(sends(packed), content_encoding="gzip, identity , BR") == b"hello"


async def test_encodings_without_number_are_refused_unread() -> None:
    with pytest.raises(UnsupportedEncoding, match="encoded 4000 times"):
        await read(sends(b"x"), content_encoding=",".join(["gzip"] * 4000))
    packed = b"hello"
    for _ in range(MOST_ENCODINGS):
        packed = gzip.compress(packed)
    assert await read(sends(packed), content_encoding=",".join(["gzip"] * MOST_ENCODINGS)) == b"hello"


async def test_an_encoding_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(UnsupportedEncoding, match="`snappy`") as caught:
        await read(sends(b"x"), content_encoding="snappy")
    assert "br, deflate, gzip, x-gzip, zstd" in caught.value.hint


@pytest.mark.parametrize("encoding", PACK)
@pytest.mark.parametrize(
    "damage", [lambda packed: packed[:-3], lambda _: b"canary canary canary", lambda packed: packed[:6]], ids=["cut", "none", "head"]
)
async def test_a_damaged_body_is_refused_and_not_quoted(encoding: str, damage: Any) -> None:
    with pytest.raises(BadRequest) as caught:
        await read(sends(damage(PACK[encoding](b"canary" * 50))), content_encoding=encoding)
    assert "canary" not in caught.value.sentence


async def test_a_client_that_leaves_is_not_an_error_of_anybody() -> None:
    with pytest.raises(CallerLeft):
        await read(sends(b"x", then="leaves"))


async def test_a_client_that_falls_silent_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "SILENCE", 0.01)
    with pytest.raises(SlowRequest):
        await read(sends(b"x", then="nothing"))
