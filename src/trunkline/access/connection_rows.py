"""The rows of connections: people's sign-ins to providers, as the database keeps them. Blocking.

An owner has at most one for a provider; whoever signs in again takes its place. One that the provider refuses for good is *revoked*: it is
used no more, nor another owner's in its place, and for a day it can be recovered, should the refusal have been a mistake. After that its
tokens are gone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

from sqlalchemy import ColumnElement, Connection, Engine, delete, insert, select, update

from trunkline.access.credentials import check_owner
from trunkline.access.rows import LATEST, check_revision
from trunkline.access.vault import Row, Vault
from trunkline.base.clock import Clock
from trunkline.base.codec import replace
from trunkline.base.ids import new_id
from trunkline.base.secret import Secret
from trunkline.errors import Conflict, NotFound
from trunkline.model.credential import Credential, Owner
from trunkline.store.engine import reading, writing
from trunkline.store.tables.connections import TABLE
from trunkline_sdk.daemon.messages import Record, decode, encode

RECOVERABLE_SECONDS = 86_400.0
"""For how long a revoked connection can be recovered."""

API_KEY = "api_key"
LONGEST_LABEL = 200
MOST_LISTED = 1000


class Place(NamedTuple):
    """For whom and for what a connection is."""

    account: str
    user: str
    provider: str

    @property
    def key(self) -> str:
        """The key in a token store: the three, with slashes between them; only a provider's name may hold some."""
        return "/".join(self)

    @property
    def owner(self) -> Owner:
        """Whose it is."""
        return Owner(self.account, self.user)

    @classmethod
    def of(cls, key: str) -> "Place":
        """The place that a key is of; a name alone is a provider's, for the installation."""
        account, user, provider = key.split("/", 2) if key.count("/") > 1 else ("", "", key)
        return cls(account, user, provider)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRow:
    """What may be known of a connection: all but its tokens. Times are seconds since the Unix epoch.

    Attributes:
        id: `con_` and letters.
        provider: `DAEMON/ID`.
        account: whose it is; none where it is the installation's.
        user: of that account, whose alone it is.
        token_type: what the token is; `api_key` is never renewed.
        label: what the provider calls the owner, for people; may be empty.
        expires_at: when the access token has to be renewed; none where it does not expire.
        refreshable: whether it renews itself; otherwise its owner signs in again.
        state: `revoked` where the provider refuses it for good.
        recoverable_until: for so long a revoked one can be recovered.
        revision: counts the changes, renewals included.
    """

    id: str
    provider: str
    account: str | None
    user: str | None
    token_type: str
    label: str
    expires_at: float | None
    refreshable: bool
    state: Literal["active", "revoked"]
    recoverable_until: float | None
    created_at: float
    updated_at: float
    revision: int


