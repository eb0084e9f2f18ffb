"""Info, models, refresh and the steps of a sign-in (daemon contract, A2, D3, D4, G1)."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from trunkline_sdk.daemon.messages import (
    Flow,
    InfoResponse,
    ModelsResponse,
    OAuthExchangeRequest,
    OAuthExchangeResponse,
    OAuthPollRequest,
    OAuthPollResponse,
    OAuthStartRequest,
    OAuthStartResponse,
    PollResult,
    ProviderInfo,
    Record,
    RefreshRequest,
    RefreshResponse,
    Unreadable,
    decode,
    encode,
)
from trunkline_sdk.daemon.oauthflow.complete import lacking
from trunkline_sdk.daemon.protocol import headers as fields
from trunkline_sdk.daemon.server.backend import Backend
from trunkline_sdk.daemon.server.body import read_body
from trunkline_sdk.daemon.server.catalogue import rows
from trunkline_sdk.daemon.server.exchange import Exchange
from trunkline_sdk.daemon.server.failures import Failure
from trunkline_sdk.daemon.server.limits import DaemonLimits
from trunkline_sdk.daemon.server.renewals import Renewals

T = TypeVar("T")

JSON = [(b"content-type", b"application/json")]
_STATUSES = frozenset({"pending", "slow_down", "approved", "denied", "expired"})
_FEATURES = ("keepalive", "refresh_repeat", "request_id", "typed_errors", "wrong_secret_mark")


def info(version: str, providers: Sequence[ProviderInfo], limits: DaemonLimits) -> bytes:
    """The answer to `info`; what is not the version and the providers is optional (K14)."""
    bounds = {"request_bytes": limits.operation_bytes, "control_bytes": limits.control_bytes, "operations": limits.operations}
    return encode(InfoResponse(version=version, providers=tuple(providers), protocol=1, features=_FEATURES, limits=bounds))


async def models(exchange: Exchange, backend: Backend, limits: DaemonLimits, dropped: Callable[[int, str], None]) -> None:
    """The catalogue."""
    exchange.listen()
    async with asyncio.timeout(limits.control_seconds):
        given = await backend.models(fields.read_credential(exchange.headers))
    await exchange.answer(200, JSON, encode(ModelsResponse(models=rows(given, backend.info.surfaces, dropped))))


async def refresh(exchange: Exchange, backend: Backend, limits: DaemonLimits, renewals: Renewals) -> None:
    """New tokens; the request may leave, the refresh goes on."""
    record = (await _request(exchange, RefreshRequest, limits)).record
    exchange.guard_secrets(secrets_of(record))
    if not backend.info.has_refresh:
        raise Failure(400, "this provider's credentials are not refreshed")
    if not record.refresh_token.strip():
        raise Failure(400, "the record has no refresh token")
    async with asyncio.timeout(limits.refresh_seconds):
        renewed = await renewals.renew(backend.info.id, record, backend.refresh)
    exchange.guard_secrets(secrets_of(renewed))
    await exchange.answer(200, JSON, encode(RefreshResponse(record=_usable(renewed))))


async def oauth_start(exchange: Exchange, backend: Backend, limits: DaemonLimits) -> None:
    """Begin a sign-in by one of the methods that the provider lists."""
    request = await _request(exchange, OAuthStartRequest, limits)
    exchange.guard_secrets(request.params.values())
    if request.method not in backend.info.oauth_methods:
        raise Failure(400, f"this provider has no sign-in by the method `{request.method}`")
    async with asyncio.timeout(limits.control_seconds):
        begun = await backend.oauth_start(request)
    if missing := lacking(request.method, begun, begun.secrets.redirect_uri or request.redirect_uri):
        raise Failure(500, f"this provider's sign-in lacks the {' and the '.join(missing)}")
    await exchange.answer(200, JSON, encode(OAuthStartResponse(authorization=begun)))


async def oauth_poll(exchange: Exchange, backend: Backend, limits: DaemonLimits) -> None:
    """Ask once how a device sign-in stands."""
    flow = (await _request(exchange, OAuthPollRequest, limits)).flow
    exchange.guard_secrets(_flow_secrets(flow))
    async with asyncio.timeout(limits.control_seconds):
        result = await backend.oauth_poll(flow)
    if result.status not in _STATUSES:
        raise Failure(500, "this provider's sign-in stands in no known way")
    told = PollResult(status=result.status, record=_usable(result.record) if result.status == "approved" else Record())
    await exchange.answer(200, JSON, encode(OAuthPollResponse(result=told)))


async def oauth_exchange(exchange: Exchange, backend: Backend, limits: DaemonLimits) -> None:
    """Exchange a code."""
    request = await _request(exchange, OAuthExchangeRequest, limits)
    exchange.guard_secrets([request.code, *_flow_secrets(request.flow)])
    if not request.code.strip():
        raise Failure(400, "there is no code")
    async with asyncio.timeout(limits.control_seconds):
        record = await backend.oauth_exchange(request.code, request.flow)
    await exchange.answer(200, JSON, encode(OAuthExchangeResponse(record=_usable(record))))


def secrets_of(record: Record) -> list[str]:
    """What of a record must not be told or logged; metadata may hold a client's secret (H3)."""
    return [record.access_token, record.refresh_token, record.id_token, *record.metadata.values()]


async def _request(exchange: Exchange, kind: type[T], limits: DaemonLimits) -> T:
    try:
        return decode(kind, await read_body(exchange, limits.control_bytes, limits.body_seconds))
    except Unreadable as unreadable:
        raise Failure(400, f"the request cannot be read: {unreadable}") from None


def _flow_secrets(flow: Flow) -> Iterable[str]:
    kept = flow.secrets
    return [kept.verifier, kept.state, kept.device_code, *kept.driver_data.values(), *kept.params.values()]


def _usable(record: Record) -> Record:
    if not record.access_token.strip():
        raise Failure(502, "the provider gave no access token")
    return record
