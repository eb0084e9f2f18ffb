"""What a model costs, and what a use of it did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from trunkline.base.money import MILLION
from trunkline.model.usage import Usage

Unit = Literal["tokens", "calls", "seconds", "pages"]

UNITS: Mapping[str, Unit] = {
    "input": "tokens",
    "cache_read": "tokens",
    "cache_write": "tokens",
    "cache_write_1h": "tokens",
    "output": "tokens",
    "reasoning": "tokens",
    "input_audio": "tokens",
    "cache_read_audio": "tokens",
    "output_audio": "tokens",
    "input_image": "tokens",
    "cache_read_image": "tokens",
    "output_image": "tokens",
    "input_video": "tokens",
    "output_video": "tokens",
    "requests": "calls",
    "web_searches": "calls",
    "file_searches": "calls",
    "rerank_searches": "calls",
    "audio": "seconds",
    "audio_in": "seconds",
    "audio_out": "seconds",
    "pages": "pages",
    "annotated_pages": "pages",
}
"""The buckets that have prices, with what is counted in each. More may come: what is unknown is carried, and has no price."""

PROMPT = frozenset(bucket for bucket, unit in UNITS.items() if unit == "tokens" and bucket.startswith(("input", "cache")))
"""The buckets whose sum decides the tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Rates of a request whose prompt is longer than so many tokens. They apply to the whole request.

    Attributes:
        above: tokens of input, those of the cache included; a prompt of exactly so many is still below.
        rates: of every bucket, as in a price.
    """

    above: int
    rates: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model costs from some instant on.

    Attributes:
        rates: micro-cents per million of a bucket's unit, by bucket.
        tiers: rates of longer prompts, the lowest threshold first.
        effective_at: since when, in seconds since the Unix epoch; 0 where nobody knows of another price before.
        source: who says so.
        date: when that was read, as an ISO date.
        free: nothing costs anything.
    """

    rates: Mapping[str, int] = field(default_factory=dict[str, int])
    tiers: tuple[Tier, ...] = ()
    effective_at: int = 0
    source: str
    date: str
    free: bool = False

    def at(self, prompt: int) -> Mapping[str, int]:
        """The rates of a request with so many tokens of input."""
        found = self.rates
        for tier in self.tiers:
            if prompt > tier.above:
                found = tier.rates
        return found


def cost(usage: Usage, price: Price) -> int | None:
    """What a use costs, in micro-cents; `None` where that is unknown.

    The sum over all buckets is exact, divided once, and rounded up. A bucket that is not empty and has no rate makes all of it unknown.
    """
    if price.free:
        return 0
    amounts = usage.amounts
    rates = price.at(sum(amount for bucket, amount in amounts.items() if bucket in PROMPT))
    total = 0
    for bucket, amount in amounts.items():
        rate = rates.get(bucket)
        if rate is None:
            return None
        total += amount * rate
    return -(-total // MILLION)


def in_force(versions: Sequence[Price], at: float) -> Price | None:
    """The latest of several prices of one model that began at or before an instant."""
    begun = [price for price in versions if price.effective_at <= at]
    return max(begun, key=lambda price: price.effective_at, default=None)
