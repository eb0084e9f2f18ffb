"""The APIs we serve: each is a table of endpoints, each endpoint with its dialect."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trunkline.dialects import Dialect
from trunkline.model.card import UNKNOWN, Card, State
from trunkline.model.price import Price
from trunkline.model.request import Operation


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path that a call is POSTed to."""

    path: str
    operation: Operation
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A path below which what a provider keeps stands by its id, and what may be done with it.

    Attributes:
        actions: by what stands behind the id (`""` for nothing), the HTTP methods.
    """

    path: str
    dialect: Dialect
    actions: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Listed:
    """A model as a listing shows it.

    Attributes:
        id: the name to ask for; it may hold slashes.
        owner: the provider, or `trunkline` for a route.
        dialect: the name of the dialect that it speaks first.
        card: what is known of it.
        price: what it costs at that time; `None` where nobody knows.
        at: when the listing was made, in seconds since the Unix epoch.
        stale: the provider could not be asked whether it still has it.
    """

    id: str
    owner: str
    dialect: str
    card: Card = UNKNOWN
    price: Price | None = None
    at: float = 0.0
    stale: bool = False

    @property
    def lifecycle(self) -> State | None:
        """Where it stands now; `None` where nobody knows."""
        return self.card.lifecycle.at(self.at) if self.card.lifecycle else None


@dataclass(frozen=True, slots=True)
class Listing:
    """A path that lists the models by GET, and below which each stands by its id."""

    path: str
    write_all: Callable[[Sequence[Listed]], bytes]
    write_one: Callable[[Listed], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """A table of endpoints."""

    title: str
    endpoints: tuple[Endpoint, ...] = ()
    follow_ups: tuple[FollowUp, ...] = ()
    listings: tuple[Listing, ...] = ()
