"""What the guide about models shows is what there is."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from trunkline.app.compose import parts
from trunkline.app.config import read
from trunkline.app.example import EXAMPLE
from trunkline.base.codec import parse
from trunkline.cli import RESOURCES
from trunkline.model.price import UNITS
from trunkline.server.admin.catalog_overrides import NewOverride

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "models.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL)


@pytest.mark.parametrize("text", blocks("toml"))
def test_a_configuration_that_the_guide_shows_is_one(text: str) -> None:
    assert parts(read(tomllib.loads(text))).providers


def test_the_configuration_of_a_model_means_what_the_guide_says() -> None:
    [text] = [each for each in blocks("toml") if "forbidden" in each]
    card = parts(read(tomllib.loads(text))).providers["openai"].card("gpt-5-mini")
    assert (card.forbids("temperature"), card.max_output, card.context_window) == (False, 32_000, 400_000)


README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", [*re.findall(r"```toml\n(.*?)```", README, re.DOTALL), EXAMPLE], ids=["readme", "example"])
def test_the_models_that_a_newcomer_copies_are_here_to_stay(text: str) -> None:
    made = parts(read(tomllib.loads(text)))
    known = [made.providers[name].card(model) for name in ("openai", "anthropic") for model in made.providers[name].settings.models]
    assert len(known) == 2
    for card in known:
        assert card.context_window is not None, "it is known"
        assert card.lifecycle is None or card.lifecycle.state == "active"


@pytest.mark.parametrize("text", blocks("json"))
def test_an_override_that_the_guide_shows_is_one(text: str) -> None:
    new = parse(json.loads(text), NewOverride)
    assert new.price is not None
    price = new.price.price(at="price", source="the operator", date="2026-11-29")
    assert (price.rates["input"], price.at(16_001)["input"]) == (20_000_000, 40_000_000)
    assert "catalog_overrides" in RESOURCES


def test_the_buckets_are_those_that_have_a_unit() -> None:
    shown: dict[str, str] = {}
    for names, unit in re.findall(r"^\| (`[^|]+`) \| (\w+) \|$", GUIDE, re.MULTILINE):
        shown |= dict.fromkeys(re.findall(r"`(\w+)`", names), unit)
    assert shown == dict(UNITS)
