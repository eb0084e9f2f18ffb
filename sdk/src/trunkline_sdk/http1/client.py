"""The client: from a request to the head of its answer."""

import ssl
from collections.abc import AsyncIterable, Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Self

from trunkline_sdk.http1.connection import Connection
from trunkline_sdk.http1.decoders import BUILT_IN, DecoderFactory
from trunkline_sdk.http1.dialling import Dial, Origin, dial, tls_context
from trunkline_sdk.http1.errors import ClientClosed, ConnectionLost
from trunkline_sdk.http1.exchange import exchange
from trunkline_sdk.http1.limits import DEFAULT_LIMITS, DEFAULT_TIMEOUTS, Limits, Timeouts
from trunkline_sdk.http1.pool import Pool
from trunkline_sdk.http1.request_head import render
from trunkline_sdk.http1.response import Body, Response, UnfoldedBody
from trunkline_sdk.http1.response_head import Head
from trunkline_sdk.http1.urls import Target, split

_NONE: Mapping[str, DecoderFactory] = MappingProxyType({})


class Client:
    """Asks origins over HTTP/1.1; one pool of connections for each.

    All its connections are made by its own `dial` under its own `tls` context, so that a client with other rules about addresses or
    certificates never meets them. Redirects, proxies and the environment are none of its business.

    `decoders` undo content encodings beyond gzip and deflate, for example `{"br": ..., "zstd": ...}`.
    """

    def __init__(
        self,
        *,
        dial: Dial = dial,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        limits: Limits = DEFAULT_LIMITS,
        decoders: Mapping[str, DecoderFactory] = _NONE,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._dial = dial
        self._timeouts = timeouts
        self._limits = limits
        self._decoders = {**BUILT_IN, **{name.encode(): factory for name, factory in decoders.items()}}
        self._tls = tls
        self._pools: dict[tuple[str, str, int], Pool] = {}
        self._closed = False

    async def request(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[bytes, bytes]] = (),
        body: bytes | AsyncIterable[bytes] = b"",
        *,
        timeouts: Timeouts | None = None,
        max_body: int | None = None,
    ) -> Response:
        """The response as soon as its head is there; its body is limited to `max_body` bytes, unfolded.

        Host and the fields that frame the body are written by the client; a body that is an iterator goes out in chunks.
        A reused connection that ends before a byte of the answer costs one try on a fresh one, if the body is bytes.
        A response that comes before the request is written ends the writing.

        Raises:
            HttpError: See `trunkline_sdk.http1.errors`; its `sent` says whether the peer may have seen anything of the request.
        """
        target = split(url)
        head = render(method, target, headers, len(body) if isinstance(body, bytes) else None)
        waits = timeouts or self._timeouts
        pool = self._pool(target)
        connection = pool.take() or await pool.acquire(waits)
        try:
            answer = await exchange(connection, method, head, body, waits)
        except ConnectionLost:
            if connection.used == 1 or not isinstance(body, bytes):
                raise
            connection = await self._pool(target).acquire(waits, fresh=True)
            answer = await exchange(connection, method, head, body, waits)
        return self._response(connection, answer, max_body)

    async def aclose(self) -> None:
        """Close every connection; exchanges under way fail with `ConnectionLost`."""
        self._closed = True
        for pool in list(self._pools.values()):
            await pool.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    def _pool(self, target: Target) -> Pool:
        if self._closed:
            raise ClientClosed("the client is closed", host=target.host)
        key = (target.scheme, target.host, target.port)
        pool = self._pools.get(key)
        if pool is None:
            origin = Origin(*key, self._context() if target.scheme == "https" else None)
            pool = self._pools[key] = Pool(origin, dial=self._dial, limits=self._limits, emptied=lambda: self._forget(key))
        return pool

    def _forget(self, key: tuple[str, str, int]) -> None:
        self._pools.pop(key, None)

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = tls_context()
        return self._tls

    def _response(self, connection: Connection, head: Head, max_body: int | None) -> Response:
        encoding = head.encodings
        if encoding in {b"", b"identity"}:
            return Response(head.status, head.headers, Body(connection, max_body))
        factory = self._decoders.get(encoding)
        if factory is None:
            return Response(head.status, head.headers, UnfoldedBody(connection, max_body, None, self._limits.unfolded_bytes))
        headers = [pair for pair in head.headers if pair[0].lower() not in {b"content-encoding", b"content-length"}]
        return Response(head.status, headers, UnfoldedBody(connection, max_body, factory(), self._limits.unfolded_bytes))
