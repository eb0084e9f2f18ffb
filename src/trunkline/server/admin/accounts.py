"""`/accounts`: each with its users and keys, and nothing of another's."""

from typing import Annotated

from trunkline.access.accounts import AccountRow, Accounts
from trunkline.base.codec import UNSET, Meta, Record, UnsetType
from trunkline.errors import Conflict, NotFound, PreconditionFailed
from trunkline.server.admin import Ask, Nothing, Paging, Resource, Route, Rows

Name = Annotated[str, Meta(min_length=1, max_length=100, description="For people; no other account has it.", examples=["acme"])]


class Account(Record, frozen=True):
    """An account. Times are seconds since the Unix epoch."""

    id: str
    name: str
    disabled_at: Annotated[float | None, Meta(description="Since when its keys are not taken.")]
    created_at: float
    updated_at: float
    revision: int


class NewAccount(Record, frozen=True):
    """What an account begins with."""

    name: Name


class AccountChanges(Record, frozen=True):
    """What is to be different."""

    name: Name | UnsetType = UNSET
    disabled: Annotated[bool, Meta(description="Whether its keys are not taken. For operators.")] | UnsetType = UNSET


def every(accounts: Accounts, ask: Ask[Paging, None]) -> Rows[Account]:
    """A page of accounts."""
    return ask.page(lambda after, limit: accounts.list(after=after, limit=limit, by=ask.caller), shown)


def one(accounts: Accounts, ask: Ask[Nothing, None]) -> Account:
    """One account. Raises: `NotFound`."""
    return shown(accounts.get(ask.path["id"], by=ask.caller))


def create(accounts: Accounts, ask: Ask[Nothing, NewAccount]) -> Account:
    """A new account. Raises: `Conflict`."""
    return shown(accounts.create(ask.body.name, by=ask.caller))


def change(accounts: Accounts, ask: Ask[Nothing, AccountChanges]) -> Account:
    """A changed account. Raises: `NotFound`, `PreconditionFailed`, `Conflict`."""
    return shown(accounts.change(ask.path["id"], revision=ask.revision, by=ask.caller, **ask.changes))


def delete(accounts: Accounts, ask: Ask[Nothing, None]) -> None:
    """Delete an account. Raises: `NotFound`, `PreconditionFailed`, `Conflict`."""
    accounts.delete(ask.path["id"], revision=ask.revision, by=ask.caller)


def shown(row: AccountRow) -> Account:
    """A row as it is answered."""
    return Account(
        id=row.id,
        name=row.name,
        disabled_at=row.disabled_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
        revision=row.revision,
    )


RESOURCE = Resource(
    title="Accounts",
    path="/accounts",
    service=Accounts,
    columns=("id", "name", "created_at", "disabled_at"),
    about="Operators see and change all accounts; whoever looks after one account sees that one, and may rename it.",
    routes=(
        Route("GET", "", scope="account", summary="List accounts.", do=every, query=Paging, answer=Rows[Account]),
        Route("POST", "", scope="admin", summary="Make an account.", do=create, body=NewAccount, answer=Account, errors=(Conflict,)),
        Route("GET", "/{id}", scope="account", summary="Read an account.", do=one, answer=Account, errors=(NotFound,)),
        Route(
            "PATCH",
            "/{id}",
            scope="account",
            summary="Rename an account, or stop and start taking its keys.",
            do=change,
            body=AccountChanges,
            answer=Account,
            errors=(NotFound, PreconditionFailed, Conflict),
        ),
        Route(
            "DELETE",
            "/{id}",
            scope="admin",
            summary="Delete an account: its keys are revoked, its users forgotten.",
            do=delete,
            errors=(NotFound, PreconditionFailed, Conflict),
        ),
    ),
)
