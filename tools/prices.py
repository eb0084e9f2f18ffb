"""`make prices`: writes `src/trunkline/catalog/prices.json` from the data that the installed genai-prices carries. Asks no network.

What cannot be said exactly is left out, and told on stderr: a rate that is no whole number of micro-cents per million, a unit that we
do not count, a price that depends on the hour. Only the standard prices are taken: those of batches and of other tiers of service are
others. A kind of token that the source does not price apart costs what it is a part of: reasoning as output, the cache as input.
"""

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

from genai_prices import data, types
from genai_prices.data_units import unit_data

from trunkline.base.money import DOLLAR, MILLION
from trunkline.model.price import UNITS

FILE = Path(__file__).parents[1] / "src" / "trunkline" / "catalog" / "prices.json"
LIBRARY = "genai-prices"

VENDORS = (
    "anthropic",
    "openai",
    "google",
    "mistral",
    "groq",
    "deepseek",
    "x-ai",
    "cerebras",
    "cohere",
    "moonshotai",
    "perplexity",
    "fireworks",
    "together",
    "zai",
)
"""Whose prices are taken: those that somebody can reach with a kind of provider that we have."""

BUCKETS = {
    "input_mtok": "input",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
    "cache_write_5m_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
    "output_mtok": "output",
    "output_reasoning_mtok": "reasoning",
    "input_audio_mtok": "input_audio",
    "cache_audio_read_mtok": "cache_read_audio",
    "output_audio_mtok": "output_audio",
    "input_image_mtok": "input_image",
    "cache_image_read_mtok": "cache_read_image",
    "output_image_mtok": "output_image",
    "input_video_mtok": "input_video",
    "output_video_mtok": "output_video",
    "requests_kcount": "requests",
    "web_searches_kcount": "web_searches",
    "storage_searches_kcount": "file_searches",
    "rerank_searches_kcount": "rerank_searches",
    "audio_hours": "audio",
    "input_audio_hours": "audio_in",
    "output_audio_hours": "audio_out",
    "input_document_kpages": "pages",
    "input_annotated_document_kpages": "annotated_pages",
}
"""Our names for the library's."""

PARTS = {"reasoning": "output", "cache_read": "input", "cache_write": "input"}
"""What costs as much as the whole that it is a part of, unless it has a price."""


class NotSayable(Exception):
    """The price cannot be written down exactly."""


def book(read: str) -> tuple[dict[str, Any], list[str]]:
    """The file's content, and what was left out.

    Args:
        read: the day on which the rows were taken over, as an ISO date.
    """
    left_out: list[str] = []
    vendors: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    known = {provider.id: provider for provider in data.providers}
    for vendor in VENDORS:
        provider = known[vendor]
        vendors[vendor] = provider.api_pattern
        source = next(iter(provider.pricing_urls or ()), LIBRARY)
        for model in provider.models:
            try:
                versions = [_version(since, prices, f"{vendor}/{model.id}", left_out) for since, prices in _versions(model)]
            except NotSayable as reason:
                left_out.append(f"{vendor}/{model.id}: {reason}")
                continue
            rows.append(
                {
                    "vendor": vendor,
                    "model": model.id,
                    "match": _clause(model.match),
                    "source": source,
                    "date": read,
                    "prices": sorted((each for each in versions if each["rates"]), key=lambda each: each["effective_at"]),
                }
            )
    rows = [row for row in rows if row["prices"]]
    return {"made_from": f"{LIBRARY} {version(LIBRARY)}", "units": dict(UNITS), "vendors": vendors, "rows": rows}, left_out


def _versions(model: types.ModelInfo) -> Iterable[tuple[int, types.ModelPrice]]:
    """Since when (seconds since the Unix epoch) which prices hold. Raises: `NotSayable`."""
    if isinstance(model.prices, types.ModelPrice):
        yield 0, model.prices
        return
    for conditional in model.prices:
        match conditional.constraint:
            case None:
                yield 0, conditional.prices
            case types.StartDateConstraint(start_date=day):
                yield int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()), conditional.prices
            case _:
                raise NotSayable("its price depends on the hour")


