"""Frames: `u32 length | u8 kind | body`, read the same wherever the bytes are cut."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline_sdk.rpc.errors import ProtocolBroken
from trunkline_sdk.rpc.frames import ABSURD_BYTES, HEAD_BYTES, MESSAGE, PIECE, Frame, FrameReader, frame, piece, read_piece

BODIES = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=600)), max_size=6)


@pytest.mark.proves("worker.protocol")
@given(BODIES, st.lists(st.integers(1, 50), max_size=40))
def test_any_cut_of_the_bytes_reads_the_same(bodies: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = b"".join(frame(kind, body) for kind, body in bodies)
    whole = list(FrameReader(most=500).feed(data))
    reader, cut, at = FrameReader(most=500), list[Frame](), 0
    for size in cuts:
        cut += reader.feed(data[at : at + size])
        at += size
    cut += reader.feed(data[at:])
    assert cut == whole
    assert whole == [Frame(kind, body) if len(body) <= 500 else Frame(kind, body[:HEAD_BYTES], oversize=True) for kind, body in bodies]


def test_the_bytes_are_those_of_the_contract() -> None:
    assert frame(MESSAGE, b"{}") == b"\x00\x00\x00\x03\x00{}"
    assert piece(7, 1, b"ab") == b"\x00\x00\x00\x0b\x01\x00\x00\x00\x07\x00\x00\x00\x01ab"
    (read,) = FrameReader().feed(piece(7, 1, b"ab"))
    assert read.kind == PIECE
    assert read_piece(read.body) == (7, 1, b"ab")


def test_what_is_too_large_is_passed_over_and_the_next_frame_counts() -> None:
    reader = FrameReader(most=10)
    found = reader.feed(frame(MESSAGE, b"x" * 11) + frame(MESSAGE, b"next"))
    assert list(found) == [Frame(MESSAGE, b"x" * 11, oversize=True), Frame(MESSAGE, b"next")]


@pytest.mark.parametrize("length", [0, ABSURD_BYTES + 1, 2**32 - 1])
def test_a_length_that_cannot_be_meant_breaks_the_protocol(length: int) -> None:
    with pytest.raises(ProtocolBroken):
        list(FrameReader().feed(struct.pack("!IB", length, 0)))


def test_the_frames_before_what_breaks_the_protocol_count() -> None:
    found = FrameReader().feed(frame(MESSAGE, b"{}") + b"\xff" * 5)
    assert next(found) == Frame(MESSAGE, b"{}")
    with pytest.raises(ProtocolBroken):
        next(found)


def test_a_piece_without_its_numbers_breaks_the_protocol() -> None:
    with pytest.raises(ProtocolBroken):
        read_piece(b"1234567")
