"""One attempt at a provider behind an extension daemon, by the SDK's client (daemon contract, A to E)."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from trunkline.base.secret import scrub
from trunkline.dialects import Written
from trunkline.dialects._errors import judged
from trunkline.errors import (
    BadRequest,
    ConfigInvalid,
    NoCredential,
    TrunklineError,
    UpstreamDenied,
    UpstreamDown,
    UpstreamError,
    UpstreamGarbled,
    UpstreamTimeout,
)
from trunkline.gateway import daemon_losses
from trunkline.gateway.asked import Asked
from trunkline.gateway.headers import Headers, to_provider
from trunkline.gateway.router import Stop
from trunkline.gateway.upstream import EVENT_STREAM, Answer, Opened, check_stream, redirected
from trunkline.model.credential import Credential
from trunkline.model.loss import Loss, dropped, report
from trunkline.providers.daemon import secret_refused
from trunkline_sdk.daemon import messages
from trunkline_sdk.daemon.client import Arriving, Client, Request, Stream
from trunkline_sdk.daemon.errors import CallFailed
from trunkline_sdk.daemon.protocol import headers as protocol

API_KEY = "api_key"  # the type of a credential that is never renewed (daemon contract, E1)
UNAUTHORIZED = 401
TIMED_OUT = 504  # what a daemon says where `X-Timeout` passed before the answer began (daemon contract, C1)
BETAS = frozenset({b"anthropic-beta", b"openai-beta"})
KEEP_ALIVE = b": keep-alive\n\n"


class Tokens(Protocol):
    """People's sign-ins, renewed once however many ask."""

    async def fresh(self, credential: Credential) -> Credential:
        """Itself while it can be used, else what it was renewed to. Raises: `SignInNeeded`, `UpstreamError`, `StoreUnavailable`."""
        ...

    async def rejected(self, credential: Credential) -> Credential:
        """What a sign-in is renewed to that the provider does not accept. Raises: as `fresh`."""
        ...


class DaemonCalls:
    """Calls providers behind daemons.

    Args:
        clients: the client of a provider's daemon, and the provider's id there, by its name here. Raises: `UpstreamDown`.
        tokens: renews sign-ins.
    """

    def __init__(self, clients: Callable[[str], tuple[Client, str]], tokens: Tokens) -> None:
        self._clients = clients
        self._tokens = tokens

    async def open(self, stop: Stop, asked: Asked, headers: Headers, sent: Sequence[Credential], missing: NoCredential | None) -> Opened:
        """Send a request, and return when the head of a good answer is there.

        A sign-in that the provider does not accept is renewed once, and the request is sent once more (daemon contract, E5).

        Raises:
            CallerError: the request cannot be read, or not be carried there without a loss that nobody allowed.
            UpstreamError: the provider or its daemon failed, or refused.
            OperatorError: it cannot be called as it is configured, or somebody has to sign in.
        """
        written = asked.written(stop)
        if missing is not None:
            raise missing
        written = _with(written, _unsent(headers) if asked.passes(stop, written) else [])
        credential = sent[-1] if sent else None
        if credential is not None and credential.key:
            credential = await self._tokens.fresh(credential)
        try:
            return await self._call(stop, asked, written, sent, credential)
        except UpstreamDenied as denied:
            if denied.upstream_status != UNAUTHORIZED or credential is None or not renewable(credential):
                raise
        return await self._call(stop, asked, written, (*sent, credential), await self._tokens.rejected(credential))

    async def _call(
        self, stop: Stop, asked: Asked, written: Written, before: Sequence[Credential], credential: Credential | None
    ) -> Opened:
        """One request, with a credential; `before` may show in what comes back, too."""
        secrets = _hidden([*before, *([credential] if credential else [])])
        client, provider = self._clients(stop.provider.name)
        request = _request(stop, asked, written)
        streams = asked.request.stream and asked.request.operation == "chat"
        given = None if credential is None else shown(credential)
        try:
            if streams:
                stream = await client.stream(provider, request, given)
                answer, told = _Streamed(stream), stream.losses
            else:
                whole = await client.begin(provider, request, given)
                answer, told = _Arriving(whole), whole.losses
        except CallFailed as error:
            failure = _failure(error, stop, credential, secrets)
        else:
            return await _opened(answer, told, stop, asked, written, secrets, late=streams)
        if isinstance(failure, UpstreamError) and credential is not (before[-1] if before else None):
            failure.said_to = credential
        raise failure


async def _opened(
    answer: Answer, told: Sequence[messages.Loss], stop: Stop, asked: Asked, written: Written, secrets: tuple[str, ...], *, late: bool
) -> Opened:
    losses = daemon_losses.heard(told)
    try:
        daemon_losses.refuse(losses, stop, asked, late=late)
        if asked.request.stream:
            check_stream(answer)
    except TrunklineError:
        await answer.aclose()
        raise
    return Opened(answer, _with(written, daemon_losses.known(losses)), asked.passes(stop, written), secrets)


