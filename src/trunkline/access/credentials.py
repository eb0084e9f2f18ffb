"""Credentials that providers are called with: kept, changed, and never told again.

Several may serve one provider: for the whole installation, for an account, or for one of its users.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Connection, Engine, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from trunkline.access.rows import check_revision
from trunkline.access.vault import Row, Vault
from trunkline.base.clock import Clock
from trunkline.base.codec import nearest
from trunkline.base.ids import new_id
from trunkline.base.secret import SHORTEST, Secret
from trunkline.errors import BadRequest, Conflict, NotFound
from trunkline.model.credential import FILE
from trunkline.store.engine import reading, writing
from trunkline.store.tables.accounts import TABLE as ACCOUNTS
from trunkline.store.tables.credentials import TABLE
from trunkline.store.tables.users import TABLE as USERS

LONGEST_NAME = 100
LONGEST_SECRET = 8192
HEAVIEST = 1000
HINTED = 20
"""A secret of fewer characters gives no hint: the hint would be too much of it."""
HINT = 4
MOST_LISTED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialRow:
    """What may be known of a stored credential: all but itself. Times are seconds since the Unix epoch.

    Attributes:
        id: `cred_` and letters.
        provider: its name in the configuration.
        name: for people; one of a kind among those of the same provider and owner.
        weight: its share among them.
        account: whose it is; none where it is the installation's.
        user: of that account, whose alone it is.
        hint: its last four characters, where it has at least twenty; else empty.
        revision: counts the changes.
    """

    id: str
    provider: str
    name: str
    weight: int
    account: str | None
    user: str | None
    enabled: bool
    hint: str
    created_at: float
    updated_at: float
    revision: int


class Credentials:
    """The stored credentials of an installation. Blocking; raises `StoreUnavailable` where the database does not answer.

    Args:
        engine: the database.
        vault: what seals them.
        clock: the time.
        providers: the names of those that there are; without it any name is taken.
        changed: told of every change, once it is in the database, in the thread that made it.
    """

    def __init__(
        self,
        engine: Engine,
        vault: Vault,
        clock: Clock,
        *,
        providers: Callable[[], Collection[str]] | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._vault = vault
        self._clock = clock
        self._providers = providers
        self._changed = changed

    def create(
        self,
        *,
        provider: str,
        secret: Secret,
        name: str = "default",
        weight: int = 1,
        account: str | None = None,
        user: str | None = None,
        enabled: bool = True,
    ) -> CredentialRow:
        """Keep a new credential.

        Raises:
            BadRequest: a field cannot be what it is; the message names it, and never the secret.
            NotFound: there is no such provider (the hint has the nearest), account, or user in it.
            Conflict: the owner has one of that name for the provider.
            VaultUnavailable: there is no key to seal it with.
        """
        self.check_provider(provider)
        _check_name(name, account)
        _check_weight(weight)
        _check_secret(secret)
        if user and not account:
            raise BadRequest("`user` is given without `account`", hint="Say in whose account the user is.")
        now = self._clock.now()
        row = {
            "id": new_id("cred", self._clock),
            "provider": provider,
            "account": account or "",
            "user": user or "",
            "name": name,
            "weight": weight,
            "enabled": enabled,
            "hint": _hint(secret),
            "created_at": now,
            "updated_at": now,
            "revision": 1,
        }
        self._vault.prepare()
        try:
            with writing(self._engine) as connection:
                check_owner(connection, account, user)
                _check_free(connection, row)
                connection.execute(insert(TABLE).values(**row, **self._vault.seal(connection, TABLE, row, secret)))
        except IntegrityError:
            raise _taken(row) from None
        self._changed()
        return _shown(row)

    def get(self, wanted: str) -> CredentialRow:
        """One credential, by its id. Raises: `NotFound`."""
        with reading(self._engine) as connection:
            return _shown(_row(connection, wanted))

    def list(
        self, *, account: str | None = None, provider: str | None = None, after: str | None = None, limit: int = MOST_LISTED
    ) -> Sequence[CredentialRow]:
        """Credentials, the oldest first.

        Args:
            account: only this account's and its users'; by default all.
            provider: only those for this one.
            after: the id of the last one that is known already.
            limit: the most that are wanted.
        """
        query = select(TABLE).order_by(TABLE.c.id).limit(limit)
        if account is not None:
            query = query.where(TABLE.c.account == account)
        if provider is not None:
            query = query.where(TABLE.c.provider == provider)
        if after is not None:
            query = query.where(TABLE.c.id > after)
        with reading(self._engine) as connection:
            return [_shown(cast(Row, row)) for row in connection.execute(query).mappings()]

    def change(
        self,
        wanted: str,
        *,
        revision: int | None = None,
        name: str | None = None,
        weight: int | None = None,
        enabled: bool | None = None,
        secret: Secret | None = None,
    ) -> CredentialRow:
        """Change what is given, and leave the rest alone. Whose it is and for what stays; that would be another one.

        Args:
            wanted: the id.
            revision: the one that the change is meant for; by default whichever it is.
            name: the new name.
            weight: the new share.
            enabled: whether it is used.
            secret: takes the place of the one before.

        Raises:
            BadRequest: a field cannot be what it is.
            NotFound: there is none of that id.
            PreconditionFailed: it has changed since.
            Conflict: the owner has another one of that name.
            VaultUnavailable: it cannot be sealed, or, for another name, not be opened.
        """
        if secret is not None or name is not None:
            self._vault.prepare()
        with writing(self._engine) as connection:
            before = _row(connection, wanted)
            check_revision(revision, before["revision"], f"the credential `{wanted}`")
            given = {"name": name, "weight": weight, "enabled": enabled}
            after: dict[str, Any] = {**before, **{field: value for field, value in given.items() if value is not None}}
            if weight is not None:
                _check_weight(weight)
            if after["name"] != before["name"]:
                _check_name(after["name"], before["account"])
                _check_free(connection, after)
                if secret is None:
                    secret = self._vault.open(TABLE, before)  # it is bound to the name
                after["hint"] = before["hint"]
            if secret is not None:
                _check_secret(secret)
                after |= {"hint": _hint(secret), **self._vault.seal(connection, TABLE, after, secret)}
            if after != before:
                after |= {"updated_at": self._clock.now(), "revision": before["revision"] + 1}
                connection.execute(update(TABLE).where(TABLE.c.id == wanted).values(**after))
        self._changed()
        return _shown(after)

    def delete(self, wanted: str, *, revision: int | None = None) -> CredentialRow:
        """Remove a credential; gives what it was.

        Raises:
            NotFound: there is none of that id.
            PreconditionFailed: it has changed since.
        """
        with writing(self._engine) as connection:
            row = _row(connection, wanted)
            check_revision(revision, row["revision"], f"the credential `{wanted}`")
            connection.execute(delete(TABLE).where(TABLE.c.id == wanted))
        self._changed()
        return _shown(row)

    def check_provider(self, provider: str) -> None:
        """Whether there is such a provider. Raises: `BadRequest`, `NotFound`."""
        known = self._providers() if self._providers is not None else None
        if not provider:
            raise BadRequest("`provider` is empty", hint="It is the name of one of the configuration's providers.")
        if known is not None and provider not in known:
            names = sorted(known)
            close = nearest(provider, names)
            raise NotFound(
                f"there is no provider `{provider}`",
                hint=f"Did you mean `{close}`?" if close else f"The configuration has {', '.join(names) or 'none'}.",
            )


def _row(connection: Connection, wanted: str) -> Row:
    row = connection.execute(select(TABLE).where(TABLE.c.id == wanted)).mappings().one_or_none()
    if row is None:
        raise NotFound(f"there is no credential `{wanted}`", hint="`trunkline credentials list` shows them all.")
    return cast(Row, row)


def _shown(row: Row) -> CredentialRow:
    return CredentialRow(
        id=row["id"],
        provider=row["provider"],
        name=row["name"],
        weight=row["weight"],
        account=row["account"] or None,
        user=row["user"] or None,
        enabled=row["enabled"],
        hint=row["hint"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        revision=row["revision"],
    )


def _hint(secret: Secret) -> str:
    text = secret.reveal()
    return text[-HINT:] if len(text) >= HINTED else ""


# ------------------------------------------------------------------------------------------------------------------ checks
def _check_secret(secret: Secret) -> None:
    text = secret.reveal()
    if not SHORTEST <= len(text) <= LONGEST_SECRET:
        raise BadRequest(
            f"`secret` has {len(text)} characters", hint=f"A credential has {SHORTEST} to {LONGEST_SECRET}; is it whole, and alone?"
        )
    if not text.isascii() or not text.isprintable() or text.strip() != text:
        raise BadRequest("`secret` cannot be sent in a header", hint="A credential is one line of ASCII without spaces around it.")


def _check_name(name: str, account: str | None) -> None:
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise BadRequest(
            f"`name` is not a line of 1 to {LONGEST_NAME} characters", hint="Name it for the contract or project that it is of."
        )
    if name == FILE and not account:
        raise BadRequest(f"`name` is `{FILE}`, as the credential of the configuration is called", hint="Take another name.")


def _check_weight(weight: int) -> None:
    if not 1 <= weight <= HEAVIEST:
        raise BadRequest(f"`weight` is {weight}", hint=f"A share is 1 to {HEAVIEST}; to stop using a credential, disable it.")


def check_owner(connection: Connection, account: str | None, user: str | None) -> None:
    """Whether there is such an account, and such a user in it. Raises: `NotFound`."""
    wanted = select(ACCOUNTS.c.id).where(ACCOUNTS.c.id == account, ACCOUNTS.c.deleted_at.is_(None))
    if account and connection.execute(wanted).first() is None:
        raise NotFound(f"there is no account `{account}`", hint="`trunkline accounts list` shows the ids.")
    wanted = select(USERS.c.id).where(USERS.c.id == user, USERS.c.account_id == account, USERS.c.deleted_at.is_(None))
    if user and connection.execute(wanted).first() is None:
        raise NotFound(f"there is no user `{user}` in the account `{account}`", hint="`trunkline users list` shows the ids.")


def _check_free(connection: Connection, row: Row) -> None:
    same = [TABLE.c[column] == row[column] for column in ("provider", "account", "user", "name")]
    if connection.execute(select(TABLE.c.id).where(*same, TABLE.c.id != row["id"])).first() is not None:
        raise _taken(row)


def _taken(row: Row) -> Conflict:
    return Conflict(
        f"there is a credential `{row['name']}` of that owner for `{row['provider']}` already",
        hint="Give this one another `name`, or replace the secret of that one.",
    )
