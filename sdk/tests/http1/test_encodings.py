"""Content encodings that come unasked: undone piece by piece, with a bound, or refused by name of the fault."""

import functools
import gzip
import sys
import tracemalloc
import zlib

import brotli
import pytest

from sdk.tests.http1.asking import MakeClient, ask
from sdk.tests.http1.peer import Peer
from trunkline_sdk.http1 import BodyTooLarge, Client, Limits, Response, UndecodableBody
from trunkline_sdk.http1.decoders import MOST_MEMBERS, Gzip

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b"".join(b"line %d of a text that folds well\n" % number for number in range(20_000))
MiB = 1024 * 1024


class Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    @property
    def finished(self) -> bool:
        return self._stream.is_finished()

    def decode(self, data: bytes, limit: int) -> bytes:
        try:
            return self._stream.process(data, output_buffer_limit=limit)
        except brotli.error as error:
            raise ValueError from error


class Zstd:
    def __init__(self) -> None:
        self._stream = zstd.ZstdDecompressor()

    @property
    def finished(self) -> bool:
        return self._stream.eof

    def decode(self, data: bytes, limit: int) -> bytes:
        try:
            out = self._stream.decompress(data, limit)
        except (zstd.ZstdError, EOFError) as error:
            raise ValueError from error
        if self._stream.unused_data:
            raise ValueError
        return out


OTHERS = {"br": Brotli, "zstd": Zstd}


def bare_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


def quick_brotli(data: bytes) -> bytes:
    return brotli.compress(data, quality=1)


def encoded(encoding: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-encoding: %b\r\nx: 1\r\ncontent-length: %d\r\n\r\n%b" % (encoding, len(body), body)


FOLDINGS = {
    "gzip": (b"gzip", gzip.compress),
    "x-gzip": (b"X-GZIP", gzip.compress),
    "gzip members": (b"gzip", lambda data: gzip.compress(data[:100]) + gzip.compress(b"") + gzip.compress(data[100:])),
    "zlib": (b"deflate", zlib.compress),
    "bare deflate": (b"deflate", bare_deflate),
    "br": (b"br", quick_brotli),
    "zstd": (b"zstd", zstd.compress),
}


@pytest.mark.parametrize("folding", FOLDINGS)
async def test_what_comes_encoded_is_decoded_and_its_header_dropped(peer: Peer, make_client: MakeClient, folding: str) -> None:
    encoding, fold = FOLDINGS[folding]
    client = make_client(decoders=OTHERS)
    peer.says(encoded(encoding, fold(TEXT)))
    for _ in range(2):
        response = await client.request("GET", peer.url)
        assert response.headers == [(b"x", b"1")]
        pieces = [piece async for piece in response.body]
        assert b"".join(pieces) == TEXT
        assert max(map(len, pieces)) <= 128 * 1024
    assert len(peer.wires) == 1


@pytest.mark.parametrize("folding", FOLDINGS)
async def test_encoded_bytes_may_come_one_at_a_time(peer: Peer, make_client: MakeClient, folding: str) -> None:
    encoding, fold = FOLDINGS[folding]
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: %b\r\ntransfer-encoding: chunked\r\n\r\n" % encoding
    peer.says(head, *(b"1\r\n%b\r\n" % bytes([byte]) for byte in fold(TEXT[:300])), b"0\r\n\r\n")
    assert await ask(make_client(decoders=OTHERS), peer.url) == TEXT[:300]


async def test_identity_is_left_as_it_is(peer: Peer, client: Client) -> None:
    peer.says(encoded(b"identity", b"as it is"))
    response = await client.request("GET", peer.url)
    assert await response.read() == b"as it is"
    assert response.headers[0] == (b"content-encoding", b"identity")


async def test_an_empty_body_needs_no_decoding(peer: Peer, client: Client) -> None:
    peer.says(encoded(b"gzip", b""))
    assert await ask(client, peer.url) == b""
    peer.says(encoded(b"br", b""))
    assert await ask(client, peer.url) == b""


@pytest.mark.parametrize("encoding", [b"br", b"zstd", b"gzip, gzip", b"canary"])
async def test_an_encoding_without_decoder_leaves_the_head_and_refuses_the_body(peer: Peer, client: Client, encoding: bytes) -> None:
    peer.says(encoded(encoding, b"whatever"))
    response = await client.request("GET", peer.url)
    assert response.status == 200
    assert response.headers[0] == (b"content-encoding", encoding)
    for _ in range(2):
        with pytest.raises(UndecodableBody, match="no decoder") as caught:
            await response.read()
    assert "canary" not in repr(caught.value)


@pytest.mark.parametrize("folding", FOLDINGS)
@pytest.mark.parametrize("fault", ["cut", "broken", "followed"])
async def test_a_broken_encoding_is_no_clean_end(peer: Peer, make_client: MakeClient, folding: str, fault: str) -> None:
    encoding, fold = FOLDINGS[folding]
    whole = fold(TEXT)
    body = {"cut": whole[:-5], "broken": whole[:40] + b"\xff" * 40 + whole[80:], "followed": whole + b"and more"}[fault]
    peer.says(encoded(encoding, body))
    with pytest.raises(UndecodableBody):
        await ask(make_client(decoders=OTHERS), peer.url)


async def read_away(response: Response) -> None:
    unfolded = 0
    async for piece in response.body:
        unfolded += len(piece)
        assert unfolded <= 2 * MiB


@functools.cache
def bomb(folding: str) -> bytes:
    _, fold = FOLDINGS[folding]
    return fold(bytes(50 * MiB))


@pytest.mark.parametrize("folding", ["gzip", "zlib", "br", "zstd"])
async def test_a_bomb_unfolds_no_further_than_the_limit(peer: Peer, make_client: MakeClient, folding: str) -> None:
    encoding, _ = FOLDINGS[folding]
    client = make_client(decoders=OTHERS, limits=Limits(unfolded_bytes=2 * MiB))
    peer.says(encoded(encoding, bomb(folding)))
    response = await client.request("GET", peer.url)
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge, match="unfolds into more than 2097152 bytes"):
            await read_away(response)
        assert tracemalloc.get_traced_memory()[1] < 2 * MiB
    finally:
        tracemalloc.stop()


async def test_the_callers_limit_counts_what_unfolds(peer: Peer, client: Client) -> None:
    peer.says(encoded(b"gzip", gzip.compress(TEXT)))
    assert await ask(client, peer.url, max_body=len(TEXT)) == TEXT
    with pytest.raises(BodyTooLarge):
        await ask(client, peer.url, max_body=len(TEXT) - 1)


def test_a_gzip_stream_of_countless_members_is_refused_before_it_costs_anything() -> None:
    empty = gzip.compress(b"")
    with pytest.raises(ValueError, match="members"):
        Gzip().decode(empty * (MOST_MEMBERS + 1), 100)
    many = Gzip()
    assert many.decode(empty * 50 + gzip.compress(b"end"), 100) == b"end"
    assert many.finished
