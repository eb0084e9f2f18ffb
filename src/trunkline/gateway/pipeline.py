"""The straight line that every call takes: identify → read → route → attempt → relay → tell."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol
from urllib.parse import quote

from trunkline.base.clock import Clock
from trunkline.base.codec import Value, replace, whole_pairs
from trunkline.base.ids import new_id
from trunkline.base.secret import scrub
from trunkline.dialects import Dialect
from trunkline.errors import (
    BadRequest,
    Denied,
    Internal,
    MethodNotAllowed,
    NotFound,
    TrunklineError,
    UpstreamBusy,
    UpstreamDenied,
    UpstreamError,
    UpstreamRefused,
)
from trunkline.gateway import end_user
from trunkline.gateway.asked import Asked
from trunkline.gateway.attempts import after, worth_telling
from trunkline.gateway.choice import Choice, at_home, stored_id
from trunkline.gateway.exchange import Attempt, CallerLeft, Exchange, Exchanges, attempts_header, attempts_hint
from trunkline.gateway.headers import Headers, error_headers, first, reply_headers
from trunkline.gateway.health import Health
from trunkline.gateway.losses import header
from trunkline.gateway.permitted import permitted
from trunkline.gateway.relay import Broken, Opaque, Stream, Translation
from trunkline.gateway.router import Router, Stop
from trunkline.gateway.stored import Stored, tell
from trunkline.gateway.upstream import Opened, Upstream, is_opaque, is_stream
from trunkline.model.caller import Caller
from trunkline.model.credential import Credential
from trunkline.model.event import Started
from trunkline.model.loss import report
from trunkline.model.request import Request
from trunkline.model.target import Target
from trunkline.surfaces import Endpoint, FollowUp

BACK_OFF = 0.25  # seconds before a target is tried a second time
Tells = Callable[[str], str]
"""Turns a provider's id into the one that callers know."""

LAST_WORD = 1.0  # seconds that a slow caller has for the error event that ends its stream


class Access(Protocol):
    """Who asks."""

    async def identify(self, headers: Headers, address: str) -> Caller:
        """The caller. Raises: `Unauthenticated`."""
        ...

    async def for_end_user(self, caller: Caller, external_id: str) -> Caller:
        """The caller, acting for an end user whom the request names. Raises: `Denied`."""
        ...


class Outlet(Protocol):
    """The way back to the caller."""

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head."""
        ...

    async def write(self, data: bytes, *, more: bool) -> None:
        """Send a piece of the body; waits while the caller is slow."""
        ...

    def break_off(self) -> None:
        """End a body that will not be complete so that nobody takes it for whole."""
        ...


class Call(Value, frozen=True):
    """A call as the server received it.

    Attributes:
        endpoint: what was called.
        headers: names in lower case.
        address: of the caller.
        body: reads the body. Raises: `TooLarge` and other `CallerError`.
    """

    endpoint: Endpoint
    headers: Headers
    address: str
    body: Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class FollowUpCall:
    """A question about what a provider keeps.

    Attributes:
        endpoint: what was called.
        method: of HTTP.
        told: the id, as callers know it.
        action: what stands behind it in the path, or an empty string.
        query: of the URL, with its `?`, or an empty string.
        headers: names in lower case.
        address: of the caller.
    """

    endpoint: FollowUp
    method: str
    told: str
    action: str
    query: str
    headers: Headers
    address: str


class Way(Value, frozen=True):
    """A target, and the credentials with which this caller's calls may go there."""

    stop: Stop
    credentials: Sequence[Credential]


class Begun(Value, frozen=True):
    """A reply that has begun well: from here on no other target may take over."""

    stop: Stop
    credential: Credential | None
    opened: Opened
    since: float
    first: bytes
    stream: Stream | Opaque | None


