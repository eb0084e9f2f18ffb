"""Reads a request's body within its bounds."""

import asyncio

from trunkline_sdk.daemon.protocol import headers as fields
from trunkline_sdk.daemon.server.exchange import Exchange, Stopped
from trunkline_sdk.daemon.server.failures import Failure


async def read_body(exchange: Exchange, most: int, seconds: float) -> bytes:
    """The whole body, of at most `most` bytes, with at most `seconds` of silence in it.

    Raises:
        Failure: 413, 415 for a coded body, 400 for one that does not come.
        Stopped: the product left.
    """
    if (fields.find(exchange.headers, b"content-encoding") or b"identity").lower() != b"identity":
        raise Failure(415, "the request's body must come without a content encoding")
    announced = fields.find(exchange.headers, b"content-length")
    too_large = Failure(413, f"the request's body has more than {most} bytes")
    if announced is not None and announced.isdigit() and int(announced) > most:
        raise too_large
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        try:
            async with asyncio.timeout(seconds):
                message = await exchange.receive()
        except TimeoutError:
            raise Failure(400, "the request's body did not come") from None
        if message["type"] == "http.disconnect":
            raise Stopped
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise too_large
        more = message.get("more_body", False)
    exchange.listen()
    return parts[0] if len(parts) == 1 else b"".join(parts)
