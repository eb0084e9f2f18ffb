"""The providers by name, at this moment: those of the configuration, and those that daemons serve."""

from collections.abc import Iterator, Mapping

from trunkline.providers import Provider


class Live(Mapping[str, Provider]):
    """A mapping of which a part changes. Whoever goes through it sees one moment's, whatever happens meanwhile.

    Args:
        fixed: the part that stays, which comes first.
    """

    def __init__(self, fixed: Mapping[str, Provider]) -> None:
        self._fixed = fixed
        self._now = dict(fixed)

    def take(self, served: Mapping[str, Provider]) -> None:
        """Have these beside the fixed ones, in place of those before."""
        self._now = {**self._fixed, **served}

    def __getitem__(self, name: str) -> Provider:
        return self._now[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)
