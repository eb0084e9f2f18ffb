"""`trunkline credentials`."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from getpass import getpass
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from trunkline.access.credentials import LONGEST_SECRET, CredentialRow, Credentials
from trunkline.access.key_sources import key_source
from trunkline.access.vault import Vault
from trunkline.app.callables import Callables
from trunkline.app.config import load
from trunkline.app.database import open_store
from trunkline.base.clock import SystemClock
from trunkline.base.secret import Secret
from trunkline.cli.output import print_json, print_table, time
from trunkline.cli.places import ConfigFile, DataFolder, Json, config_file, data_folder
from trunkline.errors import BadRequest

command = App(name="credentials", help="Keep providers' credentials, encrypted.")

SecretFile = Annotated[Path | None, Parameter(name="--file", help="A file that holds the credential; by default it is read from stdin.")]


@command.command
def add(
    provider: str,
    *,
    name: str = "default",
    weight: int = 1,
    account: str | None = None,
    user: str | None = None,
    file: SecretFile = None,
    config: ConfigFile = None,
    data: DataFolder = None,
    json: Json = False,
) -> None:
    """Keep a credential for a provider. A terminal asks for it, and does not show it; it is never an argument.

    Args:
        provider: its name in the configuration.
        name: what people call the credential.
        weight: its share among those of the same owner.
        account: the account whose calls it is for; by default it is for all.
        user: the user of that account whose calls it is for.
    """
    with _credentials(config, data) as credentials:
        credentials.check_provider(provider)  # before anybody types
        secret = _secret(file)
        row = credentials.create(provider=provider, secret=secret, name=name, weight=weight, account=account, user=user)
    _done("added", row, json=json)


@command.command(name="list")
def list_credentials(*, config: ConfigFile = None, data: DataFolder = None, json: Json = False) -> None:
    """List all credentials, without what is secret of them."""
    rows: list[CredentialRow] = []
    with _credentials(config, data) as credentials:
        while page := credentials.list(after=rows[-1].id if rows else None):
            rows += page
    if json:
        print_json([_shown(row) for row in rows])
    else:
        columns = ("id", "provider", "name", "weight", "account", "user", "enabled", "hint", "created_at", "updated_at")
        print_table(columns, [[_cell(_shown(row)[column]) for column in columns] for row in rows])


@command.command
def replace(credential: str, *, file: SecretFile = None, config: ConfigFile = None, data: DataFolder = None, json: Json = False) -> None:
    """Put another secret in place of a credential's.

    Args:
        credential: its id.
    """
    with _credentials(config, data) as credentials:
        credentials.get(credential)  # before anybody types
        row = credentials.change(credential, secret=_secret(file))
    _done("replaced the secret of", row, json=json)


@command.command
def remove(credential: str, *, config: ConfigFile = None, data: DataFolder = None, json: Json = False) -> None:
    """Remove a credential. Running servers stop using it within five seconds.

    Args:
        credential: its id.
    """
    with _credentials(config, data) as credentials:
        row = credentials.delete(credential)
    _done("removed", row, json=json)


@command.command
def disable(credential: str, *, config: ConfigFile = None, data: DataFolder = None, json: Json = False) -> None:
    """Stop using a credential, and keep it.

    Args:
        credential: its id.
    """
    with _credentials(config, data) as credentials:
        row = credentials.change(credential, enabled=False)
    _done("disabled", row, json=json)


@command.command
def enable(credential: str, *, config: ConfigFile = None, data: DataFolder = None, json: Json = False) -> None:
    """Use a credential again.

    Args:
        credential: its id.
    """
    with _credentials(config, data) as credentials:
        row = credentials.change(credential, enabled=True)
    _done("enabled", row, json=json)


@contextmanager
def _credentials(config: ConfigFile, data: DataFolder) -> Generator[Credentials]:
    folder = data_folder(data)
    read = load(config_file(config))
    engine = open_store(folder, read.sections.store)
    try:
        vault = Vault(engine, key_source(read.sections.vault, folder))
        yield Credentials(engine, vault, SystemClock(), providers=lambda: Callables(read))
    finally:
        engine.dispose()


def _secret(file: Path | None) -> Secret:
    """The credential from a file, from a person, or from stdin."""
    try:
        if file is not None:
            with file.expanduser().open("rb") as source:
                return Secret(source.read(LONGEST_SECRET + 2).decode().strip())
        if sys.stdin.isatty():
            return Secret(getpass("Credential (not shown): ").strip())
        return Secret(sys.stdin.read(LONGEST_SECRET + 2).strip())
    except EOFError:
        raise BadRequest("no credential was given", hint="Type it, give it on stdin, or name a file with `--file`.") from None
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno or 0)
        raise BadRequest(f"the credential cannot be read from `{file or 'stdin'}`: {reason}") from None
    except UnicodeDecodeError:
        raise BadRequest(f"what `{file or 'stdin'}` holds is no text", hint="A credential is one line of ASCII.") from None


def _done(what: str, row: CredentialRow, *, json: bool) -> None:
    if json:
        print_json(_shown(row))
    else:
        print(f"{what} {row.id} `{row.name}` for `{row.provider}`")


def _shown(row: CredentialRow) -> dict[str, object]:
    times = {"created_at": row.created_at, "updated_at": row.updated_at}
    return {**asdict(row), **{name: time(at) for name, at in times.items()}}


def _cell(value: object) -> str:
    return "" if value is None else str(value)