class ConnectionRows:
    """The connections of an installation. Raises `StoreUnavailable` where the database does not answer, and `VaultUnavailable`.

    Args:
        engine: the database.
        vault: what seals the tokens.
        clock: the time.
    """

    def __init__(self, engine: Engine, vault: Vault, clock: Clock) -> None:
        self._engine = engine
        self._vault = vault
        self._clock = clock

    # ------------------------------------------------------------------------------------------------------------ by place
    def load(self, place: Place) -> Record | None:
        """The record at a place, with its revision; none where there is none, or it was revoked."""
        with reading(self._engine) as connection:
            row = _at(connection, place)
        return None if row is None or row["revoked_at"] is not None else self.record(row)

    def save(self, place: Place, record: Record) -> Record:
        """Keep a record, whatever was there. Raises: `NotFound`, where there is no such owner."""
        self._vault.prepare()
        with writing(self._engine) as connection:
            check_owner(connection, place.account, place.user)
            before = _at(connection, place)
            if before is not None:
                return self._keep(connection, before, record)
            now = self._clock.now()
            row = {"id": new_id("con", self._clock), **place._asdict(), "created_at": now, "updated_at": now, "revision": 1}
            connection.execute(insert(TABLE).values(**row, **self._contents(connection, row, record)))
            return _revised(record, row)

    def replace(self, place: Place, revision: str, record: Record) -> Record | None:
        """Keep a record in the place of the one with this revision; none where that is not there any more."""
        self._vault.prepare()
        with writing(self._engine) as connection:
            before = _current(connection, place, revision)
            return None if before is None else self._keep(connection, before, record)

    def rehearse(self, place: Place, revision: str) -> bool:
        """Seal and write the record with this revision as it is, as `replace` would another one; false where that is not there any more."""
        self._vault.prepare()
        with writing(self._engine) as connection:
            row = _current(connection, place, revision)
            if row is not None:
                sealed = self._vault.seal(connection, TABLE, row, self._vault.open(TABLE, row))
                connection.execute(update(TABLE).where(TABLE.c.id == row["id"]).values(**sealed))
        return row is not None

    def revoke(self, place: Place, revision: str) -> bool | None:
        """Revoke the record with this revision; false where it has another one, none where there is none."""
        with writing(self._engine) as connection:
            before = _at(connection, place)
            if before is None or before["revoked_at"] is not None:
                return None
            if revision_of(before) != revision:
                return False
            now = self._clock.now()
            self._change(connection, before, {"revoked_at": now, "recoverable_until": now + RECOVERABLE_SECONDS})
            return True

    def record(self, row: Row) -> Record:
        """The record that a row keeps, with its revision."""
        return opened(row, self._vault.open(TABLE, row))

    # --------------------------------------------------------------------------------------------------------------- by id
    def get(self, wanted: str) -> ConnectionRow:
        """One connection, by its id. Raises: `NotFound`."""
        with reading(self._engine) as connection:
            return _shown(_row(connection, wanted))

    def list(
        self,
        *,
        account: str | None = None,
        user: str | None = None,
        provider: str | None = None,
        after: str | None = None,
        limit: int = MOST_LISTED,
    ) -> Sequence[ConnectionRow]:
        """Connections, the oldest first.

        Args:
            account: only this account's and its users'; by default all.
            user: only this user's.
            provider: only those to this one.
            after: the id of the last one that is known already.
            limit: the most that are wanted.
        """
        given = {"account": account, "user": user, "provider": provider}
        query = select(TABLE).where(*(TABLE.c[name] == value for name, value in given.items() if value is not None))
        if after is not None:
            query = query.where(TABLE.c.id > after)
        with reading(self._engine) as connection:
            return [_shown(cast(Row, row)) for row in connection.execute(query.order_by(TABLE.c.id).limit(limit)).mappings()]

    def delete(self, wanted: str, *, revision: int | None = None) -> ConnectionRow:
        """Sign out: the tokens are gone at once. Gives what it was.

        Raises:
            NotFound: there is none of that id.
            PreconditionFailed: it has changed since.
        """
        with writing(self._engine) as connection:
            row = _row(connection, wanted)
            check_revision(revision, row["revision"], f"the connection `{wanted}`")
            connection.execute(delete(TABLE).where(TABLE.c.id == wanted))
        return _shown(row)

    def recover(self, wanted: str, *, revision: int | None = None) -> ConnectionRow:
        """Use a revoked connection again.

        Raises:
            NotFound: there is none of that id.
            PreconditionFailed: it has changed since.
            Conflict: it is not revoked, or was for more than a day.
        """
        with writing(self._engine) as connection:
            row = _row(connection, wanted)
            check_revision(revision, row["revision"], f"the connection `{wanted}`")
            if row["revoked_at"] is None:
                raise Conflict(f"the connection `{wanted}` is not revoked", hint="There is nothing to recover.")
            if (row["recoverable_until"] or 0.0) <= self._clock.now():
                raise Conflict(f"the connection `{wanted}` was revoked more than a day ago", hint="Its owner has to sign in again.")
            return _shown(self._change(connection, row, {"revoked_at": None, "recoverable_until": None}))

    def clean(self) -> int:
        """Forget the tokens of those that can be recovered no more; says of how many."""
        late = TABLE.c.recoverable_until <= self._clock.now()
        with reading(self._engine) as connection:
            if connection.execute(select(TABLE.c.id).where(late)).first() is None:
                return 0
        self._vault.prepare()
        with writing(self._engine) as connection:
            rows = cast(Sequence[Row], connection.execute(select(TABLE).where(late)).mappings().all())
            for row in rows:
                sealed = self._vault.seal(connection, TABLE, row, _text(Record()))
                self._change(connection, row, {**sealed, "recoverable_until": None, "refreshable": False})
        return len(rows)

    # ----------------------------------------------------------------------------------------------------------------- writing
    def _keep(self, connection: Connection, before: Row, record: Record) -> Record:
        return _revised(record, self._change(connection, before, self._contents(connection, before, record)))

    def _change(self, connection: Connection, before: Row, changes: dict[str, Any]) -> Row:
        after = {**before, **changes, "updated_at": self._clock.now(), "revision": before["revision"] + 1}
        connection.execute(update(TABLE).where(TABLE.c.id == before["id"]).values(**after))
        return after

    def _contents(self, connection: Connection, row: Row, record: Record) -> dict[str, Any]:
        """What is kept of a record, sealed or not."""
        label = record.metadata.get("account_label") or record.account_id
        return {
            "token_type": record.token_type,
            "label": "".join(filter(str.isprintable, label))[:LONGEST_LABEL],
            "expires_at": expires_at(record),
            "refreshable": is_refreshable(record),
            "revoked_at": None,
            "recoverable_until": None,
            **self._vault.seal(connection, TABLE, row, _text(record)),
        }


