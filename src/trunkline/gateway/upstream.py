"""One attempt at one target: sign, send, judge the head of the answer."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from trunkline.base.clock import Clock
from trunkline.base.codec import Value, replace
from trunkline.base.ids import new_id
from trunkline.base.secret import Secret, scrub
from trunkline.dialects import Dialect, Written
from trunkline.errors import ConfigInvalid, EgressDenied, NoCredential, UpstreamDown, UpstreamError, UpstreamGarbled, UpstreamTimeout
from trunkline.gateway.asked import Asked
from trunkline.gateway.headers import Headers, first_of, of_error, retry_after, to_provider
from trunkline.gateway.router import Stop
from trunkline.model.credential import Credential
from trunkline.model.event import Ended, Finished, Reply, Started, TextDelta, Used
from trunkline.model.part import Text
from trunkline.model.request import Request
from trunkline.model.tokens import approximate
from trunkline.model.usage import Usage
from trunkline.providers import Provider, Wire, sign
from trunkline_sdk import http1

ERROR_BODY = 1 << 20  # bytes of a provider's error that we read
ERROR_SECONDS = 5.0  # and for so long
LARGEST_REPLY = 256 << 20  # bytes of a whole reply

JSON = b"application/json"
EVENT_STREAM = b"text/event-stream"
ANYTHING = b"*/*"


class Answer(Protocol):
    """The head of a good answer, and its body to come."""

    @property
    def headers(self) -> Headers:
        """As they came."""
        ...

    async def __anext__(self) -> bytes:
        """The next piece of the body, at once as it arrives. Raises: `UpstreamError`, `StopAsyncIteration`."""
        ...

    async def read(self) -> bytes:
        """The whole body. Raises: `UpstreamError`."""
        ...

    async def aclose(self) -> None:
        """Leave; an answer that was not read to its end ends the connection."""
        ...


class Opened(Value, frozen=True):
    """An answer that began well.

    Attributes:
        answer: the answer.
        written: the request as it went out.
        passes: the answer goes to the caller as it comes; else it is read and written in the caller's dialect.
        secrets: what must not be handed on of the provider's own error events.
    """

    answer: Answer
    written: Written
    passes: bool
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Address:
    """Where a provider that we run ourselves is listening: scheme, host and port, and the key that was made for this start."""

    base_url: str
    api_key: Secret


class Server(Protocol):
    """A provider that we run ourselves."""

    async def ready(self) -> Address:
        """Start it if need be, and wait until it answers. Raises: `LaunchFailed`."""
        ...


class Daemons(Protocol):
    """Calls providers behind extension daemons."""

    async def open(self, stop: Stop, asked: Asked, headers: Headers, sent: Sequence[Credential], missing: NoCredential | None) -> Opened:
        """As `Upstream.open`."""
        ...


class Http(Protocol):
    """What goes out to the network, judged (`trunkline.net`)."""

    async def request(
        self,
        method: str,
        url: str,
        headers: Headers,
        body: bytes,
        *,
        timeouts: http1.Timeouts,
        max_body: int,
    ) -> http1.Response:
        """Send a request; the answer's head has arrived when it returns. Raises: `http1.HttpError`, `EgressDenied`."""
        ...


