"""The daemon: an ASGI app that serves backends (daemon contract, A to D)."""

import logging
import traceback
from collections.abc import Iterable, Sequence

from trunkline_sdk.daemon.gojson import encode
from trunkline_sdk.daemon.messages import OAuthStartResponse, RefreshResponse
from trunkline_sdk.daemon.protocol import failures, routes, timeouts
from trunkline_sdk.daemon.protocol import headers as fields
from trunkline_sdk.daemon.server.backend import Backend
from trunkline_sdk.daemon.server.control import JSON, info, models, oauth_exchange, oauth_poll, oauth_start, refresh
from trunkline_sdk.daemon.server.exchange import Exchange, Receive, Scope, Send, Stopped
from trunkline_sdk.daemon.server.failures import Failure, GrantRefused, failure_of
from trunkline_sdk.daemon.server.guard import guard
from trunkline_sdk.daemon.server.limits import DEFAULT_LIMITS, DaemonLimits
from trunkline_sdk.daemon.server.operations import invoke, stream
from trunkline_sdk.daemon.server.redaction import Redaction
from trunkline_sdk.daemon.server.renewals import Renewals

log = logging.getLogger("trunkline_sdk.daemon")

_PLAIN_ERRORS = frozenset({"refresh", "oauth/start", "oauth/poll", "oauth/exchange"})  # their answers have a string `error` (A9)
_SECONDS_OF_DRAIN = 5.0  # a product that comes while we end may ask again then


class _WrongMethod(Failure):
    def __init__(self, allowed: str) -> None:
        super().__init__(405, f"this route takes {allowed}")
        self._allowed = allowed

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"allow", self._allowed.encode())]


