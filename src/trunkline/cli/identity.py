"""What the commands about accounts, users and keys share."""

import asyncio
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import cast

from trunkline.access.accounts import AccountRow, Accounts
from trunkline.access.keys import KeyRow, Keys
from trunkline.access.ring import CHANNEL
from trunkline.access.users import UserRow, Users
from trunkline.app.config import load, shared_server
from trunkline.app.database import open_store
from trunkline.base.clock import SystemClock
from trunkline.cli.output import print_json, print_table, time
from trunkline.cli.places import ConfigFile, DataFolder, config_file, data_folder
from trunkline.errors import BadRequest, StoreUnavailable
from trunkline.model.caller import DEFAULT_ACCOUNT
from trunkline.store.shared import open_shared
from trunkline.store.shared.address import Address

TELL_SECONDS = 1.0
"""How long a command waits for a bus that does not answer."""

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

Row = AccountRow | UserRow | KeyRow


class Identities:
    """The three services over one database."""

    def __init__(self, accounts: Accounts, users: Users, keys: Keys) -> None:
        self.accounts = accounts
        self.users = users
        self.keys = keys

    def account(self, wanted: str | None) -> str:
        """The id of an account that a person names; without a name, the operators' own."""
        return DEFAULT_ACCOUNT if wanted is None else self.accounts.named(wanted).id

    def user(self, wanted: str, account: str | None) -> UserRow:
        """A user whom a person names, in an account."""
        return self.users.get(wanted) if wanted.startswith("usr_") else self.users.named(wanted, account=self.account(account))


@contextmanager
def identities(data: DataFolder, config: ConfigFile) -> Generator[Identities]:
    """The services, while the block runs. Running servers are told of what it changed, where they share a bus."""
    folder, store = data_folder(data), load(config_file(config)).sections.store
    changes: list[bool] = []
    changed = partial(changes.append, True)
    engine, clock = open_store(folder, store), SystemClock()
    try:
        yield Identities(
            Accounts(engine, clock, changed=changed), Users(engine, clock, changed=changed), Keys(engine, clock, changed=changed)
        )
    finally:
        engine.dispose()
    if changes and (where := shared_server(store)) is not None:
        with suppress(StoreUnavailable, TimeoutError):  # they look by themselves soon
            asyncio.run(_tell(where, folder))


async def _tell(where: Address, data: Path) -> None:
    def failed(_where: str, _error: BaseException) -> None:
        """A bus that is away is no failure of the command."""

    async with asyncio.timeout(TELL_SECONDS), open_shared(where, SystemClock(), data=data, failed=failed) as shared:
        await shared.bus.publish(CHANNEL, b"")


def seconds(duration: str, at: str) -> float:
    """A duration that a person wrote; `at` is the flag. Raises: `BadRequest`."""
    if duration == "0":
        return 0.0
    found = re.fullmatch(r"(\d+)([smhdw])", duration)
    if found is None:
        raise BadRequest(f"`{at}` is `{duration}`", hint="Write a number and a unit: `30m`, `12h`, `30d`, `4w`.")
    return int(found[1]) * UNITS[found[2]]


def shown(row: Row) -> dict[str, object]:
    """A row as JSON has it."""
    told: dict[str, object] = {name: _time(value) if name.endswith("_at") else value for name, value in asdict(row).items()}
    if isinstance(row, KeyRow):
        told["scopes"] = sorted(row.scopes)
    return told


def print_rows(rows: Sequence[Row], columns: Sequence[str], *, json: bool) -> None:
    """Rows as JSON, or as a table of some columns."""
    told = [shown(row) for row in rows]
    if json:
        print_json(told)
    else:
        print_table(columns, [[_cell(row[column]) for column in columns] for row in told])


def print_row(row: Row, done: str, *, json: bool) -> None:
    """What was done to a row."""
    if json:
        print_json(shown(row))
    else:
        print(f"{done} {row.id} `{row.name}`")


def _time(at: float | None) -> str | None:
    return None if at is None else time(at)


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, cast(Sequence[object], value)))
    return "" if value is None else str(value)
