"""The key ring: from a credential to a caller, without a database on the way.

Live keys are in memory, by the SHA-256 of the key, and are read again when the table has changed: every two seconds, and at once
when a key comes in that is not there. One reader does both, so a flood of unknown keys is never more than one query at a time, and it has
a thread of its own, so that nothing else that blocks (a name server, a writer) holds up a revocation.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Engine, bindparam, func, select, update

from trunkline.access.guesses import Guesses
from trunkline.access.keys import KEY, KEY_LENGTH, digest
from trunkline.access.scopes import from_text, granted
from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.errors import StoreUnavailable, Unauthenticated
from trunkline.model.caller import Caller
from trunkline.store.engine import reading, writing
from trunkline.store.tables.keys import TABLE

READ_SECONDS = 2.0
"""How often the table is looked at."""

TRUST_SECONDS = 5.0
"""How long what was read may be acted on, and so the longest that a revoked key works."""

WAIT_SECONDS = 2.0
"""How long a request waits for a database that does not answer."""

USE_SECONDS = 60.0
"""How exactly the last use of a key is known."""

WRITE_SECONDS = 10.0
"""How often last uses are written down."""

ASK = "ask whoever runs this server for a new one."
HEADERS = "Send a key as `Authorization: Bearer swb_…` or `x-api-key: swb_…`."

Mark = tuple[object, ...]

# Rows are made and revoked, never changed otherwise: these four are the same only when nothing happened.
_MARK = select(func.count(), func.count(TABLE.c.revoked_at), func.max(TABLE.c.id), func.sum(TABLE.c.expires_at)).select_from(TABLE)


@dataclass(slots=True)
class _Known:
    """A live key: who has it, until when, and when its use was last noted."""

    caller: Caller
    expires_at: float | None
    used_at: float


class KeyRing:
    """What the request path asks who a caller is.

    Args:
        engine: the database.
        clock: the time.
        failed: told of what goes wrong in the background, once per outage.
    """

    def __init__(self, engine: Engine, clock: Clock, *, failed: Callable[[str, BaseException], None]) -> None:
        self._engine = engine
        self._clock = clock
        self._failed = failed
        self._guesses = Guesses()
        self._known: dict[bytes, _Known] = {}
        self._uses: dict[str, float] = {}  # not yet written: when, by id
        self._mark: Mark | None = None
        self._read_at = float("-inf")
        self._problem: BaseException | None = None
        self._asked = asyncio.Event()
        self._next_read = asyncio.Event()
        self._threads = ThreadPoolExecutor(2, "keys")  # one for the reader, one for the writer

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep up with the table while the block runs. Raises: `StoreUnavailable`, when it cannot be read at the start."""
        try:
            async with Tasks(self._failed) as tasks:
                tasks.start(self._read_when_asked(), name="keys: read")
                await self.refresh()
                tasks.start(self._ask(), name="keys: look for changes")
                tasks.start(self._write(), name="keys: write last uses")
                yield
        finally:
            with suppress(TimeoutError):  # whoever disposes of the engine next finds it at rest, unless the disk hangs
                async with asyncio.timeout(WAIT_SECONDS):
                    await asyncio.to_thread(self._threads.shutdown)

    @property
    def readable(self) -> bool:
        """Whether the table could be read the last time; for readiness."""
        return self._problem is None

    async def identify(self, credential: str | None, address: str) -> Caller:
        """Who presents a key, from an address.

        Raises:
            Unauthenticated: no key, or none that is valid; a wrong one is answered late, the later the more of them came from the address.
            StoreUnavailable: the table has not been readable for five seconds, or the key is not known and the table cannot be read now.
        """
        if not credential:
            raise Unauthenticated("the request has no key", hint=HEADERS)
        known = self._found(credential)
        if known is None or self._clock.monotonic() - self._read_at > TRUST_SECONDS:
            known = await self._looked_up(credential)
        if known is None:
            await self._hold_back(address)
            raise Unauthenticated("the key is not known, or is revoked", hint=f"Check that it is whole, or {ASK}")
        now = self._clock.now()
        if known.expires_at is not None and known.expires_at <= now:
            await self._hold_back(address)
            when = datetime.fromtimestamp(known.expires_at, UTC).isoformat(timespec="seconds")
            raise Unauthenticated(f"the key `{known.caller.name}` expired at {when}", hint=ASK.capitalize())
        if now - known.used_at >= USE_SECONDS:
            known.used_at = self._uses[known.caller.id] = now
        return known.caller

    async def refresh(self) -> None:
        """Look at the table again; what it holds at the time of the call is then known. Readiness asks this too.

        Raises:
            StoreUnavailable: it cannot be read, or not within two seconds.
        """
        read = self._next_read
        self._asked.set()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await read.wait()
        except TimeoutError:
            raise StoreUnavailable("the keys cannot be read: the database does not answer", hint="See `trunkline doctor`.") from None
        match self._problem:
            case None:
                return
            case StoreUnavailable(message=message, hint=hint):
                raise StoreUnavailable(message, hint=hint)
            case _:
                raise StoreUnavailable("the keys cannot be read", hint="The log has the reason.")

    # ---------------------------------------------------------------------------------------------------- on the path
    def _found(self, credential: str) -> _Known | None:
        return self._known.get(digest(credential)) if len(credential) == KEY_LENGTH else None

    async def _looked_up(self, credential: str) -> _Known | None:
        if KEY.fullmatch(credential) is None:
            raise Unauthenticated("what the request has for a key is not one of this server", hint=HEADERS)
        try:
            await self.refresh()
        except StoreUnavailable:  # its words, with the database's path, are for the operator and not for everyone who has no key
            raise StoreUnavailable(
                "keys cannot be checked now", hint="Try again soon; `trunkline doctor` on the server finds the reason."
            ) from None
        return self._found(credential)

    async def _hold_back(self, address: str) -> None:
        await self._clock.sleep(self._guesses.failed(address, self._clock.monotonic()))

    # ------------------------------------------------------------------------------------------------- in the background
    async def _ask(self) -> None:
        while True:
            await self._clock.sleep(READ_SECONDS)
            self._asked.set()

    async def _read_when_asked(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            read, self._next_read = self._next_read, asyncio.Event()
            begun = self._clock.monotonic()
            try:
                changed = await asyncio.get_running_loop().run_in_executor(self._threads, self._read, self._mark)
            except Exception as error:  # noqa: BLE001 -- a background task's border: whatever it is, the next read may go well
                if self._problem is None:
                    self._failed("keys: read", error)
                self._problem = error
            else:
                self._problem = None
                self._read_at = begun
                if changed is not None:
                    self._mark, known = changed
                    self._take(known)
            read.set()

    def _read(self, seen: Mark | None) -> tuple[Mark, dict[bytes, _Known]] | None:
        """The live keys, unless nothing has changed since."""
        with reading(self._engine) as connection:
            mark = tuple(connection.execute(_MARK).one())
            if mark == seen:
                return None
            rows = connection.execute(select(TABLE).where(TABLE.c.revoked_at.is_(None))).all()
        return mark, {
            bytes.fromhex(row.hash): _Known(
                Caller(id=row.id, kind="service", name=row.name, scopes=granted(from_text(row.scopes))),
                row.expires_at,
                row.last_used_at or 0.0,
            )
            for row in rows
        }

    def _take(self, known: dict[bytes, _Known]) -> None:
        for hashed, key in known.items():
            if (before := self._known.get(hashed)) is not None:
                key.used_at = max(key.used_at, before.used_at)
        self._known = known

    async def _write(self) -> None:
        while True:
            await self._clock.sleep(WRITE_SECONDS)
            uses, self._uses = self._uses, {}
            if uses:
                try:
                    await asyncio.get_running_loop().run_in_executor(self._threads, self._write_uses, uses)
                except Exception as error:  # noqa: BLE001 -- a background task's border: these uses are lost, the next are not
                    self._failed("keys: write last uses", error)

    def _write_uses(self, uses: dict[str, float]) -> None:
        with writing(self._engine) as connection:
            connection.execute(
                update(TABLE).where(TABLE.c.id == bindparam("key")).values(last_used_at=bindparam("at")),
                [{"key": key, "at": at} for key, at in uses.items()],
            )
