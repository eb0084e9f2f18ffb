"""Our providers as an extension daemon serves them to products (daemon contract, A to D).

A call goes out as the gateway sends one to a provider that speaks its format: the same bytes, but for the model, and for what the model is
known to refuse. Nothing is translated, and nothing is kept. The credential is the product's, or there is none: what the configuration or
the vault has is for our own callers.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from trunkline.base.clock import Clock
from trunkline.base.codec import replace as but
from trunkline.base.ids import new_id
from trunkline.base.log import Logger
from trunkline.base.secret import Secret
from trunkline.catalog.listing import Found
from trunkline.errors import OperatorError, TrunklineError, UpstreamDenied, UpstreamError
from trunkline.gateway import relay
from trunkline.gateway.asked import Asked
from trunkline.gateway.discovery import Lister, Running
from trunkline.gateway.headers import first
from trunkline.gateway.losses import LossRule
from trunkline.gateway.relay import Translation
from trunkline.gateway.router import Stop
from trunkline.gateway.upstream import Answer, Http, Opened, Upstream
from trunkline.model.card import UNKNOWN
from trunkline.model.credential import Credential
from trunkline.model.event import Started
from trunkline.model.loss import Loss
from trunkline.model.target import Target
from trunkline.providers import Provider, Wire
from trunkline.server.daemon.rows import row
from trunkline.server.daemon.stream import Records
from trunkline.server.daemon.written import whole, written
from trunkline.surfaces import Endpoint
from trunkline_sdk.daemon import messages
from trunkline_sdk.daemon.protocol.surfaces import CHAT, PATHS
from trunkline_sdk.daemon.server import Backend, Call, Failure, Reply, Stream

REPORTED = (LossRule(action="allow"),)
"""A product judges losses itself, by its own rules (daemon contract, B4)."""


def surfaces_of(provider: Provider, endpoints: Collection[Endpoint]) -> dict[str, tuple[Endpoint, Wire]]:
    """The surfaces that a provider serves in its own formats, by their ids, with how they reach it."""
    by_path = {endpoint.path: endpoint for endpoint in endpoints}
    found: dict[str, tuple[Endpoint, Wire]] = {}
    for surface, path in PATHS.items():
        endpoint = by_path.get(path)
        wire = endpoint and provider.wire(endpoint.dialect, endpoint.operation)
        if endpoint and wire and wire.dialect.name == endpoint.dialect.name:
            found[surface] = (endpoint, wire)
    return found


class Offered(Backend):
    """One of our providers, for products.

    Args:
        provider: without a credential of its own.
        needs_credential: whether a call without a credential is useless.
        endpoints: what our surfaces serve, for their formats.
        http: what goes out to the network, judged.
        servers: the providers that we run ourselves, by name.
        upstream: calls providers.
        clock: the time.
        log: is told what only the operator can mend.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        needs_credential: bool,
        endpoints: Collection[Endpoint],
        http: Http,
        servers: Mapping[str, Running],
        upstream: Upstream,
        clock: Clock,
        log: Logger,
    ) -> None:
        self._provider = replace(provider, settings=but(provider.settings, stream_usage=False))  # nothing is added for a count of ours
        self._needs_credential = needs_credential
        self._surfaces = surfaces_of(provider, endpoints)
        self._http = http
        self._servers = servers
        self._upstream = upstream
        self._clock = clock
        self._log = log
        self.info = messages.ProviderInfo(
            id=provider.name,
            name=provider.kind.title,
            surfaces=tuple(self._surfaces),
            credential="token" if needs_credential else "none",
        )

    async def models(self, credential: messages.Credential | None) -> Sequence[messages.ModelInfo]:
        """What the configuration names, and what the provider lists for this credential."""
        own = self._provider.source.own
        found = {name: Found(name) for name in self._provider.settings.models}
        listed = await self._listed(credential, known=bool(found))
        found |= {each.id: each for each in listed}
        cards = {name: own.get(name, UNKNOWN).over(each.card).over(self._provider.card(name)) for name, each in found.items()}
        rows = [row(self._provider, name, card, self.info.surfaces, told=name in own) for name, card in cards.items()]
        return [each for each in rows if each.supported_apis]

    async def invoke(self, call: Call) -> Reply:
        """The provider's answer as it comes, whatever it is."""
        asked, opened = await self._opened(call, whole(call))
        if not opened.passes:
            return await self._read(asked, opened)
        kind = first(opened.answer.headers, b"content-type") or b"application/octet-stream"
        return Reply(_Body(opened.answer, self._told), kind.decode("latin-1"), _losses(opened.written.losses))

    async def stream(self, call: Call) -> Stream:
        """The provider's events as they come."""
        if call.surface not in CHAT:
            raise Failure(400, f"the surface `{call.surface}` is not streamed")
        asked, opened = await self._opened(call, written(call, stream=True))
        dialect, request, sent = asked.dialect, asked.request, opened.written
        reader = dialect.read_events(request=request, written=sent, repairs=self._provider.kind.repairs)
        start = Started(new_id(dialect.reply_prefix, self._clock), call.model, int(self._clock.now()))
        anew = None if opened.passes else Translation(dialect.write_events(request), start, sent.names, dialect.keep_alive, tell=False)
        relayed = relay.Stream(opened.answer, reader, self._clock, secrets=opened.secrets, translation=anew)
        return Stream(Records(relayed, opened.answer, self._told), _losses(sent.losses))

    async def _opened(self, call: Call, body: bytes) -> tuple[Asked, Opened]:
        sent = self._sent(call.credential)
        endpoint, wire = self._surfaces[call.surface]
        try:
            asked = Asked(endpoint.dialect.read_request(body, endpoint.operation), endpoint.dialect)
            stop = Stop(Target(self._provider.name, call.model), self._timed(call.timeout), wire, REPORTED)
            return asked, await self._upstream.open(stop, asked, [], sent)
        except TrunklineError as error:
            raise self._told(error) from None

    async def _read(self, asked: Asked, opened: Opened) -> Reply:
        """An answer that has to be written anew, with the names of tools that the product knows."""
        dialect, operation = asked.dialect, asked.request.operation
        try:
            reply = dialect.read_reply(await opened.answer.read(), operation)
            body, losses = dialect.write_reply(opened.written.names.restored(reply), operation)
        except TrunklineError as error:
            raise self._told(error) from None
        finally:
            await opened.answer.aclose()
        return Reply(body, losses=_losses([*opened.written.losses, *losses]))

    async def _listed(self, credential: messages.Credential | None, *, known: bool) -> Sequence[Found]:
        """What the provider lists; nothing where it cannot be asked and something else is known."""
        if known and credential is None and self._needs_credential:
            return ()
        own = next(iter(self._sent(credential)), None)
        lister = Lister(http=self._http, servers=self._servers, credential=lambda _: own, clock=self._clock)
        if not lister.reachable(self._provider):
            return ()
        try:
            return (await lister.ask(self._provider)).found
        except TrunklineError as error:
            if known and not isinstance(error, UpstreamDenied):
                return ()
            raise self._told(error) from None

    def _sent(self, credential: messages.Credential | None) -> list[Credential]:
        secret = (credential.token or credential.api_key) if credential else ""
        if not secret and self._needs_credential:
            raise Failure(401, "this provider needs a credential, and the request has none")
        return [Credential(id="product", weight=1, secret=Secret(secret))] if secret else []

    def _timed(self, seconds: float | None) -> Provider:
        """The provider with the product's own patience (daemon contract, C1), which is for the whole wait and for each pause."""
        settings = self._provider.settings
        if seconds is None:
            return self._provider
        timeouts = but(settings.timeouts, connect=min(settings.timeouts.connect, seconds), first_byte=seconds, silence=seconds)
        return replace(self._provider, settings=but(settings, timeouts=timeouts))

    def _told(self, error: TrunklineError) -> Failure:
        """What a product is told: the provider's own status with its cleaned words (daemon contract, D5)."""
        if isinstance(error, UpstreamDenied):
            status = error.upstream_status or 401
            return Failure(status, f"the provider does not accept this credential (HTTP {status})")
        if isinstance(error, UpstreamError):
            status = error.upstream_status or 0
            passed = status if 400 <= status <= 599 else error.status
            return Failure(passed, error.message, retry_after=error.retry_after, upstream_status=status if status != passed else 0)
        if isinstance(error, OperatorError):
            self._log.warning("a provider cannot be called", provider=self._provider.name, code=error.code, reason=error.message)
            return Failure(503, f"the daemon's operator has to look at this provider ({error.code})", retry_after=error.retry_after)
        return Failure(error.status, error.sentence)


class _Body:
    """An answer as it comes in; its failures are told as a daemon's."""

    __slots__ = ("_answer", "_told")

    def __init__(self, answer: Answer, told: Callable[[TrunklineError], Failure]) -> None:
        self._answer = answer
        self._told = told

    def __aiter__(self) -> "_Body":
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self._answer.__anext__()
        except TrunklineError as error:
            raise self._told(error) from None

    async def aclose(self) -> None:
        """Leave."""
        await self._answer.aclose()


def _losses(losses: Iterable[Loss]) -> tuple[messages.Loss, ...]:
    return tuple(messages.Loss(path=each.path, change=each.change, severity=each.severity, detail=each.detail) for each in losses)
