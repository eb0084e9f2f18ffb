"""The rows of calls: read, and deleted when they are old."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated

from sqlalchemy import ColumnElement, Engine, delete, literal_column, select

from trunkline.base.clock import Clock
from trunkline.base.codec import Meta, Record
from trunkline.base.ids import first_id
from trunkline.errors import NotFound, StoreUnavailable
from trunkline.store.engine import reading, writing
from trunkline.store.tables.exchanges import TABLE

PREFIX = "rqe"
DAY = 86_400.0
CLEAN_SECONDS = 3600.0  # between two looks for old rows
BATCH = 500  # rows that are deleted at a time, so that nobody waits long for the lock
PAUSE = 0.1  # seconds between two batches

_NOT_OK: ColumnElement[bool] = literal_column("outcome <> 'ok'")
"""As the index of these rows has it, to the letter."""


class ExchangeSettings(Record, frozen=True):
    """What is kept of calls, beside the log: a row each, without bodies."""

    keep_days: Annotated[float, Meta(ge=0, le=36_500, description="For how long; 0 keeps none.")] = 30


class ExchangeRow(Record, frozen=True):
    """A call that has ended. `attempts`, `losses` and `usage` are JSON."""

    id: str
    at: float
    account: str
    key: str
    user: str | None
    end_user: str | None
    path: str
    model: str
    target: str | None
    status: int
    outcome: str
    stream: bool
    attempts: str
    losses: str
    usage: str | None
    tool_calls: int
    sent: int
    seconds: float
    first_byte: float | None


class Records:
    """The rows. Blocking; raises `StoreUnavailable` where the database does not answer."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def get(self, exchange: str) -> ExchangeRow:
        """One call. Raises: `NotFound`."""
        found = self._select([TABLE.c.id == exchange], 1)
        if not found:
            raise NotFound(
                f"there is no exchange `{exchange}`",
                hint="Calls are written down when they have ended, and kept for `exchanges.keep_days`.",
            )
        return found[0]

    def list(
        self,
        *,
        account: str | None = None,
        key: str | None = None,
        model: str | None = None,
        outcome: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: str | None = None,
        limit: int,
    ) -> Sequence[ExchangeRow]:
        """Calls, the latest first.

        Args:
            account: of this account.
            key: by this key, by its id.
            model: for this name.
            outcome: that ended so: `ok`, `interrupted`, an error's code, or `error` for any.
            since: that began then or later, seconds since the epoch.
            until: that began before.
            after: that come after this one in the list, by its id.
            limit: so many at most.
        """
        columns = TABLE.c
        equal = ((columns.account, account), (columns.key, key), (columns.model, model))
        where = [column == value for column, value in equal if value is not None]
        match outcome:
            case None:
                pass
            case "ok":
                where.append(columns.outcome == "ok")
            case "error":
                where += [_NOT_OK, columns.outcome != "interrupted"]
            case code:
                where += [_NOT_OK, columns.outcome == code]
        if since is not None:
            where.append(columns.id >= first_id(PREFIX, since))
        if until is not None:
            where.append(columns.id < first_id(PREFIX, until))
        if after is not None:
            where.append(columns.id < after)
        return self._select(where, limit)

    def clean(self, before: float, most: int = BATCH) -> int:
        """Delete some of the calls that began before an instant; gives how many there were."""
        with writing(self._engine) as connection:
            old = select(TABLE.c.id).where(TABLE.c.id < first_id(PREFIX, before)).order_by(TABLE.c.id).limit(most)
            return connection.execute(delete(TABLE).where(TABLE.c.id.in_(old))).rowcount

    def _select(self, where: Sequence[ColumnElement[bool]], limit: int) -> Sequence[ExchangeRow]:
        with reading(self._engine) as connection:
            found = connection.execute(select(TABLE).where(*where).order_by(TABLE.c.id.desc()).limit(limit)).mappings().all()
        return [ExchangeRow(**row) for row in found]


async def keep_clean(
    records: Records, clock: Clock, keep_days: Callable[[], float], *, failed: Callable[[str, BaseException], None]
) -> None:
    """Delete old rows now and every hour, for ever.

    Args:
        records: the rows.
        clock: the time.
        keep_days: what the configuration says now.
        failed: told where the database does not answer; the next hour it may.
    """
    while True:
        try:
            while await asyncio.to_thread(records.clean, clock.now() - keep_days() * DAY) == BATCH:
                await clock.sleep(PAUSE)
        except StoreUnavailable as error:
            failed("exchanges: delete old rows", error)
        await clock.sleep(CLEAN_SECONDS)
