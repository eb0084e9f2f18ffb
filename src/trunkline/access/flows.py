"""Where sign-ins are kept: the SDK's `FlowStore` over the database (daemon contract, G2 and H6).

Of a flow, its secrets and the addresses and codes that its owner is shown are sealed by the vault; beside them stand times, a hash of the
state, and whose it is. One that is used up has no secrets left, and can be looked at until it expires.
"""

import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar, cast

from sqlalchemy import Connection, Engine, delete, insert, select, update

from trunkline.access.credentials import check_owner
from trunkline.access.vault import Row, Vault
from trunkline.base.clock import Clock
from trunkline.base.codec import replace
from trunkline.base.secret import Secret
from trunkline.model.credential import INSTALLATION, Owner
from trunkline.store.engine import reading, writing
from trunkline.store.tables.sign_ins import TABLE
from trunkline_sdk.daemon.messages import Caller, Flow, Progress, decode, encode
from trunkline_sdk.daemon.oauthflow import FlowConflict, FlowNotFound, state_hash

MOST = 32
"""So many sign-ins an owner has at a time; the oldest makes room."""

KEPT_SECONDS = 900.0
"""For how long after its expiry the owner of one is told that it has expired."""

CLEAN_SECONDS = 600.0
"""How often those that are older are deleted."""

T = TypeVar("T")


