"""What a call used, in buckets that do not overlap."""

from trunkline.base.codec import Value


class Usage(Value, frozen=True):
    """Tokens by bucket. The buckets are disjoint: their sum is all that was read and written.

    Attributes:
        input: read at the full price.
        cache_read: read from the provider's prompt cache.
        cache_write: read and written to the provider's prompt cache.
        output: written, without reasoning.
        reasoning: written as reasoning, where the provider tells it apart.
        approximated: counted by us, not by the provider.
        more: further buckets by name (`model.price.UNITS`), each named once; of tokens, these are disjoint from the others too.
    """

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    approximated: bool = False
    more: tuple[tuple[str, int], ...] = ()

    @property
    def amounts(self) -> dict[str, int]:
        """What was used, by bucket; empty buckets are left out."""
        named = (
            ("input", self.input),
            ("cache_read", self.cache_read),
            ("cache_write", self.cache_write),
            ("output", self.output),
            ("reasoning", self.reasoning),
            *self.more,
        )
        return {bucket: amount for bucket, amount in named if amount}
