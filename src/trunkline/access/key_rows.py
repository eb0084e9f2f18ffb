"""Keys as the database keeps them, and as they are told."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, RowMapping, or_, select

from trunkline.access import accounts, rows
from trunkline.access.authority import is_operator, sees
from trunkline.access.scopes import from_text, to_text
from trunkline.base import codec
from trunkline.errors import BadRequest, NotFound
from trunkline.model.caller import Caller, EndUsers, Scope
from trunkline.store.tables.accounts import TABLE as ACCOUNTS
from trunkline.store.tables.keys import TABLE
from trunkline.store.tables.users import TABLE as USERS

MOST_MODELS = 100
LONGEST_MODEL = 200

_models = codec.Decoder(tuple[str, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """What is known of a key. Times are seconds since the Unix epoch.

    Attributes:
        id: `key_` and letters.
        name: for people; several keys may share one.
        prefix: the key's first eight characters.
        account: the id of the account.
        user: the id of its user, if it is somebody's.
        scopes: as given; what `admin` includes is not spelled out.
        models: the models that it may call, with `*` for anything; `None` for all.
        end_users: for whom its calls are: its user, or whom each request names.
        last_used_at: to the minute.
        replaced_by: the id of the key that took its place.
        revision: one more with every change.
    """

    id: str
    name: str
    prefix: str
    account: str
    user: str | None
    scopes: frozenset[Scope]
    models: tuple[str, ...] | None
    end_users: EndUsers
    created_at: float
    updated_at: float
    expires_at: float | None
    revoked_at: float | None
    last_used_at: float | None
    replaced_by: str | None
    revision: int


IN_FORCE = (
    select(ACCOUNTS.c.id)
    .where(ACCOUNTS.c.id == TABLE.c.account_id, ACCOUNTS.c.disabled_at.is_(None), ACCOUNTS.c.deleted_at.is_(None))
    .exists()
    & ~select(USERS.c.id)
    .where(USERS.c.id == TABLE.c.user_id, or_(USERS.c.disabled_at.is_not(None), USERS.c.deleted_at.is_not(None)))
    .exists()
)
"""Neither a key's account nor its user is disabled."""


def draft_of(
    *,
    name: str,
    scopes: frozenset[Scope],
    account: str,
    user: str | None,
    models: tuple[str, ...] | None,
    end_users: EndUsers,
    expires_at: float | None,
) -> KeyRow:
    """A key that is not in the database yet, and has no id."""
    return KeyRow(
        id="",
        name=name,
        prefix="",
        account=account,
        user=user,
        scopes=scopes,
        models=models,
        end_users=end_users,
        created_at=0.0,
        updated_at=0.0,
        expires_at=expires_at,
        revoked_at=None,
        last_used_at=None,
        replaced_by=None,
        revision=1,
    )


def select_rows(connection: Connection, *where: ColumnElement[bool], after: str | None = None, limit: int | None = None) -> list[KeyRow]:
    """Keys in the order of their ids."""
    return [_row(found) for found in rows.page(connection, select(TABLE).where(*where), TABLE, after, limit)]


def of_account(connection: Connection, account: str | None, by: Caller | None) -> tuple[ColumnElement[bool], ...]:
    """The keys of one account, or of all that somebody sees."""
    if account is not None:
        return (TABLE.c.account_id == accounts.find(connection, account, by).id,)
    return () if by is None or is_operator(by) else (TABLE.c.account_id == by.account,)


def find(connection: Connection, key_id: str, by: Caller | None) -> KeyRow:
    """One key by its id, if somebody sees it. Raises: `NotFound`, which repeats no whole key."""
    found = select_rows(connection, TABLE.c.id == key_id)
    if not found or not sees(by, found[0].account):
        raise not_found(re.sub(r"(swb_\w{4})\w+", r"\1…", key_id), [])
    return found[0]


def _row(found: RowMapping) -> KeyRow:
    return KeyRow(
        id=found["id"],
        name=found["name"],
        prefix=found["prefix"],
        account=found["account_id"],
        user=found["user_id"],
        scopes=from_text(found["scopes"]),
        models=models_from_text(found["models"]),
        end_users=found["end_users"],
        created_at=found["created_at"],
        updated_at=found["updated_at"],
        expires_at=found["expires_at"],
        revoked_at=found["revoked_at"],
        last_used_at=found["last_used_at"],
        replaced_by=found["replaced_by"],
        revision=found["revision"],
    )


def kept(row: KeyRow) -> dict[str, object]:
    """What may change of a key, as the database keeps it."""
    return {
        "scopes": to_text(row.scopes),
        "models": None if row.models is None else codec.text(row.models),
        "end_users": row.end_users,
        "expires_at": row.expires_at,
    }


def models_from_text(text: str | None) -> tuple[str, ...] | None:
    """Models as the database keeps them; what cannot be read allows none."""
    if text is None:
        return None
    try:
        return _models.decode(text)
    except codec.Malformed:
        return ()


def checked_models(models: Sequence[str] | None) -> tuple[str, ...] | None:
    """A list of models that says something, each once. Raises: `BadRequest`."""
    if models is None:
        return None
    if not models:
        raise BadRequest("`models` is empty, so the key could call none", hint="Leave it out for all models, or name some.")
    if len(models) > MOST_MODELS:
        raise BadRequest(f"`models` has {len(models)} names", hint=f"At most {MOST_MODELS}; `*` stands for any characters.")
    for model in models:
        if not model or not model.isprintable() or len(model) > LONGEST_MODEL:
            raise BadRequest(
                f"`models` has `{model[:LONGEST_MODEL]!r}`", hint=f"A name has 1 to {LONGEST_MODEL} characters, all printable."
            )
    return tuple(dict.fromkeys(models))


def not_found(shown: str, live: Sequence[KeyRow]) -> NotFound:
    """There is no such key; the hint has the nearest of the live ones."""
    close = codec.nearest(shown, [label for row in live for label in (row.name, row.id, row.prefix)])
    return NotFound(
        f"there is no key `{shown}`",
        hint=f"Did you mean `{close}`? `trunkline keys list` shows them all." if close else "`trunkline keys list` shows them all.",
    )
