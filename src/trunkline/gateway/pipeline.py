"""The straight line that every call takes: identify → read → route → attempt → relay → tell."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol
from urllib.parse import quote

from trunkline.base.clock import Clock
from trunkline.base.codec import Value
from trunkline.base.ids import new_id
from trunkline.base.secret import scrub
from trunkline.errors import Denied, Internal, MethodNotAllowed, NotFound, TrunklineError, UpstreamBusy, UpstreamError, UpstreamRefused
from trunkline.gateway.asked import Asked
from trunkline.gateway.attempts import after, worth_telling
from trunkline.gateway.exchange import Attempt, CallerLeft, Exchange, Exchanges, attempts_header
from trunkline.gateway.headers import Headers, error_headers, first, reply_headers
from trunkline.gateway.health import Health
from trunkline.gateway.losses import header
from trunkline.gateway.relay import Broken, Stream, Translation
from trunkline.gateway.router import Router, Stop
from trunkline.gateway.stored import Stored, tell
from trunkline.gateway.upstream import Opened, Upstream, is_stream
from trunkline.model.caller import Caller
from trunkline.model.event import Started
from trunkline.model.loss import report
from trunkline.surfaces import Endpoint, FollowUp

BACK_OFF = 0.25  # seconds before a target is tried a second time
LAST_WORD = 1.0  # seconds that a slow caller has for the error event that ends its stream


class Access(Protocol):
    """Who asks."""

    async def identify(self, headers: Headers, address: str) -> Caller:
        """The caller. Raises: `Unauthenticated`."""
        ...


class Outlet(Protocol):
    """The way back to the caller."""

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head."""
        ...

    async def write(self, data: bytes, *, more: bool) -> None:
        """Send a piece of the body; waits while the caller is slow."""
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


class Begun(Value, frozen=True):
    """A reply that has begun well: from here on no other target may take over."""

    stop: Stop
    opened: Opened
    since: float
    first: bytes
    stream: Stream | None


