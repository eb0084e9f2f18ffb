"""People sign in to providers that stand behind extension daemons: the SDK's flows (daemon contract, G), for accounts and their users.

A sign-in belongs to whose calls it is for. Whoever may act for that owner may go on with it, and to everybody else it is not there.
"""

from collections.abc import Awaitable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Protocol, get_args
from urllib.parse import urlsplit

from trunkline.access.flows import Flows, caller_of, owner_of
from trunkline.base.clock import Clock
from trunkline.base.codec import nearest
from trunkline.base.log import Logger
from trunkline.base.secret import Secret
from trunkline.errors import (
    BadRequest,
    LimitReached,
    NotFound,
    TrunklineError,
    UpstreamBusy,
    UpstreamDown,
    UpstreamGarbled,
    UpstreamRefused,
)
from trunkline.model.caller import Caller
from trunkline.model.credential import Owner
from trunkline.providers import Provider, Served
from trunkline.providers.daemon import secret_refused
from trunkline_sdk.daemon import oauthflow
from trunkline_sdk.daemon.errors import CallFailed, DaemonError, StepRefused
from trunkline_sdk.daemon.messages import Authorization, Flow, OAuthStartRequest, PollResult, Record
from trunkline_sdk.daemon.oauthflow import Driver, View

Method = Literal["device", "browser", "manual"]
Status = Literal["pending", "complete", "failed", "expired"]

METHODS: tuple[Method, ...] = get_args(Method)
PREFERRED: tuple[Method, ...] = ("device", "manual", "browser")
"""What is taken where nobody says how."""

PREFIX = "sgn_"

AGAIN = "Start a new sign-in."


class Daemons(Protocol):
    """Who knows the providers behind the daemons."""

    @property
    def providers(self) -> Mapping[str, Provider]:
        """Those that are there now, by their names: `DAEMON/ID`."""
        ...

    def driver(self, name: str) -> Driver:
        """The steps of a sign-in to one of them."""
        ...


class Keep(Protocol):
    """Keeps what came of a sign-in."""

    def __call__(self, owner: Owner, provider: str, record: Record, /) -> Awaitable[str]:
        """The id of the connection."""
        ...


@dataclass(frozen=True, slots=True)
class Joinable:
    """A provider that people connect themselves, by signing in or with a token that they paste.

    Attributes:
        id: its name, `DAEMON/ID`.
        served: what its daemon says of it.
    """

    id: str
    served: Served


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """A sign-in as its owner sees it; where the owner goes with it is there while it is pending.

    Attributes:
        id: `sgn_` and 43 letters.
        interval: seconds between two polls.
        expires_at: seconds since the Unix epoch.
        connection: the id of what came of it, once it is complete.
    """

    id: str
    provider: str
    method: Method
    status: Status
    account: str | None
    user: str | None
    authorization_url: str | None
    user_code: str | None
    verification_uri: str | None
    verification_uri_complete: str | None
    interval: int
    expires_at: float
    connection: str | None

    @property
    def owner(self) -> Owner:
        """Whose calls it is for."""
        return Owner(self.account or "", self.user or "")


def joinable(daemons: Daemons) -> dict[str, Joinable]:
    """The providers that can be connected, in the order of their names."""
    found = {name: each.served for name, each in sorted(daemons.providers.items()) if each.served is not None}
    return {name: Joinable(name, served) for name, served in found.items() if served.credential != "none"}


def find(daemons: Daemons, wanted: str) -> Joinable:
    """One of them, by its name or, where one daemon alone has it, by its id there.

    Raises:
        NotFound: there is none; the hint has the nearest.
        BadRequest: several daemons have it, or it needs no credential.
    """
    known = joinable(daemons)
    if wanted in known:
        return known[wanted]
    match [each for each in known.values() if each.served.id == wanted]:
        case [only]:
            return only
        case [_, *_] as several:
            names = ", ".join(each.id for each in several)
            raise BadRequest(f"several daemons have a provider `{wanted}`", hint=f"Say which one: {names}.")
        case _ if wanted in daemons.providers:
            raise BadRequest(f"the provider `{wanted}` needs no credential", hint="It can be called as it is.")
        case _:
            close = nearest(wanted, list(known))
            raise NotFound(
                f"no extension daemon has a provider `{wanted}`",
                hint=f"Did you mean `{close}`?" if close else f"There are {', '.join(known) or 'none'} now; is its daemon running?",
            )


