"""The wallet: the stored credentials, opened, in memory, where a request finds them without a database or a cipher on the way.

The table is looked at every two seconds, and at once when somebody says that it has changed. Only rows that changed are opened again: a
credential that did not stays the same object, by which others know it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import cast

from sqlalchemy import Engine, func, select

from trunkline.access.vault import Row, Vault
from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.errors import VaultUnavailable
from trunkline.model.credential import Credential, Owner
from trunkline.store.engine import reading
from trunkline.store.shared.contract import Bus, Listener
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

CHANNEL = "credentials"
"""Where processes tell each other that credentials have changed; the message is empty, the database knows the rest."""

# Ids grow, and so do revisions: these four are the same only when nothing happened.
_MARK = select(func.count(), func.max(TABLE.c.id), func.sum(TABLE.c.revision), func.max(TABLE.c.updated_at)).select_from(TABLE)


@dataclass(frozen=True, slots=True)
class _Contents:
    """What was read.

    Attributes:
        opened: the usable credentials, by id, each with the revision that it was opened at.
        held: the same, by provider and owner; an owner of whose none opens is there all the same.
        locked: why some do not open, by id.
    """

    mark: Mark = ()
    opened: Mapping[str, tuple[int, Credential]] = field(default_factory=dict[str, tuple[int, Credential]])
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
    """

    def __init__(
        self, engine: Engine, vault: Vault, clock: Clock, *, failed: Callable[[str, BaseException], None], bus: Bus | None = None
    ) -> None:
        self._engine = engine
        self._vault = vault
        self._clock = clock
        self._failed = failed
        self._bus = bus
        self._to_tell = asyncio.Event()
        self._contents = _Contents()
        self._problem: str = ""  # what was told last
        self._asked = asyncio.Event()
        self._read_once = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = ThreadPoolExecutor(1, "credentials")

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep up with the table while the block runs. What it holds at the beginning is known when the block begins."""
        self._loop = asyncio.get_running_loop()
        stop_hearing = self._bus.subscribe(CHANNEL, Listener(lambda _: self._asked.set(), self._asked.set)) if self._bus else lambda: None
        try:
            async with Tasks(self._failed) as tasks:
                tasks.start(self._read_when_asked(), name="credentials: read")
                self._asked.set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(START_SECONDS):
                        await self._read_once.wait()
                tasks.start(self._ask(), name="credentials: look for changes")
                if self._bus is not None:
                    tasks.start(self._tell_others(self._bus), name="credentials: tell of changes")
                yield
        finally:
            stop_hearing()
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await asyncio.to_thread(self._thread.shutdown)

    def of(self, provider: str) -> Held:
        """A provider's credentials, by whose they are; none where an owner's do not open."""
        return self._contents.held.get(provider, NONE)

    def changed(self) -> None:
        """Look at the table now, and have the other processes do so. From any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and nobody needs to know any more
                self._loop.call_soon_threadsafe(self._asked.set)
                self._loop.call_soon_threadsafe(self._to_tell.set)

    # --------------------------------------------------------------------------------------------------- in the background
    async def _tell_others(self, bus: Bus) -> None:
        while True:
            await self._to_tell.wait()
            self._to_tell.clear()
            try:
                await bus.publish(CHANNEL, b"")
            except Exception as error:  # noqa: BLE001 -- a background task's border: the others find out when they next look
                self._failed("credentials: tell of changes", error)

    async def _ask(self) -> None:
        while True:
            await self._clock.sleep(READ_SECONDS)
            self._asked.set()

    async def _read_when_asked(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                contents = await asyncio.get_running_loop().run_in_executor(self._thread, self._read, self._contents)
            except Exception as error:  # noqa: BLE001 -- a background task's border: whatever it is, the next read may go well
                self._tell("the table cannot be read", error)
            else:
                self._contents = contents
                problems = [str(error) for error in contents.locked.values()]
                self._tell("; ".join(problems), next(iter(contents.locked.values()), None))
            self._read_once.set()

    def _tell(self, problem: str, error: BaseException | None) -> None:
        if error is not None and problem != self._problem:
            self._failed("credentials: read", error)
        self._problem = problem

    def _read(self, before: _Contents) -> _Contents:
        """What the table holds: the same as before, unless something has changed or did not open."""
        with reading(self._engine) as connection:
            mark = tuple(connection.execute(_MARK).one())
            if mark == before.mark and not before.locked:
                return before
            rows = connection.execute(select(TABLE).where(TABLE.c.enabled).order_by(TABLE.c.id)).mappings().all()
        opened: dict[str, tuple[int, Credential]] = {}
        held: dict[str, dict[Owner, tuple[Credential, ...]]] = {}
        locked: dict[str, VaultUnavailable] = {}
        for row in cast("list[Row]", rows):
            of_provider = held.setdefault(row["provider"], {})
            owner = Owner(row["account"], row["user"])
            of_owner = of_provider.setdefault(owner, ())
            revision, known = before.opened.get(row["id"], (0, None))
            if known is None or revision != row["revision"]:
                try:
                    known = Credential(id=row["id"], weight=row["weight"], secret=self._vault.open(TABLE, row))
                except VaultUnavailable as error:
                    locked[row["id"]] = error
                    continue
            opened[row["id"]] = row["revision"], known
            of_provider[owner] = (*of_owner, known)
        return _Contents(mark, opened, held, locked)
