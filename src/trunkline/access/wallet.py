"""The wallet: the stored credentials, opened, in memory, where a request finds them without a database or a cipher on the way.

The table is looked at every two seconds, and at once when somebody says that it has changed. Only rows that changed are read and opened
again: a credential that did not stays the same object, by which others know it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import cast

from sqlalchemy import ColumnElement, Connection, Engine, Table, select

from trunkline.access.vault import Row, Vault
from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.errors import VaultUnavailable
from trunkline.model.credential import Credential, Owner
from trunkline.store.engine import reading
from trunkline.store.shared.contract import Bus, Listener
from trunkline.store.tables import mark
from trunkline.store.tables.credentials import TABLE

READ_SECONDS = 2.0
"""How often the table is looked at."""

START_SECONDS = 10.0
"""How long the start waits for a database or a keyring that does not answer; what they hold is known when they do."""

WAIT_SECONDS = 2.0
"""How long the end waits for them."""

Mark = tuple[object, ...]
Held = Mapping[Owner, tuple[Credential, ...]]
"""A provider's credentials, by whose they are."""

NONE: Held = {}

BATCH = 500
"""Rows that are read at once."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """A table of what providers are called with.

    Attributes:
        name: of the channel on which processes tell each other that it has changed; the message is empty, the database knows the rest.
        table: its columns `id`, `provider`, `account`, `user`, `revision` and `created_at` are used here.
        listed: the rows that count.
        credential: what a row is, and its secret; `None` where it cannot be used, and its owner uses no other owner's in its place.
    """

    name: str
    table: Table
    listed: ColumnElement[bool]
    credential: Callable[[Row, Vault], Credential | None]


def _stored(row: Row, vault: Vault) -> Credential:
    return Credential(id=row["id"], weight=row["weight"], secret=vault.open(TABLE, row))


CREDENTIALS = Shelf("credentials", TABLE, TABLE.c.enabled, _stored)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A row, read at a revision."""

    revision: int
    provider: str
    owner: Owner
    credential: Credential | None


@dataclass(frozen=True, slots=True)
class _Contents:
    """What was read.

    Attributes:
        kept: the rows that count, by id, in the order of ids.
        held: the credentials among them, by provider and owner; an owner of whose none can be used is there all the same.
        locked: why some do not open, by id.
    """

    mark: Mark = ()
    kept: Mapping[str, _Kept] = field(default_factory=dict[str, _Kept])
    held: Mapping[str, Held] = field(default_factory=dict[str, Held])
    locked: Mapping[str, VaultUnavailable] = field(default_factory=dict[str, VaultUnavailable])


