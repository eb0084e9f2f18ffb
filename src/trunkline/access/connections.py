"""Connections: people's sign-ins to providers, in memory for calls, and renewed once for all who need it.

    given = connections.of(provider)[owner]          # in memory, as in the wallet
    usable = await connections.fresh(given)          # itself, or renewed where it has expired
    other = await connections.rejected(given)        # an upstream said 401 to it

Among all tasks, processes and machines of an installation each refresh token is used once: a renewal holds a lease, and keeps what came in
the place of just that record. A renewal goes on though whoever asked for it leaves, since a refresh that is cut off may cost the sign-in.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from copy import copy
from datetime import UTC, datetime
from typing import Literal

from sqlalchemy import Engine, true

from trunkline.access.connection_rows import API_KEY, MOST_LISTED, ConnectionRow, ConnectionRows, Place, credential, opened
from trunkline.access.renewal_failures import as_ours, sign_in_needed
from trunkline.access.token_store import TokenStore
from trunkline.access.vault import Row, Vault
from trunkline.access.wallet import WAIT_SECONDS, Held, Shelf, Wallet
from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.errors import BadRequest, StoreUnavailable, TrunklineError, VaultUnavailable
from trunkline.model.credential import Credential, Owner
from trunkline.store.shared.contract import Bus, Leases
from trunkline.store.tables.connections import TABLE
from trunkline_sdk.daemon.errors import DaemonError
from trunkline_sdk.daemon.messages import Record
from trunkline_sdk.daemon.tokenstore import Conflict, Coordinator, IdentityChanged, NotFound, Refresh, Revoked, TokenError
from trunkline_sdk.daemon.tokenstore.coordinator import SKEW

REFRESH_SECONDS = 30.0
"""How long a provider may take to renew one: less than a lease lasts (45 s), and that less than a daemon remembers its answer (60 s)."""

CLEAN_SECONDS = 3600.0
"""How often the tokens of revoked connections are looked for that can be recovered no more."""

THREADS = 4
LONGEST_TOKEN = 32_768

Happening = Literal["renewed", "revoked", "identity_changed"]
Told = Callable[[Happening, str, Owner], None]
"""Told of what became of a sign-in of an owner to a provider."""


def _signed_in(row: Row, vault: Vault) -> Credential | None:
    if row["revoked_at"] is not None:
        return None
    return credential(Place(row["account"], row["user"], row["provider"]), opened(row, vault.open(TABLE, row)))


SIGN_INS = Shelf("connections", TABLE, true(), _signed_in)


class Connections:
    """What the request path asks for sign-ins, and what signs in and out.

    Args:
        engine: the database.
        vault: what seals the tokens.
        clock: the time.
        leases: between the processes of an installation.
        refresher: gives what asks a provider for new tokens; raises a `TrunklineError` where it cannot be asked.
        link: where a person signs in to a provider.
        failed: told of what goes wrong in the background.
        told: told of what becomes of sign-ins.
        bus: between the processes of an installation, if there are several.
    """

    def __init__(
        self,
        engine: Engine,
        vault: Vault,
        clock: Clock,
        leases: Leases,
        *,
        refresher: Callable[[str], Refresh],
        link: Callable[[str], str],
        failed: Callable[[str, BaseException], None],
        told: Told = lambda _what, _provider, _owner: None,
        bus: Bus | None = None,
    ) -> None:
        self._clock = clock
        self._refresher = refresher
        self._link = link
        self._told = told
        self._wallet = Wallet(engine, vault, clock, failed=failed, bus=bus, shelf=SIGN_INS)
        self._rows = ConnectionRows(engine, vault, clock)
        self._threads = ThreadPoolExecutor(THREADS, "connections")
        self._store = TokenStore(self._rows, leases, self._threads, clock)
        self._failed = failed
        self._tasks = Tasks(failed)
        self._renewals: dict[tuple[str, str], asyncio.Task[Credential | TrunklineError]] = {}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep up with the table while the block runs; renewals that are under way at its end come to theirs."""
        try:
            async with self._wallet.running(), self._tasks:
                self._tasks.start(self._clean(), name="connections: clean")
                try:
                    yield
                finally:
                    if self._renewals:
                        await asyncio.wait(self._renewals.values(), timeout=REFRESH_SECONDS)
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await asyncio.to_thread(self._threads.shutdown)

    # ------------------------------------------------------------------------------------------------------------ for calls
    def of(self, provider: str) -> Held:
        """A provider's sign-ins, by whose they are; none where an owner's was revoked or does not open."""
        return self._wallet.of(provider)

    def ended(self, provider: str, owner: Owner) -> bool:
        """Whether an owner's sign-in was revoked, so that it has to sign in again."""
        return self._wallet.ended(provider, owner)

    async def fresh(self, credential: Credential) -> Credential:
        """The credential itself while it can be used, else its sign-in renewed.

        Raises:
            SignInNeeded: only its owner can renew it.
            DaemonRefused: the daemon does not accept our secret.
            UpstreamError: it is not renewed now; it stays as it is.
            StoreUnavailable: what it is kept in does not answer. `VaultUnavailable`: it does not open.
        """
        if not credential.key or self._is_usable(credential):
            return credential
        known = self._wallet.one(credential.id)
        return known if known is not None and self._is_usable(known) else await self._renewed(credential, "")

    async def rejected(self, credential: Credential) -> Credential:
        """What takes the place of a credential that an upstream refused with 401: a newer one, or the same renewed.

        Raises:
            TrunklineError: as `fresh`; `SignInNeeded` also for what cannot be renewed at all.
        """
        if not credential.key or credential.token_type == API_KEY:
            raise sign_in_needed(Place.of(credential.key).provider, self._link(Place.of(credential.key).provider), "is refused")
        known = self._wallet.one(credential.id)
        if known is not None and known.revision != credential.revision and self._is_usable(known):
            return known
        return await self._renewed(credential, credential.revision)

    def _is_usable(self, credential: Credential) -> bool:
        if credential.token_type == API_KEY:
            return True
        return credential.expires_at is None or self._clock.now() + SKEW < credential.expires_at

    # ------------------------------------------------------------------------------------------------------------- renewing
    async def _renewed(self, credential: Credential, rejected: str) -> Credential:
        """The outcome of the renewal that is under way here, or of a new one; whoever waits may leave."""
        which = credential.key, rejected
        if which not in self._renewals:
            task = self._tasks.start(self._renew(credential.key, rejected), name="connections: renew")
            self._renewals[which] = task
            task.add_done_callback(lambda _: self._renewals.pop(which))
        outcome = await asyncio.shield(self._renewals[which])
        if isinstance(outcome, TrunklineError):
            raise copy(outcome)  # each who waits gets its own, with its own traceback
        return outcome

    async def _renew(self, key: str, rejected: str) -> Credential | TrunklineError:
        place = Place.of(key)
        renews = False

        async def refresh(record: Record) -> Record:
            nonlocal renews
            if not await self._store.rehearse(key, record.revision):
                return record  # which cannot be kept, since another one is there: the coordinator finds that
            renews = True
            async with asyncio.timeout(REFRESH_SECONDS):
                return await self._refresher(place.provider)(record)

        coordinator = Coordinator(self._store, refresh, now=lambda: datetime.fromtimestamp(self._clock.now(), UTC))
        try:
            record = await (coordinator.rejected(key, Record(revision=rejected)) if rejected else coordinator.token(key))
        except StoreUnavailable:  # where it is, and what is wrong with it, are for the operator, as with keys
            return StoreUnavailable(
                "sign-ins cannot be renewed now", hint="Try again soon; `trunkline doctor` on the server finds the reason."
            )
        except VaultUnavailable:
            return VaultUnavailable(
                f"the sign-in to `{place.provider}` cannot be opened, or not be kept",
                hint="The operator asks `trunkline vault status` why.",
            )
        except TrunklineError as error:
            return error
        except (TokenError, DaemonError, TimeoutError) as error:
            if isinstance(error, Revoked | IdentityChanged):
                self._told("revoked" if isinstance(error, Revoked) else "identity_changed", place.provider, place.owner)
            if isinstance(error, Revoked | NotFound | Conflict):
                self._wallet.changed()
            return as_ours(place.provider, self._link(place.provider), error)
        if renews:
            self._told("renewed", place.provider, place.owner)
            self._wallet.changed()
        return self._known(place, record)

    def _known(self, place: Place, record: Record) -> Credential:
        """Have calls use a record from now on."""
        revision = int(record.revision.rpartition(".")[2])
        return self._wallet.put(place.provider, place.owner, credential(place, record), revision)

    # ----------------------------------------------------------------------------------------------------- signing in and out
    async def save(self, owner: Owner, provider: str, record: Record) -> str:
        """Keep what a sign-in gave, whatever its owner had for that provider before; gives the connection's id.

        Raises:
            BadRequest: the token cannot be sent.
            NotFound: there is no such owner.
            StoreUnavailable: it cannot be kept. `VaultUnavailable`: it cannot be sealed.
        """
        _check(record)
        place = Place(owner.account, owner.user, provider)
        kept = await self._store.save(place.key, record)
        made = self._known(place, kept)
        self._wallet.changed()
        return made.id

    def get(self, wanted: str) -> ConnectionRow:
        """One connection, by its id. Blocking. Raises: `NotFound`."""
        return self._rows.get(wanted)

    def list(
        self,
        *,
        account: str | None = None,
        user: str | None = None,
        provider: str | None = None,
        after: str | None = None,
        limit: int = MOST_LISTED,
    ) -> Sequence[ConnectionRow]:
        """Connections, as `ConnectionRows.list` gives them. Blocking."""
        return self._rows.list(account=account, user=user, provider=provider, after=after, limit=limit)

    def delete(self, wanted: str, *, revision: int | None = None) -> ConnectionRow:
        """Sign out, from any thread; gives what it was. Blocking. Raises: `NotFound`, `PreconditionFailed`."""
        row = self._rows.delete(wanted, revision=revision)
        self._wallet.changed()
        return row

    def recover(self, wanted: str, *, revision: int | None = None) -> ConnectionRow:
        """Use a revoked one again, from any thread. Blocking. Raises: `NotFound`, `PreconditionFailed`, `Conflict`."""
        row = self._rows.recover(wanted, revision=revision)
        self._wallet.changed()
        return row

    async def _clean(self) -> None:
        while True:
            try:
                if await asyncio.get_running_loop().run_in_executor(self._threads, self._rows.clean):
                    self._wallet.changed()
            except Exception as error:  # noqa: BLE001 -- a background task's border: the next time it may go well
                self._failed("connections: clean", error)
            await self._clock.sleep(CLEAN_SECONDS)


def _check(record: Record) -> None:
    """Whether a daemon can be told of it (daemon contract, A3). Raises: `BadRequest`, which names no value."""
    token = record.access_token
    if not 0 < len(token.strip()) <= LONGEST_TOKEN:
        raise BadRequest(f"the token has {len(token)} characters", hint=f"It has 1 to {LONGEST_TOKEN}; is it whole, and alone?")
    if any(ord(letter) < ord(" ") or ord(letter) == 0x7F for letter in token + record.account_id + record.token_type):
        raise BadRequest("the token, or what comes with it, cannot be sent in a header", hint="It has to be one line of text.")
