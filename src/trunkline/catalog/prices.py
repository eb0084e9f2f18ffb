"""The prices that come with this version: `prices.json`, which `make prices` writes and nobody else changes."""

import re
from functools import cache
from importlib.resources import files

from trunkline.base.codec import Decoder, Record
from trunkline.model.price import Price, Tier, Unit, in_force


class Clause(Record, frozen=True):
    """Which names are a model's: one field is set. Names are compared in small letters."""

    equals: str | None = None
    starts_with: str | None = None
    ends_with: str | None = None
    contains: str | None = None
    regex: str | None = None
    any_of: list["Clause"] | None = None
    all_of: list["Clause"] | None = None

    def holds(self, name: str) -> bool:
        """Whether a name, in small letters, is one."""
        if self.any_of is not None:
            return any(clause.holds(name) for clause in self.any_of)
        if self.all_of is not None:
            return all(clause.holds(name) for clause in self.all_of)
        return (
            (self.equals is not None and name == self.equals)
            or (self.starts_with is not None and name.startswith(self.starts_with))
            or (self.ends_with is not None and name.endswith(self.ends_with))
            or (self.contains is not None and self.contains in name)
            or (self.regex is not None and re.search(self.regex, name) is not None)
        )


class TierRow(Record, frozen=True):
    """Rates of longer prompts, of every bucket."""

    above: int
    rates: dict[str, int]


class Version(Record, frozen=True):
    """Rates from an instant on, in seconds since the Unix epoch."""

    effective_at: int
    rates: dict[str, int]
    tiers: list[TierRow] = []


class Row(Record, frozen=True):
    """One model of one vendor.

    Attributes:
        match: which names are the model's, beside its own.
        source: where its vendor prints the price.
        date: when the row was taken over.
        prices: the earliest first.
    """

    vendor: str
    model: str
    match: Clause
    source: str
    date: str
    prices: list[Version]


class Book(Record, frozen=True):
    """The file.

    Attributes:
        made_from: the library and its version.
        units: what is counted in each bucket.
        vendors: a pattern of where each is.
        rows: models by vendor; where several match a name, the first is meant.
    """

    made_from: str
    units: dict[str, Unit]
    vendors: dict[str, str]
    rows: list[Row]


class Prices:
    """Finds prices."""

    def __init__(self, book: Book) -> None:
        self._addresses = [(vendor, re.compile(pattern)) for vendor, pattern in book.vendors.items()]
        self._rows: dict[str, list[Row]] = {}
        self._exact: dict[tuple[str, str], Row] = {}
        for row in book.rows:
            self._rows.setdefault(row.vendor, []).append(row)
            self._exact.setdefault((row.vendor, row.model.lower()), row)
        self._read: dict[tuple[str, str], list[Price]] = {}

    def vendor_at(self, base_url: str) -> str | None:
        """Whose prices hold at an address."""
        return next((vendor for vendor, pattern in self._addresses if pattern.match(base_url)), None)

    def price(self, vendor: str, model: str, at: float) -> Price | None:
        """What a model cost at an instant, if the file knows: by its own name, else by the first row that claims the name."""
        name = model.lower()
        row = self._exact.get((vendor, name)) or next((row for row in self._rows.get(vendor, ()) if row.match.holds(name)), None)
        if row is None:
            return None
        key = (vendor, row.model)
        if key not in self._read:
            self._read[key] = [_price(version, row) for version in row.prices]
        return in_force(self._read[key], at)


def _price(version: Version, row: Row) -> Price:
    return Price(
        rates=version.rates,
        tiers=tuple(Tier(above=tier.above, rates=tier.rates) for tier in version.tiers),
        effective_at=version.effective_at,
        source=row.source,
        date=row.date,
    )


def read_book(data: bytes) -> Book:
    """Read the file. Raises: `Malformed`."""
    return Decoder(Book).decode(data)


@cache
def shipped() -> Prices:
    """The prices that come with this version."""
    return Prices(read_book(files("trunkline.catalog").joinpath("prices.json").read_bytes()))
