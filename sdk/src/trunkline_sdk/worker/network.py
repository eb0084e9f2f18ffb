"""HTTP, by way of the host: it judges every address, and knows for whom a call is made."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Literal, NamedTuple

import msgspec

from trunkline_sdk.api import Fetch, Fetched, Headers, Streamed
from trunkline_sdk.channel import Channel, Incoming, Outgoing
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.rpc.messages import Raw

INLINE_BYTES = 256 * 1024
"""A request's body that is larger goes as a stream of its own."""

Redirect = Literal["follow", "manual", "error"]


class Answer(NamedTuple):
    """An answer whose body is still coming: iterate over it. A piece counts as used when the next one is asked for.

    Attributes:
        url: that answered, after redirects.
    """

    status: int
    url: str
    headers: Headers
    body: Incoming


_fetched = msgspec.json.Decoder(Fetched)
_streamed = msgspec.json.Decoder(Streamed)


class Network:
    """What an extension may reach is a matter of its permissions.

    Args:
        during: the host's call that this is for, and that it ends with; `None` for the extension's own doing.
    """

    __slots__ = ("_channel", "_during")

    def __init__(self, channel: Channel, during: int | None = None) -> None:
        self._channel = channel
        self._during = during

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        redirect: Redirect = "follow",
        seconds: float | None = None,
    ) -> Fetched:
        """Ask, and take the whole answer.

        Raises:
            RpcError: `permission_denied`, `deadline_exceeded`, `payload_too_large` or `failed`, among others.
        """
        asked = Fetch(url=url, method=method, headers=tuple((headers or {}).items()), body=body, redirect=redirect)
        return _fetched.decode(await self._ask("network.fetch", asked, seconds))

    @asynccontextmanager
    async def stream(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        redirect: Redirect = "follow",
        seconds: float | None = None,
    ) -> AsyncGenerator[Answer]:
        """Ask, and take the answer as it comes; `seconds` are for its beginning. What is left of it is not wanted at the end of the `async with`.

        Raises:
            RpcError: as `fetch`; while iterating, where the body breaks off.
        """
        asked = Fetch(url=url, method=method, headers=tuple((headers or {}).items()), body=body, redirect=redirect)
        told = _streamed.decode(await self._ask("network.stream", asked, seconds))
        async with self._channel.stream(told.stream) as pieces:
            yield Answer(told.status, told.url, told.headers, pieces)

    async def _ask(self, method: str, asked: Fetch, seconds: float | None) -> Raw:
        body = asked.body
        if body is None or len(body) <= INLINE_BYTES:
            return await self._channel.call(method, asked, seconds=seconds, during=self._during)
        upload = self._channel.open_stream()
        sending = asyncio.get_running_loop().create_task(_send(upload, body))
        try:
            asked = msgspec.structs.replace(asked, body=None, upload=upload.number)
            return await self._channel.call(method, asked, seconds=seconds, during=self._during)
        finally:
            sending.cancel()
            upload.end(RpcError("cancelled", "nobody takes more of this stream"))  # it may never have begun


async def _send(upload: Outgoing, body: bytes) -> None:
    with suppress(RpcError):  # who does not want it says why in the answer
        async with upload:
            await upload.send(body)