class _Streamed:
    """Records as they come; what fails is ours. A daemon's signs of life become comments between them."""

    __slots__ = ("_stream", "headers")

    def __init__(self, stream: Stream) -> None:
        self.headers: Headers = [(b"content-type", EVENT_STREAM)]  # whatever a daemon calls it (daemon contract, A3)
        self._stream = stream

    async def __anext__(self) -> bytes:
        try:
            piece = await self._stream.piece()
        except CallFailed as error:
            raise _lost(error) from None
        if piece is None:
            raise StopAsyncIteration
        return piece or KEEP_ALIVE

    async def read(self) -> bytes:
        return await _all(self)

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Arriving:
    """The answer of an invoke as it comes; what fails is ours."""

    __slots__ = ("_answer", "headers")

    def __init__(self, answer: Arriving) -> None:
        self.headers: Headers = [(b"content-type", answer.content_type.encode())] if answer.content_type else []
        self._answer = answer

    async def __anext__(self) -> bytes:
        try:
            return await self._answer.__anext__()
        except CallFailed as error:
            raise _lost(error) from None

    async def read(self) -> bytes:
        return await _all(self)

    async def aclose(self) -> None:
        await self._answer.aclose()


async def _all(answer: Answer) -> bytes:
    parts: list[bytes] = []
    with suppress(StopAsyncIteration):
        while True:
            parts.append(await answer.__anext__())
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _request(stop: Stop, asked: Asked, written: Written) -> Request:
    """What the daemon is asked, with how long it may wait for its own upstream.

    Raises:
        BadRequest: no header can hold the model's name.
    """
    model = stop.target.model
    try:
        protocol.value(protocol.MODEL, model)
    except protocol.BadHeader:
        raise BadRequest("the model's name holds a control character") from None
    surface = stop.wire.paths[asked.request.operation]
    return Request(surface, model, written.body, timeout=stop.provider.settings.timeouts.first_byte)


def shown(credential: Credential) -> messages.Credential:
    """A credential as a daemon gets it (daemon contract, A3, E2)."""
    secret = credential.secret.reveal()
    is_key = credential.token_type == API_KEY
    return messages.Credential(
        token="" if is_key else secret,
        api_key=secret if is_key else "",
        account_id=credential.account,
        token_type=credential.token_type,
        metadata=dict(credential.metadata),
    )


def renewable(credential: Credential) -> bool:
    """Whether it is a sign-in that can be renewed, which an API key never is (daemon contract, E1)."""
    return bool(credential.key) and credential.token_type != API_KEY


def _hidden(credentials: Sequence[Credential]) -> tuple[str, ...]:
    """What the daemon has got to see of them, and may repeat: metadata holds clients' secrets (daemon contract, H3)."""
    return tuple(text for each in credentials for text in (each.secret.reveal(), *each.metadata.values()))


def _with(written: Written, losses: Sequence[Loss]) -> Written:
    """A request with more losses than those that we know of."""
    return Written(written.body, written.usage_added, report([*written.losses, *losses]), written.names) if losses else written


def _unsent(headers: Headers) -> list[Loss]:
    """What a provider of the caller's dialect would get of its headers; the protocol has no room for them (daemon contract, A3, H5)."""
    return [dropped(f"headers.{name.decode()}", "an extension daemon gets no headers") for name, _ in to_provider(headers) if name in BETAS]


def _failure(error: CallFailed, stop: Stop, credential: Credential | None, secrets: tuple[str, ...]) -> TrunklineError:
    """Why a call did not begin, as an error of ours: D2 of the daemon contract, with the fixes of K."""
    name, status = stop.provider.name, error.classification.status
    match error.kind:
        case "configuration" if status:
            return secret_refused(name)
        case "configuration":
            return ConfigInvalid(f"the provider `{name}` cannot be asked: {error}")
        case "invalid_request":
            return NoCredential(
                f"the credential for `{name}` cannot be sent: it holds a line end or another control character",
                hint="Store it anew, or sign in again.",
            )
        case _:
            return (
                _answered(error, status, scrub(error.reason.encode(), secrets).decode(), credential, name)
                if status >= 300
                else _lost(error)
            )


def _answered(error: CallFailed, status: int, words: str, credential: Credential | None, name: str) -> TrunklineError:
    """What a status means that is no success; `words` are the daemon's, without secrets."""
    if status < 400:
        return redirected(status)
    if status == TIMED_OUT:
        return UpstreamTimeout(
            f"the provider did not answer in time (HTTP {status}){f': {words}' if words else ''}", upstream_status=status
        )
    found = judged(status, words, b"", error.classification.retry_after or None)
    if isinstance(found, UpstreamDenied) and credential is not None and credential.key:
        found.hint = f"Sign in to it anew with `trunkline connect {name}`, or see what its account may do."
    return found


def _lost(error: CallFailed) -> UpstreamError:
    """An answer that there is not, or not whole."""
    if error.kind != "transport":
        return UpstreamGarbled(f"the daemon's answer cannot be used: {error}")
    if error.timed_out:
        return UpstreamTimeout(f"the provider did not answer in time: {error}")
    return UpstreamDown(f"the provider's daemon cannot be reached, or broke off: {error}")