class SignIns:
    """The sign-ins of an installation. Raises `StoreUnavailable` and `VaultUnavailable` beside what is said.

    Args:
        flows: where they are kept.
        daemons: who knows the providers.
        keep: keeps what came of one.
        clock: the time.
        log: told who connected what, and who was refused.
    """

    def __init__(
        self,
        *,
        flows: Flows,
        daemons: Daemons,
        keep: Keep,
        clock: Clock,
        log: Logger,
    ) -> None:
        self._flows = flows
        self._daemons = daemons
        self._keep = keep
        self._clock = clock
        self._log = log
        self._oauth = oauthflow.SignIns(flows, driver=lambda name: _Careful(daemons.driver(name)), save=self._save, now=self._now)

    def providers(self, after: str | None, limit: int) -> Sequence[Joinable]:
        """The providers that can be connected, by name, behind one of them."""
        return [each for each in joinable(self._daemons).values() if each.id > (after or "")][:limit]

    async def start(
        self,
        owner: Owner,
        provider: str,
        *,
        by: Caller,
        method: Method | None = None,
        redirect_uri: str = "",
        params: Mapping[str, str] | None = None,
    ) -> SignIn:
        """Begin one.

        Args:
            owner: whose calls it is for.
            provider: its name, or its id.
            by: who does it.
            method: how; by default as the provider can.
            redirect_uri: where the provider sends the browser.
            params: what the provider wants to know besides.

        Raises:
            NotFound: there is no such provider, account or user.
            BadRequest: one does not sign in to it, or not like this.
            DaemonRefused, UpstreamError: the daemon or the provider does not begin.
        """
        found = find(self._daemons, provider)
        method = _method(found, method)
        _check_redirect(method, redirect_uri)
        await self._flows.check_owner(owner)
        with self._told(by, owner, found.id, method):
            view = await self._oauth.start(caller_of(owner), found.id, method, redirect_uri=redirect_uri, params=params)
        return _shown(view, owner)

    async def get(self, wanted: str) -> SignIn:
        """How one stands, whosesoever it is. Raises: `NotFound`."""
        try:
            flow = await self._flows.get(_flow_id(wanted))
            return _shown(await self._oauth.view(flow.caller, flow.id), owner_of(flow.caller))
        except oauthflow.FlowNotFound:
            raise _unknown(wanted) from None

    async def poll(self, sign_in: SignIn, *, by: Caller) -> SignIn:
        """Ask the provider once how a `device` sign-in stands, unless it is over.

        Raises:
            NotFound: it is no such sign-in.
            LimitReached: it is too soon, and nobody was asked.
            DaemonRefused, UpstreamError: for the moment nobody knows.
        """
        if sign_in.status != "pending":
            return sign_in
        with self._ended(), self._told(by, sign_in.owner, sign_in.provider, sign_in.method, sign_in):
            view = await self._oauth.poll(caller_of(sign_in.owner), _flow_id(sign_in.id))
            return self._noted(_shown(view, sign_in.owner), by)
        return await self.get(sign_in.id)

    async def complete(self, sign_in: SignIn, pasted: Secret, *, by: Caller) -> SignIn:
        """Go on with what the provider gave: a code, or the address to which it sent the browser.

        Raises:
            NotFound: it is used up, or it is no such sign-in.
            BadRequest: there is no code in it, or it is of another sign-in; this one is still pending.
            DaemonRefused, UpstreamError: the code was of no use, and the sign-in has failed.
        """
        with self._ended(), self._told(by, sign_in.owner, sign_in.provider, sign_in.method, sign_in):
            view = await self._oauth.complete(caller_of(sign_in.owner), _flow_id(sign_in.id), pasted.reveal())
            return self._noted(_shown(view, sign_in.owner), by)
        return await self.get(sign_in.id)

    # ------------------------------------------------------------------------------------------------------- told
    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)

    async def _save(self, flow: Flow, record: Record) -> str:
        if not record.access_token.strip():
            raise oauthflow.InvalidAnswer("the provider approved, and gave no token")
        return await self._keep(owner_of(flow.caller), flow.instance, record)

    def _noted(self, sign_in: SignIn, by: Caller) -> SignIn:
        if sign_in.status == "complete":
            note(self._log, "connected", by, sign_in.owner, sign_in.provider, method=sign_in.method, connection=sign_in.connection)
        return sign_in

    @contextmanager
    def _ended(self) -> Generator[None]:
        """What says only that it is over is no error: the sign-in says so itself."""
        with suppress(oauthflow.AccessDenied, oauthflow.FlowExpired):
            yield

    @contextmanager
    def _told(self, by: Caller, owner: Owner, provider: str, method: str, sign_in: SignIn | None = None) -> Generator[None]:
        """Errors in our own words, and a line in the log for each that ends a sign-in."""
        try:
            yield
        except (oauthflow.AccessDenied, oauthflow.FlowExpired) as error:
            note(self._log, "refused", by, owner, provider, method=method, why=str(error))
            raise
        except (oauthflow.FlowError, DaemonError) as error:
            told = _in_our_words(error, provider, sign_in)
            if not isinstance(told, LimitReached):
                note(self._log, "refused", by, owner, provider, method=method, why=told.code)
            raise told from None


