from typing import Any

import pytest
from sqlalchemy import Engine, update

from tests.fakes.clock import FakeClock
from trunkline.base.aio import Tasks
from trunkline.catalog.cards import Cards
from trunkline.catalog.known import Catalog, Source
from trunkline.catalog.overrides import Overrides
from trunkline.catalog.prices import Book, Prices
from trunkline.errors import StoreUnavailable
from trunkline.gateway.overriding import READ_SECONDS, Overriding
from trunkline.store.engine import writing
from trunkline.store.tables.overrides import TABLE


class Log:
    def __init__(self) -> None:
        self.warnings: list[dict[str, Any]] = []

    def warning(self, _: str, **facts: Any) -> None:
        self.warnings.append(facts)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_a_change_is_in_use_at_the_next_glance_and_an_outage_is_told_once(
    database: Engine, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides, log = Overrides(database, clock), Log()
    catalog = Catalog(Prices(Book(made_from="", units={}, vendors={}, rows=[])), Cards([]))
    failures: list[str] = []
    following = Overriding(
        overrides=overrides,
        catalog=catalog,
        clock=clock,
        log=log,  # type: ignore[arg-type]
        failed=lambda task, _: failures.append(task),
    )
    known = catalog.of(Source(name="home"))
    overrides.create(provider="home", model="m", card={"max_output": 9})
    await following.refresh()
    assert known.card("m").max_output == 9

    def away(_: object) -> None:
        raise StoreUnavailable("the database does not answer")

    async with Tasks(lambda task, _: failures.append(task)) as tasks:
        tasks.start(following.run(), name="run")
        await clock.asleep()
        with monkeypatch.context() as patch:
            patch.setattr(overrides, "read", away)
            for _ in range(3):
                clock.advance(READ_SECONDS)
                await clock.asleep()
        assert known.card("m").max_output == 9, "what was read last stays"
        made = overrides.list()[0]
        overrides.change(made.id, card={"max_output": 7})
        clock.advance(READ_SECONDS)
        await clock.asleep()
        assert known.card("m").max_output == 7
    assert failures == ["overrides: read"]


async def test_an_override_that_is_not_understood_is_told_once(database: Engine, clock: FakeClock) -> None:
    overrides, log = Overrides(database, clock), Log()
    catalog = Catalog(Prices(Book(made_from="", units={}, vendors={}, rows=[])), Cards([]))
    following = Overriding(overrides=overrides, catalog=catalog, clock=clock, log=log, failed=print)  # type: ignore[arg-type]
    odd = overrides.create(provider="home", model="m", card={"max_output": 9})
    with writing(database) as connection:
        connection.execute(update(TABLE).values(card='{"levitates": true}', revision=2))
    await following.refresh()
    overrides.create(provider="home", model="n", card={"max_output": 9})
    await following.refresh()
    assert log.warnings == [{"overrides": [odd.id]}]