class Upstream:
    """Calls providers."""

    def __init__(self, *, http: Http, servers: Mapping[str, Server], clock: Clock, daemons: Daemons | None = None) -> None:
        self._http = http
        self._servers = servers
        self._daemons = daemons
        self._clock = clock

    async def open(
        self, stop: Stop, asked: Asked, headers: Headers, sent: Sequence[Credential] = (), *, missing: NoCredential | None = None
    ) -> Opened:
        """Send a request to a target, and return when the head of a good answer is there.

        Args:
            stop: the target.
            asked: what the caller asked.
            headers: the caller's, names in lower case.
            sent: the credential to call it with at the end, and before it those that were tried in the same call.
            missing: what is wrong, where there is none and it takes one to call the provider.

        Raises:
            CallerError: the request cannot be read, or not be carried there.
            UpstreamError: the provider failed, or refused.
            OperatorError: it cannot be called as it is configured.
        """
        provider, dialect, request = stop.provider, stop.wire.dialect, asked.request
        if request.operation not in stop.wire.paths:
            counted = Reply(id="", model="", usage=Usage(input=approximate(request.body), approximated=True))
            return Opened(self._spoken(counted, asked.dialect, request), Written(request.body), passes=True)
        if provider.served is not None:
            assert self._daemons is not None
            return await self._daemons.open(stop, asked, headers, sent, missing)
        written = asked.written(stop)
        passes = asked.passes(stop, written)
        if provider.kind.answer is not None:
            given = dialect.read_request(written.body, request.operation)
            return Opened(self._spoken(provider.kind.answer(given), dialect, given), written, passes)
        base_url, key = await self._address(provider, sent, missing)
        given = to_provider(headers) if asked.dialect.name == dialect.name else []
        names = {name for name, _ in given}
        out = [
            (b"content-type", JSON),
            (b"accept", EVENT_STREAM if request.stream else ANYTHING if dialect.opaque else JSON),
            (b"user-agent", b"trunkline"),
            *given,
            *((name, value) for name, value in provider.kind.headers.items() if name not in names),
        ]
        if key is not None:
            out.append(sign(provider.kind, key.reveal()))
        url = base_url.rstrip("/") + stop.wire.paths[request.operation]
        response = await self._sent(provider, "POST", url, out, written.body)
        opened = Opened(_Received(response), written, passes, _revealed(key, sent))
        try:
            await self._judge(opened, response.status, dialect, stream=request.stream)
        except BaseException:
            await opened.answer.aclose()
            raise
        return opened

    async def follow(
        self,
        provider: Provider,
        wire: Wire,
        method: str,
        below: str,
        headers: Headers,
        sent: Sequence[Credential] = (),
        *,
        missing: NoCredential | None = None,
    ) -> Opened:
        """Ask a provider about something that it keeps.

        Args:
            provider: whose it is.
            wire: the dialect in which it is kept.
            method: of HTTP.
            below: what stands behind the path of its calls: the id, what is to be done with it, the query.
            headers: the caller's, names in lower case.
            sent: the credential to ask it with.
            missing: what is wrong, where there is none and it takes one.

        Raises:
            UpstreamError: the provider failed, or refused; it may have no such thing.
            OperatorError: it cannot be called as it is configured.
        """
        base_url, key = await self._address(provider, sent, missing)
        out = [(b"accept", b"*/*"), (b"user-agent", b"trunkline"), *to_provider(headers)]
        if key is not None:
            out.append(sign(provider.kind, key.reveal()))
        url = f"{base_url.rstrip('/')}{wire.paths['chat']}/{below}"
        response = await self._sent(provider, method, url, out, b"")
        opened = Opened(_Received(response), Written(b""), True, _revealed(key, sent))
        try:
            await self._judge(opened, response.status, wire.dialect, stream=False)
        except BaseException:
            await opened.answer.aclose()
            raise
        return opened

    async def _sent(self, provider: Provider, method: str, url: str, headers: list[tuple[bytes, bytes]], body: bytes) -> http1.Response:
        limits = provider.settings.timeouts
        timeouts = _timeouts(limits.connect, limits.first_byte, limits.silence)
        try:
            return await self._http.request(method, url, headers, body, timeouts=timeouts, max_body=LARGEST_REPLY)
        except http1.HttpError as error:
            raise translated(error) from None

    async def _judge(self, opened: Opened, status: int, dialect: Dialect, *, stream: bool) -> None:
        answer = opened.answer
        if 300 <= status < 400:
            raise redirected(status)
        if status >= 400:
            body = scrub(await _start_of(answer), opened.secrets)
            error = dialect.read_error(status, body, retry_after(answer.headers, self._clock.now()))
            error.headers = of_error(answer.headers)
            if not opened.passes:
                error.body = b""  # it is in a format that the caller does not read
            raise error
        if status != 200:
            raise UpstreamGarbled(f"the provider answered with HTTP {status}, which means nothing here")
        if stream:
            check_stream(answer)

    async def _address(self, provider: Provider, sent: Sequence[Credential], missing: NoCredential | None) -> tuple[str, Secret | None]:
        if (server := self._servers.get(provider.name)) is not None:
            address = await server.ready()
            return address.base_url, address.api_key
        if provider.base_url is None:
            raise ConfigInvalid(f"the provider `{provider.name}` has no `base_url`")
        if missing is not None:
            raise missing
        return provider.base_url, sent[-1].secret if sent else None

    def _spoken(self, reply: Reply, dialect: Dialect, request: Request) -> Answer:
        """A reply from inside this process, written as a provider would write it."""
        start = Started(id=new_id(dialect.reply_prefix, self._clock), model=request.model, created=int(self._clock.now()))
        if not request.stream:
            whole = replace(reply, id=start.id, model=start.model, created=start.created)
            return _Spoken(JSON, [dialect.write_reply(whole, request.operation)[0]])
        writer = dialect.write_events(request)
        text = "".join(part.text for part in reply.content if isinstance(part, Text))
        words = [TextDelta(word) for word in text.replace(" ", " \0").split("\0") if word]
        usage = [Used(reply.usage)] if reply.usage else []
        events = [start, *words, Finished(reply.finish or "stop"), *usage, Ended()]
        return _Spoken(EVENT_STREAM, [piece for event in events if (piece := writer.write(event))])


