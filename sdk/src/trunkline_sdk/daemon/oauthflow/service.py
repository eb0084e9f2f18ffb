"""The product's side of a sign-in (daemon contract, G2).

A flow is used up before the provider is asked to exchange its code, so that no code is tried twice; whatever comes then is its outcome.
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Protocol

from msgspec.structs import replace

from trunkline_sdk.daemon.messages import Authorization, Caller, Flow, OAuthStartRequest, PollResult, Progress, Record, Secrets
from trunkline_sdk.daemon.oauthflow.complete import lacking
from trunkline_sdk.daemon.oauthflow.errors import (
    AccessDenied,
    CodeRequired,
    FlowConflict,
    FlowExpired,
    FlowNotFound,
    InvalidAnswer,
    InvalidStart,
    SlowDown,
    StateMismatch,
)
from trunkline_sdk.daemon.oauthflow.memory import now as machine_time
from trunkline_sdk.daemon.oauthflow.pasted import Answer
from trunkline_sdk.daemon.oauthflow.store import FlowStore, state_hash
from trunkline_sdk.daemon.oauthflow.view import Status, View, is_expired

_LIFE = timedelta(minutes=10)
_INTERVAL = timedelta(seconds=5)
_SLOWER = timedelta(seconds=5)  # RFC 8628, section 3.5
_METHODS = frozenset({"browser", "device", "manual"})
_KINDS = frozenset({"human", "service", "anonymous", "local"})


class Driver(Protocol):
    """One provider's sign-in; the client of a daemon gives such drivers."""

    async def start(self, request: OAuthStartRequest) -> Authorization:
        """Begin."""
        ...

    async def poll(self, flow: Flow) -> PollResult:
        """Ask once how a device flow stands. An error is for the moment: the flow goes on."""
        ...

    async def exchange(self, flow: Flow, code: str) -> Record:
        """Exchange a code for a credential."""
        ...


