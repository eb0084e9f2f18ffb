"""`/keys`: what callers come in with. A key itself is answered once, when it is made."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from trunkline.access.keys import GRACE_SECONDS, KeyRow, Keys
from trunkline.base.codec import UNSET, Meta, Record, UnsetType
from trunkline.errors import Conflict, NotFound, PreconditionFailed
from trunkline.server.admin import Ask, Nothing, Paging, Resource, Route, Rows

Name = Annotated[str, Meta(min_length=1, max_length=100, description="Who holds it, for people.", examples=["laptop"])]
Scopes = Annotated[
    list[Literal["inference", "metrics", "account", "admin"]], Meta(min_length=1, description="What it may do.", examples=[["inference"]])
]
Models = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=200)]],
    Meta(
        min_length=1,
        max_length=100,
        description="The models that it may call, `*` for any characters; null for all.",
        examples=[["openai/*"]],
    ),
]
EndUserMode = Annotated[
    Literal["key", "request"], Meta(description="For whom its calls are: whoever holds it, or whom each request names.")
]
Time = Annotated[float, Meta(ge=0, description="Seconds since the Unix epoch; null for ever.")]


class Key(Record, frozen=True):
    """A key without itself. Times are seconds since the Unix epoch."""

    id: str
    account: str
    user: Annotated[str | None, Meta(description="The id of the user who holds it.")]
    name: str
    prefix: Annotated[str, Meta(description="Its first eight characters.")]
    scopes: list[Literal["inference", "metrics", "account", "admin"]]
    models: list[str] | None
    end_users: EndUserMode
    created_at: float
    updated_at: float
    expires_at: float | None
    revoked_at: float | None
    last_used_at: Annotated[float | None, Meta(description="To the minute.")]
    replaced_by: Annotated[str | None, Meta(description="The id of the key that took its place.")]
    revision: int


class MadeKey(Key, frozen=True):
    """A new key, with itself: this once."""

    key: Annotated[str, Meta(description="Keep it now: it is not shown again.")]


class Rotated(MadeKey, frozen=True):
    """A new key in place of another."""

    replaces: Annotated[str, Meta(description="The id of the old one.")]
    until: Annotated[float, Meta(description="When the old one ends.")]


class NewKey(Record, frozen=True):
    """What a key begins with."""

    name: Name
    scopes: Scopes
    models: Models | None = None
    end_users: EndUserMode = "key"
    expires_at: Time | None = None
    user: Annotated[str | None, Meta(description="The id of the user who holds it; null for a program.")] = None
    account: Annotated[str | None, Meta(description="Its id; by default the asker's own.")] = None


class KeyChanges(Record, frozen=True):
    """What is to be different."""

    name: Name | UnsetType = UNSET
    scopes: Scopes | UnsetType = UNSET
    models: Models | UnsetType | None = UNSET
    end_users: EndUserMode | UnsetType = UNSET
    expires_at: Time | UnsetType | None = UNSET


class Rotation(Record, frozen=True):
    """How a key is replaced."""

    grace_seconds: Annotated[float, Meta(ge=0, le=31_536_000, description="How long the old one goes on working; 0 ends it now.")] = (
        GRACE_SECONDS
    )
    expires_at: Annotated[
        Time | UnsetType | None, Meta(description="When the new one expires; by default when the old one would have.")
    ] = UNSET


class Filter(Paging, frozen=True):
    """Which keys."""

    account: Annotated[str | None, Meta(description="Those of one account, by its id.")] = None


def every(keys: Keys, ask: Ask[Filter, None]) -> Rows[Key]:
    """A page of keys. Raises: `NotFound`."""
    account = ask.within(ask.query.account)
    return ask.page(lambda after, limit: keys.list(account=account, after=after, limit=limit, by=ask.caller), shown)


def one(keys: Keys, ask: Ask[Nothing, None]) -> Key:
    """One key. Raises: `NotFound`."""
    return shown(keys.get(ask.path["id"], by=ask.caller))


def create(keys: Keys, ask: Ask[Nothing, NewKey]) -> MadeKey:
    """A new key. Raises: `NotFound`, `Conflict`."""
    new = ask.body
    row, secret = keys.create(
        new.name,
        new.scopes,
        new.expires_at,
        account=new.account or ask.own_account,
        user=new.user,
        models=new.models,
        end_users=new.end_users,
        by=ask.caller,
    )
    return MadeKey(**_fields(row), key=secret.reveal())


def change(keys: Keys, ask: Ask[Nothing, KeyChanges]) -> Key:
    """A changed key. Raises: `NotFound`, `PreconditionFailed`, `Conflict`."""
    return shown(keys.change(ask.path["id"], revision=ask.revision, by=ask.caller, **ask.changes))


def rotate(keys: Keys, ask: Ask[Nothing, Rotation]) -> Rotated:
    """A new key in place of another. Raises: `NotFound`, `Conflict`."""
    made = keys.rotate(ask.path["id"], grace=ask.body.grace_seconds, expires_at=ask.body.expires_at, by=ask.caller)
    return Rotated(**_fields(made.key), key=made.secret.reveal(), replaces=made.before.id, until=made.until)


def revoke(keys: Keys, ask: Ask[Nothing, None]) -> None:
    """Revoke a key. Raises: `NotFound`, `PreconditionFailed`, `Conflict`."""
    keys.revoke(ask.path["id"], revision=ask.revision, by=ask.caller)


def shown(row: KeyRow) -> Key:
    """A row as it is answered."""
    return Key(**_fields(row))


def _fields(row: KeyRow) -> dict[str, Any]:
    return {**asdict(row), "scopes": sorted(row.scopes), "models": None if row.models is None else list(row.models)}


RESOURCE = Resource(
    title="Keys",
    path="/keys",
    service=Keys,
    columns=("id", "name", "account", "user", "prefix", "scopes", "models", "last_used_at", "expires_at", "revoked_at"),
    about="Nobody makes a key that may do more than their own. A revoked key is refused within a second, and ends the calls that it has begun.",
    routes=(
        Route("GET", "", scope="account", summary="List keys.", do=every, query=Filter, answer=Rows[Key], errors=(NotFound,)),
        Route(
            "POST",
            "",
            scope="account",
            summary="Make a key.",
            do=create,
            body=NewKey,
            answer=MadeKey,
            errors=(NotFound, Conflict),
            details="The answer has the key itself, this once.",
        ),
        Route("GET", "/{id}", scope="account", summary="Read what is known of a key.", do=one, answer=Key, errors=(NotFound,)),
        Route(
            "PATCH",
            "/{id}",
            scope="account",
            summary="Change what a key may do, or until when.",
            do=change,
            body=KeyChanges,
            answer=Key,
            errors=(NotFound, PreconditionFailed, Conflict),
        ),
        Route(
            "POST",
            "/{id}/rotate",
            scope="account",
            summary="Make a new key in place of one, which goes on working for a while.",
            do=rotate,
            body=Rotation,
            answer=Rotated,
            errors=(NotFound, Conflict),
            details="The answer has the key itself, this once.",
        ),
        Route(
            "DELETE",
            "/{id}",
            scope="account",
            summary="Revoke a key.",
            do=revoke,
            errors=(NotFound, PreconditionFailed, Conflict),
            name="revoke",
        ),
    ),
)
