from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.model.price import PROMPT, UNITS, Price, Tier, cost, in_force
from trunkline.model.usage import Usage

FIELDS = ("input", "cache_read", "cache_write", "output", "reasoning")
MORE = sorted(UNITS.keys() - set(FIELDS))

amounts = st.integers(0, 10**9)
usages = st.builds(
    lambda counts, more: Usage(**dict(zip(FIELDS, counts, strict=True)), more=tuple(more.items())),
    st.tuples(*[amounts] * len(FIELDS)),
    st.dictionaries(st.sampled_from(MORE), amounts, max_size=4),
)
rates = st.fixed_dictionaries({bucket: st.integers(0, 10**12) for bucket in UNITS})


@st.composite
def prices(draw: st.DrawFn) -> Price:
    thresholds = sorted(draw(st.sets(st.integers(0, 3 * 10**9), max_size=3)))
    return Price(
        rates=draw(rates), tiers=tuple(Tier(above=above, rates=draw(rates)) for above in thresholds), source="s", date="2026-11-29"
    )


def flat(**rates: int) -> Price:
    return Price(rates=rates, source="s", date="2026-11-29")


@given(usages, prices())
def test_a_cost_is_the_exact_sum_rounded_up_once(usage: Usage, price: Price) -> None:
    prompt = sum(amount for bucket, amount in usage.amounts.items() if bucket in PROMPT)
    reached = [tier.rates for tier in price.tiers if prompt > tier.above]
    used = reached[-1] if reached else price.rates
    exact = sum((Fraction(amount * used[bucket], 10**6) for bucket, amount in usage.amounts.items()), Fraction())
    found = cost(usage, price)
    assert found is not None
    assert 0 <= found - exact < 1


@given(usages, usages, rates)
def test_two_calls_cost_at_least_what_one_of_both_would_and_at_most_one_micro_cent_more(
    one: Usage, other: Usage, rates: dict[str, int]
) -> None:
    price = flat(**rates)
    both = Usage(
        **{name: getattr(one, name) + getattr(other, name) for name in FIELDS},
        more=tuple({name: dict(one.more).get(name, 0) + dict(other.more).get(name, 0) for name in MORE}.items()),
    )
    apart = (cost(one, price) or 0) + (cost(other, price) or 0)
    assert 0 <= apart - (cost(both, price) or 0) <= 1


@given(usages, rates, st.sampled_from(FIELDS))
def test_more_never_costs_less_at_the_same_rates(usage: Usage, rates: dict[str, int], bucket: str) -> None:
    more = Usage(**{name: getattr(usage, name) + (name == bucket) for name in FIELDS}, more=usage.more)
    assert (cost(more, flat(**rates)) or 0) >= (cost(usage, flat(**rates)) or 0)


@given(usages, prices(), st.sampled_from(sorted(UNITS)))
def test_a_bucket_without_a_rate_makes_the_cost_unknown_unless_it_is_empty(usage: Usage, price: Price, bucket: str) -> None:
    without = {name: rate for name, rate in price.rates.items() if name != bucket}
    found = cost(usage, Price(rates=without, source="s", date="2026-11-29"))
    assert (found is None) == (bucket in usage.amounts)


@pytest.mark.proves("price.exact")
def test_a_longer_prompt_has_the_rates_of_its_tier_for_the_whole_call() -> None:
    price = Price(
        rates={"input": 10_000_000, "cache_read": 1_000_000, "output": 50_000_000},
        tiers=(Tier(above=100_000, rates={"input": 50_000_000, "cache_read": 5_000_000, "output": 250_000_000}),),
        source="s",
        date="2026-11-29",
    )
    assert cost(Usage(input=100_000, output=10), price) == 1_000_500
    assert cost(Usage(input=100_001, output=10), price) == 5_002_550  # 5,000,050 and 2,500 of output
    assert cost(Usage(input=1, cache_read=100_000, output=10), price) == 502_550, "what comes from the cache is part of the prompt"
    assert cost(Usage(input=1, output=200_000), price) == 10_000_010, "what is written is not"


def test_a_hundred_tokens_at_three_dollars_a_million_are_three_hundredths_of_a_cent() -> None:
    assert cost(Usage(input=100), flat(input=300_000_000)) == 30_000
    assert cost(Usage(input=1), flat(input=1)) == 1, "rounded up"
    assert cost(Usage(), flat()) == 0


def test_what_is_free_costs_nothing_whatever_it_is() -> None:
    assert cost(Usage(input=9, more=(("holograms", 3),)), Price(source="s", date="", free=True)) == 0
    assert cost(Usage(more=(("holograms", 3),)), flat(input=1)) is None, "a bucket that nobody knows has no price"


def test_the_latest_price_that_has_begun_is_in_force() -> None:
    first, second = flat(input=2), Price(rates={"input": 1}, effective_at=1000, source="s", date="2026-11-29")
    assert in_force([second, first], 999.9) is first
    assert in_force([first, second], 1000.0) is second
    assert in_force([second], 999.0) is None
    assert in_force([], 1.0) is None


def test_the_buckets_of_a_prompt_are_those_that_go_in() -> None:
    assert {"input", "cache_read", "cache_write", "cache_write_1h", "input_image"} <= PROMPT
    assert PROMPT.isdisjoint({"output", "reasoning", "output_audio", "web_searches", "pages"})
