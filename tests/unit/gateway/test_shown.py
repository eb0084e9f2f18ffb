from dataclasses import replace

import pytest

from tests.fakes.clock import FakeClock
from trunkline.base.codec import parse
from trunkline.catalog.cards import Cards, read_rows
from trunkline.catalog.discovery import Diagnosis, Evidence
from trunkline.catalog.known import Catalog, Listed, Override
from trunkline.catalog.listing import Found
from trunkline.catalog.prices import Book, Prices
from trunkline.gateway import shown
from trunkline.gateway.router import Router, RouteSettings
from trunkline.gateway.shown import LASTS, Shown
from trunkline.model.caller import Caller
from trunkline.model.card import Card
from trunkline.model.price import Price
from trunkline.providers import Provider, Settings
from trunkline.providers.anthropic import PROVIDER as ANTHROPIC
from trunkline.providers.compatible import PROVIDER as COMPATIBLE

CARDS = """
[[card]]
vendor = "anthropic"
models = ["claude"]
source = "https://acme.test"
reviewed = "2026-11-29"
max_output = 9
lifecycle = { state = "deprecated", retires_at = "2027-01-16" }
"""
ANN = Caller(id="key_a", kind="service", name="ann", scopes=frozenset({"inference"}))
NOW = 1_800_000_000.0  # 2027-01-15, 08:00 UTC


class Made:
    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.catalog = Catalog(Prices(Book(made_from="", units={}, vendors={}, rows=[])), Cards(read_rows(CARDS)))
        self.providers = {
            name: self.provider(name, kind, *models)
            for name, kind, models in (("up", ANTHROPIC, ["claude"]), ("home", COMPATIBLE, ["qwen"]))
        }
        routes = {"smart": parse({"targets": [{"model": "up/claude"}, {"model": "home/qwen", "order": 1}]}, RouteSettings)}
        self.router = Router(providers=self.providers, routes=routes, discovered=self.catalog)
        self.shown = Shown(router=self.router, catalog=self.catalog, clock=self.clock)

    def provider(self, name: str, kind: object, *models: str) -> Provider:
        bare = Provider(name=name, kind=kind, settings=Settings(kind="x", models=list(models)), base_url="http://up.test", api_key=None)  # type: ignore[arg-type]
        return Provider(
            name=name, kind=bare.kind, settings=bare.settings, base_url=bare.base_url, api_key=None, known=self.catalog.of(bare.source)
        )


@pytest.fixture
def made() -> Made:
    return Made()


def test_a_name_is_shown_with_what_is_known_of_the_model_behind_it(made: Made) -> None:
    route, claude, qwen = made.shown.models(ANN)
    assert (route.id, route.owner, route.dialect, route.card.max_output, route.lifecycle) == (
        "smart",
        "trunkline",
        "anthropic",
        9,
        "deprecated",
    )
    assert (claude.id, claude.owner, claude.card.max_output) == ("up/claude", "up", 9)
    assert (qwen.id, qwen.card, qwen.price, qwen.lifecycle) == ("home/qwen", Card(), None, None)


@pytest.mark.proves("catalog.listing")
def test_it_is_the_same_object_until_something_changes(made: Made) -> None:
    first = made.shown.models(ANN)
    assert made.shown.models(ANN) is first
    made.catalog.take_overrides({("home", "qwen"): Override(card=Card(max_output=5))})
    second = made.shown.models(ANN)
    assert second is not first
    assert second[2].card.max_output == 5
    assert made.shown.models(ANN) is second


def test_what_begins_or_ends_with_time_is_seen_without_anybody_saying_so(made: Made) -> None:
    price = Price(rates={"input": 1, "output": 2}, effective_at=int(NOW) + 3600, source="the operator", date="2027-01-15")
    made.catalog.take_overrides({("home", "qwen"): Override(prices=(price,))})
    assert made.shown.models(ANN)[2].price is None
    made.clock.advance(3600 + LASTS)
    assert made.shown.models(ANN)[2].price is price
    assert made.shown.models(ANN)[1].lifecycle == "deprecated"
    made.clock.advance(16 * 3600)
    assert made.shown.models(ANN)[1].lifecycle == "retired"


def test_what_a_provider_lists_comes_after_what_is_configured_and_is_stale_with_its_list(made: Made) -> None:
    evidence = Evidence(status="discovered", models=(Found("qwen"), Found("llama", Card(context_window=7))), observed_at=NOW)
    made.catalog.take_listed("home", Listed(evidence, Diagnosis(status="synced", observed_at=NOW)))
    assert [(each.id, each.stale) for each in made.shown.models(ANN)][2:] == [("home/qwen", False), ("home/llama", False)]
    made.catalog.take_listed("home", Listed(evidence, Diagnosis(status="error", stale=True, observed_at=NOW)))
    assert [(each.id, each.stale) for each in made.shown.models(ANN)][2:] == [("home/qwen", False), ("home/llama", True)]
    assert made.shown.models(ANN)[3].card.context_window == 7


def test_a_caller_that_may_not_use_all_models_is_shown_its_own(made: Made) -> None:
    bob = replace(ANN, models=("home/*",))
    assert [each.id for each in made.shown.models(bob)] == ["smart", "home/qwen"]
    assert made.shown.models(bob) is made.shown.models(bob)
    assert len(made.shown.models(ANN)) == 3


def test_no_number_of_lists_of_models_fills_the_memory(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "MOST_LISTS", 2)
    first = made.shown.models(ANN)
    for number in range(3):
        made.shown.models(replace(ANN, models=(f"home/q{number}*",)))
    assert made.shown.models(ANN) is not first