class _Careful:
    """A driver whose daemon learns nothing of the caller, and can send a person only to addresses of the web."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def start(self, request: OAuthStartRequest) -> Authorization:
        """Begin. Raises: `InvalidAnswer`."""
        begun = await self._driver.start(request)
        for url in (begun.authorization_url, begun.verification_uri, begun.verification_uri_complete):
            if url and not _is_web(url):
                raise oauthflow.InvalidAnswer("the provider's answer has an address that is none of the web")
        return begun

    async def poll(self, flow: Flow) -> PollResult:
        """Ask once."""
        return await self._driver.poll(_bare(flow))

    async def exchange(self, flow: Flow, code: str) -> Record:
        """Exchange a code."""
        return await self._driver.exchange(_bare(flow), code)


def note(log: Logger, what: str, by: Caller, owner: Owner, provider: str, **facts: str | None) -> None:
    """One line of the log for an audit: who did what to whose connection. Never a secret."""
    log.info(
        what,
        provider=provider,
        account=owner.account or None,
        user=owner.user or None,
        by=by.id,
        by_account=by.account,
        by_user=by.user,
        **facts,
    )


def _bare(flow: Flow) -> Flow:
    """What a daemon needs of a flow, and no more (daemon contract, G1)."""
    return Flow(method=flow.method, secrets=flow.secrets)


def _method(provider: Joinable, wanted: Method | None) -> Method:
    served = provider.served
    if served.credential == "token":
        raise BadRequest(f"one does not sign in to `{provider.id}`", hint="Its credential is pasted: `trunkline connect` asks for it.")
    offered: list[Method] = [method for method in PREFERRED if served.methods.count(method)]
    if wanted is None:
        return offered[0] if offered else "device"
    if not offered or any(method == wanted for method in offered):
        return wanted
    raise BadRequest(f"`{provider.id}` has no sign-in by `{wanted}`", hint=f"It has {', '.join(offered)}.")


def _check_redirect(method: Method, uri: str) -> None:
    """The provider's answer holds a code, so that it goes to this machine, or over TLS (RFC 8252, section 7.3)."""
    if not uri:
        if method == "browser":
            raise BadRequest("`redirect_uri` is missing", hint="A sign-in by `browser` needs the address where its answer is waited for.")
        return
    try:
        parts = urlsplit(uri)
        fine = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in {"127.0.0.1", "::1", "localhost"})
        fine = fine and bool(parts.hostname) and not parts.fragment and "@" not in parts.netloc and uri.isascii() and uri.isprintable()
    except ValueError:
        fine = False
    if not fine:
        raise BadRequest("`redirect_uri` is no place for a code", hint="It is http on 127.0.0.1, [::1] or localhost, or https.")


def _is_web(url: str) -> bool:
    return url.isprintable() and " " not in url and url.lower().startswith(("https://", "http://"))


def _flow_id(wanted: str) -> str:
    """The flow's own id. Raises: `NotFound`."""
    if not wanted.startswith(PREFIX):
        raise _unknown(wanted)
    return wanted.removeprefix(PREFIX)


def _unknown(wanted: str) -> NotFound:
    return NotFound(f"there is no sign-in `{wanted}`")  # to the word what is said of somebody else's


def _shown(view: View, owner: Owner) -> SignIn:
    pending = view.status == "pending"
    return SignIn(
        id=PREFIX + view.id,
        provider=view.instance,
        method=next(each for each in METHODS if each == view.method),
        status=view.status,
        account=owner.account or None,
        user=owner.user or None,
        authorization_url=(pending and view.authorization_url) or None,
        user_code=(pending and view.user_code) or None,
        verification_uri=(pending and view.verification_uri) or None,
        verification_uri_complete=(pending and view.verification_uri_complete) or None,
        interval=view.interval,
        expires_at=view.expires_at.timestamp() if view.expires_at else 0.0,
        connection=view.credential_key or None,
    )


def _in_our_words(  # noqa: PLR0911 - one match over what can happen is its table
    error: oauthflow.FlowError | DaemonError, provider: str, sign_in: SignIn | None
) -> TrunklineError:
    match error:
        case oauthflow.FlowNotFound():
            return _unknown(sign_in.id if sign_in else "")
        case oauthflow.SlowDown():
            return LimitReached(
                "this sign-in was asked about a moment ago", hint="Ask again then.", retry_after=sign_in and sign_in.interval
            )
        case oauthflow.CodeRequired():
            return BadRequest("`pasted` holds no code", hint="Paste the code, or the whole address to which the provider sent the browser.")
        case oauthflow.StateMismatch():
            return BadRequest("`pasted` is the answer to another sign-in", hint="This one is still open: paste its own answer.")
        case StepRefused(status=401) | CallFailed(kind="configuration" | "auth"):
            return secret_refused(provider)
        case StepRefused(status=429):
            return UpstreamBusy(str(error), hint="Try again in a moment.")
        case StepRefused(status=status) if 400 <= status < 500 or 200 <= status < 300:
            return UpstreamRefused(str(error), hint=AGAIN)
        case StepRefused() | CallFailed(kind="transport"):
            return UpstreamDown(str(error), hint="Try again in a moment; is the daemon running?")
        case _:
            return UpstreamGarbled(str(error), hint=AGAIN)