class SignIns:
    """All sign-ins of one product.

    Args:
        store: where they are kept.
        driver: gives the driver of a provider's instance.
        save: keeps a credential, for the flow's caller and instance, and gives its key.
        now: the time, with its zone.
    """

    def __init__(
        self,
        store: FlowStore,
        *,
        driver: Callable[[str], Driver],
        save: Callable[[Flow, Record], Awaitable[str]],
        now: Callable[[], datetime] = machine_time,
    ) -> None:
        self._store = store
        self._driver = driver
        self._save = save
        self._now = now

    async def start(
        self, caller: Caller, instance: str, method: str, *, redirect_uri: str = "", params: Mapping[str, str] | None = None
    ) -> View:
        """Begin a sign-in; its view says where the owner goes.

        Raises:
            InvalidStart: the caller, the instance or the method cannot be.
            InvalidAnswer: the driver's answer lacks what the method needs.
            Exception: what the driver raises.
        """
        if caller.kind not in _KINDS or not (caller.id.strip() or caller.kind == "anonymous"):
            raise InvalidStart("a sign-in needs a caller with an id and a known kind")
        if not instance.strip():
            raise InvalidStart("a sign-in needs a provider")
        if method not in _METHODS:
            raise InvalidStart("a sign-in is of the method `browser`, `device` or `manual`")
        given = dict(params or {})
        begun = await self._driver(instance).start(OAuthStartRequest(method=method, redirect_uri=redirect_uri, params=given))
        kept = replace(begun.secrets, redirect_uri=begun.secrets.redirect_uri or redirect_uri, params=given)
        if missing := lacking(method, begun, kept.redirect_uri):
            raise InvalidAnswer(f"the provider's answer lacks the {' and the '.join(missing)}")
        now = self._now()
        interval = begun.interval if begun.interval > timedelta() else _INTERVAL
        flow = Flow(
            id=secrets.token_urlsafe(32),
            caller=caller,
            instance=instance,
            method=method,
            created_at=now,
            expires_at=now + (begun.expires_in if begun.expires_in > timedelta() else _LIFE),
            authorization_url=begun.authorization_url,
            user_code=begun.user_code,
            verification_uri=begun.verification_uri,
            verification_uri_complete=begun.verification_uri_complete,
            progress=Progress(interval=interval, next_poll_at=now + interval),
            secrets=kept,
        )
        return View.of(await self._store.add(flow), now)

    async def view(self, caller: Caller, flow_id: str) -> View:
        """How it stands; nobody is asked. One that is used up can be looked at until it expires.

        Raises:
            FlowNotFound: there is none of this caller.
        """
        flow, now = await self._store.load(caller, flow_id), self._now()
        if flow.consumed_at is not None and is_expired(flow, now):
            raise FlowNotFound
        return View.of(flow, now)

    async def poll(self, caller: Caller, flow_id: str) -> View:
        """Ask the provider of a device flow once.

        Raises:
            FlowNotFound: unknown, somebody else's, or used up.
            FlowExpired: too late.
            SlowDown: too soon; the provider was not asked.
            AccessDenied: the owner said no.
            InvalidAnswer: nobody knows that status; the flow goes on.
            Exception: what the driver raises; the flow goes on. What `save` raises; the flow has failed.
        """
        flow = await self._open(caller, flow_id)
        now = self._now()
        due = flow.progress.next_poll_at
        if flow.method != "device":
            raise FlowNotFound
        if due is not None and now < due:
            raise SlowDown("this sign-in was asked about a moment ago")
        driver = self._driver(flow.instance)
        try:
            flow = await self._store.replace(flow.revision, _next(flow, now, flow.progress.interval))
        except FlowConflict:
            raise SlowDown("this sign-in is being asked about") from None
        result = await driver.poll(flow)
        match result.status:
            case "pending":
                return View.of(flow, self._now())
            case "slow_down":
                slower = _next(flow, self._now(), flow.progress.interval + _SLOWER)
                with suppress(FlowConflict):
                    slower = await self._store.replace(flow.revision, slower)
                return View.of(slower, self._now())
            case "approved":
                return await self._approve(await self._consume(flow), flow, lambda: _given(result.record))
            case "denied":
                await self._end(await self._consume(flow), "failed")
                raise AccessDenied("the sign-in was refused")
            case "expired":
                await self._end(await self._consume(flow), "expired")
                raise FlowExpired("the sign-in has expired")
            case _:
                raise InvalidAnswer("the provider said something unknown about the sign-in")

    async def complete(self, caller: Caller, flow_id: str, pasted: str) -> View:
        """Go on with what the owner pasted: a code, or the whole address that the provider sent the browser to.

        Raises:
            FlowNotFound: unknown, somebody else's, or used up.
            FlowExpired: too late.
            CodeRequired: there is neither a code nor an error in it; the flow goes on.
            StateMismatch: it belongs to another sign-in; the flow goes on.
            AccessDenied: it holds the provider's refusal.
            Exception: what the driver's exchange or `save` raises; the flow has failed.
        """
        flow = await self._open(caller, flow_id)
        if flow.method == "device":
            raise FlowNotFound
        return await self._exchange(flow, Answer.pasted(pasted))

    async def callback(self, answer: Answer, redirect_uri: str, *, caller: Caller | None = None) -> View:
        """Go on with what a browser's redirect to `redirect_uri` brought; the state says to which flow.

        Args:
            answer: the redirect's parameters.
            redirect_uri: where it came in, as it was asked for.
            caller: who the browser is signed in as, where the product knows.

        Raises:
            Exception: as `complete`.
        """
        flow = await self._store.find(state_hash((answer.state or "").strip()))
        if flow.method != "browser" or flow.secrets.redirect_uri != redirect_uri or caller not in {None, flow.caller}:
            raise FlowNotFound
        if is_expired(flow, self._now()):
            raise FlowExpired("the sign-in has expired") if caller is not None else FlowNotFound
        return await self._exchange(flow, answer)

    async def _open(self, caller: Caller, flow_id: str) -> Flow:
        flow = await self._store.load(caller, flow_id)
        if flow.consumed_at is not None:
            raise FlowNotFound
        if is_expired(flow, self._now()):
            raise FlowExpired("the sign-in has expired")
        return flow

    async def _exchange(self, flow: Flow, answer: Answer) -> View:
        code, error = answer.code.strip(), answer.error.strip()
        if not code and not error:
            raise CodeRequired("there is neither a code nor an error in what was given")
        if answer.state is not None and not hmac.compare_digest(answer.state.strip().encode(), flow.secrets.state.encode()):
            raise StateMismatch("what was given belongs to another sign-in")
        driver = self._driver(flow.instance)
        consumed = await self._consume(flow)
        if error:
            await self._end(consumed, "failed")
            raise AccessDenied("the sign-in was refused")
        return await self._approve(consumed, flow, lambda: driver.exchange(flow, code))

    async def _approve(self, consumed: Flow, flow: Flow, record: Callable[[], Awaitable[Record]]) -> View:
        """Get the credential, keep it, and note the outcome, also that of an attempt that was cut off."""
        try:
            key = await self._save(replace(flow, secrets=Secrets()), await record())
        except BaseException:
            await self._end(consumed, "failed")
            raise
        return View.of(await self._end(consumed, "complete", key), self._now())

    async def _consume(self, flow: Flow) -> Flow:
        """Use the flow up: who does it first is the only one."""
        while flow.consumed_at is None:
            try:
                return await self._store.replace(flow.revision, replace(flow, consumed_at=self._now(), secrets=Secrets()))
            except FlowConflict:  # another poll moved its times, or it is used up
                flow = await self._store.load(flow.caller, flow.id)
        raise FlowNotFound

    async def _end(self, consumed: Flow, outcome: Status, key: str = "") -> Flow:
        progress = replace(consumed.progress, outcome=outcome, credential_key=key)
        ended = replace(consumed, progress=progress)
        try:
            return await self._store.replace(consumed.revision, ended)
        except FlowConflict:  # younger flows of the same caller took its place
            return ended


async def _given(record: Record) -> Record:
    return record


def _next(flow: Flow, now: datetime, interval: timedelta) -> Flow:
    return replace(flow, progress=replace(flow.progress, interval=interval, next_poll_at=now + interval))
