"""The prices that come with this version, and how one is found."""

import importlib.util
import json
import re
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import pytest

from trunkline.catalog.prices import Clause, Prices, read_book, shipped
from trunkline.model.price import UNITS

ROOT = Path(__file__).parents[3]
BYTES = files("trunkline.catalog").joinpath("prices.json").read_bytes()
BOOK = read_book(BYTES)
LONG_AGO, NOW = 0.0, 1_796_000_000.0


@pytest.mark.proves("catalog.sources")
def test_every_row_has_a_source_a_date_and_whole_rates_of_buckets_that_we_know() -> None:
    assert BOOK.units == dict(UNITS)
    assert len(BOOK.rows) > 400
    for row in BOOK.rows:
        at = f"{row.vendor}/{row.model}"
        assert row.vendor in BOOK.vendors, at
        assert row.source.startswith("https://"), at
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", row.date), at
        assert row.prices, at
        assert [version.effective_at for version in row.prices] == sorted({version.effective_at for version in row.prices}), at
        for version in row.prices:
            assert version.rates, at
            assert version.rates.keys() <= UNITS.keys(), at
            assert all(type(rate) is int and rate >= 0 for rate in version.rates.values()), at
            assert [tier.above for tier in version.tiers] == sorted({tier.above for tier in version.tiers}), at
            assert all(tier.rates.keys() == version.rates.keys() for tier in version.tiers), at


def test_no_model_stands_there_twice() -> None:
    names = [(row.vendor, row.model.lower()) for row in BOOK.rows]
    assert len(set(names)) == len(names)


def test_there_is_no_float_in_the_file() -> None:
    def refuse(text: str) -> None:
        raise AssertionError(f"a float: {text}")

    assert json.loads(BYTES, parse_float=refuse)["made_from"].startswith("genai-prices ")


def test_every_pattern_can_be_used() -> None:
    def walk(clause: Clause) -> int:
        inner = (clause.any_of or []) + (clause.all_of or [])
        said = [clause.equals, clause.starts_with, clause.ends_with, clause.contains, clause.regex, clause.any_of, clause.all_of]
        assert sum(each is not None for each in said) == 1
        re.compile(clause.regex or "")
        return 1 + sum(map(walk, inner))

    assert sum(walk(row.match) for row in BOOK.rows) > len(BOOK.rows)
    for pattern in BOOK.vendors.values():
        re.compile(pattern)


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_prices", ROOT / "tools" / "prices.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.needs("genai_prices")
def test_the_file_is_what_the_script_makes_of_the_installed_data() -> None:
    make = script()
    content, _ = make.book(make.day_of(make.FILE, "1999-01-01"))
    if content["made_from"] != BOOK.made_from:
        pytest.skip(f"needs genai_prices: the file was made from {BOOK.made_from}, and {content['made_from']} is installed")
    assert make.written(content).encode() == BYTES


@pytest.mark.needs("genai_prices")
def test_the_script_leaves_out_and_tells_what_it_cannot_say_exactly() -> None:
    make = script()
    _, left_out = make.book("2026-11-29")
    assert any("its price depends on the hour" in line for line in left_out)
    assert any("no whole number of micro-cents" in line for line in left_out)
    with pytest.raises(make.NotSayable):
        make._rate(make.Decimal("0.000000001"), "input_mtok")


# --------------------------------------------------------------------------------------------------------------- finding
def prices(*rows: dict[str, object]) -> Prices:
    book = {
        "made_from": "a test",
        "units": {},
        "vendors": {"acme": "https://api\\.acme\\.test"},
        "rows": [{"vendor": "acme", "source": "https://acme.test/prices", "date": "2026-11-29", **row} for row in rows],
    }
    return Prices(read_book(json.dumps(book).encode()))


def row(model: str, rate: int, **match: object) -> dict[str, object]:
    return {"model": model, "match": match or {"equals": model}, "prices": [{"effective_at": 0, "rates": {"input": rate}}]}


def rate(found: Prices, model: str, at: float = NOW) -> int | None:
    price = found.price("acme", model, at)
    return None if price is None else price.rates["input"]


def test_the_exact_name_counts_before_the_first_row_that_claims_it() -> None:
    found = prices(row("big", 1, starts_with="big"), row("big-fast", 2), row("bigger", 3, any_of=[{"regex": r"^bigger-\d{8}$"}]))
    assert rate(found, "big") == 1
    assert rate(found, "big-2026") == 1
    assert rate(found, "big-fast") == 2
    assert rate(found, "Big-Fast") == 2
    assert rate(found, "small") is None
    assert found.price("other", "big", NOW) is None


@pytest.mark.parametrize(
    ("match", "name", "holds"),
    [
        ({"equals": "a"}, "a", True),
        ({"equals": "a"}, "ab", False),
        ({"starts_with": "a"}, "ab", True),
        ({"ends_with": "b"}, "ab", True),
        ({"ends_with": "b"}, "ba", False),
        ({"contains": "x"}, "axb", True),
        ({"regex": "^a.c$"}, "abc", True),
        ({"regex": "^a.c$"}, "abcd", False),
        ({"any_of": [{"equals": "a"}, {"equals": "b"}]}, "b", True),
        ({"all_of": [{"starts_with": "a"}, {"ends_with": "b"}]}, "a-b", True),
        ({"all_of": [{"starts_with": "a"}, {"ends_with": "b"}]}, "a-c", False),
        ({}, "", False),
    ],
)
def test_a_clause_says_which_names_are_meant(match: dict[str, object], name: str, holds: bool) -> None:
    found = prices({"model": "\n", "match": match, "prices": [{"effective_at": 0, "rates": {"input": 1}}]})
    assert (rate(found, name) is not None) == holds


def test_a_price_is_that_of_its_time() -> None:
    found = prices(
        {
            "model": "m",
            "match": {"equals": "m"},
            "prices": [{"effective_at": 0, "rates": {"input": 5}}, {"effective_at": 1_000, "rates": {"input": 4}}],
        }
    )
    assert (rate(found, "m", 999), rate(found, "m", 1_000)) == (5, 4)


def test_whose_prices_hold_is_known_by_the_address() -> None:
    assert prices().vendor_at("https://api.acme.test/v1") == "acme"
    assert prices().vendor_at("http://127.0.0.1:8000/v1") is None


def test_some_prices_of_this_version_are_as_their_vendors_print_them() -> None:
    haiku = shipped().price("anthropic", "claude-haiku-5-5", NOW)
    assert haiku is not None
    assert (haiku.rates["input"], haiku.rates["output"], haiku.rates["reasoning"]) == (10_000_000, 50_000_000, 50_000_000)
    assert [(tier.above, tier.rates["input"]) for tier in haiku.tiers] == [(100_000, 50_000_000)]
    before, after = (shipped().price("anthropic", "claude-opus-4-6", at) for at in (LONG_AGO, NOW))
    assert before is not None
    assert after is not None
    assert (len(before.tiers), len(after.tiers)) == (1, 0), "longer prompts cost more until 2026-03-13"
    dated = shipped().price("openai", "gpt-5-mini-2025-08-07", NOW)
    assert dated is not None
    assert dated.rates["input"] == 25_000_000
    assert shipped().price("openai", "a-model-of-another-vendor", NOW) is None
