"""`/connections`: what people have connected to providers behind extension daemons: sign-ins, and tokens that they paste. Tokens are never told."""

from typing import Annotated, Any, Literal

from trunkline.access.connecting import LONGEST_LABEL, LONGEST_TOKEN, Connecting, ConnectionRow, Pasting
from trunkline.base.codec import Meta, Record
from trunkline.base.secret import SHORTEST, Secret
from trunkline.errors import Conflict, NotFound, PreconditionFailed, VaultUnavailable
from trunkline.server.admin import Ask, Nothing, Paging, Resource, Route, Rows

ProviderName = Annotated[
    str, Meta(min_length=1, max_length=300, description="Its name: `DAEMON/ID`, or `ID` where one daemon alone has it.")
]


class Listing(Paging, frozen=True):
    """Which connections."""

    provider: Annotated[str, Meta(min_length=1, description="Only those to this provider, `DAEMON/ID`.")] | None = None


class ConnectionShown(Record, frozen=True):
    """A connection, without its tokens. Times are seconds since the Unix epoch."""

    id: str
    provider: Annotated[str, Meta(description="`DAEMON/ID`.")]
    account: Annotated[str | None, Meta(description="Whose calls it is for; null for everybody's.")]
    user: Annotated[str | None, Meta(description="The user of that account whose calls alone it is for.")]
    token_type: str
    label: Annotated[str, Meta(description="Whose it is at the provider, for people; may be empty.")]
    expires_at: Annotated[float | None, Meta(description="When its token has to be renewed; null where it does not expire.")]
    refreshable: Annotated[bool, Meta(description="Whether that happens without a person.")]
    state: Annotated[
        Literal["active", "revoked"], Meta(description="`revoked`: the provider refuses it, and somebody has to sign in anew.")
    ]
    created_at: float
    updated_at: float
    revision: int


class NewConnection(Record, frozen=True):
    """A token that a person got from a provider elsewhere."""

    provider: ProviderName
    token: Annotated[
        Secret,
        Meta(
            description="What is sent to the provider: one line, or a JSON document. It is never told again.",
            extra_json_schema={"minLength": SHORTEST, "maxLength": LONGEST_TOKEN},
        ),
    ]
    token_type: Annotated[
        str, Meta(min_length=1, max_length=100, description="What the provider calls such a token.", examples=["gcp_service_account"])
    ] = "api_key"  # noqa: S105 - the name of a kind
    account_id: Annotated[str, Meta(max_length=200, description="Whose it is at the provider, where it wants to know.")] = ""
    label: Annotated[str, Meta(max_length=LONGEST_LABEL, description="What people call it.")] = ""
    metadata: Annotated[dict[str, Secret], Meta(max_length=50, description="What the provider wants to know besides.")] = {}
    account: Annotated[str, Meta(min_length=1, description="Whose calls it is for.")] | None = None
    user: (
        Annotated[str, Meta(min_length=1, description="The user whose calls alone it is for, of that account or else of the caller's.")]
        | None
    ) = None


def every(connections: Connecting, ask: Ask[Listing, None]) -> Rows[ConnectionShown]:
    """A page of connections, the oldest first."""
    wanted = ask.query.provider
    return ask.page(
        lambda after, limit: connections.list(account=ask.account, user=ask.user, provider=wanted, after=after, limit=limit), shown
    )


async def create(connections: Connecting, ask: Ask[Nothing, NewConnection]) -> ConnectionShown:
    """Keep a token, in the place of what the owner had for that provider. Raises: `NotFound`, `BadRequest`."""
    body = ask.body
    pasting = Pasting(
        provider=body.provider,
        token=body.token,
        token_type=body.token_type,
        account_id=body.account_id,
        label=body.label,
        metadata={name: value.reveal() for name, value in body.metadata.items()},
    )
    return shown(await connections.paste(ask.owner(body.account, body.user), pasting, by=ask.caller))


def one(connections: Connecting, ask: Ask[Nothing, None]) -> ConnectionShown:
    """One connection. Raises: `NotFound`."""
    return shown(_mine(connections, ask))


def delete(connections: Connecting, ask: Ask[Nothing, None]) -> None:
    """Disconnect: its tokens are gone. Raises: `NotFound`, `PreconditionFailed`."""
    connections.delete(_mine(connections, ask).id, revision=ask.revision, by=ask.caller)


def recover(connections: Connecting, ask: Ask[Nothing, None]) -> ConnectionShown:
    """Use one again that a provider had refused by mistake. Raises: `NotFound`, `Conflict`."""
    return shown(connections.recover(_mine(connections, ask).id, by=ask.caller))


def shown(row: ConnectionRow) -> ConnectionShown:
    """A row as it is told."""
    return ConnectionShown(
        id=row.id,
        provider=row.provider,
        account=row.account,
        user=row.user,
        token_type=row.token_type,
        label=row.label,
        expires_at=row.expires_at,
        refreshable=row.refreshable,
        state=row.state,
        created_at=row.created_at,
        updated_at=row.updated_at,
        revision=row.revision,
    )


def _mine(connections: Connecting, ask: Ask[Any, Any]) -> ConnectionRow:
    return ask.found(connections.get, "connection")


RESOURCE = Resource(
    title="Connections",
    path="/connections",
    service=Connecting,
    columns=("id", "provider", "account", "user", "label", "state"),
    about="What people have connected to providers behind extension daemons: by signing in, or with a token that they paste. There is one of "
    "an owner for a provider. A call goes out with its user's own, else its account's, else the installation's. Tokens are kept encrypted, "
    "renewed when they expire, and never told.",
    routes=(
        Route("GET", "", scope="account", own=True, summary="List connections.", do=every, query=Listing, answer=Rows[ConnectionShown]),
        Route(
            "POST", "", scope="account", own=True, summary="Connect with a token that was got elsewhere.", do=create, body=NewConnection,
            answer=ConnectionShown, errors=(NotFound, VaultUnavailable), runs="loop",
            details="It takes the place of what the same owner had for that provider. Without `account` and `user` it is for the user whose "
            "own key asks; by an account's administrator for the account, and by an operator for everybody.",
        ),
        Route("GET", "/{id}", scope="account", own=True, summary="Read what may be known of a connection.", do=one, answer=ConnectionShown, errors=(NotFound,)),
        Route("DELETE", "/{id}", scope="account", own=True, summary="Disconnect.", do=delete, errors=(NotFound, PreconditionFailed)),
        Route(
            "POST", "/{id}/recover", scope="account", own=True, summary="Use a revoked connection again.", do=recover, answer=ConnectionShown,
            status=200, errors=(NotFound, Conflict, VaultUnavailable),
            details="For a day after the provider refused it, should that have been a mistake.",
        ),
    ),
)  # fmt: skip
