"""`/credentials`: what providers are called with. They are written, and never read back."""

from typing import Annotated, Any

from trunkline.access.credentials import HEAVIEST, LONGEST_NAME, LONGEST_SECRET, CredentialRow, Credentials
from trunkline.base.codec import UNSET, Meta, Record, UnsetType
from trunkline.base.secret import SHORTEST, Secret
from trunkline.errors import Conflict, NotFound, PreconditionFailed, VaultUnavailable
from trunkline.server.admin import Ask, Nothing, Paging, Resource, Route, Rows

Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, description="What people call it.")]
Weight = Annotated[int, Meta(ge=1, le=HEAVIEST, description="Its share among those of the same owner.")]
Written = Annotated[
    Secret,
    Meta(
        description="What is sent to the provider: a line of ASCII. It is never told again.",
        extra_json_schema={"minLength": SHORTEST, "maxLength": LONGEST_SECRET},
    ),
]


class Listing(Paging, frozen=True):
    """Which credentials."""

    provider: Annotated[str, Meta(min_length=1, description="Only those for this provider.")] | None = None


class CredentialShown(Record, frozen=True):
    """A stored credential, without what is secret of it. Times are seconds since the Unix epoch."""

    id: str
    provider: Annotated[str, Meta(description="Its name in the configuration.")]
    name: str
    weight: int
    account: Annotated[str | None, Meta(description="Whose calls it is for; null for everybody's.")]
    user: Annotated[str | None, Meta(description="The user of that account whose calls it is for; null for all of them.")]
    enabled: bool
    hint: Annotated[str, Meta(description="The last four characters of a secret of at least twenty; else empty.")]
    created_at: float
    updated_at: float
    revision: int


class NewCredential(Record, frozen=True):
    """A credential to keep."""

    provider: Annotated[str, Meta(min_length=1, description="The name of a configured provider.")]
    secret: Written
    name: Name = "default"
    weight: Weight = 1
    account: Annotated[str, Meta(min_length=1, description="Whose calls it is for; null for everybody's.")] | None = None
    user: (
        Annotated[str, Meta(min_length=1, description="The user whose calls alone it is for, of that account or else of the caller's.")]
        | None
    ) = None
    enabled: bool = True


class CredentialChanges(Record, frozen=True):
    """What is to be another. Whose it is, and for which provider, stays."""

    secret: Written | UnsetType = UNSET
    name: Name | UnsetType = UNSET
    weight: Weight | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


def every(credentials: Credentials, ask: Ask[Listing, None]) -> Rows[CredentialShown]:
    """A page of credentials, the oldest first."""
    return ask.page(
        lambda after, limit: credentials.list(account=ask.account, provider=ask.query.provider, after=after, limit=limit), shown
    )


def create(credentials: Credentials, ask: Ask[Nothing, NewCredential]) -> CredentialShown:
    """Keep one: an administrator of an account for that account, the operator for any, or for all. Raises: `NotFound`, `Conflict`."""
    body = ask.body
    account = ask.within(body.account)
    return shown(
        credentials.create(
            provider=body.provider,
            secret=body.secret,
            name=body.name,
            weight=body.weight,
            account=ask.own_account if body.user and account is None else account,
            user=body.user,
            enabled=body.enabled,
        )
    )


def one(credentials: Credentials, ask: Ask[Nothing, None]) -> CredentialShown:
    """One credential. Raises: `NotFound`."""
    return shown(_mine(credentials, ask))


def change(credentials: Credentials, ask: Ask[Nothing, CredentialChanges]) -> CredentialShown:
    """Change one. Raises: `NotFound`, `Conflict`, `PreconditionFailed`."""
    return shown(credentials.change(_mine(credentials, ask).id, revision=ask.revision, **ask.changes))


def delete(credentials: Credentials, ask: Ask[Nothing, None]) -> None:
    """Remove one. Raises: `NotFound`, `PreconditionFailed`."""
    credentials.delete(_mine(credentials, ask).id, revision=ask.revision)


def shown(row: CredentialRow) -> CredentialShown:
    """A row as it is told."""
    return CredentialShown(
        id=row.id,
        provider=row.provider,
        name=row.name,
        weight=row.weight,
        account=row.account,
        user=row.user,
        enabled=row.enabled,
        hint=row.hint,
        created_at=row.created_at,
        updated_at=row.updated_at,
        revision=row.revision,
    )


def _mine(credentials: Credentials, ask: Ask[Any, Any]) -> CredentialRow:
    return ask.found(credentials.get, "credential")


RESOURCE = Resource(
    title="Credentials",
    path="/credentials",
    service=Credentials,
    columns=("id", "provider", "name", "weight", "account", "user", "enabled", "hint"),
    about="What providers are called with, encrypted. A call goes out with one of its user's own, else of its account's, else of the "
    "installation's; among several of one owner by weight, without those that a provider refuses or has asked to leave alone.",
    routes=(
        Route("GET", "", scope="account", summary="List credentials.", do=every, query=Listing, answer=Rows[CredentialShown]),
        Route(
            "POST", "", scope="account", summary="Keep a credential.", do=create, body=NewCredential, answer=CredentialShown,
            errors=(NotFound, Conflict, VaultUnavailable),
        ),
        Route("GET", "/{id}", scope="account", summary="Read what may be known of a credential.", do=one, answer=CredentialShown, errors=(NotFound,)),
        Route(
            "PATCH", "/{id}", scope="account", summary="Change a credential, or put another secret in its place.", do=change,
            body=CredentialChanges, answer=CredentialShown, errors=(NotFound, Conflict, PreconditionFailed, VaultUnavailable),
        ),
        Route("DELETE", "/{id}", scope="account", summary="Remove a credential.", do=delete, errors=(NotFound, PreconditionFailed)),
    ),
)  # fmt: skip
