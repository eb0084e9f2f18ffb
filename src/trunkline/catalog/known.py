"""What is known of each model, from everyone who knows something. In memory: asked for every call, changed seldom.

Field by field, the first that says something counts:

1. the configuration's file, `[providers.x.models.y]`;
2. the operator's overrides;
3. what the provider itself lists;
4. the files that come with this version, by whose prices hold at the provider's address, else by its kind.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trunkline.catalog.cards import Cards
from trunkline.catalog.discovery import Diagnosis, Evidence
from trunkline.catalog.prices import Prices
from trunkline.model.card import UNKNOWN, Card
from trunkline.model.price import Price, in_force

MOST = 10_000
"""Models of one provider that are remembered: callers may ask for any name."""

FREE = Price(source="the provider's settings", date="", free=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A provider as the catalogue sees it.

    Attributes:
        name: the provider's.
        vendor: whose models it has, if its kind says.
        base_url: where it is.
        free: its calls cost nothing.
        own: what the configuration says of its models.
    """

    name: str
    vendor: str | None = None
    base_url: str | None = None
    free: bool = False
    own: Mapping[str, Card] = field(default_factory=dict[str, Card])


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """What the operator knows better of one model."""

    card: Card = UNKNOWN
    prices: tuple[Price, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """What a provider lists."""

    evidence: Evidence
    diagnosis: Diagnosis


class Catalog:
    """All that is known, and a number that grows with every change of it."""

    def __init__(self, prices: Prices, cards: Cards) -> None:
        self._prices = prices
        self._cards = cards
        self._overrides: Mapping[tuple[str, str], Override] = {}
        self._listed: dict[str, Listed] = {}
        self._found: dict[str, dict[str, Card]] = {}
        self._owners: dict[str, list[str]] = {}
        self.version = 0

    # ------------------------------------------------------------------------------------------------------ changing
    def take_overrides(self, overrides: Mapping[tuple[str, str], Override]) -> None:
        """Take all overrides, by provider and model, in place of those before."""
        self._overrides = overrides
        self.version += 1

    def take_listed(self, provider: str, listed: Listed) -> None:
        """Take what a provider lists."""
        self._listed[provider] = listed
        self._join()

    def forget(self, gone: Callable[[str], bool]) -> None:
        """Forget what some providers listed."""
        self._listed = {name: listed for name, listed in self._listed.items() if not gone(name)}
        self._join()

    def providers_changed(self) -> None:
        """Count it as a change that there are other providers than before."""
        self.version += 1

    def _join(self) -> None:
        self._found = {name: {found.id: found.card for found in listed.evidence.models} for name, listed in self._listed.items()}
        self._owners = {}
        for name, models in self._found.items():
            for model in models:
                self._owners.setdefault(model, []).append(name)
        self.version += 1

    # -------------------------------------------------------------------------------------------------------- asking
    def owners(self, model: str) -> Sequence[str]:
        """The providers that list a model of this name."""
        return self._owners.get(model, ())

    def found(self, provider: str) -> Iterable[str]:
        """The models that a provider lists, in its order."""
        return self._found.get(provider, ())

    def diagnosis(self, provider: str) -> Diagnosis | None:
        """How it stands with a provider's list; `None` where nobody asks it."""
        listed = self._listed.get(provider)
        return listed.diagnosis if listed else None

    def of(self, source: Source) -> "Known":
        """What is known of one provider's models."""
        vendor = (self._prices.vendor_at(source.base_url) if source.base_url else None) or source.vendor
        return Known(self, source, vendor)

    def card(self, source: Source, vendor: str | None, model: str) -> Card:
        """All layers of a model's card, joined."""
        override = self._overrides.get((source.name, model))
        card = source.own.get(model, UNKNOWN)
        card = card.over(override.card if override else UNKNOWN)
        card = card.over(self._found.get(source.name, {}).get(model, UNKNOWN))
        return card.over(self._cards.card(vendor, model) if vendor else UNKNOWN)

    def price(self, source: Source, vendor: str | None, model: str, at: float) -> Price | None:
        """What a model costs at an instant."""
        if source.free:
            return FREE
        override = self._overrides.get((source.name, model))
        if override and (price := in_force(override.prices, at)) is not None:
            return price
        return self._prices.price(vendor, model, at) if vendor else None


class Known:
    """What is known of one provider's models; an answer is remembered until something changes."""

    def __init__(self, catalog: Catalog, source: Source, vendor: str | None) -> None:
        self._catalog = catalog
        self._source = source
        self._vendor = vendor
        self._version = -1
        self._cards: dict[str, Card] = {}

    def card(self, model: str) -> Card:
        """What is known of a model."""
        if self._version != self._catalog.version or len(self._cards) > MOST:
            self._version = self._catalog.version
            self._cards = {}
        card = self._cards.get(model)
        if card is None:
            card = self._cards[model] = self._catalog.card(self._source, self._vendor, model)
        return card

    def price(self, model: str, at: float) -> Price | None:
        """What a model costs at an instant, in seconds since the Unix epoch; `None` where nobody knows."""
        return self._catalog.price(self._source, self._vendor, model, at)
