"""The head of a response, held to RFC 9112 and to our limits. No I/O."""

from dataclasses import dataclass

import httptools

from trunkline_sdk.http1.framing import Chunked, Framing, Sink, Sized, UntilClose
from trunkline_sdk.http1.limits import Limits


class Malformed(Exception):
    """Why this is no head we accept; holds nothing of it."""


@dataclass(slots=True)
class Head:
    """`headers` in the order and spelling in which they came, values without the white space around them."""

    status: int
    headers: list[tuple[bytes, bytes]]
    framing: Framing
    keep_alive: bool
    encodings: bytes
    """The `Content-Encoding` of a body that is really there, lower case; else empty."""


def read(raw: bytes, method: str, limits: Limits) -> Head:
    """The head that `raw` is, up to and including its empty line, in answer to `method`.

    Raises:
        Malformed: Beyond the limits, or not as RFC 9112 wants it.
    """
    if len(raw) > limits.head_bytes:
        raise Malformed(f"a head of more than {limits.head_bytes} bytes")
    if raw.count(b"\n") - 2 > limits.fields:
        raise Malformed(f"more than {limits.fields} header fields")
    version = raw[:8]
    if version not in {b"HTTP/1.1", b"HTTP/1.0"}:
        raise Malformed("no HTTP/1.1 answer")
    parser, sink = _parse(raw)
    status = parser.get_status_code()
    headers, sink.headers = sink.headers, []  # what the parser adds later are trailers
    length, coding, encodings = _framing_fields(headers)
    framing: Framing
    if status < 200 or status in {204, 304} or method == "HEAD":
        framing, encodings = Sized(0), b""
    elif coding:
        if coding != b"chunked" or version == b"HTTP/1.0":
            raise Malformed("a transfer coding other than chunked, or in HTTP/1.0")
        framing = Chunked(parser, sink, most_framing=limits.head_bytes)
    else:
        framing = Sized(length) if length >= 0 else UntilClose()
    return Head(status, headers, framing, sink.keep_alive, encodings)


def _parse(raw: bytes) -> tuple[httptools.HttpResponseParser, Sink]:
    sink = Sink()
    parser = sink.parser
    assert parser is not None
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        raise Malformed("switched protocols unasked") from None
    except httptools.HttpParserError as error:
        single = _with_one_length(raw)
        if single is None:
            raise Malformed(f"bad head ({error})") from None
        return _parse(single)
    sink.parser = None  # ends the circle of references
    return parser, sink


def check_start(start: bytes, limits: Limits) -> None:
    """Refuse what can no longer become a head, however it goes on.

    Raises:
        Malformed: As for `read`.
    """
    if len(start) > limits.head_bytes:
        raise Malformed(f"a head of more than {limits.head_bytes} bytes")
    if not b"HTTP/1.".startswith(start[:7]):
        raise Malformed("no HTTP/1.1 answer")
    if start.count(b"\n") != start.count(b"\r\n"):
        raise Malformed("bad head (line end without CR)")


def _framing_fields(headers: list[tuple[bytes, bytes]]) -> tuple[int, bytes, bytes]:
    """Content-Length (-1 for none), Transfer-Encoding and Content-Encoding; the parser has refused both of the first two at once."""
    length, codings, encodings = -1, b"", b""
    for name, value in headers:
        match name.lower():
            case b"content-length":
                length = int(value)
            case b"transfer-encoding":
                codings = codings + b"," + value.lower() if codings else value.lower()
            case b"content-encoding":
                encodings = encodings + b"," + value.lower() if encodings else value.lower()
            case _:
                pass
    return length, codings, encodings


def _with_one_length(raw: bytes) -> bytes | None:
    """`raw` without repeated equal Content-Length lines, which the parser refuses and RFC 9112 (6.3) lets pass; None if it has no such."""
    lines = raw.split(b"\r\n")
    lengths = [line for line in lines if line[:15].lower() == b"content-length:"]
    if len(lengths) < 2 or len({line[15:].strip(b" \t") for line in lengths}) > 1:
        return None
    kept = [line for line in lines if line[:15].lower() != b"content-length:"]
    return b"\r\n".join([kept[0], lengths[0], *kept[1:]])
