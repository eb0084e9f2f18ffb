"""The models as listings show them: made when something has changed, not for every request."""

from collections.abc import Sequence
from typing import Protocol

from trunkline.base.clock import Clock
from trunkline.catalog.discovery import Diagnosis
from trunkline.gateway.router import Router
from trunkline.model.allowed import Models
from trunkline.model.caller import Caller
from trunkline.surfaces import Listed

LASTS = 600.0
"""Seconds after which a price may have begun, or a model ended, without anybody having said so."""


MOST_LISTS = 100
"""Lists of models of callers that may not use all of them, kept until something changes."""


class Changing(Protocol):
    """What the catalogue says of itself."""

    version: int

    def diagnosis(self, provider: str) -> Diagnosis | None:
        """How it stands with a provider's list."""
        ...


class Shown:
    """All that `GET /v1/models` shows.

    Args:
        router: the names.
        catalog: says when something has changed.
        clock: the time.
    """

    def __init__(self, *, router: Router, catalog: Changing, clock: Clock) -> None:
        self._router = router
        self._catalog = catalog
        self._clock = clock
        self._made_of: tuple[int, float] = (-1, 0.0)
        self._made: dict[Models, Sequence[Listed]] = {}

    def models(self, caller: Caller) -> Sequence[Listed]:
        """Routes, then each provider's models, of those that a caller may use.

        It is the very same object as before, while nothing has changed and not too many callers with other lists of models have asked.
        """
        now = self._clock.now()
        made_of = (self._catalog.version, now // LASTS)
        if made_of != self._made_of or len(self._made) > MOST_LISTS:
            self._made_of = made_of
            self._made.clear()
        if (made := self._made.get(caller.models)) is None:
            made = self._made[caller.models] = tuple(self._all(caller.models, now))
        return made

    def _all(self, allowed: Models, now: float) -> list[Listed]:
        listed: list[Listed] = []
        for name in self._router.names(allowed):
            provider, model = self._router.provider(name.target.provider), name.target.model
            diagnosis = self._catalog.diagnosis(provider.name)
            listed.append(
                Listed(
                    id=name.id,
                    owner="trunkline" if name.route else provider.name,
                    dialect=next(iter(provider.spoken(model) or provider.kind.speaks)).dialect.name,
                    card=provider.card(model),
                    price=provider.price(model, now),
                    at=now,
                    stale=name.discovered and diagnosis is not None and diagnosis.stale,
                )
            )
        return listed
