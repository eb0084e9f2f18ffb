import pytest

from trunkline.catalog.cards import Cards, read_rows
from trunkline.catalog.discovery import Diagnosis, Evidence
from trunkline.catalog.known import FREE, Catalog, Known, Listed, Override, Source
from trunkline.catalog.listing import Found
from trunkline.catalog.prices import Book, Clause, Prices, Row, Version
from trunkline.model.card import UNKNOWN, Card
from trunkline.model.price import Price

ROW = """
[[card]]
vendor = "acme"
models = ["m"]
source = "https://acme.test"
reviewed = "2026-11-29"
max_output = 4
context_window = 4
tools = true
thinking = "adaptive"
"""
NOW = 2_000.0


@pytest.fixture
def catalog() -> Catalog:
    row = Row(
        vendor="acme",
        model="m",
        match=Clause(equals="m"),
        source="https://acme.test",
        date="2026-11-29",
        prices=[Version(effective_at=0, rates={"input": 4})],
    )
    book = Book(made_from="a test", units={}, vendors={"acme": r"https://api\.acme\.test"}, rows=[row])
    return Catalog(Prices(book), Cards(read_rows(ROW)))


def listing(*models: Found) -> Listed:
    return Listed(Evidence(status="discovered", models=models, observed_at=1.0), Diagnosis(status="synced", observed_at=1.0))


def rate(known: Known, model: str, at: float = NOW) -> int | None:
    price = known.price(model, at)
    return None if price is None else price.rates["input"]


def priced(rate: int, since: int = 0) -> Price:
    return Price(rates={"input": rate}, effective_at=since, source="the operator", date="2026-11-29")


@pytest.mark.proves("catalog.order")
def test_field_by_field_the_file_counts_before_overrides_these_before_the_list_and_that_before_what_we_ship(catalog: Catalog) -> None:
    known = catalog.of(Source(name="up", vendor="acme", own={"m": Card(max_output=1)}))
    catalog.take_listed("up", listing(Found("m", Card(max_output=3, context_window=3, tools=False))))
    catalog.take_overrides({("up", "m"): Override(card=Card(max_output=2, context_window=2))})
    assert known.card("m") == Card(max_output=1, context_window=2, tools=False, thinking="adaptive")


def test_what_changes_is_seen_at_once_and_counted(catalog: Catalog) -> None:
    known = catalog.of(Source(name="up", vendor="acme"))
    versions = [catalog.version]
    assert known.card("m").max_output == 4
    catalog.take_overrides({("up", "m"): Override(card=Card(max_output=2)), ("other", "m"): Override(card=Card(max_output=9))})
    versions.append(catalog.version)
    assert known.card("m").max_output == 2
    catalog.take_overrides({})
    versions.append(catalog.version)
    assert known.card("m").max_output == 4
    assert known.card("m") is known.card("m"), "an answer is remembered while nothing changes"
    assert versions == sorted(set(versions))


def test_an_overrides_price_holds_from_its_day_on_and_before_that_the_files(catalog: Catalog) -> None:
    known = catalog.of(Source(name="up", vendor="acme"))
    catalog.take_overrides({("up", "m"): Override(prices=(priced(1, since=1_500),))})
    assert (rate(known, "m", 1_499), rate(known, "m", 1_500)) == (4, 1)


def test_what_the_settings_call_free_is_free_whatever_others_say(catalog: Catalog) -> None:
    catalog.take_overrides({("up", "m"): Override(prices=(priced(1),))})
    assert catalog.of(Source(name="up", vendor="acme", free=True)).price("m", NOW) is FREE


def test_whose_models_they_are_is_known_by_the_address_before_the_kind(catalog: Catalog) -> None:
    assert rate(catalog.of(Source(name="up", vendor="acme", base_url="http://127.0.0.1:1/v1")), "m") == 4
    assert rate(catalog.of(Source(name="up", base_url="https://api.acme.test/v1")), "m") == 4
    assert rate(catalog.of(Source(name="up", vendor="other", base_url="https://api.acme.test/v1")), "m") == 4
    assert rate(catalog.of(Source(name="up", vendor="other")), "m") is None
    nobodys = catalog.of(Source(name="up", base_url="http://127.0.0.1:1/v1"))
    assert (rate(nobodys, "m"), nobodys.card("m")) == (None, UNKNOWN)


def test_the_owners_of_a_name_are_those_that_list_it(catalog: Catalog) -> None:
    catalog.take_listed("a", listing(Found("one"), Found("two")))
    catalog.take_listed("b", listing(Found("two")))
    assert (catalog.owners("one"), catalog.owners("two"), catalog.owners("three")) == (["a"], ["a", "b"], ())
    assert list(catalog.found("a")) == ["one", "two"]
    catalog.forget(lambda name: name == "a")
    assert (catalog.owners("one"), catalog.owners("two")) == ((), ["b"])
    assert (catalog.diagnosis("a"), list(catalog.found("a"))) == (None, [])


def test_the_memory_of_names_has_an_end(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trunkline.catalog.known.MOST", 3)
    known = catalog.of(Source(name="up", vendor="acme"))
    for number in range(20):
        known.card(f"never heard of {number}")
        assert len(known._cards) <= 5
