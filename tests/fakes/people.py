"""Callers who look after accounts, as tests of services need them, and accounts and users that only need to be there."""

from collections.abc import Collection

from sqlalchemy import Engine, insert

from trunkline.access.scopes import SCOPES
from trunkline.model.caller import DEFAULT_ACCOUNT, Caller, Role, Scope
from trunkline.store.engine import writing
from trunkline.store.tables.accounts import TABLE as ACCOUNTS
from trunkline.store.tables.users import TABLE as USERS


def operator() -> Caller:
    """Whoever runs the installation."""
    return Caller(id="key_op", kind="service", name="operator", scopes=frozenset(SCOPES), role="owner")


def holder(account: str, role: Role, scopes: Collection[Scope] = ("inference", "account"), models: tuple[str, ...] | None = None) -> Caller:
    """Somebody of an account; their name is their role."""
    held = frozenset(scopes) - (frozenset() if role in {"owner", "admin"} else {"account"})
    return Caller(id=f"key_{role}", kind="person", name=role, scopes=held, account=account, role=role, models=models)


def settle(engine: Engine, **users: list[str]) -> None:
    """Accounts by their ids, each with users."""
    times = {"created_at": 0.0, "updated_at": 0.0}
    with writing(engine) as connection:
        for account, found in users.items():
            if account != DEFAULT_ACCOUNT:  # which is there from the beginning
                connection.execute(insert(ACCOUNTS).values(id=account, name=account, **times))
            for user in found:
                connection.execute(insert(USERS).values(id=user, account_id=account, name=user, role="member", **times))
