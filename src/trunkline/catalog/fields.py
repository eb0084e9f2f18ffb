"""What may be said of a model, by an operator or in our own files: an unknown field is an error that names it."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Literal

from trunkline.base.codec import Annotated, Meta, Record, nearest
from trunkline.base.money import micro_cents
from trunkline.errors import BadRequest
from trunkline.model.card import Card, Lifecycle, LimitField, Modality, State
from trunkline.model.price import UNITS, Price, Tier

Parameter = Literal["temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed"]
Tokens = Annotated[int, Meta(ge=1, le=1 << 40)]
Day = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
Word = Annotated[str, Meta(min_length=1, max_length=100)]
Amount = Annotated[str, Meta(pattern=r"^\d{1,9}(\.\d{1,12})?$")]


class LifecycleFields(Record, frozen=True):
    """Whether a model is to stay. Days are ISO dates, in UTC."""

    state: Annotated[State, Meta(description="`active`, `deprecated` or `retired`.")] = "active"
    deprecated_at: Annotated[Day | None, Meta(description="When its end was announced.")] = None
    retires_at: Annotated[Day | None, Meta(description="From which day on it does not answer.")] = None
    replacement: Annotated[Word | None, Meta(description="What its vendor recommends instead.")] = None


class CardFields(Record, frozen=True):
    """What may be known of a model. Of what is not said nothing is assumed."""

    context_window: Annotated[Tokens | None, Meta(description="The most tokens that it reads and writes together.")] = None
    max_output: Annotated[Tokens | None, Meta(description="The most tokens it writes.")] = None
    inputs: Annotated[list[Modality] | None, Meta(description="What it reads.")] = None
    outputs: Annotated[list[Modality] | None, Meta(description="What it writes.")] = None
    tools: Annotated[bool | None, Meta(description="Whether it calls tools.")] = None
    thinking: Annotated[
        Literal["budget", "adaptive", "none"] | None,
        Meta(description="How it is told to think: by a budget of tokens, by an effort, or not at all."),
    ] = None
    efforts: Annotated[list[Word] | None, Meta(description="The words for how hard it may think, the least first.")] = None
    forbidden: Annotated[
        list[Parameter] | None,
        Meta(description="Parameters that it refuses. They are left out, and the caller is told; an empty list says that it refuses none."),
    ] = None
    limit_field: Annotated[LimitField | None, Meta(description="The name that it wants for the output limit in Chat Completions.")] = None
    tool_name_limit: Annotated[
        Annotated[int, Meta(ge=16, le=256)] | None, Meta(description="The most characters of a tool's name; longer ones are shortened.")
    ] = None
    lifecycle: Annotated[LifecycleFields | None, Meta(description="Whether it is to stay.")] = None

    @property
    def card(self) -> Card:
        """The same as the model's card."""
        ends = self.lifecycle
        return Card(
            context_window=self.context_window,
            max_output=self.max_output,
            inputs=None if self.inputs is None else frozenset(self.inputs),
            outputs=None if self.outputs is None else frozenset(self.outputs),
            tools=self.tools,
            thinking=self.thinking,
            efforts=None if self.efforts is None else tuple(self.efforts),
            forbidden=None if self.forbidden is None else frozenset(self.forbidden),
            limit_field=self.limit_field,
            tool_name_limit=self.tool_name_limit,
            lifecycle=ends
            and Lifecycle(state=ends.state, deprecated_at=ends.deprecated_at, retires_at=ends.retires_at, replacement=ends.replacement),
        )


class TierFields(Record, frozen=True):
    """Rates of longer prompts; a bucket that is not named here costs what it costs below."""

    above: Annotated[int, Meta(ge=0, description="Tokens of input, those of the cache included.")]
    rates: dict[str, Amount]


class PriceFields(Record, frozen=True):
    """What a model costs. Rates are dollars for a million of a bucket's unit, as decimal digits in quotes: `"2.50"`."""

    rates: Annotated[dict[str, Amount], Meta(min_length=1, description="By bucket: `input`, `cache_read`, `cache_write`, `output`, …")]
    tiers: list[TierFields] = []
    effective_at: Annotated[Day | None, Meta(description="From which day on (UTC); by default since ever.")] = None

    def price(self, *, at: str, source: str, date: str) -> Price:
        """The same as the model's price.

        Args:
            at: where it stands, for errors.
            source: who says so.
            date: and when, as an ISO date.

        Raises:
            BadRequest: a bucket that has no unit, a rate that is no amount, thresholds that do not rise, a day that no calendar has.
        """
        rates = _rates(self.rates, f"{at}.rates")
        tiers: list[Tier] = []
        for number, tier in enumerate(self.tiers):
            where = f"{at}.tiers[{number}]"
            if tiers and tier.above <= tiers[-1].above:
                raise BadRequest(f"`{where}.above` is {tier.above}, which is not above the tier before", hint="The lowest stands first.")
            rates_there = _rates(tier.rates, f"{where}.rates")
            if strange := rates_there.keys() - rates.keys():
                raise BadRequest(f"`{where}.rates` has `{min(strange)}`, which `{at}.rates` has not", hint="Say what it costs below, too.")
            tiers.append(Tier(above=tier.above, rates={**(tiers[-1].rates if tiers else rates), **rates_there}))
        since = seconds(self.effective_at, f"{at}.effective_at") if self.effective_at else 0
        return Price(rates=rates, tiers=tuple(tiers), effective_at=since, source=source, date=date)


def seconds(day: str, at: str) -> int:
    """When an ISO date begins in UTC, in seconds since the Unix epoch. Raises: `BadRequest`: no calendar has it."""
    try:
        return int(datetime.combine(date.fromisoformat(day), time(), UTC).timestamp())
    except ValueError:
        raise BadRequest(f"`{at}` is `{day}`, which is not a day", hint="Write a date such as `2026-12-01`.") from None


def _rates(given: Mapping[str, str], at: str) -> dict[str, int]:
    for bucket in given:
        if bucket not in UNITS:
            close = nearest(bucket, list(UNITS))
            raise BadRequest(
                f"`{at}.{bucket}` is not a bucket that has a price",
                hint=f"Did you mean `{close}`?" if close else f"Known: {', '.join(UNITS)}.",
            )
    return {bucket: micro_cents(amount, at=f"{at}.{bucket}") for bucket, amount in given.items()}
