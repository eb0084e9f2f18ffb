"""The vault: what is kept encrypted, with keys that are not in the database.

A table that holds secrets has the columns `id`, `key_id` and `sealed`, and says under `info["place"]` which of its columns a secret is
bound to: with another value in one of them it does not open. `rotate` finds all such tables by that.

Keys are made and put away under the database's write lock, in which every seal is made too, so that a key that is put away seals nothing
any more. Whoever only opens reads the keys again when it meets one that it does not know.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from sqlalchemy import Connection, Engine, Table, func, insert, select, update

from trunkline.access.key_sources import KeySource
from trunkline.access.sealing import Unopened, seal, unseal
from trunkline.access.vault_key import VaultKey, new_key
from trunkline.base.secret import Secret
from trunkline.errors import VaultUnavailable
from trunkline.store.engine import reading, writing
from trunkline.store.tables import metadata
from trunkline.store.tables.vault_keys import TABLE as COUNTS

MOST_SEALS = 1 << 28
"""So often one key seals: at 2^32 random nonces NIST draws the line (SP 800-38D, 8.3), and here two are the same with odds of 2^-41."""

BATCH = 50
"""Rows that are sealed anew in one transaction; other writers wait for milliseconds."""

Row = Mapping[str, Any]


class Sealed(TypedDict):
    """What a row keeps of a secret."""

    key_id: str
    sealed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """What is known of one key.

    Attributes:
        id: `vk_` and letters.
        current: it seals what is new.
        present: it is where keys are; without it, what it sealed does not open.
        seals: how often it has sealed.
        secrets: how many of those are kept.
    """

    id: str
    current: bool
    present: bool
    seals: int
    secrets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultState:
    """What is known of the vault.

    Attributes:
        where: the keys are.
        keys: those that are there, the current one first, then those that are missed.
        secrets: how many are kept.
        locked: the ids of those that do not open.
    """

    where: str
    keys: tuple[KeyState, ...]
    secrets: int
    locked: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """What came of a rotation.

    Attributes:
        key: the id of the current key.
        resumed: no new key was made, because an earlier rotation had not come to its end.
        sealed: how many secrets were sealed anew.
        removed: the ids of old keys that were put away.
        removable: the ids of old keys that nothing needs any more, where only the operator can take them away.
        locked: the ids of secrets that do not open, whose keys stay.
    """

    key: str
    resumed: bool
    sealed: int
    removed: tuple[str, ...]
    removable: tuple[str, ...]
    locked: tuple[str, ...]


class Vault:
    """Seals and opens. Blocking; raises `StoreUnavailable` where the database does not answer.

    Args:
        engine: the database.
        source: where the keys are.
        most_seals: how often one key may seal.
    """

    def __init__(self, engine: Engine, source: KeySource, *, most_seals: int = MOST_SEALS) -> None:
        self._engine = engine
        self._source = source
        self._most_seals = most_seals
        self._known: Mapping[str, VaultKey] = {}  # replaced, never changed

    def prepare(self) -> None:
        """Read the keys before the write lock is taken: a keyring may ask a person first. Raises: `VaultUnavailable`."""
        self._read()

    def seal(self, connection: Connection, table: Table, row: Row, secret: Secret) -> Sealed:
        """A secret as a row keeps it.

        Args:
            connection: from `writing`, in the transaction that keeps the row.
            table: that it will be in.
            row: at least the columns that the secret is bound to.
            secret: the secret.

        Raises:
            VaultUnavailable: there is no key, it cannot be used, or it has sealed too often.
        """
        key = self._current(connection)
        self._count(connection, key)
        return {"key_id": key.id, "sealed": seal(key, _place(table, row), secret.reveal())}

    def open(self, table: Table, row: Row) -> Secret:
        """The secret that a row keeps.

        Raises:
            VaultUnavailable: its key is not there, or the row is not as it was sealed.
        """
        key = self._key(row["key_id"])
        if key is None:
            raise VaultUnavailable(
                f"the secret of `{row['id']}` was sealed with the key `{row['key_id']}`, which is not in {self._source.where}",
                hint="Put a copy of that key back, or give the secret anew.",
            )
        try:
            return Secret(unseal(key, _place(table, row), row["sealed"]))
        except Unopened:
            raise VaultUnavailable(
                f"the secret of `{row['id']}` does not open: its row is not as it was sealed",
                hint="Somebody changed the database by other means. Give the secret anew.",
            ) from None

    def status(self) -> VaultState:
        """What is known of keys and secrets. Raises: `VaultUnavailable`, where the keys cannot be read."""
        keys = self._read()
        with reading(self._engine) as connection:
            seals = {row.id: row.seals for row in connection.execute(select(COUNTS))}
            secrets = _by_key(connection)
            locked = [row["id"] for table, row in _rows(connection) if not self._opens(table, row)]
        present = [key.id for key in keys]
        ids = [*present, *sorted(set(secrets).difference(present))]
        return VaultState(
            where=self._source.where,
            keys=tuple(
                KeyState(id=key, current=key in present[:1], present=key in present, seals=seals.get(key, 0), secrets=secrets.get(key, 0))
                for key in ids
            ),
            secrets=sum(secrets.values()),
            locked=tuple(locked),
        )

    def rotate(self, progress: Callable[[int, int], None] = lambda _done, _of: None) -> Rotation:
        """Make a new key, seal everything with it, and put the old one away.

        It may be killed at any step: everything opens at any time, and the next call goes on where this one stopped.

        Args:
            progress: is told how many secrets are sealed anew, and of how many.

        Raises:
            VaultUnavailable: the keys cannot be read or written, or a new one is the operator's to make; nothing is lost.
        """
        self.prepare()
        resumed, total = self._begin()
        done, locked = 0, list[str]()
        progress(done, total)
        for table in _tables():
            last = ""
            while (batch := self._seal_anew(table, last)) is not None:
                last, sealed, failed = batch
                done += sealed
                locked += failed
                progress(done, total)
        current, removed, removable = self._put_away()
        return Rotation(key=current, resumed=resumed, sealed=done, removed=removed, removable=removable, locked=tuple(locked))

    # ------------------------------------------------------------------------------------------------------------ keys
    def _read(self) -> tuple[VaultKey, ...]:
        keys = self._source.read()
        self._known = {key.id: key for key in keys}
        return keys

    def _key(self, wanted: str) -> VaultKey | None:
        if wanted not in self._known:
            self._read()
        return self._known.get(wanted)

    def _current(self, connection: Connection) -> VaultKey:
        """The key that seals; the first one is made when it is needed, and never where another one was."""
        keys = self._read()
        if not keys:
            if missed := _by_key(connection):
                raise VaultUnavailable(
                    f"{self._source.where} is not there, and {sum(missed.values())} secrets were sealed with a key that it held",
                    hint="Put a copy of it back. If there is none, remove the credentials, and add them anew.",
                )
            self._source.make(new_key())
            keys = self._read()
        if not keys:
            raise VaultUnavailable(
                f"{self._source.where} did not keep the key that was put there", hint="Name another place in `vault.key`."
            )
        return keys[0]

    def _count(self, connection: Connection, key: VaultKey) -> None:
        """Count a seal before it is made."""
        seals = connection.execute(select(COUNTS.c.seals).where(COUNTS.c.id == key.id)).scalar_one_or_none()
        if seals is None:
            connection.execute(insert(COUNTS).values(id=key.id, seals=1))
        elif seals < self._most_seals:
            connection.execute(update(COUNTS).where(COUNTS.c.id == key.id).values(seals=seals + 1))
        else:
            raise VaultUnavailable(
                f"the vault's key `{key.id}` has sealed {seals} times, which is as often as one key may",
                hint="`trunkline vault rotate` makes another one.",
            )

    # -------------------------------------------------------------------------------------------------------- rotation
    def _begin(self) -> tuple[bool, int]:
        """See to it that there is a key to rotate to. Whether it was there already, and how many secrets wait for it."""
        with writing(self._engine) as connection:
            keys = self._source.read()
            if not keys:
                self._current(connection)
                return False, 0
            secrets = _by_key(connection)
            current, *old = keys
            if old:
                return True, sum(secrets.get(key.id, 0) for key in old)
            self._source.write([new_key(), current])
            return False, secrets.get(current.id, 0)

    def _seal_anew(self, table: Table, last: str) -> tuple[str, int, list[str]] | None:
        """One batch: the last id of it, how many were sealed, and which ones do not open. None when there is nothing left."""
        locked: list[str] = []
        with writing(self._engine) as connection:
            current = self._current(connection)
            found = select(table).where(table.c.key_id != current.id, table.c.id > last).order_by(table.c.id).limit(BATCH)
            rows = cast(Sequence[Row], connection.execute(found).mappings().all())
            for row in rows:
                try:
                    secret = self.open(table, row)
                except VaultUnavailable:
                    locked.append(row["id"])
                else:
                    connection.execute(update(table).where(table.c.id == row["id"]).values(**self.seal(connection, table, row, secret)))
        return (rows[-1]["id"], len(rows) - len(locked), locked) if rows else None

    def _put_away(self) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """Remove the keys that nothing needs. The current one, what was removed, and what the operator may remove."""
        with writing(self._engine) as connection:
            current, *old = self._source.read()
            needed = _by_key(connection)
            idle = tuple(key.id for key in old if key.id not in needed)
            if not idle or not self._source.changeable:
                return current.id, (), idle
            self._source.write([current, *(key for key in old if key.id in needed)])
        self._read()
        return current.id, idle, ()

    def _opens(self, table: Table, row: Row) -> bool:
        try:
            self.open(table, row)
        except VaultUnavailable:
            return False
        return True


# ------------------------------------------------------------------------------------------------------------------ tables
def _tables() -> list[Table]:
    """All tables with sealed secrets."""
    return [table for table in metadata().sorted_tables if "place" in table.info]


def _place(table: Table, row: Row) -> list[str]:
    columns: Sequence[str] = table.info["place"]
    return [table.name, *(str(row[column]) for column in columns)]


def _by_key(connection: Connection) -> dict[str, int]:
    """How many secrets each key has sealed that are kept."""
    found: dict[str, int] = {}
    for table in _tables():
        for key, count in connection.execute(select(table.c.key_id, func.count()).group_by(table.c.key_id)):
            found[key] = found.get(key, 0) + count
    return found


def _rows(connection: Connection) -> Iterator[tuple[Table, Row]]:
    for table in _tables():
        for row in connection.execute(select(table).order_by(table.c.id)).mappings():
            yield table, cast(Row, row)
