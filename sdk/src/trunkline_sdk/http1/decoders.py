"""Undoing content encodings (RFC 9110, 8.4.1) piece by piece, so that no answer unfolds into more than asked for."""

import zlib
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias


class Decoder(Protocol):
    """The decoder of one body, for example around `brotli.Decompressor` or `zstd.ZstdDecompressor`."""

    @property
    def finished(self) -> bool:
        """The encoded stream's own end was seen and all before it handed out."""
        ...

    def decode(self, data: bytes, limit: int, /) -> bytes:
        """Take all of `data`, give about `limit` bytes at most; `b""` asks for more of what was taken, and gets `b""` if there is none.

        Raises:
            ValueError: The stream is broken, or `data` goes on after its end.
        """
        ...


DecoderFactory: TypeAlias = Callable[[], Decoder]


MOST_MEMBERS = 10_000
WINDOW = 64 * 1024


class _Zlib:
    """`finished` may turn false again: gzip members stand one after another."""

    __slots__ = ("_rest", "_stream")

    def __init__(self, wbits: int) -> None:
        self._stream = zlib.decompressobj(wbits)
        self._rest = b""

    @property
    def finished(self) -> bool:
        return self._stream.eof and not self._rest

    def _inflate(self, data: bytes, limit: int) -> bytes:
        try:
            out = self._stream.decompress(data, limit)
        except zlib.error:
            raise ValueError("a broken deflate stream") from None
        self._rest = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
        return out


class Gzip(_Zlib):
    """RFC 1952, with as many members as anybody has a reason for."""

    __slots__ = ("_members", "_whole")

    def __init__(self) -> None:
        super().__init__(31)
        self._members = 1
        self._whole = memoryview(b"")  # what is behind `_rest`: zlib copies what it was given too much, so it is given little

    @property
    def finished(self) -> bool:
        """The last member's own end was seen."""
        return super().finished and not self._whole

    def decode(self, data: bytes, limit: int, /) -> bytes:
        """See `Decoder`; a piece ends with its member."""
        if data:
            self._whole = memoryview(bytes(self._whole) + data)
        while self._rest or self._whole:
            if self._stream.eof:
                self._members += 1
                if self._members > MOST_MEMBERS:
                    raise ValueError(f"a gzip stream of more than {MOST_MEMBERS} members")
                self._stream = zlib.decompressobj(31)
            if not self._rest:
                self._rest, self._whole = bytes(self._whole[:WINDOW]), self._whole[WINDOW:]
            if out := self._inflate(self._rest, limit):
                return out
        return b""


class Deflate(_Zlib):
    """A zlib stream (RFC 1950), or the bare one (RFC 1951) that some servers send under this name."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        super().__init__(15)
        self._begun = False

    def decode(self, data: bytes, limit: int, /) -> bytes:
        """See `Decoder`; the first two bytes tell which of the two it is."""
        data = self._rest + data
        if not self._begun:
            if len(data) < 2:
                self._rest = data
                return b""
            self._begun = True
            if data[0] & 15 != zlib.DEFLATED or int.from_bytes(data[:2]) % 31:
                self._stream = zlib.decompressobj(-15)
        if self._stream.eof and data:
            raise ValueError("bytes after the end of a deflate stream")
        return self._inflate(data, limit)


BUILT_IN: Mapping[bytes, DecoderFactory] = {b"gzip": Gzip, b"x-gzip": Gzip, b"deflate": Deflate}
