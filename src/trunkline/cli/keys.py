"""`trunkline keys`."""

import sys
from typing import Annotated, Literal

from cyclopts import App, Parameter

from trunkline.access.first_key import deliver
from trunkline.access.scopes import parse_scopes
from trunkline.base.clock import SystemClock
from trunkline.base.codec import UNSET
from trunkline.cli.identity import identities, print_row, print_rows, seconds, shown
from trunkline.cli.output import print_json, time
from trunkline.cli.places import ConfigFile, DataFolder, Json, data_folder
from trunkline.errors import BadRequest

command = App(name="keys", help="Make, list, change, rotate and revoke keys.")

COLUMNS = ("id", "name", "account", "user", "prefix", "scopes", "models", "created_at", "last_used_at", "expires_at", "revoked_at")

Many = Annotated[list[str], Parameter(negative=())]


@command.command
def create(
    name: str,
    *,
    scope: Many = ["inference"],  # noqa: B006 - read only
    expires_in: str | None = None,
    account: str | None = None,
    user: str | None = None,
    model: Many = [],  # noqa: B006 - read only
    end_users: Literal["key", "request"] = "key",
    data: DataFolder = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Make a key. It is shown this once; only its hash is kept.

    Args:
        name: who will hold it.
        scope: what it may do: `inference`, `metrics`, `account`, `admin`. May be repeated.
        expires_in: for how long it is valid, such as `12h`, `30d`; for ever by default.
        account: whose it is, by name or id; the account `default`, if not said.
        user: which of the account's users holds it, by id, external id or name.
        model: a model that it may call, `*` for any characters. May be repeated; all models by default.
        end_users: for whom its calls are: whoever holds it (`key`), or whom each request names (`request`).
    """
    expires_at = _from_now(expires_in, "--expires-in")
    with identities(data, config) as found:
        holder = None if user is None else found.user(user, account)
        row, secret = found.keys.create(
            name,
            parse_scopes(scope),
            expires_at,
            account=holder.account if holder and account is None else found.account(account),
            user=holder and holder.id,
            models=model or None,
            end_users=end_users,
        )
    if json:
        print_json({**shown(row), "key": secret.reveal()})
    else:
        print(secret.reveal())
        print(f"{row.id} `{row.name}` may: {', '.join(sorted(row.scopes))}. Keep the key now: it is not shown again.", file=sys.stderr)


@command.command(name="list")
def list_keys(*, account: str | None = None, data: DataFolder = None, config: ConfigFile = None, json: Json = False) -> None:
    """List keys, revoked ones included.

    Args:
        account: only those of one account, by name or id.
    """
    with identities(data, config) as found:
        rows = found.keys.list(account=None if account is None else found.account(account))
    print_rows(rows, COLUMNS, json=json)


@command.command
def change(
    key: str,
    *,
    name: str | None = None,
    scope: Many = [],  # noqa: B006 - read only
    expires_in: str | None = None,
    model: Many = [],  # noqa: B006 - read only
    all_models: Annotated[bool, Parameter(negative=())] = False,
    end_users: Literal["key", "request"] | None = None,
    data: DataFolder = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Change what a key may do, or until when. What is not said stays.

    Args:
        key: its id, its name, or its first eight characters.
        name: another name.
        scope: all that it may do from now on. May be repeated.
        expires_in: for how long it is valid from now, such as `30d`; `never` for ever.
        model: all that it may call from now on. May be repeated.
        all_models: let it call every model.
        end_users: for whom its calls are.
    """
    if model and all_models:
        raise BadRequest("`--model` and `--all-models` are both said", hint="Say one of them.")
    expires_at = None if expires_in == "never" else _from_now(expires_in, "--expires-in") or UNSET
    with identities(data, config) as found:
        row = found.keys.change(
            found.keys.named(key).id,
            name=name or UNSET,
            scopes=parse_scopes(scope) if scope else UNSET,
            models=None if all_models else model or UNSET,
            end_users=end_users or UNSET,
            expires_at=expires_at,
        )
    print_row(row, "changed", json=json)


@command.command
def rotate(
    key: str, *, grace: str = "24h", expires_in: str | None = None, data: DataFolder = None, config: ConfigFile = None, json: Json = False
) -> None:
    """Make a new key in place of one, which goes on working for a while. The new one is shown this once.

    Args:
        key: its id, its name, or its first eight characters.
        grace: for how long the old one goes on working; `0` ends it now.
        expires_in: for how long the new one is valid; by default until the old one would have expired.
    """
    expires_at, kept = _from_now(expires_in, "--expires-in") or UNSET, seconds(grace, "--grace")
    with identities(data, config) as found:
        made = found.keys.rotate(found.keys.named(key).id, grace=kept, expires_at=expires_at)
    if json:
        print_json({**shown(made.key), "key": made.secret.reveal(), "before": {"id": made.before.id, "until": time(made.until)}})
        return
    print(made.secret.reveal())
    works = f"works until {time(made.until)}" if made.before.revoked_at is None else "works no more"
    print(f"{made.key.id} takes the place of {made.before.id}, which {works}. Keep the key now: it is not shown again.", file=sys.stderr)


@command.command
def revoke(key: str, *, data: DataFolder = None, config: ConfigFile = None, json: Json = False) -> None:
    """Revoke a key. A running server stops taking it within five seconds, and ends the calls that it has begun.

    Args:
        key: its id, its name, or its first eight characters.
    """
    with identities(data, config) as found:
        row = found.keys.revoke(found.keys.named(key).id)
    print_row(row, "revoked", json=json)


@command.command(name="reset-admin")
def reset_admin(*, data: DataFolder = None, config: ConfigFile = None, json: Json = False) -> None:
    """Revoke the admin key that the server made, and make another."""
    folder = data_folder(data)
    with identities(data, config) as found:
        row, secret = found.keys.reset_admin()
    if json:
        print_json({**shown(row), "key": secret.reveal()})
    else:
        print(f"The admin key is {deliver(secret, folder, sys.stdout)}.")


def _from_now(duration: str | None, at: str) -> float | None:
    return None if duration is None else SystemClock.now() + seconds(duration, at)
