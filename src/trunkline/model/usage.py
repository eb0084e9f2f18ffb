"""What a call used, in buckets that do not overlap."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens by bucket. The buckets are disjoint: their sum is all that was read and written.

    Attributes:
        input: read at the full price.
        cache_read: read from the provider's prompt cache.
        cache_write: read and written to the provider's prompt cache.
        output: written, without reasoning.
        reasoning: written as reasoning, where the provider tells it apart.
        approximated: counted by us, not by the provider.
    """

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    approximated: bool = False