def is_refreshable(record: Record) -> bool:
    """Whether it can be renewed without its owner; an API key never is (daemon contract, E5)."""
    return record.token_type != API_KEY and bool(record.refresh_token.strip())


def expires_at(record: Record) -> float | None:
    """When it expires, in seconds since the Unix epoch."""
    return None if record.expiry is None else min(record.expiry.timestamp(), LATEST)


def revision_of(row: Row) -> str:
    """The revision of a row's record in a token store: no other record ever has it, whatever was deleted meanwhile."""
    return f"{row['id']}.{row['revision']}"


def opened(row: Row, secret: Secret) -> Record:
    """The record of a row whose secret was opened."""
    return _revised(decode(Record, secret.reveal().encode()), row)


def credential(place: Place, record: Record) -> Credential:
    """What calls go out with (daemon contract, E2): without what only a refresh may carry."""
    return Credential(
        id=record.revision.partition(".")[0],
        weight=1,
        secret=Secret(record.access_token),
        token_type=record.token_type,
        account=record.account_id,
        metadata=dict(record.metadata),
        key=place.key,
        revision=record.revision,
        expires_at=expires_at(record),
    )


def _revised(record: Record, row: Row) -> Record:
    return replace(record, revision=revision_of(row), metadata=dict(record.metadata))


def _text(record: Record) -> Secret:
    return Secret(encode(record).decode())


def _at(connection: Connection, place: Place) -> Row | None:
    same: list[ColumnElement[bool]] = [TABLE.c[name] == value for name, value in place._asdict().items()]
    return cast("Row | None", connection.execute(select(TABLE).where(*same)).mappings().one_or_none())


def _current(connection: Connection, place: Place, revision: str) -> Row | None:
    row = _at(connection, place)
    return None if row is None or row["revoked_at"] is not None or revision_of(row) != revision else row


def _row(connection: Connection, wanted: str) -> Row:
    row = connection.execute(select(TABLE).where(TABLE.c.id == wanted)).mappings().one_or_none()
    if row is None:
        raise NotFound(f"there is no connection `{wanted}`", hint="`trunkline connections` shows them all.")
    return cast(Row, row)


def _shown(row: Row) -> ConnectionRow:
    return ConnectionRow(
        id=row["id"],
        provider=row["provider"],
        account=row["account"] or None,
        user=row["user"] or None,
        token_type=row["token_type"],
        label=row["label"],
        expires_at=row["expires_at"],
        refreshable=row["refreshable"],
        state="active" if row["revoked_at"] is None else "revoked",
        recoverable_until=row["recoverable_until"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        revision=row["revision"],
    )
