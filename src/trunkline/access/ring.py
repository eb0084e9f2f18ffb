"""The key ring: from a credential to a caller, without a database on the way.

Live keys are in memory, by the SHA-256 of the key, and so are the end users that they may call for. What changed is read every two seconds,
at once when a key comes in that is not there, and when another process says over the bus that it changed something. One reader does all of
it, so a flood of unknown keys is never more than one query at a time, and it has a thread of its own, so that nothing else that blocks (a
name server, a writer) holds up a revocation.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import Engine, bindparam, update

from trunkline.access.guesses import Guesses
from trunkline.access.keys import KEY, KEY_LENGTH, digest
from trunkline.access.mirror import Changes, EndUser, Known, Label, Mirror
from trunkline.access.users import Users
from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.errors import Denied, StoreUnavailable, Unauthenticated
from trunkline.model.caller import Caller
from trunkline.store.engine import writing
from trunkline.store.shared.contract import Bus, Listener
from trunkline.store.tables.keys import TABLE

READ_SECONDS = 2.0
"""How often it is looked what has changed."""

TRUST_SECONDS = 5.0
"""How long what was read may be acted on, and so the longest that a revoked key works."""

WAIT_SECONDS = 2.0
"""How long a request waits for a database that does not answer."""

START_SECONDS = 10.0
"""How long the start waits for it: a machine that comes up is busy."""

USE_SECONDS = 60.0
"""How exactly the last use of a key is known."""

WRITE_SECONDS = 10.0
"""How often last uses are written down."""

MOST_NEWCOMERS = 10_000
"""So many end users wait to be made at most; the calls of others go on, and their next one makes them."""

CHANNEL = "identity"
"""Where processes tell each other that accounts, users or keys have changed; the message is empty, the database knows the rest."""

ASK = "ask whoever runs this server for a new one."
HEADERS = "Send a key as `Authorization: Bearer swb_…` or `x-api-key: swb_…`."


class KeyRing:
    """What the request path asks who a caller is.

    Args:
        engine: the database.
        clock: the time.
        failed: told of what goes wrong in the background, once per outage.
        bus: between the processes of an installation, if there are several.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        failed: Callable[[str, BaseException], None],
        bus: Bus | None = None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._failed = failed
        self._bus = bus
        self._gone: Callable[[frozenset[str]], None] = lambda _: None
        self._guesses = Guesses()
        self._mirror = Mirror(engine)
        self._known: dict[bytes, Known] = {}
        self._end_users: dict[Label, EndUser] = {}
        self._newcomers: dict[Label, None] = {}  # not yet made
        self._uses: dict[str, float] = {}  # not yet written: when, by id
        self._read_at = float("-inf")
        self._problem: BaseException | None = None
        self._asked = asyncio.Event()
        self._to_tell = asyncio.Event()
        self._next_read = asyncio.Event()
        self._has_newcomers = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads = ThreadPoolExecutor(3, "keys")  # for the reader, for what writes last uses, for what makes end users

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep up with the database while the block runs. Raises: `StoreUnavailable`, when it cannot be read at the start."""
        self._loop = asyncio.get_running_loop()
        stop_hearing = self._bus.subscribe(CHANNEL, Listener(lambda _: self._asked.set(), self._asked.set)) if self._bus else lambda: None
        try:
            async with Tasks(self._failed) as tasks:
                tasks.start(self._read_when_asked(), name="keys: read")
                await self.refresh(within=START_SECONDS)
                tasks.start(self._ask(), name="keys: look for changes")
                tasks.start(self._write(), name="keys: write last uses")
                tasks.start(self._make_newcomers(), name="keys: make end users")
                if self._bus is not None:
                    tasks.start(self._tell(self._bus), name="keys: tell of changes")
                yield
        finally:
            stop_hearing()
            self._loop = None
            with suppress(TimeoutError):  # whoever disposes of the engine next finds it at rest, unless the disk hangs
                async with asyncio.timeout(WAIT_SECONDS):
                    await asyncio.to_thread(self._threads.shutdown)

    @property
    def readable(self) -> bool:
        """Whether the database could be read the last time; for readiness."""
        return self._problem is None

    async def identify(self, credential: str | None, address: str) -> Caller:
        """Who presents a key, from an address.

        Raises:
            Unauthenticated: no key, or none that is valid; a wrong one is answered late, the later the more of them came from the address.
            StoreUnavailable: the database has not been readable for five seconds, or the key is not known and it cannot be read now.
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

    async def for_end_user(self, caller: Caller, external_id: str, *, make: bool) -> Caller:
        """A caller that acts for one of its account's end users.

        Args:
            caller: whose key says that its requests name end users.
            external_id: what the account calls them.
            make: whether one that nobody knows is made, after the call; else they are refused.

        Raises:
            Denied: the end user is disabled, or nobody knows them.
            StoreUnavailable: nobody knows them, and the database cannot be read now.
        """
        label = (caller.account, external_id)
        found = self._end_users.get(label)
        if found is None and not make:
            await self._look()  # they may have been made a moment ago
            found = self._end_users.get(label)
        if found is None and not make:
            raise Denied(
                f"there is no end user `{external_id}`",
                hint='Make them first, or set `unknown_end_users = "create"` under `[accounts]`.',
            )
        if found is None:
            if len(self._newcomers) < MOST_NEWCOMERS:
                self._newcomers[label] = None
                self._has_newcomers.set()
            return replace(caller, user=None)
        if found.disabled:
            raise Denied(f"the end user `{external_id}` is disabled", hint="Whoever looks after the account can enable them.")
        return replace(caller, user=found.id)

    def when_gone(self, tell: Callable[[frozenset[str]], None]) -> None:
        """Have somebody told the ids of keys and users that were taken before, and are not any more."""
        self._gone = tell

    def changed(self) -> None:
        """Look at the database soon, and have the other processes do so: this one has changed something. For any thread."""
        if (loop := self._loop) is not None:
            with suppress(RuntimeError):  # it has stopped meanwhile
                loop.call_soon_threadsafe(self._note_change)

    async def refresh(self, *, within: float = WAIT_SECONDS) -> None:
        """Look at the database again; what it holds at the time of the call is then known. Readiness asks this too.

        Raises:
            StoreUnavailable: it cannot be read, or not within so many seconds.
        """
        read = self._next_read
        self._asked.set()
        try:
            async with asyncio.timeout(within):
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
    def _found(self, credential: str) -> Known | None:
        return self._known.get(digest(credential)) if len(credential) == KEY_LENGTH else None

    async def _looked_up(self, credential: str) -> Known | None:
        if KEY.fullmatch(credential) is None:
            raise Unauthenticated("what the request has for a key is not one of this server", hint=HEADERS)
        await self._look()
        return self._found(credential)

    async def _look(self) -> None:
        """Refresh, for a caller: what is wrong with the database, and where it is, are for the operator."""
        try:
            await self.refresh()
        except StoreUnavailable:
            raise StoreUnavailable(
                "keys cannot be checked now", hint="Try again soon; `trunkline doctor` on the server finds the reason."
            ) from None

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
                changes = await asyncio.get_running_loop().run_in_executor(self._threads, self._read)
            except Exception as error:  # noqa: BLE001 -- a background task's border: whatever it is, the next read may go well
                if self._problem is None:
                    self._failed("keys: read", error)
                self._problem = error
            else:
                self._problem = None
                self._read_at = begun
                if changes is not None:
                    self._take(changes)
            read.set()

    def _read(self) -> Changes | None:
        return self._mirror.read()

    def _take(self, changes: Changes) -> None:
        for hashed, key in changes.keys.items():
            before = self._known.pop(hashed, None)
            if key is not None:
                key.used_at = max(key.used_at, before.used_at if before else 0.0)
                self._known[hashed] = key
        for label, end_user in changes.end_users.items():
            self._end_users.pop(label, None)
            if end_user is not None:
                self._end_users[label] = end_user
        if changes.gone:
            self._gone(frozenset(changes.gone))

    def _note_change(self) -> None:
        self._asked.set()
        self._to_tell.set()

    async def _tell(self, bus: Bus) -> None:
        while True:
            await self._to_tell.wait()
            self._to_tell.clear()
            try:
                await bus.publish(CHANNEL, b"")
            except Exception as error:  # noqa: BLE001 -- a background task's border: the others find out when they next look
                self._failed("keys: tell of changes", error)

    async def _make_newcomers(self) -> None:
        users = Users(self._engine, self._clock, changed=self.changed)
        while True:
            await self._has_newcomers.wait()
            self._has_newcomers.clear()
            newcomers, self._newcomers = self._newcomers, {}
            try:
                await asyncio.get_running_loop().run_in_executor(self._threads, users.ensure, newcomers)
            except Exception as error:  # noqa: BLE001 -- a background task's border: their next calls make them
                self._failed("keys: make end users", error)

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
