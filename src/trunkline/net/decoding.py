"""Content encodings beyond those that the SDK's client knows, each bounded in what it unfolds."""

import sys
from collections.abc import Mapping

import brotli

from trunkline_sdk.http1.decoders import BUILT_IN, DecoderFactory

if sys.version_info >= (3, 14):
    from compression.zstd import DecompressionParameter, ZstdDecompressor, ZstdError
else:
    from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

WINDOW: dict[int, int] = {DecompressionParameter.window_log_max: 23}  # 8 MiB, the most that a sender may use (RFC 9659)


class Brotli:
    """RFC 7932."""

    __slots__ = ("_stream",)

    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    @property
    def finished(self) -> bool:
        """The stream's own end was seen."""
        return self._stream.is_finished()

    def decode(self, data: bytes, limit: int, /) -> bytes:
        """Unfold; `limit` is in bytes. Raises: `ValueError`."""
        if not data and self._stream.is_finished():
            return b""
        try:
            return self._stream.process(data, output_buffer_limit=limit)
        except brotli.error:
            raise ValueError("a broken brotli stream") from None


class Zstd:
    """RFC 8878, one frame."""

    __slots__ = ("_stream",)

    def __init__(self) -> None:
        self._stream = ZstdDecompressor(options=WINDOW)

    @property
    def finished(self) -> bool:
        """The frame's own end was seen."""
        return self._stream.eof

    def decode(self, data: bytes, limit: int, /) -> bytes:
        """Unfold; `limit` is in bytes. Raises: `ValueError`."""
        if not data and self._stream.eof:
            return b""
        try:
            piece = self._stream.decompress(data, limit)
        except (ZstdError, EOFError):
            raise ValueError("a broken zstd stream") from None
        if self._stream.unused_data:
            raise ValueError("bytes after the end of a zstd frame")
        return piece


BEYOND: Mapping[str, DecoderFactory] = {"br": Brotli, "zstd": Zstd}
DECODERS: Mapping[bytes, DecoderFactory] = {**BUILT_IN, **{name.encode(): factory for name, factory in BEYOND.items()}}
