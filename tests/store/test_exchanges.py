"""Rows of calls: written beside them, read by page, deleted when old. On both kinds of database."""

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from tests.fakes.clock import FakeClock
from trunkline.base.aio import cancelled
from trunkline.base.ids import first_id, new_id
from trunkline.base.log import LogSettings, open_log
from trunkline.base.metrics import Registry
from trunkline.errors import NotFound, StoreUnavailable
from trunkline.gateway.exchange import Attempt, Exchange
from trunkline.gateway.recorder import Recorder
from trunkline.gateway.records import BATCH, CLEAN_SECONDS, PAUSE, Records, keep_clean
from trunkline.model.caller import Caller
from trunkline.model.loss import dropped, unsupported
from trunkline.model.usage import Usage
from trunkline.store.engine import reading, writing
from trunkline.store.writer import Writer

CANARY = "swb_canary0123456789canary0123456789"


class Kept:
    """A recorder with a writer on a database, and what it says."""

    def __init__(self, engine: Engine, clock: FakeClock, **settings: Any) -> None:
        self.clock = clock
        self.failures: list[str] = []
        self.writer = Writer(engine, failed=lambda name, error: self.failures.append(f"{name}: {error}"))
        self.stream = io.StringIO()
        log, self._lines = open_log(LogSettings(format="json"), self.stream)
        self.registry = Registry()
        self.recorder = Recorder(settings.pop("add", self.writer.add), log=log, registry=self.registry, **settings)
        self.records = Records(engine)

    def call(self, account: str = "acc_one", key: str = "key_a", **rest: Any) -> str:
        """Let a call have ended; each is a second later than the one before."""
        self.clock.advance(1)
        caller = Caller(id=key, kind="service", name="ann", scopes=frozenset({"inference"}), account=account)
        fields = {"model": "fast", "status": 200, "outcome": "ok"} | rest
        exchange = Exchange(id=new_id("rqe", self.clock), path="/v1/messages", started=0.0, address="192.0.2.1", caller=caller, **fields)
        self.recorder.note(exchange, 1.5)
        return exchange.id

    def close(self) -> None:
        self.writer.close()
        self._lines.close()


@pytest.fixture
def kept(engine: Engine, clock: FakeClock) -> Iterator[Kept]:
    made = Kept(engine, clock)
    yield made
    made.close()
    assert made.failures == []


async def test_a_call_leaves_a_row_with_all_that_is_known_and_nothing_that_was_said(kept: Kept) -> None:
    name = kept.call(
        attempts=[Attempt("a/m", "upstream_busy", 0.05), Attempt("b/org/m", "ok", 1.0)],
        stream=True,
        first_byte=0.25,
        sent=5_000_000_000,
        usage=Usage(input=5, cache_read=80, output=2),
        tool_calls=1,
        losses=(unsupported("messages.0.content.1", "pictures"), dropped("seed")),
        end_user="bob",
        client_request_id=CANARY,
    )
    await kept.writer.flushed()
    row = kept.records.get(name)
    assert (row.id, row.account, row.key, row.user, row.end_user) == (name, "acc_one", "key_a", None, "bob")
    assert (row.path, row.model, row.target, row.status, row.outcome) == ("/v1/messages", "fast", "b/org/m", 200, "ok")
    assert (row.stream, row.tool_calls, row.sent, row.seconds, row.first_byte) == (True, 1, 5_000_000_000, 1.5, 0.25)
    assert row.at == pytest.approx(kept.clock.now(), abs=0.001)
    assert [each["target"] for each in json.loads(row.attempts)] == ["a/m", "b/org/m"]
    assert json.loads(row.losses)[0] == {
        "path": "messages.0.content.1",
        "class": "unsupported",
        "severity": "material",
        "detail": "pictures",
    }
    assert json.loads(row.usage or "")["cache_read"] == 80
    assert CANARY not in repr(row)


