"""`/sign-ins`: people sign in to providers behind extension daemons, step by step (daemon contract, G). A sign-in is told without its secrets."""

from typing import Annotated, Any

from trunkline.access.sign_ins import METHODS, Joinable, Method, SignIn, SignIns, Status
from trunkline.base.codec import Meta, Record
from trunkline.base.secret import Secret
from trunkline.errors import (
    DaemonRefused,
    NotFound,
    UpstreamBusy,
    UpstreamDown,
    UpstreamGarbled,
    UpstreamRefused,
    VaultUnavailable,
)
from trunkline.server.admin import Ask, Nothing, Paging, Resource, Route, Rows

ProviderName = Annotated[
    str, Meta(min_length=1, max_length=300, description="Its name: `DAEMON/ID`, or `ID` where one daemon alone has it.")
]
ForAccount = Annotated[
    str, Meta(min_length=1, description="Whose calls it is for; null for the caller's own, or an operator's: everybody's.")
]
ForUser = Annotated[
    str,
    Meta(
        min_length=1,
        description="The user whose calls alone it is for, of that account or else of the caller's; a person's own key: itself.",
    ),
]


class SignInShown(Record, frozen=True):
    """A sign-in. Times are seconds since the Unix epoch."""

    id: str
    provider: str
    method: Annotated[Method, Meta(description="`device`: a code is typed at an address; `browser` and `manual`: an address is visited.")]
    status: Annotated[Status, Meta(description="Only one that is `pending` goes on.")]
    account: Annotated[str | None, Meta(description="Whose calls it is for; null for everybody's.")]
    user: Annotated[str | None, Meta(description="The user of that account whose calls alone it is for.")]
    authorization_url: Annotated[str | None, Meta(description="Where to sign in, for `browser` and `manual`, while it is pending.")]
    user_code: Annotated[str | None, Meta(description="What is typed at `verification_uri`, for `device`, while it is pending.")]
    verification_uri: str | None
    verification_uri_complete: Annotated[str | None, Meta(description="The same with the code in it, where the provider has that.")]
    interval: Annotated[int, Meta(description="Seconds between two polls, at least.")]
    expires_at: float
    connection: Annotated[str | None, Meta(description="The id of what came of it, once it is `complete`.")]


class JoinableShown(Record, frozen=True):
    """A provider that people connect themselves."""

    id: Annotated[str, Meta(description="The provider's name: `DAEMON/ID`.")]
    title: str
    credential: Annotated[str, Meta(description="`oauth`: one signs in; `token`: one is pasted; empty where its daemon does not say.")]
    methods: Annotated[list[str], Meta(description=f"How one signs in: of {', '.join(METHODS)}.")]
    refreshable: Annotated[bool, Meta(description="Whether a sign-in is renewed without a person.")]


class NewSignIn(Record, frozen=True):
    """A sign-in to begin."""

    provider: ProviderName
    method: Annotated[Method, Meta(description="By default `device`, where the provider has it, else `manual`, else `browser`.")] | None = (
        None
    )
    redirect_uri: (
        Annotated[
            str,
            Meta(
                min_length=1, max_length=2000, description="Where the provider sends the browser: on this machine, or https. For `browser`."
            ),
        ]
        | None
    ) = None
    account: ForAccount | None = None
    user: ForUser | None = None
    params: Annotated[dict[str, Secret], Meta(max_length=50, description="What the provider wants to know besides.")] = {}


class Pasted(Record, frozen=True):
    """What the provider gave the person."""

    pasted: Annotated[Secret, Meta(description="The code, or the whole address to which the provider sent the browser.")]


def joinable(sign_ins: SignIns, ask: Ask[Paging, None]) -> Rows[JoinableShown]:
    """A page of the providers that can be connected, by name."""
    return ask.page(sign_ins.providers, _joinable)


async def start(sign_ins: SignIns, ask: Ask[Nothing, NewSignIn]) -> SignInShown:
    """Begin one. Raises: `NotFound`, `BadRequest`, what the daemon's refusal is."""
    body = ask.body
    return shown(
        await sign_ins.start(
            ask.owner(body.account, body.user),
            body.provider,
            by=ask.caller,
            method=body.method,
            redirect_uri=body.redirect_uri or "",
            params={name: value.reveal() for name, value in body.params.items()},
        )
    )