class Pipeline:
    """Carries calls."""

    def __init__(
        self,
        *,
        access: Access,
        router: Router,
        upstream: Upstream,
        choice: Choice,
        health: Health,
        exchanges: Exchanges,
        clock: Clock,
        told: Callable[[Exchange, float], None],
        crashed: Callable[[str, Exception], None],
    ) -> None:
        self._access = access
        self._router = router
        self._upstream = upstream
        self._choice = choice
        self._health = health
        self._exchanges = exchanges
        self._clock = clock
        self._told = told
        self._crashed = crashed

    async def carry(self, exchange: Exchange, call: Call, outlet: Outlet) -> None:
        """Carry one call from its head to the last byte of its reply. Nothing is raised: errors are answers."""
        await self._guarded(exchange, call, outlet, self._carry(exchange, call, outlet))

    async def _guarded(self, exchange: Exchange, call: Call | FollowUpCall, outlet: Outlet, work: Coroutine[None, None, None]) -> None:
        """Do the work on one request; whatever ends it, the caller is told, and so is the log."""
        with self._exchanges.held(exchange):
            try:
                async with exchange.scope():
                    await work
            except TimeoutError as error:
                if not exchange.interrupted:  # somebody else's
                    await self._crash(exchange, call, outlet, error)
                elif exchange.cause is not None and not exchange.outcome:
                    await self._refuse(exchange, call, outlet, exchange.cause)
            except CallerLeft:
                pass  # nobody is there to be told
            except Broken as broken:
                await self._refuse(exchange, call, outlet, broken.error, broken.native)
            except TrunklineError as error:
                await self._refuse(exchange, call, outlet, error)
            except Exception as error:  # noqa: BLE001 - the border of a request
                await self._crash(exchange, call, outlet, error)
            finally:
                exchange.outcome = exchange.outcome or "interrupted"
                self._told(exchange, self._clock.monotonic() - exchange.started)

    async def _carry(self, exchange: Exchange, call: Call, outlet: Outlet) -> None:
        caller = exchange.caller = await self._caller(call)
        request = _read(call.endpoint, await call.body())
        asked = Asked(request, call.endpoint.dialect, strict=first(call.headers, b"x-trunkline-strict") == b"1")
        exchange.model, exchange.stream = request.model, request.stream
        await self._find_end_user(exchange, caller, call.headers, request)
        stops = self._stops(caller, request, call.endpoint.dialect)
        ways = [Way(stop, self._choice.of(stop.provider, exchange.caller)) for stop in stops]
        if asked.home is not None:
            ways = self._at_home(ways, asked.home)
        begun = await self._begin(exchange, exchange.caller, asked, ways, call.headers)
        try:
            await self._relay(exchange, begun, outlet)
        except Broken as broken:
            self._record(exchange, begun.stop, begun.credential, begun.since, broken.error)
            raise
        except asyncio.CancelledError:
            self._leave(exchange, begun.stop, begun.credential, begun.since)
            raise
        else:
            self._record(exchange, begun.stop, begun.credential, begun.since, None)
            exchange.outcome = "ok"  # the caller has all of it, whatever may still stop us
            if begun.stream is not None:
                await begun.stream.settle()
        finally:
            if begun.stream is not None:
                exchange.usage, exchange.tool_calls = begun.stream.usage, begun.stream.tool_calls
                exchange.losses = report([*begun.opened.written.losses, *begun.stream.losses])
            await begun.opened.answer.aclose()

    async def follow(self, exchange: Exchange, call: FollowUpCall, outlet: Outlet) -> None:
        """Ask the provider that keeps something about it. Nothing is raised: errors are answers."""
        await self._guarded(exchange, call, outlet, self._follow(exchange, call, outlet))

    async def _follow(self, exchange: Exchange, call: FollowUpCall, outlet: Outlet) -> None:
        caller = exchange.caller = await self._caller(call)
        await self._find_end_user(exchange, caller, call.headers, None)
        allowed = call.endpoint.actions.get(call.action)
        if allowed is None:
            raise NotFound(f"nothing can be asked by `{call.action}`", hint=f"Known: {', '.join(filter(None, call.endpoint.actions))}.")
        if call.method not in allowed:
            raise MethodNotAllowed(f"`{call.method}` is not for this", allow=", ".join(sorted(allowed)))
        provider, wire, kept = self._router.home(call.told, call.endpoint.dialect)
        below = "/".join(filter(None, (quote(kept.id, safe=""), call.action))) + call.query
        credentials = _seeing(self._choice.of(provider, exchange.caller), kept)
        credential = self._choice.one(credentials, Target(provider.name, ""))
        sent = () if credential is None else (credential,)
        missing = None if sent else self._choice.missing(provider, exchange.caller)
        tells = partial(tell, provider.name, stored_id(credential))
        try:
            opened = await self._upstream.follow(provider, wire, call.method, below, call.headers, sent, missing=missing)
        except UpstreamDenied as error:
            self._health.failed(Target(provider.name, ""), error, credential)
            raise
        answer, clean = opened.answer, partial(scrub, secrets=opened.secrets)
        try:
            if is_stream(answer):
                stream = Stream(answer, wire.dialect.read_kept(tells, clean), self._clock, secrets=opened.secrets)
                body, length = await stream.begin(), None
            else:
                stream, body = None, wire.dialect.tell_ids(clean(await answer.read()), tells)
                length = len(body)
            exchange.status, exchange.stream = 200, stream is not None
            await outlet.start(200, reply_headers(answer.headers, exchange.id, length))
            await self._pour(exchange, body, stream, outlet)
            exchange.outcome = "ok"
        finally:
            await answer.aclose()

    async def _caller(self, call: Call | FollowUpCall) -> Caller:
        caller = await self._access.identify(call.headers, call.address)
        if "inference" not in caller.scopes:
            raise Denied(f"the key `{caller.name}` may not call models", hint="It lacks the scope `inference`.")
        return caller

    async def _find_end_user(self, exchange: Exchange, caller: Caller, headers: Headers, request: Request | None) -> None:
        """Note for whom a call is. Raises: `BadRequest`, `Denied`, where that may not be."""
        if caller.end_users == "key":
            exchange.client_user = end_user.claimed(headers, request) if request else ""
        elif whom := end_user.named(headers, request):
            exchange.end_user = whom
            exchange.caller = await self._access.for_end_user(caller, whom)

    def _stops(self, caller: Caller, request: Request, dialect: Dialect) -> list[Stop]:
        """Where a call of a caller may go, in the order of trying."""
        try:
            stops = self._router.stops(request.model, dialect, request.operation)
        except NotFound:
            if caller.models is None:
                raise
            hint = "`GET /v1/models` lists those that the key may use."  # and no name of another
            raise NotFound(f"there is no model `{request.model}`", hint=hint) from None
        return permitted(stops, request.model, caller)

    def _at_home(self, ways: list[Way], home: Stored) -> list[Way]:
        """The targets that have what the request goes on from."""
        found = [Way(way.stop, _seeing(way.credentials, home)) for way in ways if way.stop.target.provider == home.provider]
        if not found:
            raise NotFound(
                f"what the request goes on from is kept by `{home.provider}`, which does not serve this model",
                hint=f"Ask for one of its models: `{home.provider}/…`.",
            )
        return found

    def _rest(self, way: Way) -> float:
        return self._health.rest(way.stop.circuit, way.credentials)

    def _is_busy(self, way: Way) -> bool:
        return self._health.is_busy(way.stop.circuit, way.credentials)

    def _awake(self, ways: list[Way]) -> list[Way]:
        """The targets that may be tried now.

        Raises:
            UpstreamBusy: all of them asked to be left alone; it says for how long.
        """
        awake = [way for way in ways if self._rest(way) == 0]
        if awake:
            return awake
        soonest = min(ways, key=self._rest)
        if self._is_busy(soonest):
            raise UpstreamBusy("all providers of this model are busy", retry_after=self._rest(soonest))
        return [soonest]  # it failed often, and somebody has to find out whether it is back

    async def _begin(self, exchange: Exchange, caller: Caller, asked: Asked, ways: list[Way], headers: Headers) -> Begun:
        """Try the targets that are awake until one begins a reply.

        Raises:
            TrunklineError: none did; where one that was passed over will be there again, the wait for it counts too.
        """
        failures: list[TrunklineError] = []
        if not self._health.calm:
            failures += [
                UpstreamBusy("a provider of this model is busy", retry_after=self._rest(way)) for way in ways if self._is_busy(way)
            ]
            ways = self._awake(ways)
        way, *left = ways
        credential = self._choice.one(way.credentials, way.stop.circuit)
        sent: tuple[Credential, ...] = ()
        tried: tuple[Credential, ...] = ()  # at this target
        again = False
        while True:
            if credential is not None and not again:
                sent, tried = (*sent, credential), (*tried, credential)
            since = self._clock.monotonic()
            try:
                return await self._try(exchange, caller, way.stop, asked, headers, since, sent if credential else ())
            except asyncio.CancelledError:
                self._leave(exchange, way.stop, credential, since)
                raise
            except TrunklineError as error:
                self._record(exchange, way.stop, credential, since, error)
                failures.append(error)
                other = self._choice.one(way.credentials, way.stop.circuit, tried=tried) if tried else None
                match after(
                    error,
                    tried=len(exchange.attempts),
                    left=len(left),
                    again=again,
                    others=other is not None,
                    repeatable=asked.repeatable,
                ):
                    case "next":
                        way, *left = left
                        credential, tried, again = self._choice.one(way.credentials, way.stop.circuit), (), False
                    case "other":
                        credential, again = other, False
                    case "same":
                        again = True
                        await self._clock.sleep(BACK_OFF)
                    case "stop":
                        worst = worth_telling(failures)
                        worst.hint = " ".join(filter(None, (worst.hint, attempts_hint(exchange.attempts))))
                        raise worst from None

    async def _try(
        self, exchange: Exchange, caller: Caller, stop: Stop, asked: Asked, headers: Headers, since: float, sent: Sequence[Credential]
    ) -> Begun:
        """One attempt, with the last of the credentials; the others were sent before it."""
        credential = sent[-1] if sent else None
        missing = None if sent else self._choice.missing(stop.provider, caller)
        opened = await self._upstream.open(stop, asked, headers, sent, missing=missing)
        exchange.losses = opened.written.losses
        tells = asked.tells(stop, stored_id(credential))
        try:
            if asked.request.stream:
                stream = self._stream(stop, asked, opened, tells, tell=first(headers, b"x-trunkline-losses") == b"stream")
                return Begun(stop, credential, opened, since, await stream.begin(), stream)
            if is_opaque(opened.answer, stop.wire.dialect):
                opaque = Opaque(opened.answer)
                return Begun(stop, credential, opened, since, await opaque.begin(), opaque)
            return Begun(
                stop, credential, opened, since, self._whole(exchange, stop, asked, opened, tells, await opened.answer.read()), None
            )
        except BaseException:
            await opened.answer.aclose()
            raise

    def _stream(self, stop: Stop, asked: Asked, opened: Opened, tells: Tells | None, *, tell: bool) -> Stream:
        repairs = stop.provider.kind.repairs
        reader = stop.wire.dialect.read_events(request=asked.request, written=opened.written, repairs=repairs, tell=tells)
        translation = None
        if not opened.passes:
            writer = asked.dialect.write_events(asked.request)
            translation = Translation(writer, self._start(stop, asked), opened.written.names, asked.dialect.keep_alive, tell=tell)
        return Stream(opened.answer, reader, self._clock, secrets=opened.secrets, translation=translation)

    def _start(self, stop: Stop, asked: Asked) -> Started:
        """What a reply says of itself where its provider does not, and its caller's format has to."""
        return Started(new_id(asked.dialect.reply_prefix, self._clock), stop.target.model, int(self._clock.now()))

    def _whole(self, exchange: Exchange, stop: Stop, asked: Asked, opened: Opened, tells: Tells | None, body: bytes) -> bytes:
        """A whole reply as the caller gets it."""
        if asked.request.operation not in stop.wire.paths:
            return body  # counted here
        try:
            reply = stop.wire.dialect.read_reply(body, asked.request.operation)
        except UpstreamError as error:  # in the provider's words
            error.message = scrub(error.message.encode(), opened.secrets).decode()
            raise
        exchange.usage, exchange.tool_calls = reply.usage, len(reply.tool_calls)
        if opened.passes:
            return body if tells is None else asked.dialect.tell_ids(body, tells)
        start = self._start(stop, asked)
        reply = replace(reply, id=reply.id or start.id, model=reply.model or start.model, created=reply.created or start.created)
        body, losses = asked.dialect.write_reply(opened.written.names.restored(reply), asked.request.operation)
        exchange.losses = report([*opened.written.losses, *losses])
        return body

    async def _relay(self, exchange: Exchange, begun: Begun, outlet: Outlet) -> None:
        stream = begun.stream
        length = len(begun.first) if stream is None else None
        exchange.first_byte = self._clock.monotonic() - exchange.started
        exchange.status = 200
        await outlet.start(200, self._head(exchange, begun, length))
        await self._pour(exchange, begun.first, stream, outlet)

    async def _pour(self, exchange: Exchange, first: bytes, stream: Stream | Opaque | None, outlet: Outlet) -> None:
        """Send a body: what there is of it, and what comes."""
        more = stream is not None and not stream.done
        exchange.sent += len(first)
        await outlet.write(first, more=more)
        while stream is not None and more:
            piece = await stream.next()
            more = not stream.done
            if piece or not more:
                exchange.sent += len(piece)
                await outlet.write(piece, more=more)

    def _head(self, exchange: Exchange, begun: Begun, length: int | None) -> Headers:
        """The head of a good answer: with how it was reached, and what could not be carried on the way there."""
        tried = [*exchange.attempts, Attempt(str(begun.stop.target), "ok", 0.0)]
        return [
            *reply_headers(begun.opened.answer.headers, exchange.id, length),
            *attempts_header(tried),
            *header(begun.opened.written.losses),
        ]

    def _record(self, exchange: Exchange, stop: Stop, credential: Credential | None, since: float, error: TrunklineError | None) -> None:
        """Note an attempt, and what it shows about its target and its credential."""
        self._note(exchange, stop, credential, since, error.code if error else "ok")
        if error is None:
            self._health.succeeded(stop.circuit, credential)
        else:
            said_to = error.said_to if isinstance(error, UpstreamError) else None
            self._health.failed(stop.circuit, error, said_to if isinstance(said_to, Credential) else credential)

    def _leave(self, exchange: Exchange, stop: Stop, credential: Credential | None, since: float) -> None:
        """Note an attempt that was given up: it shows nothing about its target."""
        self._note(exchange, stop, credential, since, "interrupted")

    def _note(self, exchange: Exchange, stop: Stop, credential: Credential | None, since: float, outcome: str) -> None:
        served = "" if stop.provider.served is None else stop.provider.name
        exchange.attempts.append(Attempt(str(stop.target), outcome, self._clock.monotonic() - since, stored_id(credential), served))

    async def _crash(self, exchange: Exchange, call: Call | FollowUpCall, outlet: Outlet, error: Exception) -> None:
        """Tell of a fault of ours: the trace to the log, the way to it to the caller."""
        self._crashed(exchange.id, error)
        hint = f"The log has it under `{exchange.id}`."
        await self._refuse(exchange, call, outlet, Internal("something went wrong in Trunkline", hint=hint))

    async def _refuse(
        self, exchange: Exchange, call: Call | FollowUpCall, outlet: Outlet, error: TrunklineError, native: bytes = b""
    ) -> None:
        """Tell the caller in its own dialect: by an answer, or by the event that ends a stream which has begun; all else breaks off."""
        exchange.facts, exchange.outcome = error.facts, error.code
        dialect = call.endpoint.dialect
        if exchange.status and exchange.stream:
            event = native or dialect.write_error_event(error, exchange.id)
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORD):
                    await outlet.write(event, more=False)
            return
        if exchange.status:
            outlet.break_off()
            return
        exchange.status = error.http_status
        native = error.body if isinstance(error, UpstreamRefused) else b""
        body = native or dialect.write_error(error, exchange.id)
        await outlet.start(error.http_status, [*error_headers(error, exchange.id, len(body)), *attempts_header(exchange.attempts)])
        await outlet.write(body, more=False)


def _read(endpoint: Endpoint, body: bytes) -> Request:
    """A request. JavaScript's clients cut texts inside of characters, and no provider takes the halves: U+FFFD stands for them."""
    try:
        return endpoint.dialect.read_request(body, endpoint.operation)
    except BadRequest:
        whole = whole_pairs(body)
        if whole == body:
            raise
        return endpoint.dialect.read_request(whole, endpoint.operation)


def _seeing(credentials: Sequence[Credential], kept: Stored) -> Sequence[Credential]:
    """The credentials that something is seen with that a provider keeps.

    Raises:
        NotFound: it was made with one that is gone, or is not the caller's to use.
    """
    found = at_home(credentials, kept.credential)
    if kept.credential and not found:
        raise NotFound(
            f"`{kept.provider}` keeps this for a credential that is gone, or that this key may not use",
            hint="Ask with the key that made it.",
        )
    return found