async def test_whatever_a_caller_names_is_a_row(kept: Kept) -> None:
    names = ["a\0b", "x" * 5000, "\ud800", f"{CANARY}", "🛰 東", "'; drop table exchanges; --", ""]
    ids = [kept.call(model=name, attempts=[Attempt(f"a/{name}", "not_found", 0.0)], outcome="not_found") for name in names]
    await kept.writer.flushed()
    rows = [kept.records.get(each) for each in ids]
    assert [row.model for row in rows] == ["a\ufffdb", "x" * 200, "?", "***", "🛰 東", "'; drop table exchanges; --", ""]
    assert not [row for row in rows if CANARY in repr(row)]


async def test_a_stranger_leaves_no_row_and_without_days_to_keep_them_nobody_does(kept: Kept) -> None:
    kept.recorder.note(
        Exchange(id=new_id("rqe", kept.clock), path="/v1/messages", started=0.0, address="192.0.2.1", outcome="unauthenticated"), 0.1
    )
    kept.recorder.keeps = False
    kept.call()
    await kept.writer.flushed()
    assert kept.records.list(limit=9) == []


async def test_the_latest_are_first_and_pages_follow_each_other(kept: Kept) -> None:
    ids = [kept.call() for _ in range(7)]
    await kept.writer.flushed()
    found: list[str] = []
    after: str | None = None
    while rows := kept.records.list(after=after, limit=3):
        found += [row.id for row in rows]
        after = rows[-1].id
        kept.call()  # one that comes meanwhile is in no later page
        await kept.writer.flushed()
    assert found == ids[::-1]


async def test_calls_are_found_by_what_they_were(kept: Kept) -> None:
    begun = kept.clock.now()
    ids = [
        kept.call(),
        kept.call(account="acc_two", key="key_b"),
        kept.call(model="smart", outcome="upstream_down", status=502),
        kept.call(outcome="interrupted", status=0),
        kept.call(model="smart"),
    ]
    await kept.writer.flushed()

    def found(**filters: Any) -> list[int]:
        return sorted(ids.index(row.id) for row in kept.records.list(limit=9, **filters))

    assert found() == [0, 1, 2, 3, 4]
    assert found(account="acc_two") == found(key="key_b") == [1]
    assert found(model="smart") == [2, 4]
    assert found(outcome="ok") == [0, 1, 4]
    assert found(outcome="error") == found(outcome="upstream_down") == [2]
    assert found(outcome="interrupted") == [3]
    assert found(since=begun + 3) == [2, 3, 4]
    assert found(until=begun + 3) == [0, 1]
    assert found(since=begun + 2, until=begun + 4) == [1, 2]
    assert found(since=begun + 2, model="smart", account="acc_one", outcome="ok") == [4]
    assert found(since=0, until=1e12) == [0, 1, 2, 3, 4]
    with pytest.raises(NotFound, match="rqe_x"):
        kept.records.get("rqe_x")


@pytest.mark.parametrize("where", ["account = 'acc_one'", "key = 'key_a'", "model = 'fast'", "outcome <> 'ok' and outcome = 'denied'"])
async def test_every_filter_has_an_index_that_gives_the_rows_in_their_order(kept: Kept, engine: Engine, where: str) -> None:
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("set local enable_seqscan = off"))
            connection.execute(text("set local enable_sort = off"))
        plan = explain(connection, f"select * from exchanges where {where} and id < 'rqe_x' order by id desc limit 9")
    assert "ix_exchanges_" in plan
    assert "sort" not in plan.lower().replace("enable_sort", "")
    assert "temp b-tree" not in plan.lower()


def explain(connection: Connection, query: str) -> str:
    words = "explain" if connection.dialect.name == "postgresql" else "explain query plan"
    return "\n".join(str(row) for row in connection.execute(text(f"{words} {query}")))


async def test_many_calls_are_written_together(kept: Kept) -> None:
    for _ in range(1000):
        kept.call()
    assert kept.writer.waiting <= 2
    await kept.writer.flushed()
    assert len(kept.records.list(limit=2000)) == 1000


