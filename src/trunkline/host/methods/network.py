"""`network.fetch` and `network.stream`: HTTP for a worker, which has no network of its own.

    granted? → resolve → judge the addresses → ask → a redirect? granted? → …

Each worker has its own client: a connection that was judged by one extension's grants is never lent to another.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial

from trunkline.errors import EgressDenied
from trunkline.host.grants import network as permission
from trunkline.host.line import Line
from trunkline.host.methods import Ask, Group, Method
from trunkline.host.methods import _requests as requests
from trunkline.host.rates import Rate
from trunkline.net.decoding import BEYOND
from trunkline.net.dial import Connect, StrictDial
from trunkline.net.names import Names
from trunkline_sdk import http1
from trunkline_sdk.api import Fetch, Fetched, Streamed
from trunkline_sdk.channel import Incoming, Outgoing
from trunkline_sdk.rpc.errors import RpcError

MOST_REDIRECTS = 5
MOST_ANSWER = 512 * 1024
"""Bytes of a whole answer, unfolded: as base64 it still fits into a frame. What is larger comes as a stream."""

MOST_STREAMED = 1024 * 1024 * 1024
"""Bytes of a streamed answer, unfolded."""

MOST_UPLOAD = 256 * 1024 * 1024
"""Bytes of an upload."""

STALLED_SECONDS = 300.0
"""So long a worker may take nothing of a stream before the connection behind it is given up."""

TIMEOUTS = http1.Timeouts(connect=10, first_byte=300, silence=300, pool=10)
# one for each call and each stream that a worker may have under way
LIMITS = http1.Limits(connections=128, waiters=64, unfolded_bytes=MOST_STREAMED)

_AGAIN = (http1.ConnectFailed, http1.HttpTimeout, http1.ConnectionLost, http1.PoolFull)
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})  # RFC 9110, section 9.2.2
ResolveFor = Callable[[str, http1.Origin], Awaitable[list[http1.Address]]]

_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Network:
    """The way out for workers.

    Args:
        listed: whether the operator's `egress.allow` has an address, now.
        tls: the trusted roots; read when they are first needed, if not given.
        stalled: seconds that a worker may take nothing of a stream.
        resolve: finds, for an extension, the addresses of a host.
        connect: connects to those that may be dialled.
    """

    def __init__(
        self,
        listed: Callable[[str], bool],
        *,
        tls: ssl.SSLContext | None = None,
        stalled: float = STALLED_SECONDS,
        resolve: ResolveFor | None = None,
        connect: Connect = http1.connect_first,
    ) -> None:
        self._listed = listed
        self._tls = tls
        self.stalled = stalled
        self._resolve = resolve or Names().resolve
        self._connect = connect

    async def open(self, ask: Ask[Fetch], most: int) -> tuple[str, http1.Response]:
        """Ask, and follow where the answer leads: the last URL, and the answer's head; its body is limited to `most` bytes.

        Raises:
            RpcError: there is no answer that the worker may have.
        """
        fetch = ask.params
        request = requests.first(fetch, "trunkline")
        client = ask.line.keep(http1.Client, partial(self._client, ask.line))
        async with AsyncExitStack() as stack:
            upload = None if fetch.upload is None else await stack.enter_async_context(ask.line.channel.stream(fetch.upload))
            for _ in range(MOST_REDIRECTS + 1):
                body = request.body if request.body is not None or upload is None else _bounded(upload)
                response = await self._asked(client, request, body or b"", most)
                try:
                    following = _following(ask, request, response)
                except RpcError:
                    await response.aclose()
                    raise
                if following is None:
                    return request.url, response
                await response.aclose()
                request = following
        raise RpcError("failed", f"more than {MOST_REDIRECTS} redirects", details={"reason": "too_many_redirects"})

    async def _asked(
        self, client: http1.Client, request: requests.Request, body: bytes | AsyncIterator[bytes], most: int
    ) -> http1.Response:
        try:
            return await client.request(request.method, request.url, request.headers, body, timeouts=TIMEOUTS, max_body=most)
        except http1.HttpError as error:
            raise _failure(error, request.method) from None
        except EgressDenied as error:
            raise RpcError("permission_denied", error.sentence, details={"reason": "address"}) from None

    def _client(self, line: Line) -> http1.Client:
        def judge(host: str, port: int, addresses: Sequence[str]) -> list[str]:
            return line.grants.reachable(host, port, addresses, self._listed)

        dial = StrictDial(judge, resolve=partial(self._resolve, line.extension), connect=self._connect)
        return http1.Client(dial=dial, timeouts=TIMEOUTS, limits=LIMITS, decoders=BEYOND, tls=self._tls)


def _following(ask: Ask[Fetch], request: requests.Request, response: http1.Response) -> requests.Request | None:
    """Where the answer leads, if it does and that is wanted. Raises: `RpcError`, where the extension may not go there."""
    if ask.params.redirect == "manual":
        return None
    following = requests.after(request, response.status, response.headers)
    if following is None:
        return None
    if ask.params.redirect == "error":
        raise RpcError("failed", "the answer is a redirect", details={"reason": "redirect", "status": response.status})
    target = requests.where(following.url)
    ask.require(permission(target.host, target.port))
    return following


async def fetch(network: Network, ask: Ask[Fetch]) -> Fetched:
    """The whole answer. Raises: `RpcError`."""
    url, response = await network.open(ask, MOST_ANSWER)
    async with response:
        try:
            body = await response.read()
        except http1.HttpError as error:
            raise _failure(error, ask.params.method) from None
    return Fetched(url=url, status=response.status, headers=requests.told(response.headers), body=body)


async def stream(network: Network, ask: Ask[Fetch]) -> Streamed:
    """The head of the answer, and its body as a stream. Raises: `RpcError`; later ones end the stream."""
    url, response = await network.open(ask, MOST_STREAMED)
    try:
        outgoing = ask.line.channel.open_stream(answering=ask.number)
    except RpcError:
        await response.aclose()
        raise
    pump = ask.line.beside(_pump(response, outgoing, network.stalled, ask.params.method), during=ask.during, name="network.stream")
    pump.add_done_callback(lambda _: outgoing.end(RpcError("cancelled", "the call that this stream belongs to is over")))
    outgoing.on_unwanted = pump.cancel
    return Streamed(url=url, status=response.status, headers=requests.told(response.headers), stream=outgoing.number)


async def _pump(response: http1.Response, outgoing: Outgoing, stalled: float, method: str) -> None:
    """Send the body on, as fast as the worker uses it; the end is told as it was."""
    async with response:
        try:
            async for piece in response.body:
                async with asyncio.timeout(stalled):
                    await outgoing.send(piece)
        except http1.HttpError as error:
            outgoing.end(_failure(error, method))
        except TimeoutError:
            outgoing.end(RpcError("deadline_exceeded", f"nothing of the stream was used for {stalled:g} s"))
        except RpcError:  # nobody takes more of it
            return
        else:
            outgoing.end()


async def _bounded(upload: Incoming) -> AsyncIterator[bytes]:
    """What a worker uploads, up to the limit. Raises: `RpcError`."""
    size = 0
    async for piece in upload:
        size += len(piece)
        if size > MOST_UPLOAD:
            raise RpcError("payload_too_large", f"an upload of more than {MOST_UPLOAD} bytes")
        yield piece


def _failure(error: http1.HttpError, method: str) -> RpcError:
    """What the client tells, in the protocol's codes; the texts name the host, and no path, query or value."""
    match error:
        case http1.InvalidRequest():
            return RpcError("invalid_params", str(error))
        case http1.BodyTooLarge():
            return RpcError("payload_too_large", str(error))
        case _:
            again = isinstance(error, _AGAIN) and (not error.sent or method in _IDEMPOTENT)
            reason = _WORDS.sub("_", type(error).__name__).lower()
            return RpcError("failed", str(error), retryable=again, details={"reason": reason})


METHODS = Group(
    service=Network,
    calls={
        "network.fetch": Method(fetch, params=Fetch, needs=requests.permission, rate=Rate(per_second=50, burst=200)),
        "network.stream": Method(stream, params=Fetch, needs=requests.permission, rate=Rate(per_second=20, burst=100)),
    },
)