class Wallet:
    """What the request path asks for a provider's credentials.

    Args:
        engine: the database.
        vault: what opens them.
        clock: the time.
        failed: told of what goes wrong in the background, once per outage.
        bus: between the processes of an installation, if there are several.
        shelf: where they are.
    """

    def __init__(
        self,
        engine: Engine,
        vault: Vault,
        clock: Clock,
        *,
        failed: Callable[[str, BaseException], None],
        bus: Bus | None = None,
        shelf: Shelf = CREDENTIALS,
    ) -> None:
        self._engine = engine
        self._vault = vault
        self._clock = clock
        self._failed = failed
        self._bus = bus
        self._shelf = shelf
        self._mark = mark(shelf.table)
        self._to_tell = asyncio.Event()
        self._contents = _Contents()
        self._late: dict[str, _Kept] = {}  # was put while the table was being read
        self._problem: str = ""  # what was told last
        self._asked = asyncio.Event()
        self._read_once = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = ThreadPoolExecutor(1, shelf.name)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep up with the table while the block runs. What it holds at the beginning is known when the block begins."""
        self._loop = asyncio.get_running_loop()
        stop_hearing = self._subscribed()
        try:
            async with Tasks(self._failed) as tasks:
                tasks.start(self._read_when_asked(), name=f"{self._shelf.name}: read")
                self._asked.set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(START_SECONDS):
                        await self._read_once.wait()
                tasks.start(self._ask(), name=f"{self._shelf.name}: look for changes")
                if self._bus is not None:
                    tasks.start(self._tell_others(self._bus), name=f"{self._shelf.name}: tell of changes")
                yield
        finally:
            stop_hearing()
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await asyncio.to_thread(self._thread.shutdown)

    def of(self, provider: str) -> Held:
        """A provider's credentials, by whose they are; none where an owner's do not open."""
        return self._contents.held.get(provider, NONE)

    def ended(self, provider: str, owner: Owner) -> bool:
        """Whether nothing that an owner has for a provider can be used, though all of it opens: what it has was revoked."""
        found = [
            (each.credential, wanted) for wanted, each in self._contents.kept.items() if (each.provider, each.owner) == (provider, owner)
        ]
        return bool(found) and all(credential is None and wanted not in self._contents.locked for credential, wanted in found)

    def one(self, wanted: str) -> Credential | None:
        """The credential of an id, where it can be used."""
        kept = self._contents.kept.get(wanted)
        return None if kept is None else kept.credential

    def put(self, provider: str, owner: Owner, credential: Credential, revision: int) -> Credential:
        """Know at once what was written just now, unless that or something newer is known already; gives what is known.

        The table is read all the same when it is looked at.
        """
        known = self._contents.kept.get(credential.id)
        if known is not None and known.revision >= revision:
            return known.credential or credential
        row = _Kept(revision, provider, owner, credential)
        self._late[credential.id] = row
        self._contents = _with(self._contents, credential.id, row)
        return credential

    def changed(self) -> None:
        """Look at the table now, and have the other processes do so. From any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and nobody needs to know any more
                self._loop.call_soon_threadsafe(self._asked.set)
                self._loop.call_soon_threadsafe(self._to_tell.set)

    def _subscribed(self) -> Callable[[], None]:
        """Hear of changes that other processes make, until what this returns is called."""
        if self._bus is None:
            return lambda: None
        return self._bus.subscribe(self._shelf.name, Listener(lambda _: self._asked.set(), self._asked.set))

    # --------------------------------------------------------------------------------------------------- in the background
    async def _tell_others(self, bus: Bus) -> None:
        while True:
            await self._to_tell.wait()
            self._to_tell.clear()
            try:
                await bus.publish(self._shelf.name, b"")
            except Exception as error:  # noqa: BLE001 -- a background task's border: the others find out when they next look
                self._failed(f"{self._shelf.name}: tell of changes", error)

    async def _ask(self) -> None:
        while True:
            await self._clock.sleep(READ_SECONDS)
            self._asked.set()

    async def _read_when_asked(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            self._late.clear()
            try:
                contents = await asyncio.get_running_loop().run_in_executor(self._thread, self._read, self._contents)
            except Exception as error:  # noqa: BLE001 -- a background task's border: whatever it is, the next read may go well
                self._tell("the table cannot be read", error)
            else:
                for wanted, row in self._late.items():
                    known = contents.kept.get(wanted)
                    if known is None or known.revision <= row.revision:  # it was read before that was written, or just after
                        contents = _with(contents, wanted, row)
                self._contents = contents
                problems = [str(error) for error in contents.locked.values()]
                self._tell("; ".join(problems), next(iter(contents.locked.values()), None))
            self._read_once.set()

    def _tell(self, problem: str, error: BaseException | None) -> None:
        if error is not None and problem != self._problem:
            self._failed(f"{self._shelf.name}: read", error)
        self._problem = problem

    def _read(self, before: _Contents) -> _Contents:
        """What the table holds: the same as before, unless something has changed or did not open."""
        columns = self._shelf.table.c
        listed = select(columns.id, columns.revision).where(self._shelf.listed).order_by(columns.id)
        with reading(self._engine) as connection:
            seen = tuple(connection.execute(self._mark).one())
            if seen == before.mark and not before.locked:
                return before
            kept = {row.id: self._known(before, row.id, row.revision) for row in connection.execute(listed)}
            rows = self._rows(connection, [wanted for wanted, known in kept.items() if known is None])
        locked: dict[str, VaultUnavailable] = {}
        for row in rows:
            credential = None
            try:
                credential = self._shelf.credential(row, self._vault)
            except VaultUnavailable as error:
                locked[row["id"]] = error
            kept[row["id"]] = _Kept(row["revision"], row["provider"], Owner(row["account"], row["user"]), credential)
        found = {wanted: each for wanted, each in kept.items() if each is not None}
        return _Contents(seen, found, _held(found), locked)

    def _known(self, before: _Contents, wanted: str, revision: int) -> _Kept | None:
        """A row as it was read before, where nothing has changed since and it did open."""
        known = before.kept.get(wanted)
        return known if known is not None and known.revision == revision and wanted not in before.locked else None

    def _rows(self, connection: Connection, wanted: Sequence[str]) -> list[Row]:
        table = self._shelf.table
        pages = (wanted[at : at + BATCH] for at in range(0, len(wanted), BATCH))
        found = (connection.execute(select(table).where(table.c.id.in_(page))).mappings() for page in pages)
        return [cast(Row, row) for rows in found for row in rows]


def _with(contents: _Contents, wanted: str, row: _Kept) -> _Contents:
    """The same with one row more, or another one; no mark is of it, so that the table is read again."""
    of_provider = contents.held.get(row.provider, NONE)
    others = [each for each in of_provider.get(row.owner, ()) if each.id != wanted]
    own = (*others, row.credential) if row.credential is not None else tuple(others)
    return _Contents(
        kept={**contents.kept, wanted: row},
        held={**contents.held, row.provider: {**of_provider, row.owner: own}},
        locked=contents.locked,
    )


def _held(kept: Mapping[str, _Kept]) -> Mapping[str, Held]:
    held: dict[str, dict[Owner, tuple[Credential, ...]]] = {}
    for each in kept.values():
        of_provider = held.setdefault(each.provider, {})
        of_owner = of_provider.setdefault(each.owner, ())
        if each.credential is not None:
            of_provider[each.owner] = (*of_owner, each.credential)
    return held
