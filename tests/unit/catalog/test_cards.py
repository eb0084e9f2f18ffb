"""The cards that come with this version, and how one is found."""

from datetime import date
from importlib.resources import files

import pytest

from trunkline.catalog.cards import Cards, read_rows, shipped
from trunkline.catalog.prices import shipped as prices
from trunkline.errors import ConfigInvalid
from trunkline.model.card import UNKNOWN

ROWS = read_rows(files("trunkline.catalog").joinpath("cards.toml").read_text(encoding="utf-8"))


@pytest.mark.proves("catalog.sources")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.models[0])
def test_every_row_has_a_source_and_a_day_of_review_and_says_something_sensible(row) -> None:  # noqa: ANN001 - one of ROWS
    assert row.source.startswith("https://")
    assert date.fromisoformat(row.reviewed) <= date(2100, 1, 1)
    assert row.card != UNKNOWN
    if row.context_window is not None and row.max_output is not None:
        assert row.max_output <= row.context_window
    if row.lifecycle is not None:
        days = [day for day in (row.lifecycle.deprecated_at, row.lifecycle.retires_at) if day is not None]
        assert [date.fromisoformat(day) for day in days] == sorted(date.fromisoformat(day) for day in days)
        assert row.lifecycle.state == "active" or row.lifecycle.retires_at is not None


def test_no_model_stands_there_twice() -> None:
    names = [(row.vendor, model) for row in ROWS for model in row.models]
    assert len(set(names)) == len(names)


def test_every_current_model_has_a_price_but_those_that_the_library_does_not_have_yet() -> None:
    now = 1_796_000_000.0  # 2026-11-30
    without = {
        model
        for row in ROWS
        for model in row.models
        if (row.lifecycle is None or row.lifecycle.state == "active") and prices().price(row.vendor, model, now) is None
    }
    assert without <= {"gpt-6.2-sol", "claude-mythos-5", "claude-mythos-5-1"}


def test_a_name_stands_for_its_dated_variants_unless_they_have_a_row() -> None:
    cards = Cards(
        read_rows(
            """
            [[card]]
            vendor = "acme"
            models = ["big"]
            source = "https://acme.test"
            reviewed = "2026-11-29"
            max_output = 10

            [[card]]
            vendor = "acme"
            models = ["big-2024-05-13"]
            source = "https://acme.test"
            reviewed = "2026-11-29"
            max_output = 5
            """
        )
    )
    assert [cards.card("acme", name).max_output for name in ("big", "big-20251001", "big-2025-08-07", "big-2024-05-13")] == [10, 10, 10, 5]
    assert cards.card("acme", "big-fast") is UNKNOWN
    assert cards.card("acme", "bigger") is UNKNOWN
    assert cards.card("other", "big") is UNKNOWN


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ("maxoutput = 1", r"card\[0\]\.maxoutput"),
        ("max_output = 0", r"card\[0\]\.max_output"),
        ('forbidden = ["max_tokens"]', r"card\[0\]\.forbidden\[0\]"),
        ('lifecycle = { state = "gone" }', r"card\[0\]\.lifecycle\.state"),
        ('lifecycle = { state = "retired", retires_at = "soon" }', r"card\[0\]\.lifecycle\.retires_at"),
    ],
)
def test_a_row_with_a_mistake_is_refused_with_its_place(change: str, place: str) -> None:
    text = f'[[card]]\nvendor = "acme"\nmodels = ["big"]\nsource = "https://acme.test"\nreviewed = "2026-11-29"\n{change}\n'
    with pytest.raises(ConfigInvalid, match=place):
        read_rows(text)


@pytest.mark.parametrize("left_out", ["source", "reviewed"])
def test_a_row_without_source_or_review_is_refused(left_out: str) -> None:
    fields = {"vendor": '"acme"', "models": '["big"]', "source": '"https://acme.test"', "reviewed": '"2026-11-29"'}
    text = "[[card]]\n" + "\n".join(f"{name} = {value}" for name, value in fields.items() if name != left_out)
    with pytest.raises(ConfigInvalid, match=left_out):
        read_rows(text)


def test_some_cards_of_this_version() -> None:
    haiku = shipped().card("anthropic", "claude-haiku-4-5-20251001")
    assert (haiku.context_window, haiku.max_output, haiku.thinking) == (200_000, 64_000, "budget")
    assert shipped().card("anthropic", "claude-opus-4-7").forbids("temperature")
    assert shipped().card("openai", "gpt-5-mini").limit_field == "max_completion_tokens"
    old = shipped().card("openai", "gpt-4o-2024-05-13")
    assert (old.max_output, old.lifecycle and old.lifecycle.state) == (4_096, "retired")