class Run(Protocol):
    """Runs what blocks, elsewhere."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """What came of it."""
        ...


class Flows:
    """A `FlowStore` that all processes on one database share. Raises `StoreUnavailable` and `VaultUnavailable` beside what the contract says.

    Args:
        engine: the database.
        vault: what seals them.
        clock: the time.
        run: takes what blocks off the event loop.
    """

    def __init__(self, engine: Engine, vault: Vault, clock: Clock, run: Run) -> None:
        self._engine = engine
        self._vault = vault
        self._clock = clock
        self._run = run

    async def check_owner(self, owner: Owner) -> None:
        """See that there is such an account, and such a user in it. Raises: `NotFound`."""

        def check() -> None:
            with reading(self._engine) as connection:
                check_owner(connection, owner.account, owner.user)

        await self._run(check)

    async def add(self, flow: Flow) -> Flow:
        """See `FlowStore`."""
        return await self._run(lambda: self._add(flow))

    async def load(self, caller: Caller, flow_id: str) -> Flow:
        """See `FlowStore`."""
        flow = await self.get(flow_id)
        if flow.caller != caller:
            raise FlowNotFound
        return flow

    async def get(self, flow_id: str) -> Flow:
        """A flow, whosesoever it is. Raises: `FlowNotFound`."""
        return await self._run(lambda: self._one(TABLE.c.id == flow_id))

    async def find(self, hashed_state: str) -> Flow:
        """See `FlowStore`."""
        if not hashed_state:
            raise FlowNotFound
        return await self._run(lambda: self._one(TABLE.c.state == hashed_state, TABLE.c.consumed_at.is_(None)))

    async def replace(self, revision: str, flow: Flow) -> Flow:
        """See `FlowStore`."""
        return await self._run(lambda: self._replace(revision, flow))

    async def keep_clean(self, failed: Callable[[str, BaseException], None]) -> None:
        """Delete what has expired, again and again."""
        while True:
            await self._clock.sleep(CLEAN_SECONDS)
            try:
                await self._run(self._sweep)
            except Exception as error:  # noqa: BLE001 - a background task's border: the next time may go well
                failed("sign-ins: delete old ones", error)

    # ------------------------------------------------------------------------------------------------------ blocking
    def _add(self, flow: Flow) -> Flow:
        owner = owner_of(flow.caller)
        self._vault.prepare()
        with writing(self._engine) as connection:
            self._swept(connection)
            same = (TABLE.c.account == owner.account) & (TABLE.c.user == owner.user)
            youngest = select(TABLE.c.id).where(same).order_by(TABLE.c.created_at.desc(), TABLE.c.id).limit(MOST - 1)
            kept = connection.execute(youngest).scalars().all()
            connection.execute(delete(TABLE).where(same, TABLE.c.id.not_in(kept)))
            flow = _revised(flow)
            row = _row(flow, owner)
            connection.execute(insert(TABLE).values(**row, **self._vault.seal(connection, TABLE, row, _secrets(flow))))
        return flow

    def _one(self, *where: Any) -> Flow:
        with reading(self._engine) as connection:
            row = connection.execute(select(TABLE).where(*where, TABLE.c.expires_at >= self._oldest)).mappings().one_or_none()
        if row is None:
            raise FlowNotFound
        return self._flow(cast(Row, row))

    def _replace(self, revision: str, flow: Flow) -> Flow:
        self._vault.prepare()
        with writing(self._engine) as connection:
            place = TABLE.c.id == flow.id
            before = connection.execute(select(TABLE).where(place, TABLE.c.revision == revision)).mappings().one_or_none()
            if before is None:
                raise FlowConflict("the sign-in was changed meanwhile")
            flow = _revised(flow)
            after = _row(flow, owner_of(flow.caller))
            if self._flow(cast(Row, before)).secrets != flow.secrets:  # a poll moves only its times, and seals nothing
                after |= self._vault.seal(connection, TABLE, after, _secrets(flow))
            connection.execute(update(TABLE).where(place).values(**after))
        return flow

    def _sweep(self) -> None:
        with writing(self._engine) as connection:
            self._swept(connection)

    def _swept(self, connection: Connection) -> None:
        connection.execute(delete(TABLE).where(TABLE.c.expires_at < self._oldest))

    @property
    def _oldest(self) -> float:
        return self._clock.now() - KEPT_SECONDS

    def _flow(self, row: Row) -> Flow:
        return replace(
            decode(Flow, self._vault.open(TABLE, row).reveal().encode()),
            id=row["id"],
            caller=caller_of(Owner(row["account"], row["user"])),
            instance=row["provider"],
            method=row["method"],
            created_at=_moment(row["created_at"]),
            expires_at=_moment(row["expires_at"]),
            consumed_at=_moment(row["consumed_at"]),
            revision=row["revision"],
            progress=Progress(
                interval=timedelta(seconds=row["interval"]),
                next_poll_at=_moment(row["next_poll_at"]),
                outcome=row["outcome"],
                credential_key=row["connection"],
            ),
        )


def caller_of(owner: Owner) -> Caller:
    """Whose a flow is, in the words of the contract (A9)."""
    if owner.user:
        return Caller(id=owner.user, kind="human", project_id=owner.account)
    if owner.account:
        return Caller(id=owner.account, kind="service", project_id=owner.account)
    return Caller(id="installation", kind="local")


def owner_of(caller: Caller) -> Owner:
    """The same, backwards."""
    match caller.kind:
        case "human":
            return Owner(caller.project_id, caller.id)
        case "service":
            return Owner(caller.project_id)
        case _:
            return INSTALLATION


def _row(flow: Flow, owner: Owner) -> dict[str, Any]:
    return {
        "id": flow.id,
        "account": owner.account,
        "user": owner.user,
        "provider": flow.instance,
        "method": flow.method,
        "state": state_hash(flow.secrets.state) if flow.secrets.state else "",
        "created_at": _seconds(flow.created_at),
        "expires_at": _seconds(flow.expires_at),
        "consumed_at": _seconds(flow.consumed_at),
        "interval": flow.progress.interval.total_seconds(),
        "next_poll_at": _seconds(flow.progress.next_poll_at),
        "outcome": flow.progress.outcome,
        "connection": flow.progress.credential_key,
        "revision": flow.revision,
    }


def _secrets(flow: Flow) -> Secret:
    """What is sealed of a flow."""
    told = Flow(
        authorization_url=flow.authorization_url,
        user_code=flow.user_code,
        verification_uri=flow.verification_uri,
        verification_uri_complete=flow.verification_uri_complete,
        secrets=flow.secrets,
    )
    return Secret(encode(told).decode())


def _revised(flow: Flow) -> Flow:
    return replace(flow, revision=secrets.token_hex(16))


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