def _version(since: int, prices: types.ModelPrice, at: str, left_out: list[str]) -> dict[str, Any]:
    base: dict[str, int] = {}
    steps: dict[str, dict[int, int]] = {}
    for key, value in sorted(prices.__dict__.items()):
        if value is None:
            continue
        bucket = BUCKETS.get(key)
        try:
            if bucket is None:
                raise NotSayable("we do not count that")  # noqa: TRY301 - told in the same words as what is not exact
            if isinstance(value, types.TieredPrices):
                base[bucket] = _rate(value.base, key)
                steps[bucket] = {tier.start: _rate(tier.price, key) for tier in value.tiers}
            else:
                base[bucket] = _rate(value, key)
        except NotSayable as reason:
            left_out.append(f"{at}: {key}: {reason}")
    found: dict[str, Any] = {"effective_at": since, "rates": _whole(base)}
    if thresholds := sorted({start for tiers in steps.values() for start in tiers}):
        found["tiers"] = [{"above": above, "rates": _whole(_tier(base, steps, above))} for above in thresholds]
    return found


def _tier(base: dict[str, int], steps: dict[str, dict[int, int]], above: int) -> dict[str, int]:
    """The rates of a prompt that is just longer than a threshold."""
    return {
        bucket: steps[bucket][max(reached)] if (reached := [start for start in steps.get(bucket, {}) if start <= above]) else rate
        for bucket, rate in base.items()
    }


def _whole(rates: dict[str, int]) -> dict[str, int]:
    """With the parts that have no price of their own; in the order of our buckets."""
    full = {part: rates[whole] for part, whole in PARTS.items() if whole in rates} | rates
    return {bucket: full[bucket] for bucket in UNITS if bucket in full}


def _rate(price: Decimal, key: str) -> int:
    """Dollars for the library's number of units, as micro-cents per million of them. Raises: `NotSayable`."""
    exact = Fraction(str(price)) * DOLLAR * MILLION / unit_data[_USAGE[key]]["per"]
    if exact.denominator != 1:
        raise NotSayable(f"{price} for {unit_data[_USAGE[key]]['per']} is no whole number of micro-cents per million")
    return exact.numerator


_USAGE: dict[str, str] = {unit["price_key"]: usage for usage, unit in unit_data.items()}


def _clause(match: Any) -> dict[str, Any]:  # noqa: PLR0911 - one match over the cases is their table
    """Which names are a model's, as `catalog.prices.Clause` reads it."""
    match match:
        case types.ClauseEquals(equals=text):
            return {"equals": text}
        case types.ClauseStartsWith(starts_with=text):
            return {"starts_with": text}
        case types.ClauseEndsWith(ends_with=text):
            return {"ends_with": text}
        case types.ClauseContains(contains=text):
            return {"contains": text}
        case types.ClauseRegex(regex=text):
            return {"regex": text}
        case types.ClauseOr(or_=clauses):
            return {"any_of": [_clause(each) for each in clauses]}
        case types.ClauseAnd(and_=clauses):
            return {"all_of": [_clause(each) for each in clauses]}
        case _:
            raise TypeError(f"{match!r} is not a way to match that is known here")


def written(content: dict[str, Any]) -> str:
    """The file: one line for each row, so that a change of prices can be read in a review."""
    head = {name: value for name, value in content.items() if name != "rows"}
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in content["rows"])
    return f'{json.dumps(head, ensure_ascii=False)[:-1]}, "rows": [\n{rows}\n]}}\n'


def day_of(file: Path, today: str) -> str:
    """The day of the rows: that of the file, if it was made from the same version; else today."""
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        if before["made_from"] == f"{LIBRARY} {version(LIBRARY)}" and before["rows"]:
            return before["rows"][0]["date"]
    return today


if __name__ == "__main__":
    content, left_out = book(day_of(FILE, datetime.now(UTC).date().isoformat()))
    FILE.write_text(written(content), encoding="utf-8")
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    print(f"{FILE.name}: {len(content['rows'])} models from {content['made_from']}")
