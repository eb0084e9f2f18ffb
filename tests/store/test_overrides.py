from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, update

from tests.fakes.clock import FakeClock
from trunkline.catalog.overrides import Overrides
from trunkline.errors import BadRequest, Conflict, NotFound, PreconditionFailed
from trunkline.model.card import Card
from trunkline.store.engine import writing
from trunkline.store.tables.overrides import TABLE

PRICE = {"rates": {"input": "2.50", "output": "10"}}


@pytest.fixture
def overrides(engine: Engine, clock: FakeClock) -> Overrides:
    return Overrides(engine, clock)


def test_what_is_said_is_kept_and_used(overrides: Overrides, clock: FakeClock) -> None:
    made = overrides.create(provider="home", model="org/qwen3", card={"max_output": 9, "forbidden": ["seed"]}, price=PRICE)
    assert made.id.startswith("ovr_")
    assert (made.revision, made.created_at, made.updated_at) == (1, clock.now(), clock.now())
    assert overrides.get(made.id) == made
    reading = overrides.read()
    assert reading is not None
    used = reading.overrides["home", "org/qwen3"]
    assert used.card == Card(max_output=9, forbidden=frozenset({"seed"}))
    assert used.prices[0].rates == {"input": 250_000_000, "output": 1_000_000_000}
    assert (used.prices[0].source, used.prices[0].date) == ("the operator", "2027-01-15")


def test_a_change_leaves_the_rest_alone_and_null_takes_a_field_back(overrides: Overrides, clock: FakeClock) -> None:
    made = overrides.create(provider="home", model="m", card={"max_output": 9, "tools": True}, price=PRICE)
    clock.advance(5)
    changed = overrides.change(made.id, card={"max_output": 7, "tools": None, "context_window": 99})
    assert dict(changed.card) == {"max_output": 7, "context_window": 99}
    assert (changed.price, changed.revision, changed.created_at, changed.updated_at) == (PRICE, 2, made.created_at, made.created_at + 5)
    assert overrides.change(made.id, price=None).price is None
    assert overrides.get(made.id).revision == 3


def test_what_has_been_changed_since_is_not_changed_by_who_did_not_see_it(overrides: Overrides) -> None:
    made = overrides.create(provider="home", model="m", card={"max_output": 9})
    overrides.change(made.id, revision=1, card={"max_output": 8})
    for stale in (lambda: overrides.change(made.id, revision=1, card={"max_output": 7}), lambda: overrides.delete(made.id, revision=1)):
        with pytest.raises(PreconditionFailed, match="is at revision 2, not 1"):
            stale()
    assert dict(overrides.get(made.id).card) == {"max_output": 8}
    overrides.delete(made.id, revision=2)
    with pytest.raises(NotFound):
        overrides.get(made.id)


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ({"card": {"maxoutput": 9}}, "card.maxoutput"),
        ({"card": {"max_output": 0}}, "card.max_output"),
        ({"card": {"lifecycle": {"state": "retired", "when": "now"}}}, "card.lifecycle.when"),
        ({"card": {"forbidden": ["max_tokens"]}}, r"card.forbidden\[0\]"),
        ({"price": {"rates": {"inptu": "1"}}}, "price.rates.inptu"),
        ({"price": {"rates": {"input": 2.5}}}, r"price.rates"),
        ({"price": {"rates": {}}}, "price.rates"),
        ({"price": {"rates": {"input": "1"}, "currency": "EUR"}}, "price.currency"),
        ({}, "says nothing"),
        ({"card": {"max_output": None}}, "says nothing"),
        ({"model": "", "card": {"tools": True}}, "model"),
        ({"model": "m\n", "card": {"tools": True}}, "model"),
        ({"provider": "p" * 101, "card": {"tools": True}}, "provider"),
    ],
)
def test_what_is_not_understood_is_refused_by_name_and_nothing_is_kept(overrides: Overrides, said: dict[str, Any], place: str) -> None:
    with pytest.raises(BadRequest, match=place):
        overrides.create(**{"provider": "home", "model": "m", **said})
    assert overrides.list() == []


def test_a_change_with_a_mistake_changes_nothing(overrides: Overrides) -> None:
    made = overrides.create(provider="home", model="m", card={"max_output": 9})
    for mistake in ({"card": {"max_outptu": 1}}, {"card": {"max_output": None}}, {"price": {"rates": {"input": "much"}}}):
        with pytest.raises(BadRequest):
            overrides.change(made.id, **mistake)
    assert overrides.get(made.id) == made


def test_a_model_has_one_override_however_many_want_to_make_it(overrides: Overrides) -> None:
    def make(number: int) -> str:
        try:
            return overrides.create(provider="home", model="m", card={"max_output": number + 1}).id
        except Conflict:
            return ""

    with ThreadPoolExecutor(8) as pool:
        made = list(filter(None, pool.map(make, range(8))))
    assert len(made) == 1
    assert [row.id for row in overrides.list()] == made


def test_pages_are_in_the_order_of_making(overrides: Overrides, clock: FakeClock) -> None:
    made = []
    for number in range(5):
        clock.advance(1)
        made.append(overrides.create(provider="home", model=f"m{number}", card={"tools": True}))
    assert overrides.list(limit=2) == made[:2]
    assert overrides.list(after=made[1].id, limit=2) == made[2:4]
    assert overrides.list(after=made[4].id) == []
    assert overrides.list(account="acc_one") == [], "they are the installation's"


def test_a_reading_is_none_while_nothing_has_changed_and_sees_every_change(overrides: Overrides, clock: FakeClock) -> None:
    def mark() -> object:
        reading = overrides.read()
        assert reading is not None
        assert overrides.read(reading.mark) is None
        return reading.mark

    marks = [mark()]
    one = overrides.create(provider="home", model="a", card={"tools": True})
    marks.append(mark())
    overrides.change(one.id, card={"tools": False})
    marks.append(mark())
    clock.advance(1)
    overrides.create(provider="home", model="b", card={"tools": True})
    marks.append(mark())
    overrides.delete(one.id)
    marks.append(mark())
    assert len(set(marks)) == len(marks)


def test_a_reading_sees_a_change_that_was_made_where_the_clock_is_behind(overrides: Overrides, engine: Engine, clock: FakeClock) -> None:
    old = overrides.create(provider="home", model="a", card={"tools": True})
    clock.advance(1)
    overrides.create(provider="home", model="b", card={"tools": True})
    before = overrides.read()
    assert before is not None
    elsewhere = Overrides(engine, FakeClock(clock.now() - 60))
    elsewhere.delete(old.id)
    elsewhere.create(provider="home", model="c", card={"tools": True})
    assert overrides.read(before.mark) is not None


def test_a_row_that_a_later_version_wrote_does_nothing_here_and_takes_no_other_down(overrides: Overrides, engine: Engine) -> None:
    odd = overrides.create(provider="home", model="a", card={"tools": True})
    overrides.create(provider="home", model="b", card={"tools": True})
    with writing(engine) as connection:
        connection.execute(update(TABLE).where(TABLE.c.id == odd.id).values(card='{"levitates": true}'))
    reading = overrides.read()
    assert reading is not None
    assert (list(reading.overrides), reading.unread) == ([("home", "b")], (odd.id,))


def test_an_unknown_id_is_told_the_nearest(overrides: Overrides) -> None:
    made = overrides.create(provider="home", model="m", card={"tools": True})
    with pytest.raises(NotFound) as caught:
        overrides.get(made.id[:-1])
    assert made.id in caught.value.hint
