"""`trunkline users`."""

from cyclopts import App

from trunkline.access.scopes import parse_role
from trunkline.base.codec import UNSET
from trunkline.cli.identity import identities, print_row, print_rows
from trunkline.cli.places import ConfigFile, DataFolder, Json

command = App(name="users", help="Make, list, change, disable and delete an account's users.")

COLUMNS = ("id", "name", "external_id", "role", "account", "created_at", "disabled_at")


@command.command
def create(
    name: str,
    *,
    role: str = "member",
    external_id: str | None = None,
    account: str | None = None,
    data: DataFolder = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Make a user: a person, a program, or somebody for whom a product of yours calls.

    Args:
        name: for people.
        role: `owner`, `admin`, `member` or `service`.
        external_id: what your own systems call them; requests name end users by it.
        account: whose user it is, by name or id; the account `default`, if not said.
    """
    with identities(data, config) as found:
        row = found.users.create(name, account=found.account(account), role=parse_role(role), external_id=external_id)
    print_row(row, "made", json=json)


@command.command(name="list")
def list_users(*, account: str | None = None, data: DataFolder = None, config: ConfigFile = None, json: Json = False) -> None:
    """List users.

    Args:
        account: only those of one account, by name or id.
    """
    with identities(data, config) as found:
        rows = found.users.list(account=None if account is None else found.account(account))
    print_rows(rows, COLUMNS, json=json)


@command.command
def change(
    user: str,
    *,
    name: str | None = None,
    role: str | None = None,
    external_id: str | None = None,
    account: str | None = None,
    data: DataFolder = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Change a user. What is not said stays.

    Args:
        user: their id, external id or name.
        name: another name.
        role: another role; their keys hold at once no more than it may.
        external_id: what your own systems call them; an empty text for nothing.
        account: in which account to look for them; `default`, if not said.
    """
    with identities(data, config) as found:
        row = found.users.change(
            found.user(user, account).id,
            name=name or UNSET,
            role=UNSET if role is None else parse_role(role),
            external_id=UNSET if external_id is None else external_id or None,
        )
    print_row(row, "changed", json=json)


@command.command
def disable(user: str, *, account: str | None = None, data: DataFolder = None, config: ConfigFile = None, json: Json = False) -> None:
    """Stop taking a user's keys, and calls for them, until they are enabled again.

    Args:
        user: their id, external id or name.
        account: in which account to look for them; `default`, if not said.
    """
    with identities(data, config) as found:
        row = found.users.change(found.user(user, account).id, disabled=True)
    print_row(row, "disabled", json=json)


@command.command
def enable(user: str, *, account: str | None = None, data: DataFolder = None, config: ConfigFile = None, json: Json = False) -> None:
    """Take a user's keys, and calls for them, again.

    Args:
        user: their id, external id or name.
        account: in which account to look for them; `default`, if not said.
    """
    with identities(data, config) as found:
        row = found.users.change(found.user(user, account).id, disabled=False)
    print_row(row, "enabled", json=json)


@command.command
def delete(user: str, *, account: str | None = None, data: DataFolder = None, config: ConfigFile = None, json: Json = False) -> None:
    """Delete a user for good: their keys are revoked, their name and external id forgotten.

    Args:
        user: their id, external id or name.
        account: in which account to look for them; `default`, if not said.
    """
    with identities(data, config) as found:
        row = found.user(user, account)
        found.users.delete(row.id)
    print_row(row, "deleted", json=json)
