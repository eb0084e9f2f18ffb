"""`/users`: the people and programs of an account, and the end users that its keys act for."""

from typing import Annotated, Literal

from trunkline.access.users import UserRow, Users
from trunkline.base.codec import UNSET, Meta, Record, UnsetType
from trunkline.errors import Conflict, NotFound, PreconditionFailed
from trunkline.server.admin import Ask, Nothing, Paging, Resource, Route, Rows

Name = Annotated[str, Meta(min_length=1, max_length=100, description="For people.", examples=["Ada"])]
ExternalId = Annotated[
    str, Meta(min_length=1, max_length=200, description="What the account's own systems call them.", examples=["u-1234"])
]
RoleName = Annotated[
    Literal["owner", "admin", "member", "service"], Meta(description="What they are in the account, and so what their keys may hold.")
]


class User(Record, frozen=True):
    """A user. Times are seconds since the Unix epoch."""

    id: str
    account: str
    name: str
    external_id: str | None
    role: RoleName
    disabled_at: Annotated[float | None, Meta(description="Since when neither their keys are taken nor calls for them.")]
    created_at: float
    updated_at: float
    revision: int


class NewUser(Record, frozen=True):
    """What a user begins with."""

    name: Name
    role: RoleName = "member"
    external_id: ExternalId | None = None
    account: Annotated[str | None, Meta(description="Its id; by default the asker's own.")] = None


class UserChanges(Record, frozen=True):
    """What is to be different."""

    name: Name | UnsetType = UNSET
    role: RoleName | UnsetType = UNSET
    external_id: ExternalId | UnsetType | None = UNSET
    disabled: Annotated[bool, Meta(description="Whether neither their keys are taken nor calls for them.")] | UnsetType = UNSET


class Filter(Paging, frozen=True):
    """Which users."""

    account: Annotated[str | None, Meta(description="Those of one account, by its id.")] = None


def every(users: Users, ask: Ask[Filter, None]) -> Rows[User]:
    """A page of users. Raises: `NotFound`."""
    account = ask.within(ask.query.account)
    return ask.page(lambda after, limit: users.list(account=account, after=after, limit=limit, by=ask.caller), shown)


def one(users: Users, ask: Ask[Nothing, None]) -> User:
    """One user. Raises: `NotFound`."""
    return shown(users.get(ask.path["id"], by=ask.caller))


def create(users: Users, ask: Ask[Nothing, NewUser]) -> User:
    """A new user. Raises: `NotFound`, `Conflict`."""
    new = ask.body
    return shown(users.create(new.name, account=new.account or ask.own_account, role=new.role, external_id=new.external_id, by=ask.caller))


def change(users: Users, ask: Ask[Nothing, UserChanges]) -> User:
    """A changed user. Raises: `NotFound`, `PreconditionFailed`, `Conflict`."""
    return shown(users.change(ask.path["id"], revision=ask.revision, by=ask.caller, **ask.changes))


def delete(users: Users, ask: Ask[Nothing, None]) -> None:
    """Delete a user. Raises: `NotFound`, `PreconditionFailed`, `Conflict`."""
    users.delete(ask.path["id"], revision=ask.revision, by=ask.caller)


def shown(row: UserRow) -> User:
    """A row as it is answered."""
    return User(
        id=row.id,
        account=row.account,
        name=row.name,
        external_id=row.external_id,
        role=row.role,
        disabled_at=row.disabled_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
        revision=row.revision,
    )


RESOURCE = Resource(
    title="Users",
    path="/users",
    service=Users,
    columns=("id", "name", "external_id", "role", "account", "disabled_at"),
    about="Nobody changes a user who stands above them, and an account that has an owner keeps one.",
    routes=(
        Route("GET", "", scope="account", summary="List users.", do=every, query=Filter, answer=Rows[User], errors=(NotFound,)),
        Route("POST", "", scope="account", summary="Make a user.", do=create, body=NewUser, answer=User, errors=(NotFound, Conflict)),
        Route("GET", "/{id}", scope="account", summary="Read a user.", do=one, answer=User, errors=(NotFound,)),
        Route(
            "PATCH",
            "/{id}",
            scope="account",
            summary="Change a user; their keys hold at once no more than the role may.",
            do=change,
            body=UserChanges,
            answer=User,
            errors=(NotFound, PreconditionFailed, Conflict),
        ),
        Route(
            "DELETE",
            "/{id}",
            scope="account",
            summary="Delete a user: their keys are revoked, their name and external id forgotten.",
            do=delete,
            errors=(NotFound, PreconditionFailed, Conflict),
        ),
    ),
)