async def one(sign_ins: SignIns, ask: Ask[Nothing, None]) -> SignInShown:
    """How one stands. Raises: `NotFound`."""
    return shown(await _mine(sign_ins, ask))


async def poll(sign_ins: SignIns, ask: Ask[Nothing, None]) -> SignInShown:
    """Ask the provider once how a `device` sign-in stands. Raises: `NotFound`, `LimitReached`."""
    return shown(await sign_ins.poll(await _mine(sign_ins, ask), by=ask.caller))


async def complete(sign_ins: SignIns, ask: Ask[Nothing, Pasted]) -> SignInShown:
    """Go on with a code. Raises: `NotFound`, `BadRequest`."""
    return shown(await sign_ins.complete(await _mine(sign_ins, ask), ask.body.pasted, by=ask.caller))


def shown(sign_in: SignIn) -> SignInShown:
    """A sign-in as it is told."""
    return SignInShown(
        id=sign_in.id,
        provider=sign_in.provider,
        method=sign_in.method,
        status=sign_in.status,
        account=sign_in.account,
        user=sign_in.user,
        authorization_url=sign_in.authorization_url,
        user_code=sign_in.user_code,
        verification_uri=sign_in.verification_uri,
        verification_uri_complete=sign_in.verification_uri_complete,
        interval=sign_in.interval,
        expires_at=sign_in.expires_at,
        connection=sign_in.connection,
    )


def _joinable(provider: Joinable) -> JoinableShown:
    served = provider.served
    return JoinableShown(
        id=provider.id, title=served.title, credential=served.credential, methods=list(served.methods), refreshable=served.refreshable
    )


async def _mine(sign_ins: SignIns, ask: Ask[Any, Any]) -> SignIn:
    return ask.mine(await sign_ins.get(ask.path["id"]), "sign-in")


TROUBLE = (DaemonRefused, UpstreamBusy, UpstreamDown, UpstreamGarbled, UpstreamRefused, VaultUnavailable)

RESOURCE = Resource(
    title="Sign-ins",
    path="/sign-ins",
    service=SignIns,
    columns=("id", "title", "credential", "methods"),
    about="How people sign in to providers behind extension daemons. One is begun; then, by `device`, it is polled until the person has typed "
    "the code, or, by `browser` and `manual`, completed with what the provider gave. What comes of it is a connection.",
    routes=(
        Route(
            "GET", "/providers", scope="account", own=True, summary="List the providers that can be connected.", do=joinable, query=Paging,
            answer=Rows[JoinableShown], runs="loop",
        ),
        Route(
            "POST", "", scope="account", own=True, summary="Begin a sign-in.", do=start, body=NewSignIn, answer=SignInShown,
            errors=(NotFound, *TROUBLE), runs="loop", name="start",
            details="Without `account` and `user` it is for the user whose own key asks; by an account's administrator for the account, and by "
            "an operator for everybody.",
        ),
        Route("GET", "/{id}", scope="account", own=True, summary="Read how a sign-in stands.", do=one, answer=SignInShown, errors=(NotFound, VaultUnavailable), runs="loop"),
        Route(
            "POST", "/{id}/poll", scope="account", own=True, summary="Ask the provider once how a sign-in by `device` stands.", do=poll,
            answer=SignInShown, status=200, errors=TROUBLE, runs="loop",
            details="429 says that it is too soon, and for how long. A refusal is the status `failed`, and one that took too long is `expired`.",
        ),
        Route(
            "POST", "/{id}/complete", scope="account", own=True, summary="Go on with what the provider gave.", do=complete, body=Pasted,
            answer=SignInShown, status=200, errors=TROUBLE, runs="loop",
            details="A code is tried once. What has no code in it, or is of another sign-in, is 400, and leaves the sign-in as it was.",
        ),
    ),
)  # fmt: skip