class _Received:
    """An answer from the network; its failures are ours."""

    __slots__ = ("_body", "headers")

    def __init__(self, response: http1.Response) -> None:
        self.headers: Headers = response.headers
        self._body = response.body

    async def __anext__(self) -> bytes:
        try:
            return await self._body.__anext__()
        except http1.HttpError as error:
            raise translated(error) from None

    async def read(self) -> bytes:
        try:
            return await self._body.read()
        except http1.HttpError as error:
            raise translated(error) from None

    async def aclose(self) -> None:
        await self._body.aclose()


class _Spoken:
    """An answer from inside this process."""

    __slots__ = ("_pieces", "headers")

    def __init__(self, content_type: bytes, pieces: list[bytes]) -> None:
        self.headers: Headers = [(b"content-type", content_type)]
        self._pieces = iter(pieces)

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration

    async def read(self) -> bytes:
        return b"".join(self._pieces)

    async def aclose(self) -> None:
        self._pieces = iter(())


@lru_cache
def _timeouts(connect: float, first_byte: float, silence: float) -> http1.Timeouts:
    return http1.Timeouts(connect=connect, first_byte=first_byte, silence=silence)


def _revealed(key: Secret | None, sent: Sequence[Credential]) -> tuple[str, ...]:
    """What the provider has got to see, and may repeat."""
    return (key.reveal(), *(each.secret.reveal() for each in sent[:-1])) if key else ()


def is_stream(answer: Answer) -> bool:
    """Whether an answer comes as events."""
    return EVENT_STREAM in (first_of(answer.headers, b"content-type") or b"").lower()


def check_stream(answer: Answer) -> None:
    """Whether an answer to a request for a stream is one. Raises: `UpstreamGarbled`."""
    if not is_stream(answer):
        raise UpstreamGarbled("the provider answered a request for a stream with something else")


def redirected(status: int) -> EgressDenied:
    """A redirect would take the credential to an address that nobody approved."""
    return EgressDenied(
        f"the provider answered with a redirect (HTTP {status}), and redirects are not followed",
        hint="The operator can put the final address into the provider's `base_url`.",
    )


def is_opaque(answer: Answer, dialect: Dialect) -> bool:
    """Whether an answer passes as it arrives; JSON is read even where something else was asked for, since it may tell of a failure."""
    return dialect.opaque and JSON not in (first_of(answer.headers, b"content-type") or b"").lower()


async def _start_of(answer: Answer) -> bytes:
    """What of an error's body can be read: its status counts, even where its words are cut, slow or endless."""
    parts: list[bytes] = []
    size = 0
    with suppress(StopAsyncIteration, TimeoutError, UpstreamError):
        async with asyncio.timeout(ERROR_SECONDS):
            while size < ERROR_BODY:
                parts.append(await answer.__anext__())
                size += len(parts[-1])
    return b"".join(parts)[:ERROR_BODY]


def translated(error: http1.HttpError) -> UpstreamError:
    """A failure of HTTP as an error about the provider: what was waited for, without where it is, which is the operator's to know."""
    what = str(error).removeprefix(f"{error.host}: ")
    if isinstance(error, http1.HttpTimeout):
        return UpstreamTimeout(f"the provider did not answer in time: {what}")
    if isinstance(error, http1.Garbled | http1.BodyTooLarge | http1.UndecodableBody):
        return UpstreamGarbled(f"the provider's answer is not valid HTTP: {what}")
    return UpstreamDown(f"the provider cannot be reached, or broke off: {what}")
