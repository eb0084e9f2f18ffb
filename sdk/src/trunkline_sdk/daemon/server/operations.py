"""Invoke and stream (daemon contract, B, C)."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from trunkline_sdk.daemon.protocol import headers as fields
from trunkline_sdk.daemon.protocol import timeouts
from trunkline_sdk.daemon.server.backend import Backend, Call, Reply
from trunkline_sdk.daemon.server.body import read_body
from trunkline_sdk.daemon.server.exchange import Exchange
from trunkline_sdk.daemon.server.failures import Failure
from trunkline_sdk.daemon.server.limits import DaemonLimits
from trunkline_sdk.daemon.server.pieces import paced
from trunkline_sdk.sse import Records, comment

_KEEPALIVE = comment("keepalive")


async def invoke(exchange: Exchange, backend: Backend, limits: DaemonLimits) -> None:
    """Answer in one piece."""
    call = await _call(exchange, backend, limits)
    async with asyncio.timeout(call.timeout):
        reply = await backend.invoke(call)
    head = [(b"content-type", fields.value(b"content-type", reply.content_type)), *fields.losses(reply.losses)]
    if isinstance(reply.body, bytes):
        await exchange.answer(200, head, reply.body)
    else:
        await _relay(exchange, head, reply, call.timeout)


async def stream(exchange: Exchange, backend: Backend, limits: DaemonLimits) -> None:
    """Answer as it comes: the head when the backend has one, then each record by itself."""
    call = await _call(exchange, backend, limits)
    async with asyncio.timeout(call.timeout):
        answer = await backend.stream(call)
    head = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no"), *fields.losses(answer.losses)]
    records = Records(limit=limits.record_bytes)
    async with paced(answer.body, call.timeout) as pieces:
        await exchange.begin(200, head)
        async with _kept_alive(exchange, limits.keepalive_seconds):
            async for piece in pieces:
                for record in records.feed(piece):
                    await exchange.write(record)
            if (last := records.end()) is not None:
                await exchange.write(last)
    await exchange.end()


async def _call(exchange: Exchange, backend: Backend, limits: DaemonLimits) -> Call:
    headers = exchange.headers
    surface = fields.text(fields.find(headers, fields.SURFACE))
    if surface not in backend.info.surfaces:
        raise Failure(400, f"this provider does not serve the surface `{surface}`")
    return Call(
        surface=surface,
        model=fields.text(fields.find(headers, fields.MODEL)),
        body=await read_body(exchange, limits.operation_bytes, limits.body_seconds),
        content_type=fields.text(fields.find(headers, b"content-type")),
        credential=fields.read_credential(headers),
        timeout=timeouts.read(fields.find(headers, fields.TIMEOUT), ceiling=limits.most_seconds) or limits.default_seconds,
        request_id=exchange.request_id,
    )


async def _relay(exchange: Exchange, head: fields.Headers, reply: Reply, seconds: float | None) -> None:
    """A body that is still coming in; what fails before its first piece is told with a status."""
    assert not isinstance(reply.body, bytes)
    async with paced(reply.body, seconds) as pieces:
        first = await anext(pieces, b"")
        await exchange.begin(200, head)
        await exchange.write(first)
        async for piece in pieces:
            await exchange.write(piece)
    await exchange.end()


@asynccontextmanager
async def _kept_alive(exchange: Exchange, seconds: float | None) -> AsyncGenerator[None]:
    """Send a comment into each long silence. Only whole records are written, so one may stand between any two writes."""
    if seconds is None:
        yield
        return
    keeper = asyncio.get_running_loop().create_task(_keep_alive(exchange, seconds), name="keepalives of a stream")
    try:
        yield
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper


async def _keep_alive(exchange: Exchange, seconds: float) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        silent = clock() - exchange.wrote
        if silent >= seconds:
            await exchange.write(_KEEPALIVE)
        else:
            await asyncio.sleep(seconds - silent)
