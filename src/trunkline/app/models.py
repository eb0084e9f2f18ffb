"""What a configuration's models are, without a server: what is configured, kept and known."""

from collections.abc import Mapping
from datetime import UTC, datetime

from sqlalchemy import Engine

from trunkline.app.compose import known_models, parts
from trunkline.app.config import Config
from trunkline.base.clock import Clock
from trunkline.base.money import dollars
from trunkline.catalog.discovery import Board
from trunkline.catalog.evidence import EvidenceStore
from trunkline.catalog.known import Catalog, Listed
from trunkline.catalog.overrides import Overrides
from trunkline.gateway.discovery import key_of
from trunkline.model.price import UNITS, Price
from trunkline.providers import Provider


def models(config: Config, engine: Engine | None, clock: Clock) -> list[dict[str, object]]:
    """Every name that one may ask for, with what is known of the model behind it.

    Args:
        config: read and checked.
        engine: the database, if there is one, at this version's schema.
        clock: the time.
    """
    catalog = known_models()
    made = parts(config, catalog)
    if engine is not None:
        if (reading := Overrides(engine, clock).read()) is not None:
            catalog.take_overrides(reading.overrides)
        if config.sections.catalog.discover:
            _remember(catalog, made.providers, EvidenceStore(engine), Board(ttl=config.sections.catalog.ttl), clock.now())
    rows: list[dict[str, object]] = []
    for name in made.router.names():
        provider, model = made.router.provider(name.target.provider), name.target.model
        card, price = provider.card(model), provider.price(model, clock.now())
        diagnosis = catalog.diagnosis(provider.name)
        ends = card.lifecycle
        rows.append(
            {
                "name": name.id,
                "provider": provider.name,
                "model": model,
                "from": "route" if name.route else "discovery" if name.discovered else "configuration",
                "context_window": card.context_window,
                "max_output": card.max_output,
                "price": None if price is None else _price(price),
                "lifecycle": None if ends is None else ends.at(clock.now()),
                "retires_at": None if ends is None else ends.retires_at,
                "replacement": None if ends is None else ends.replacement,
                "listed_at": _time(diagnosis.observed_at) if diagnosis and diagnosis.observed_at is not None else None,
                "stale": diagnosis.stale if diagnosis else None,
            }
        )
    return rows


def _remember(catalog: Catalog, providers: Mapping[str, Provider], store: EvidenceStore, board: Board, now: float) -> None:
    """Take the lists that a server kept."""
    kept = store.all()
    for name, provider in providers.items():
        key = key_of(provider)
        if key in kept and (evidence := kept[key].evidence) is not None:
            board.adopt(key, evidence)
            catalog.take_listed(name, Listed(board.evidence(key), board.diagnosis(key, now)))


def _price(price: Price) -> dict[str, object]:
    """Rates as dollars for a million of each bucket's unit, exactly."""
    return {
        "free": price.free,
        "dollars_per_million": _rates(price.rates),
        "tiers": [{"above": tier.above, "dollars_per_million": _rates(tier.rates)} for tier in price.tiers],
        "units": {bucket: UNITS[bucket] for bucket in price.rates if UNITS.get(bucket, "tokens") != "tokens"},
        "effective_at": _time(price.effective_at) if price.effective_at else None,
        "source": price.source,
        "date": price.date or None,
    }


def _rates(rates: Mapping[str, int]) -> dict[str, str]:
    return {bucket: dollars(rate) for bucket, rate in rates.items()}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
