"""`trunkline keys`."""

import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, cast

from cyclopts import App, Parameter

from trunkline.access.first_key import deliver
from trunkline.access.keys import KeyRow, Keys
from trunkline.access.scopes import parse_scopes
from trunkline.app.lifecycle import open_store
from trunkline.base.clock import SystemClock
from trunkline.cli.output import print_json, print_table
from trunkline.cli.places import DataFolder, Json, data_folder
from trunkline.errors import BadRequest

command = App(name="keys", help="Make, list and revoke keys.")

UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@command.command
def create(
    name: str,
    *,
    scope: Annotated[list[str], Parameter(negative=())] = ["inference"],  # noqa: B006 - read only
    expires_in: str | None = None,
    data: DataFolder = None,
    json: Json = False,
) -> None:
    """Make a key. It is shown this once; only its hash is kept.

    Args:
        name: who will hold it.
        scope: what it may do: `inference`, `metrics`, `admin`. May be repeated.
        expires_in: for how long it is valid, such as `12h`, `30d`; for ever by default.
    """
    clock = SystemClock()
    expires_at = None if expires_in is None else clock.now() + _seconds(expires_in)
    with _keys(data) as keys:
        row, secret = keys.create(name, parse_scopes(scope), expires_at)
    if json:
        print_json({**_shown(row), "key": secret.reveal()})
    else:
        print(secret.reveal())
        print(f"{row.id} `{row.name}` may: {', '.join(sorted(row.scopes))}. Keep the key now: it is not shown again.", file=sys.stderr)


@command.command(name="list")
def list_keys(*, data: DataFolder = None, json: Json = False) -> None:
    """List all keys, revoked ones included."""
    with _keys(data) as keys:
        rows = [_shown(row) for row in keys.list()]
    if json:
        print_json(rows)
    else:
        columns = ("id", "name", "prefix", "scopes", "created_at", "last_used_at", "expires_at", "revoked_at")
        print_table(columns, [[_cell(row[column]) for column in columns] for row in rows])


@command.command
def revoke(key: str, *, data: DataFolder = None, json: Json = False) -> None:
    """Revoke a key. A running server stops taking it within five seconds.

    Args:
        key: its id, its name, or its first eight characters.
    """
    with _keys(data) as keys:
        row = keys.revoke(key)
    if json:
        print_json(_shown(row))
    else:
        print(f"revoked {row.id} `{row.name}`")


@command.command(name="reset-admin")
def reset_admin(*, data: DataFolder = None, json: Json = False) -> None:
    """Revoke the admin key that the server made, and make another."""
    folder = data_folder(data)
    with _keys(data) as keys:
        row, secret = keys.reset_admin()
    if json:
        print_json({**_shown(row), "key": secret.reveal()})
    else:
        print(f"The admin key is {deliver(secret, folder, sys.stdout)}.")


@contextmanager
def _keys(data: DataFolder) -> Generator[Keys]:
    engine = open_store(data_folder(data))
    try:
        yield Keys(engine, SystemClock())
    finally:
        engine.dispose()


def _seconds(duration: str) -> float:
    found = re.fullmatch(r"(\d+)([mhdw])", duration)
    if found is None:
        raise BadRequest(f"`--expires-in` is `{duration}`", hint="Write a number and a unit: `30m`, `12h`, `30d`, `4w`.")
    return int(found[1]) * UNITS[found[2]]


def _shown(row: KeyRow) -> dict[str, object]:
    shown = asdict(row)
    times = {name: value for name, value in shown.items() if name.endswith("_at")}
    return {
        **shown,
        **{name: None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") for name, at in times.items()},
        "scopes": sorted(row.scopes),
    }


def _cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, cast(list[object], value)))
    return "" if value is None else str(value)
