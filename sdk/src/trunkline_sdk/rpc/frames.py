"""Frames: `u32 length | u8 kind | body`. What is too large is passed over, and told by its first bytes; the frames behind it count."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from trunkline_sdk.rpc.errors import ProtocolBroken

MESSAGE = 0
"""A JSON message."""
PIECE = 1
"""A piece of a stream."""

FRAME_BYTES = 1024 * 1024
"""The largest body."""

ABSURD_BYTES = 256 * 1024 * 1024
"""A longer frame is no mistake of a program that means well."""

HEAD_BYTES = 256
"""So much of a body that is too large is kept, to find out which call it belongs to."""

LENGTH = struct.Struct("!IB")
"""The beginning of a frame: how long the rest is, its kind among it, and the kind."""
_PIECE = struct.Struct("!II")
_WHOLE_PIECE = struct.Struct("!IBII")


class Frame(NamedTuple):
    """One frame; of one that was too large the first bytes only."""

    kind: int
    body: bytes
    oversize: bool = False


class FrameReader:
    """Reads frames out of bytes that are cut anywhere. Holds at most one frame."""

    __slots__ = ("_buffer", "_head", "_kind", "_most", "_skip")

    def __init__(self, most: int = FRAME_BYTES) -> None:
        self._most = most
        self._buffer = bytearray()
        self._skip = 0  # bytes of a body that is passed over and still to come
        self._kind = 0
        self._head = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Every frame that these bytes complete. Take them all before there are more bytes.

        Raises:
            ProtocolBroken: a length that cannot be meant; the frames before it count.
        """
        buffer: bytes | bytearray = data
        if self._buffer:
            buffer = self._buffer
            buffer += data
        at = 0
        while True:
            if self._skip:
                passed = min(self._skip, len(buffer) - at)
                self._head += buffer[at : at + min(passed, HEAD_BYTES - len(self._head))]
                at += passed
                self._skip -= passed
                if self._skip:
                    break
                yield Frame(self._kind, self._head, oversize=True)
                continue
            if len(buffer) - at < LENGTH.size:
                break
            length, kind = LENGTH.unpack_from(buffer, at)
            if length < 1 or length > ABSURD_BYTES:
                raise ProtocolBroken(f"a frame of {length} bytes")
            if length - 1 > self._most:
                self._kind, self._head, self._skip = kind, b"", length - 1
                at += LENGTH.size
                continue
            end = at + 4 + length
            if len(buffer) < end:
                break
            yield Frame(kind, bytes(buffer[at + LENGTH.size : end]))
            at = end
        if buffer is data:
            self._buffer += buffer[at:]
        else:
            del self._buffer[:at]


def frame(kind: int, body: bytes) -> bytes:
    """One frame."""
    return LENGTH.pack(len(body) + 1, kind) + body


def piece(stream: int, seq: int, data: bytes) -> bytes:
    """One frame with a piece of a stream."""
    return _WHOLE_PIECE.pack(len(data) + 9, PIECE, stream, seq) + data


def read_piece(body: bytes) -> tuple[int, int, bytes]:
    """What the body of such a frame holds: stream, seq, data; `seq` counts from 0. Raises: `ProtocolBroken`."""
    if len(body) < _PIECE.size:
        raise ProtocolBroken("a piece of a stream without its numbers")
    return *_PIECE.unpack_from(body), body[_PIECE.size :]
