"""Where a response body ends (RFC 9112, 6.3): by length, by its last chunk, or with the connection. No I/O."""

from typing import ClassVar

import httptools


class Framing:
    """`feed` what arrived and get the body's part of it.

    `finished`: the end was seen. `surplus`: bytes came after it. `fault`: why nothing more can be read.
    """

    __slots__ = ("fault", "finished", "surplus")
    open_ended: ClassVar[bool] = False
    """The connection's clean end is the body's."""

    def __init__(self) -> None:
        self.finished = False
        self.surplus = False
        self.fault = ""

    def feed(self, data: bytes) -> bytes:
        """The body bytes in `data`, maybe none."""
        raise NotImplementedError


class Sized(Framing):
    """A body of known length; none at all is a length of zero."""

    __slots__ = ("_left",)

    def __init__(self, length: int) -> None:
        super().__init__()
        self._left = length
        self.finished = length == 0

    def feed(self, data: bytes) -> bytes:
        """All of `data`, but for what lies beyond the length."""
        left = self._left = self._left - len(data)
        if left > 0:
            return data
        self.finished = True
        if left == 0:
            return data
        self.surplus = True
        return data[:left]


class UntilClose(Framing):
    """A body that ends with its connection."""

    __slots__ = ()
    open_ended = True

    def feed(self, data: bytes) -> bytes:
        """All of `data`."""
        return data


class Sink:
    """What the parser calls: fields of the head, then parts of a chunked body; `beyond` says that more followed its end."""

    __slots__ = ("beyond", "complete", "headers", "keep_alive", "on_body", "parser", "parts")

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.parts: list[bytes] = []
        self.on_body = self.parts.append  # no Python frame per chunk
        self.beyond = False
        self.complete = False
        self.keep_alive = False
        self.parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    def on_message_begin(self) -> None:
        """The start of the head; another start is none of ours, and the error ends the parsing."""
        self.beyond = self.complete
        if self.beyond:
            raise ValueError("bytes after the end")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field; also one of the trailers."""
        self.headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """The parser knows now, and not later, whether the connection may stay."""
        assert self.parser is not None
        self.keep_alive = self.parser.should_keep_alive()

    def on_message_complete(self) -> None:
        """After the last chunk and its trailers."""
        self.complete = True


class Chunked(Framing):
    """A chunked body (RFC 9112, 7.1); `parser` has just read its head into `sink`. Extensions and trailers are read and dropped."""

    __slots__ = ("_bare", "_most", "_parser", "_sink", "_tail")

    def __init__(self, parser: httptools.HttpResponseParser, sink: Sink, *, most_framing: int) -> None:
        super().__init__()
        self._parser = parser
        self._sink = sink
        self._bare = 0
        self._most = most_framing
        self._tail = b""

    def feed(self, data: bytes) -> bytes:
        """The data of the chunks in `data`, joined; what came before a fault still counts."""
        sink = self._sink
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if not sink.complete:
                self.fault = f"bad chunk framing ({error})"
        self._tail = (data if len(data) > 4 else self._tail + data)[-5:]
        if sink.complete:
            self.finished = True
            # the parser skips line ends between messages, so that these are looked for here
            self.surplus = sink.beyond or self._tail[1:] != b"\r\n\r\n" or self._tail[0] in b"\r\n"
        parts = sink.parts
        if not parts:
            self._bare += len(data)
            if self._bare > self._most and not self.finished:
                self.fault = f"{self._most} bytes of chunk framing without a byte of the body"
            return b""
        self._bare = 0
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        return body
