"""Reading a request's body, decompressed, under a limit."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from trunkline.errors import BadRequest, SlowRequest, TooLarge, UnsupportedEncoding
from trunkline.gateway.exchange import CallerLeft
from trunkline.gateway.headers import Headers, first
from trunkline.net.decoding import DECODERS
from trunkline_sdk.http1 import DecoderFactory

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

SILENCE = 60.0  # seconds between two pieces of a body
MOST_ENCODINGS = 3  # one upon the other
OPERATORS_LIMIT = "That is `server.max_body_bytes`; the operator can raise it."


async def read_body(
    receive: Receive,
    headers: Headers,
    limit: int,
    decoders: Mapping[bytes, DecoderFactory] = DECODERS,
    whole: Callable[[], bool] = lambda: False,
    hint: str = OPERATORS_LIMIT,
) -> bytes:
    """The whole body, decoded.

    Args:
        receive: the ASGI channel.
        headers: names in lower case.
        limit: the most bytes, after decoding.
        decoders: by `Content-Encoding`.
        whole: whether all of it has arrived, as far as the server tells: then it needs no time.
        hint: what is said to who passes the limit.

    Raises:
        TooLarge: with the limit.
        UnsupportedEncoding: its encoding is not one of the decoders.
        SlowRequest: it stopped arriving.
        CallerLeft: the caller left.
    """
    declared = first(headers, b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit, hint)
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive() if whole() else await _next(receive)
        if message["type"] == "http.disconnect":
            raise CallerLeft
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise _too_large(limit, hint)
        more = message.get("more_body", False)
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    encoding = first(headers, b"content-encoding")
    return body if encoding is None else _decoded(body, encoding, limit, decoders, hint)


def _decoded(body: bytes, encoding: bytes, limit: int, decoders: Mapping[bytes, DecoderFactory], hint: str) -> bytes:
    names = [name for each in encoding.split(b",") if (name := each.strip().lower()) not in {b"", b"identity"}]
    if len(names) > MOST_ENCODINGS:
        raise UnsupportedEncoding(
            f"the body is encoded {len(names)} times", hint=f"At most {MOST_ENCODINGS} are undone here; one is usual."
        )
    for name in reversed(names):
        body = _unfolded(body, name, limit, decoders, hint)
    return body


def _unfolded(body: bytes, name: bytes, limit: int, decoders: Mapping[bytes, DecoderFactory], hint: str) -> bytes:
    factory = decoders.get(name)
    if factory is None:
        known = ", ".join(sorted(each.decode() for each in decoders))
        raise UnsupportedEncoding(
            f"the body's `content-encoding` is `{name.decode('latin-1')[:40]}`, which is not known here", hint=f"Known: {known}."
        )
    decoder = factory()
    parts: list[bytes] = []
    size = 0
    try:
        while piece := decoder.decode(body, limit - size + 1):
            parts.append(piece)
            size += len(piece)
            body = b""
            if size > limit:
                raise _too_large(limit, hint)
    except ValueError as error:
        raise BadRequest(f"the body cannot be decoded: {error}") from None
    if not decoder.finished:
        raise BadRequest(f"the body ends inside its {name.decode()} stream")
    return b"".join(parts)


def _too_large(limit: int, hint: str) -> TooLarge:
    return TooLarge(f"the body is larger than {limit} bytes", hint=hint)


async def _next(receive: Receive) -> MutableMapping[str, Any]:
    try:
        async with asyncio.timeout(SILENCE):
            return await receive()
    except TimeoutError:
        raise SlowRequest(f"nothing of the body arrived for {SILENCE:.0f} seconds") from None