class Pipeline:
    """Carries calls."""

    def __init__(
        self,
        *,
        access: Access,
        router: Router,
        upstream: Upstream,
        health: Health,
        exchanges: Exchanges,
        clock: Clock,
        told: Callable[[Exchange, float], None],
        crashed: Callable[[str, Exception], None],
    ) -> None:
        self._access = access
        self._router = router
        self._upstream = upstream
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
        exchange.caller = await self._caller(call)
        request = call.endpoint.dialect.read_request(await call.body(), call.endpoint.operation)
        asked = Asked(request, call.endpoint.dialect, strict=first(call.headers, b"x-trunkline-strict") == b"1")
        exchange.model, exchange.stream = request.model, request.stream
        stops = self._router.stops(request.model, call.endpoint.dialect, request.operation)
        if asked.home is not None:
            stops = self._at_home(stops, asked.home)
        begun = await self._begin(exchange, asked, stops, call.headers)
        try:
            await self._relay(exchange, begun, outlet)
        except Broken as broken:
            self._record(exchange, begun.stop, begun.since, broken.error)
            raise
        except asyncio.CancelledError:
            self._leave(exchange, begun.stop, begun.since)
            raise
        else:
            self._record(exchange, begun.stop, begun.since, None)
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
        exchange.caller = await self._caller(call)
        allowed = call.endpoint.actions.get(call.action)
        if allowed is None:
            raise NotFound(f"nothing can be asked by `{call.action}`", hint=f"Known: {', '.join(filter(None, call.endpoint.actions))}.")
        if call.method not in allowed:
            raise MethodNotAllowed(f"`{call.method}` is not for this", allow=", ".join(sorted(allowed)))
        provider, wire, kept = self._router.home(call.told, call.endpoint.dialect)
        below = "/".join(filter(None, (quote(kept.id, safe=""), call.action))) + call.query
        tells = partial(tell, provider.name)
        opened = await self._upstream.follow(provider, wire, call.method, below, call.headers)
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

    def _at_home(self, stops: list[Stop], home: Stored) -> list[Stop]:
        """The targets that have what the request goes on from."""
        found = [stop for stop in stops if stop.target.provider == home.provider]
        if not found:
            raise NotFound(
                f"what the request goes on from is kept by `{home.provider}`, which does not serve this model",
                hint=f"Ask for one of its models: `{home.provider}/…`.",
            )
        return found

    def _awake(self, stops: list[Stop]) -> list[Stop]:
        """The targets that may be tried now.

        Raises:
            UpstreamBusy: all of them asked to be left alone; it says for how long.
        """
        awake = [stop for stop in stops if self._health.rest(stop.target) == 0]
        if awake:
            return awake
        soonest = min(stops, key=lambda stop: self._health.rest(stop.target))
        if self._health.is_busy(soonest.target):
            raise UpstreamBusy("all providers of this model are busy", retry_after=self._health.rest(soonest.target))
        return [soonest]  # it failed often, and somebody has to find out whether it is back

    async def _begin(self, exchange: Exchange, asked: Asked, stops: list[Stop], headers: Headers) -> Begun:
        """Try the targets that are awake until one begins a reply.

        Raises:
            TrunklineError: none did; where one that was passed over will be there again, the wait for it counts too.
        """
        failures: list[TrunklineError] = [
            UpstreamBusy("a provider of this model is busy", retry_after=self._health.rest(stop.target))
            for stop in stops
            if self._health.is_busy(stop.target)
        ]
        stops = self._awake(stops)
        again = False
        while True:
            stop, *left = stops
            since = self._clock.monotonic()
            try:
                return await self._try(exchange, stop, asked, headers, since)
            except asyncio.CancelledError:
                self._leave(exchange, stop, since)
                raise
            except TrunklineError as error:
                self._record(exchange, stop, since, error)
                failures.append(error)
                match after(error, tried=len(exchange.attempts), left=len(left), again=again):
                    case "next":
                        stops, again = left, False
                    case "same":
                        again = True
                        await self._clock.sleep(BACK_OFF)
                    case "stop":
                        raise worth_telling(failures) from None

    async def _try(self, exchange: Exchange, stop: Stop, asked: Asked, headers: Headers, since: float) -> Begun:
        opened = await self._upstream.open(stop, asked, headers)
        exchange.losses = opened.written.losses
        try:
            if asked.request.stream:
                stream = self._stream(stop, asked, opened, tell=first(headers, b"x-trunkline-losses") == b"stream")
                return Begun(stop, opened, since, await stream.begin(), stream)
            return Begun(stop, opened, since, self._whole(exchange, stop, asked, opened, await opened.answer.read()), None)
        except BaseException:
            await opened.answer.aclose()
            raise

    def _stream(self, stop: Stop, asked: Asked, opened: Opened, *, tell: bool) -> Stream:
        tells = asked.tells(stop)
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

    def _whole(self, exchange: Exchange, stop: Stop, asked: Asked, opened: Opened, body: bytes) -> bytes:
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
            return body if (told := asked.tells(stop)) is None else asked.dialect.tell_ids(body, told)
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

    async def _pour(self, exchange: Exchange, first: bytes, stream: Stream | None, outlet: Outlet) -> None:
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

    def _record(self, exchange: Exchange, stop: Stop, since: float, error: TrunklineError | None) -> None:
        """Note an attempt, and what it shows about its target."""
        exchange.attempts.append(Attempt(str(stop.target), error.code if error else "ok", self._clock.monotonic() - since))
        if error is None:
            self._health.succeeded(stop.target)
        else:
            self._health.failed(stop.target, error)

    def _leave(self, exchange: Exchange, stop: Stop, since: float) -> None:
        """Note an attempt that was given up: it shows nothing about its target."""
        exchange.attempts.append(Attempt(str(stop.target), "interrupted", self._clock.monotonic() - since))

    async def _crash(self, exchange: Exchange, call: Call | FollowUpCall, outlet: Outlet, error: Exception) -> None:
        """Tell of a fault of ours: the trace to the log, the way to it to the caller."""
        self._crashed(exchange.id, error)
        hint = f"The log has it under `{exchange.id}`."
        await self._refuse(exchange, call, outlet, Internal("something went wrong in Trunkline", hint=hint))

    async def _refuse(
        self, exchange: Exchange, call: Call | FollowUpCall, outlet: Outlet, error: TrunklineError, native: bytes = b""
    ) -> None:
        """Tell the caller in its own dialect: by an answer, or by the event that ends a stream which has begun."""
        exchange.error, exchange.outcome = error, error.code
        dialect = call.endpoint.dialect
        if exchange.status:
            event = native or dialect.write_error_event(error, exchange.id)
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORD):
                    await outlet.write(event, more=False)
            return
        exchange.status = error.http_status
        native = error.body if isinstance(error, UpstreamRefused) else b""
        body = native or dialect.write_error(error, exchange.id)
        await outlet.start(error.http_status, [*error_headers(error, exchange.id, len(body)), *attempts_header(exchange.attempts)])
        await outlet.write(body, more=False)