async def test_a_writer_that_is_faster_than_who_asks_it_leaves_no_row_behind(engine: Engine, clock: FakeClock) -> None:
    def at_once(job: Callable[[Connection], None]) -> bool:
        with writing(engine) as connection:
            job(connection)
        return True

    kept = Kept(engine, clock, add=at_once)
    ids = [kept.call() for _ in range(3)]
    assert [row.id for row in kept.records.list(limit=9)] == ids[::-1]
    kept.close()


async def test_a_batch_that_has_to_be_repeated_is_written_once(engine: Engine, clock: FakeClock) -> None:
    jobs: list[Callable[[Connection], None]] = []
    kept = Kept(engine, clock, add=lambda job: jobs.append(job) is None)
    first = kept.call()
    [job] = jobs
    for _ in range(2):
        with writing(engine) as connection:
            job(connection)
    second = kept.call()
    assert len(jobs) == 2, "what came later is another batch"
    with writing(engine) as connection:
        job(connection)
        jobs[1](connection)
    assert [row.id for row in kept.records.list(limit=9)] == [second, first]
    kept.close()


async def test_what_finds_no_room_is_counted_and_logged_once(engine: Engine, clock: FakeClock) -> None:
    jobs: list[Callable[[Connection], None]] = []
    takes = False
    kept = Kept(engine, clock, most=3, add=lambda job: takes and jobs.append(job) is None)
    ids = [kept.call() for _ in range(6)]
    assert kept.registry.get_sample_value("trunkline_exchange_rows_lost_total") == 3
    takes = True
    kept.call()  # finds no room either, and asks again
    with writing(engine) as connection:
        jobs[0](connection)
    last = kept.call()
    with writing(engine) as connection:
        jobs[1](connection)
    assert kept.registry.get_sample_value("trunkline_exchange_rows_lost_total") == 4
    assert [row.id for row in kept.records.list(limit=9)] == [last, *ids[2::-1]]
    kept.close()
    lines = [json.loads(line) for line in kept.stream.getvalue().splitlines()]
    assert [line["event"] for line in lines if "left out" in line["event"]] == ["rows of calls are left out: the database does not keep up"]


# --------------------------------------------------------------------------------------------------------- cleaning
async def test_old_rows_are_deleted_in_small_batches_and_the_others_stay(kept: Kept, engine: Engine) -> None:
    for _ in range(5):
        kept.call()
    cut = kept.clock.now() + 0.5
    young = [kept.call() for _ in range(2)]
    await kept.writer.flushed()
    assert kept.records.clean(cut, most=3) == 3
    assert kept.records.clean(cut, most=3) == 2
    assert kept.records.clean(cut, most=3) == 0
    assert [row.id for row in kept.records.list(limit=9)] == young[::-1]


async def test_rows_are_kept_for_as_long_as_the_configuration_says_and_an_outage_is_told(clock: FakeClock) -> None:
    asked: list[float] = []
    results = iter([BATCH, BATCH, 1, StoreUnavailable("locked"), 0])
    failures: list[str] = []
    days = 30.0

    class Fake:
        def clean(self, before: float) -> int:
            asked.append(round((clock.now() - before) / 86_400, 3))
            result = next(results)
            if isinstance(result, Exception):
                raise result
            return result

    work = keep_clean(Fake(), clock, lambda: days, failed=lambda name, error: failures.append(f"{name}: {error}"))
    task = asyncio.get_running_loop().create_task(work)
    for seconds in (PAUSE, PAUSE, CLEAN_SECONDS, CLEAN_SECONDS, CLEAN_SECONDS):
        await clock.asleep()
        assert clock.asked[-1] == seconds
        days = 2.0 if seconds == CLEAN_SECONDS else days
        clock.advance(0 if len(asked) == 5 else seconds)
    await cancelled(task)
    assert asked == [30, 30, 30, 2, 2]
    assert failures == ["exchanges: delete old rows: locked"]


def test_an_instant_is_a_place_among_ids(clock: FakeClock) -> None:
    assert first_id("rqe", clock.now()) <= new_id("rqe", clock) < first_id("rqe", clock.now() + 0.001)


def test_the_table_is_there_on_both(engine: Engine) -> None:
    with reading(engine) as connection:
        assert connection.execute(text("select count(*) from exchanges")).scalar() == 0
