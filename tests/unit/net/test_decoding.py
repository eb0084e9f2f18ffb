import gzip
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Iterator

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.net.decoding import BEYOND, DECODERS
from trunkline_sdk.http1 import Decoder

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE = 64 * 1024
MIB = 1 << 20

ENCODE: dict[str, Callable[[bytes], bytes]] = {
    "br": brotli.compress,
    "zstd": zstd.compress,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
}
every = pytest.mark.parametrize("name", ENCODE)
ours = pytest.mark.parametrize("name", BEYOND)


def decoder(name: str) -> Decoder:
    return DECODERS[name.encode()]()


def pieces(unfolding: Decoder, chunks: list[bytes], limit: int = PIECE) -> Iterator[bytes]:
    """As the readers of bodies do: all of a chunk is drawn out before the next is given."""
    for chunk in chunks:
        data = chunk
        while piece := unfolding.decode(data, limit):
            yield piece
            data = b""


def cut(data: bytes, step: int) -> list[bytes]:
    return [data[at : at + step] for at in range(0, len(data), step)]


def test_every_encoding_that_clients_send_is_known() -> None:
    assert set(DECODERS) == {b"gzip", b"x-gzip", b"deflate", b"br", b"zstd"}


@every
@given(data=st.binary(max_size=300).map(lambda seed: seed * 40), step=st.integers(1, 5000), limit=st.integers(1, 2 * PIECE))
def test_what_was_encoded_comes_back_however_it_is_cut(name: str, data: bytes, step: int, limit: int) -> None:
    unfolding = decoder(name)
    assert b"".join(pieces(unfolding, cut(ENCODE[name](data), step), limit)) == data
    assert unfolding.finished


@every
def test_when_the_end_was_seen_there_is_no_more_and_asking_is_no_error(name: str) -> None:
    unfolding = decoder(name)
    assert unfolding.decode(ENCODE[name](b"hello"), PIECE) == b"hello"
    assert unfolding.finished
    assert [unfolding.decode(b"", PIECE) for _ in range(2)] == [b"", b""]


@every
def test_a_small_bomb_is_unfolded_piece_by_piece_and_never_at_once(name: str) -> None:
    size = 64 * MIB
    bomb = ENCODE[name](bytes(size))
    assert len(bomb) < size // 500
    unfolding = decoder(name)
    drawn = 0
    tracemalloc.start()
    try:
        for piece in pieces(unfolding, [bomb]):
            assert len(piece) <= 2 * PIECE
            drawn += len(piece)
            if drawn > 8 * MIB:
                break
        assert tracemalloc.get_traced_memory()[1] < 2 * MIB
    finally:
        tracemalloc.stop()
    assert not unfolding.finished


@every
@given(data=st.binary(min_size=1, max_size=200), lost=st.integers(1, 12))
def test_a_stream_that_is_cut_is_never_finished(name: str, data: bytes, lost: int) -> None:
    whole = ENCODE[name](data)
    unfolding = decoder(name)
    assert data.startswith(b"".join(pieces(unfolding, [whole[: max(0, len(whole) - lost)]])))
    assert not unfolding.finished


@ours
@pytest.mark.parametrize("step", [1, 10_000], ids=["byte by byte", "at once"])
@pytest.mark.parametrize("rest", [b"x", b"\0" * 100, None], ids=["a byte", "zeros", "another stream"])
def test_what_follows_the_end_is_an_error_and_not_lost_in_silence(name: str, step: int, rest: bytes | None) -> None:
    whole = ENCODE[name](b"hello") + (ENCODE[name](b"world") if rest is None else rest)
    with pytest.raises(ValueError, match=r"brotli|zstd"):
        list(pieces(decoder(name), cut(whole, step)))


@ours
@given(noise=st.binary(min_size=1, max_size=100))
def test_noise_is_an_error_or_unfinished_and_no_crash(name: str, noise: bytes) -> None:
    unfolding = decoder(name)
    try:
        assert len(b"".join(pieces(unfolding, [noise], 1000))) < MIB
    except ValueError as error:
        assert name[:2] in str(error) or "brotli" in str(error)  # noqa: PT017 - both ways are right


@ours
def test_an_empty_body_is_unfinished(name: str) -> None:
    unfolding = decoder(name)
    assert unfolding.decode(b"", PIECE) == b""
    assert not unfolding.finished


def test_a_zstd_frame_that_asks_for_more_memory_than_a_sender_may_is_refused() -> None:
    def framed(window: int) -> bytes:
        compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window})
        return compressor.compress(b"hello") + compressor.flush()

    assert decoder("zstd").decode(framed(23), PIECE) == b"hello"
    with pytest.raises(ValueError, match="zstd"):
        decoder("zstd").decode(framed(27), PIECE)
