"""`trunkline accounts`."""

from cyclopts import App

from trunkline.cli.identity import identities, print_row, print_rows
from trunkline.cli.places import ConfigFile, DataFolder, Json

command = App(name="accounts", help="Make, list, rename, disable and delete accounts.")


@command.command
def create(name: str, *, data: DataFolder = None, config: ConfigFile = None, json: Json = False) -> None:
    """Make an account.

    Args:
        name: of a team, a customer, a product.
    """
    with identities(data, config) as found:
        row = found.accounts.create(name)
    print_row(row, "made", json=json)


@command.command(name="list")
def list_accounts(*, data: DataFolder = None, config: ConfigFile = None, json: Json = False) -> None:
    """List all accounts."""
    with identities(data, config) as found:
        rows = found.accounts.list()
    print_rows(rows, ("id", "name", "created_at", "disabled_at"), json=json)


@command.command
def rename(account: str, name: str, *, data: DataFolder = None, config: ConfigFile = None, json: Json = False) -> None:
    """Give an account another name.

    Args:
        account: its name or id.
        name: the new one.
    """
    with identities(data, config) as found:
        row = found.accounts.change(found.account(account), name=name)
    print_row(row, "renamed", json=json)


@command.command
def disable(account: str, *, data: DataFolder = None, config: ConfigFile = None, json: Json = False) -> None:
    """Stop taking an account's keys, until it is enabled again.

    Args:
        account: its name or id.
    """
    with identities(data, config) as found:
        row = found.accounts.change(found.account(account), disabled=True)
    print_row(row, "disabled", json=json)


@command.command
def enable(account: str, *, data: DataFolder = None, config: ConfigFile = None, json: Json = False) -> None:
    """Take an account's keys again.

    Args:
        account: its name or id.
    """
    with identities(data, config) as found:
        row = found.accounts.change(found.account(account), disabled=False)
    print_row(row, "enabled", json=json)


@command.command
def delete(account: str, *, data: DataFolder = None, config: ConfigFile = None, json: Json = False) -> None:
    """Delete an account for good: its keys are revoked, its users forgotten.

    Args:
        account: its name or id.
    """
    with identities(data, config) as found:
        row = found.accounts.named(account)
        found.accounts.delete(row.id)
    print_row(row, "deleted", json=json)