class Daemon:
    """Serves providers to products that speak the extension daemon protocol.

    It keeps nothing but what `limits.remembered_seconds` says. One line is logged for each request, by the logger `trunkline_sdk.daemon`.

    Args:
        backends: one for each provider.
        secret: what products show; two while it is being changed; empty lets everyone in who can reach the daemon.
        version: of your program, in `info`.
        hosts: names under which products reach it, beside `localhost` and loopback addresses.
        limits: what is taken, and how long is waited.

    Raises:
        ValueError: two backends with one id, an id or a secret that cannot be.
    """

    def __init__(
        self,
        *backends: Backend,
        secret: str | Sequence[str] = "",
        version: str = "",
        hosts: Iterable[str] = (),
        limits: DaemonLimits = DEFAULT_LIMITS,
    ) -> None:
        self._backends = {backend.info.id: backend for backend in backends}
        _check(backends)
        self._guard = guard(secret, hosts)
        self._own = Redaction(each.decode() for each in self._guard.secrets)
        self._limits = limits
        self._renewals = Renewals(remembered_seconds=limits.remembered_seconds)
        self._info = info(version, [backend.info for backend in backends], limits)
        self._draining = False
        self._exchanges: set[Exchange] = set()
        self._operations = 0
        self._said_timeout = False

    @property
    def has_secret(self) -> bool:
        """Whether a product has to show a secret."""
        return bool(self._guard.secrets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise ValueError(f"the daemon serves HTTP alone, not {scope['type']}")
        exchange = Exchange(scope, receive, send)
        route, provider = routes.match(_path(scope)) or (None, "")
        self._exchanges.add(exchange)
        try:
            async with exchange.stoppable():
                self._judge(exchange)
                await self._serve(exchange, route, provider)
        except Stopped:
            exchange.outcome = "left"
        except Exception as error:  # noqa: BLE001 - the border of a request
            await self._fail(exchange, route, error)
        finally:
            self._exchanges.discard(exchange)
            self._tell(exchange, route, provider)

    def drain(self) -> None:
        """Refuse new requests with 503; those under way go on."""
        self._draining = True

    def end(self) -> None:
        """End what is under way: what has not begun to answer is told 503, what has is broken off. Refreshes go on."""
        self.drain()
        for exchange in list(self._exchanges):
            exchange.interrupt(_ending())

    async def aclose(self) -> None:
        """End everything; refreshes that are under way may end for as long as a product would wait for them."""
        self.end()
        await self._renewals.aclose(self._limits.refresh_seconds)

    def _judge(self, exchange: Exchange) -> None:
        size = sum(len(name) + len(value) + 4 for name, value in exchange.headers)  # 4: colon, space, line end
        if size > self._limits.header_bytes:
            raise Failure(431, f"the request's headers have more than {self._limits.header_bytes} bytes")
        self._guard.judge(exchange.headers, unix=exchange.unix)
        if self._draining:
            raise _ending()

    async def _serve(self, exchange: Exchange, route: routes.Route | None, provider: str) -> None:
        backend = self._backends.get(provider)
        if route is None or (backend is None and route is not routes.INFO):
            raise Failure(404, "there is no such provider" if route else "there is no such route")
        if exchange.scope["method"] != route.method:
            raise _WrongMethod(route.method)
        if backend is None:
            await exchange.answer(200, JSON, self._info)
        elif route.operation:
            await self._operate(exchange, route, backend)
        elif route is routes.MODELS:
            await models(exchange, backend, self._limits, self._dropped_row)
        elif route is routes.REFRESH:
            await refresh(exchange, backend, self._limits, self._renewals)
        elif route is routes.OAUTH_START:
            await oauth_start(exchange, backend, self._limits)
        elif route is routes.OAUTH_POLL:
            await oauth_poll(exchange, backend, self._limits)
        else:
            await oauth_exchange(exchange, backend, self._limits)

    async def _operate(self, exchange: Exchange, route: routes.Route, backend: Backend) -> None:
        if self._operations >= self._limits.operations:
            raise Failure(503, "the daemon is busy", retry_after=1.0)
        self._operations += 1
        self._judge_timeout(exchange)
        try:
            if route is routes.STREAM:
                await stream(exchange, backend, self._limits)
            else:
                await invoke(exchange, backend, self._limits)
        finally:
            self._operations -= 1

    def _judge_timeout(self, exchange: Exchange) -> None:
        given = fields.find(exchange.headers, fields.TIMEOUT)
        if given is not None and not self._said_timeout and timeouts.read(given) is None:
            self._said_timeout = True
            log.warning("an X-Timeout that is no plain decimal above 0 was passed over; this is said once")

    async def _fail(self, exchange: Exchange, route: routes.Route | None, error: Exception) -> None:
        failure = failure_of(error)
        if failure is None:
            self._report(exchange, error)
            failure = Failure(500, "the daemon failed")
        if exchange.status:
            exchange.outcome = "broken"
            exchange.break_off()
            return
        exchange.outcome = failure.type
        reason = failures.clean(self._clean(exchange, failure.message)) or "the daemon failed"
        if route is not None and route.name in _PLAIN_ERRORS:
            terminal = isinstance(failure, GrantRefused) and failure.terminal and route is routes.REFRESH
            body = encode(RefreshResponse(error=reason, terminal=terminal) if terminal else OAuthStartResponse(error=reason))
        else:
            body = failures.body(
                reason, failure.status, kind=failure.type, retryable=failure.retryable, upstream_status=failure.upstream_status
            )
        await exchange.answer(failure.status, [*JSON, *failure.headers()], body)

    def _clean(self, exchange: Exchange, text: str) -> str:
        return self._own.text(exchange.redaction.text(text))

    def _report(self, exchange: Exchange, error: Exception) -> None:
        """Say where an error that nobody foresaw came from. Its text may hold anything, a prompt too: it is for those who ask for DEBUG."""
        frames = "".join(traceback.format_tb(error.__traceback__))
        log.error("request_id=%s %s in the backend\n%s", exchange.request_id, type(error).__name__, frames.rstrip())
        log.debug("request_id=%s %s", exchange.request_id, self._clean(exchange, str(error)))

    def _dropped_row(self, number: int, why: str) -> None:
        log.warning("row %d of a list of models is left out: %s", number, why)

    def _tell(self, exchange: Exchange, route: routes.Route | None, provider: str) -> None:
        """One line for each request; those who keep structured logs find the same as `exchange` on the record."""
        facts = {
            "request_id": exchange.request_id,
            "route": route.name if route else "-",
            "provider": provider if provider in self._backends else "-",
            "status": exchange.status,
            "outcome": exchange.outcome,
            "ms": round(exchange.seconds * 1000, 1),
            "bytes": exchange.sent,
        }
        log.info(" ".join(f"{name}={value}" for name, value in facts.items()), extra={"exchange": facts})


def _check(backends: Sequence[Backend]) -> None:
    ids = [backend.info.id for backend in backends]
    for each in ids:
        if not routes.is_provider_id(each):
            raise ValueError(f"`{each}` cannot be a provider's id: 1 to 128 letters, digits, `_`, `.`, `-`; not `info`")
        if ids.count(each) > 1:
            raise ValueError(f"two backends have the id `{each}`")


def _ending() -> Failure:
    return Failure(503, "the daemon is ending", retry_after=_SECONDS_OF_DRAIN)


def _path(scope: Scope) -> str:
    """As it was sent: nothing in the protocol's paths needs escaping."""
    raw = scope.get("raw_path")
    return scope["path"] if raw is None else raw.decode("latin-1")
