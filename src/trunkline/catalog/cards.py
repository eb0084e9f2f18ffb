"""The cards that come with this version: `cards.toml`, written and reviewed by hand."""

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from trunkline.base.codec import Annotated, Meta, Record, parse
from trunkline.catalog.fields import CardFields, Day
from trunkline.model.card import UNKNOWN, Card

DATED = re.compile(r"(.+?)-(\d{8}|\d{4}-\d{2}-\d{2})")
"""A variant of a model, frozen on a day."""


class Row(CardFields, frozen=True, kw_only=True):
    """Models of one vendor of which the same is known.

    Attributes:
        source: the page that says so.
        reviewed: when somebody compared the row with it.
    """

    vendor: Annotated[str, Meta(min_length=1)]
    models: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1)]
    source: Annotated[str, Meta(pattern="^https://")]
    reviewed: Day


class Shelf(Record, frozen=True):
    """The file."""

    card: list[Row]


class Cards:
    """Finds cards."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._cards = {(row.vendor, model): row.card for row in rows for model in row.models}

    def card(self, vendor: str, model: str) -> Card:
        """What the file knows of a model: by its exact name, else by the name of which it is a dated variant."""
        found = self._cards.get((vendor, model))
        if found is None and (dated := DATED.fullmatch(model)) is not None:
            found = self._cards.get((vendor, dated[1]))
        return found or UNKNOWN


def read_rows(text: str) -> list[Row]:
    """Read the file. Raises: `ConfigInvalid`, `tomllib.TOMLDecodeError`."""
    return parse(tomllib.loads(text), Shelf).card


@cache
def shipped() -> Cards:
    """The cards that come with this version."""
    return Cards(read_rows(files("trunkline.catalog").joinpath("cards.toml").read_text(encoding="utf-8")))
