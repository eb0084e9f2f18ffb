"""The client: every route of one daemon, with its limits, deadlines and errors (daemon contract, A2, A6, A8, D)."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from trunkline_sdk.daemon.client.arriving import Arriving
from trunkline_sdk.daemon.client.options import Options
from trunkline_sdk.daemon.client.stream import Stream
from trunkline_sdk.daemon.client.transport import FAILURES, Answer, Transport, over_tcp, waited
from trunkline_sdk.daemon.errors import CallFailed, RefreshRefused, StepRefused
from trunkline_sdk.daemon.gojson import Unreadable, decode, encode
from trunkline_sdk.daemon.messages import (
    Authorization,
    Credential,
    Flow,
    InfoResponse,
    Loss,
    OAuthExchangeRequest,
    OAuthExchangeResponse,
    OAuthPollRequest,
    OAuthPollResponse,
    OAuthStartRequest,
    OAuthStartResponse,
    PollResult,
    Record,
    RefreshRequest,
    RefreshResponse,
)
from trunkline_sdk.daemon.protocol import catalogue, failures, headers, routes, timeouts
from trunkline_sdk.daemon.protocol.catalogue import Catalogue
from trunkline_sdk.daemon.protocol.failures import Where
from trunkline_sdk.daemon.protocol.fixes import ORIGINAL
from trunkline_sdk.daemon.protocol.routes import Route
from trunkline_sdk.daemon.protocol.surfaces import Request

T = TypeVar("T")
S = TypeVar("S", OAuthStartResponse, OAuthPollResponse, OAuthExchangeResponse)

_JSON = b"application/json"


class Reply(NamedTuple):
    """The answer of an invoke, as it came."""

    body: bytes
    content_type: str
    losses: tuple[Loss, ...]


class _TooLarge(Exception):
    """A body has more bytes than its route allows."""


class Client:
    """Asks the daemon at `base_url`; `strict_original` goes the original's way in all that `Fixes` names.

    `within` of a call is its deadline in seconds, `math.inf` for none; when it passes, the call is over for good. Without it the built-in
    deadlines hold. Cancelling drops the connection at once. Redirects are not followed, proxies not asked.

    Raises:
        AddressRefused: The base URL breaks a rule (A1).
        BadHeader: The secret cannot stand in a header.
    """

    def __init__(
        self,
        base_url: str,
        *,
        secret: str = "",
        transport: Transport | None = None,
        options: Options = Options(),  # noqa: B008 - a frozen record
        strict_original: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),  # noqa: TID251 - the SDK has no clock of the server's
    ) -> None:
        self._base = routes.base_url(base_url)
        self._secret = secret.strip()
        self._authorization = headers.authorization(self._secret)
        self._transport = over_tcp() if transport is None else transport
        self._options = replace(options, fixes=ORIGINAL) if strict_original else options
        self._fixes = self._options.fixes
        self._clock = clock

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    # ------------------------------------------------------------------------------------------------ what it serves
    async def info(self, *, within: float | None = None) -> InfoResponse:
        """What the daemon serves.

        Raises:
            CallFailed: There is no usable answer.
        """
        where = self._where(routes.INFO)
        data = await self._bounded(where, within, self._options.control_seconds, self._got(routes.INFO, where))
        try:
            return decode(InfoResponse, data)
        except Unreadable:
            pass
        raise failures.unusable(where)

    async def models(self, provider: str, credential: Credential | None = None, *, within: float | None = None) -> Catalogue:
        """The catalogue as the daemon sends it; `Provider.models` also fills in what it leaves open.

        Raises:
            CallFailed: There is no usable answer.
        """
        where = self._where(routes.MODELS, provider, credential)
        fields = self._credential(where, credential)
        data = await self._bounded(where, within, self._options.control_seconds, self._got(routes.MODELS, where, fields))
        try:
            return catalogue.read(data, drop_bad_rows=self._fixes.bad_rows_are_dropped)
        except Unreadable:
            pass
        raise failures.unusable(where)

    # ------------------------------------------------------------------------------------------------ operations
    async def invoke(self, provider: str, request: Request, credential: Credential | None = None, *, within: float | None = None) -> Reply:
        """One whole answer.

        Raises:
            CallFailed: There is none.
        """
        route = routes.INVOKE
        where = self._where(route, provider, credential)
        fields = self._operation(where, request, credential)
        timed = timeouts.write(request.timeout) is not None
        return await self._bounded(
            where, within, math.inf if timed else self._options.invoke_seconds, self._invoked(where, request, fields)
        )

    async def begin(
        self, provider: str, request: Request, credential: Credential | None = None, *, within: float | None = None
    ) -> Arriving:
        """The answer of an invoke, once it has begun; `within` bounds the wait for that. It is the caller's to close.

        Raises:
            CallFailed: There is none.
        """
        where = self._where(routes.INVOKE, provider, credential)
        fields = self._operation(where, request, credential)
        answer = await self._bounded(where, within, math.inf, self._opened(routes.INVOKE, where, fields, request.body, request.timeout))
        return Arriving(answer, where)

    async def stream(self, provider: str, request: Request, credential: Credential | None = None, *, within: float | None = None) -> Stream:
        """The stream, once the daemon has begun it. It is the caller's to close.

        Raises:
            CallFailed: It did not open.
        """
        route = routes.STREAM
        where = self._where(route, provider, credential)
        fields = self._operation(where, request, credential)
        deadline = None if within is None or math.isinf(within) else asyncio.get_running_loop().time() + within
        answer = await self._bounded(where, within, math.inf, self._opened(route, where, fields, request.body, request.timeout))
        silence = self._options.record_silence
        return Stream(answer, where, request.surface, self._fixes, deadline=deadline, record_silence=silence)

    # ------------------------------------------------------------------------------------------------ credentials
    async def refresh(self, provider: str, record: Record, *, within: float | None = None) -> Record:
        """The record that takes this one's place.

        Raises:
            RefreshRefused: The daemon says no; the login is over only if `terminal`.
            CallFailed: There is no usable answer; the record is kept.
        """
        route = routes.REFRESH
        secrets = (record.access_token, record.refresh_token, record.id_token, *record.metadata.values())
        where = self._where(route, provider, secrets=secrets)
        status, data = await self._control(route, where, RefreshRequest(record=record), within)
        readable = True
        try:
            answer = decode(RefreshResponse, data)
        except Unreadable as fault:
            readable = False
            answer = fault.partial
        assert isinstance(answer, RefreshResponse)
        good = 200 <= status < 300
        if good and readable and not answer.error and not (answer.terminal and self._fixes.terminal_needs_an_error):
            return answer.record
        reason = failures.clean(answer.error, where.secrets) or failures.reason(data, where.secrets)
        idle = good and readable and not answer.error  # terminal, and yet no failure: nobody's login ends on that
        raise RefreshRefused(
            where.text(status, reason), provider=provider, status=status, reason=reason, terminal=answer.terminal and not idle
        )

    def refresher(self, provider: str) -> Callable[[Record], Awaitable[Record]]:
        """`refresh` of one provider, as a coordinator wants it."""
        return lambda record: self.refresh(provider, record)

    # ------------------------------------------------------------------------------------------------ signing in
    async def oauth_start(self, provider: str, request: OAuthStartRequest, *, within: float | None = None) -> Authorization:
        """How a sign-in begins.

        Raises:
            StepRefused: The daemon says no, or what cannot be read.
            CallFailed: There is no answer.
        """
        secrets = tuple(request.params.values())
        return (await self._step(routes.OAUTH_START, provider, request, OAuthStartResponse, secrets, within)).authorization

    async def oauth_poll(self, provider: str, flow: Flow, *, within: float | None = None) -> PollResult:
        """How a device flow stands; an error leaves it pending.

        Raises:
            StepRefused, CallFailed: As for `oauth_start`.
        """
        secrets = _secrets_of(flow)
        return (await self._step(routes.OAUTH_POLL, provider, OAuthPollRequest(flow=flow), OAuthPollResponse, secrets, within)).result

    async def oauth_exchange(self, provider: str, flow: Flow, code: str, *, within: float | None = None) -> Record:
        """The credential for a code.

        Raises:
            StepRefused, CallFailed: As for `oauth_start`.
        """
        message = OAuthExchangeRequest(code=code, flow=flow)
        secrets = (code, *_secrets_of(flow))
        return (await self._step(routes.OAUTH_EXCHANGE, provider, message, OAuthExchangeResponse, secrets, within)).record

    def driver(self, provider: str) -> "Driver":
        """The three steps of one provider, as a sign-in service wants them."""
        return Driver(self, provider)

    # ------------------------------------------------------------------------------------------------ one exchange
    def _where(
        self, route: Route, provider: str | None = None, credential: Credential | None = None, *, secrets: tuple[str, ...] = ()
    ) -> Where:
        if credential is not None:
            secrets = (credential.token, credential.api_key, *credential.metadata.values())
        if provider is not None and not routes.is_provider_id(provider):
            raise failures.bad_provider(Where(route=route.name))
        return Where(route=route.name, provider=provider or "", secrets=(self._secret, *secrets))

    def _credential(self, where: Where, credential: Credential | None) -> list[tuple[bytes, bytes]]:
        try:
            return headers.credential(credential)
        except headers.BadHeader as bad:
            fault = self._refused(where, bad)
        raise fault

    def _operation(self, where: Where, request: Request, credential: Credential | None) -> list[tuple[bytes, bytes]]:
        try:
            fields = [
                (headers.SURFACE, headers.value(headers.SURFACE, request.surface)),
                (headers.MODEL, headers.value(headers.MODEL, request.model)),
            ]
            if request.content_type:
                fields.append((b"content-type", headers.value(b"content-type", request.content_type)))
            if (timeout := timeouts.write(request.timeout)) is not None:
                fields.append((headers.TIMEOUT, timeout))
            return fields + headers.credential(credential)
        except headers.BadHeader as bad:
            fault = self._refused(where, bad)
        raise fault

    def _refused(self, where: Where, bad: headers.BadHeader) -> CallFailed:
        return CallFailed(f"{where.label}: {bad}", "invalid_request") if self._fixes.bad_headers_are_refused else failures.unanswered(where)

    async def _bounded(self, where: Where, within: float | None, built_in: float, work: Coroutine[Any, Any, T]) -> T:
        """Do the work within the caller's time, or ours."""
        seconds = built_in if within is None else within
        scope = asyncio.timeout(None if math.isinf(seconds) else seconds)
        try:
            async with scope:
                return await work
        except TimeoutError:
            if not scope.expired():
                raise
        raise failures.out_of_time(where, own=within is None, fixes=self._fixes)

    async def _ask(
        self, route: Route, where: Where, fields: list[tuple[bytes, bytes]], body: bytes = b"", told: float | None = None
    ) -> Answer:
        accept = [] if route.accept is None else [(b"accept", route.accept)]
        waits = self._options.waits(told if timeouts.write(told) is not None else None)
        url = route.url(self._base, where.provider)
        try:
            return await self._transport.request(route.method, url, [*self._authorization, *accept, *fields], body, timeouts=waits)
        except FAILURES as error:  # its text holds the address: the error that follows has no part of it
            late = waited(error)
        raise failures.unanswered(where, late)

    async def _opened(
        self, route: Route, where: Where, fields: list[tuple[bytes, bytes]], body: bytes = b"", told: float | None = None
    ) -> Answer:
        """An answer that is a success; its body is still to be read."""
        answer = await self._ask(route, where, fields, body, told)
        if 200 <= answer.status < 300:
            return answer
        data = b""
        try:
            data = await _read(answer, routes.ERROR_BYTES)
        except (_TooLarge, *FAILURES):
            pass
        raise failures.refused(where, answer.status, answer.headers, data, self._clock(), self._fixes)

    async def _got(self, route: Route, where: Where, fields: list[tuple[bytes, bytes]] | None = None) -> bytes:
        answer = await self._opened(route, where, fields or [])
        return await self._whole(route, where, answer)

    async def _invoked(self, where: Where, request: Request, fields: list[tuple[bytes, bytes]]) -> Reply:
        answer = await self._opened(routes.INVOKE, where, fields, request.body, request.timeout)
        body = await self._whole(routes.INVOKE, where, answer)
        content_type = headers.text(headers.find(answer.headers, b"content-type"))
        return Reply(body, content_type, headers.read_losses(answer.headers))

    async def _whole(self, route: Route, where: Where, answer: Answer) -> bytes:
        assert route.answer_bytes is not None
        lost = failures.unusable(where, answer.status)
        try:
            return await _read(answer, route.answer_bytes)
        except _TooLarge:
            pass
        except FAILURES as error:
            if route is routes.INVOKE or self._fixes.lost_answers_are_retryable:
                lost = failures.unanswered(where, waited(error))
        raise lost

    async def _control(self, route: Route, where: Where, message: msgspec.Struct, within: float | None) -> tuple[int, bytes]:
        """Status and body, whatever the status."""

        async def exchange() -> tuple[Answer, bytes]:
            answer = await self._ask(route, where, [(b"content-type", _JSON)], encode(message))
            return answer, await self._whole(route, where, answer)

        answer, data = await self._bounded(where, within, self._options.control_seconds, exchange())
        if self._fixes.wrong_secret_is_configuration and headers.is_wrong_secret(answer.status, answer.headers):
            raise failures.refused(where, answer.status, answer.headers, data, self._clock(), self._fixes)
        return answer.status, data

    async def _step(
        self, route: Route, provider: str, message: msgspec.Struct, kind: type[S], secrets: tuple[str, ...], within: float | None
    ) -> S:
        where = self._where(route, provider, secrets=secrets)
        status, data = await self._control(route, where, message, within)
        try:
            answer = decode(kind, data)
            unusable = False
        except Unreadable as fault:
            answer, unusable = fault.partial, True
        assert isinstance(answer, kind)
        if 200 <= status < 300 and not answer.error and not unusable:
            return answer
        reason = failures.clean(answer.error, where.secrets) or failures.reason(data, where.secrets)
        readable = reason or not 200 <= status < 300
        text = where.text(status, reason) if readable else f"{where.label} got an answer that cannot be used"
        step = route.name.removeprefix("oauth/")
        raise StepRefused(text, provider=provider, step=step, status=status, reason=reason)


class Driver:
    """The sign-in steps of one provider."""

    def __init__(self, client: Client, provider: str) -> None:
        self._client = client
        self._provider = provider

    async def start(self, request: OAuthStartRequest) -> Authorization:
        """`Client.oauth_start`."""
        return await self._client.oauth_start(self._provider, request)

    async def poll(self, flow: Flow) -> PollResult:
        """`Client.oauth_poll`."""
        return await self._client.oauth_poll(self._provider, flow)

    async def exchange(self, flow: Flow, code: str) -> Record:
        """`Client.oauth_exchange`."""
        return await self._client.oauth_exchange(self._provider, flow, code)


def _secrets_of(flow: Flow) -> tuple[str, ...]:
    secrets = flow.secrets
    return (secrets.verifier, secrets.state, secrets.device_code, *secrets.driver_data.values(), *secrets.params.values())


async def _read(answer: Answer, most: int) -> bytes:
    """The whole body, at most so many bytes; whatever happens, the answer is closed."""
    parts: list[bytes] = []
    size = 0
    try:
        async for part in answer.body:
            parts.append(part)
            size += len(part)
            if size > most:
                raise _TooLarge
    finally:
        await answer.aclose()
    return b"".join(parts)
