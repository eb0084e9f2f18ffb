"""`/catalog/overrides`: what the operator knows better of models than the files and the providers do."""

from collections.abc import Mapping
from typing import Annotated, Any, cast

from trunkline.base.codec import UNSET, Meta, Record, UnsetType, decode, encode
from trunkline.catalog.fields import CardFields, PriceFields
from trunkline.catalog.overrides import LONGEST_MODEL, LONGEST_PROVIDER, OverrideRow, Overrides
from trunkline.errors import Conflict, NotFound, PreconditionFailed
from trunkline.server.admin import Ask, Nothing, Paging, Resource, Route, Rows


class OverrideShown(Record, frozen=True):
    """What is said of one model of one provider."""

    id: str
    provider: str
    model: str
    card: Annotated[dict[str, Any], Meta(description="What it can do; fields of which nothing is said are not there.")]
    price: Annotated[dict[str, Any] | None, Meta(description="What it costs, in dollars for a million of each bucket's unit.")]
    created_at: float
    updated_at: float
    revision: int


class NewOverride(Record, frozen=True):
    """What shall be said of a model. It is in use within seconds, in every process."""

    provider: Annotated[str, Meta(min_length=1, max_length=LONGEST_PROVIDER, description="A provider's name in the configuration.")]
    model: Annotated[str, Meta(min_length=1, max_length=LONGEST_MODEL, description="Its own name for the model.")]
    card: Annotated[CardFields, Meta(description="What it can do.")] = CardFields()
    price: Annotated[PriceFields | None, Meta(description="What it costs.")] = None


class OverrideChanges(Record, frozen=True):
    """What shall be said instead."""

    card: Annotated[dict[str, Any], Meta(description="Fields of the card, as they are made with; null takes one back.")] | UnsetType = UNSET
    price: Annotated[PriceFields | None, Meta(description="The whole price, or null for none.")] | UnsetType = UNSET


def every(overrides: Overrides, ask: Ask[Paging, None]) -> Rows[OverrideShown]:
    """A page of overrides, the oldest first."""
    return ask.page(lambda after, limit: overrides.list(after=after, limit=limit), _shown)


def one(overrides: Overrides, ask: Ask[Nothing, None]) -> OverrideShown:
    """One override. Raises: `NotFound`."""
    return _shown(overrides.get(ask.path["id"]))


def create(overrides: Overrides, ask: Ask[Nothing, NewOverride]) -> OverrideShown:
    """Say something of a model. Raises: `BadRequest`, `Conflict`."""
    body = ask.body
    return _shown(overrides.create(provider=body.provider, model=body.model, card=_plain(body.card), price=_plain(body.price)))


def change(overrides: Overrides, ask: Ask[Nothing, OverrideChanges]) -> OverrideShown:
    """Say something else. Raises: `NotFound`, `PreconditionFailed`, `BadRequest`."""
    price = ask.body.price
    return _shown(
        overrides.change(
            ask.path["id"],
            revision=ask.revision,
            card=ask.body.card,
            price=price if isinstance(price, UnsetType) else _plain(price),
        )
    )


def delete(overrides: Overrides, ask: Ask[Nothing, None]) -> None:
    """Take it all back. Raises: `NotFound`, `PreconditionFailed`."""
    overrides.delete(ask.path["id"], revision=ask.revision)


def _shown(row: OverrideRow) -> OverrideShown:
    return OverrideShown(
        id=row.id,
        provider=row.provider,
        model=row.model,
        card=dict(row.card),
        price=dict(row.price) if row.price is not None else None,
        created_at=row.created_at,
        updated_at=row.updated_at,
        revision=row.revision,
    )


def _plain(record: Record | None) -> dict[str, object] | None:
    """What a record says, without what it does not say."""
    return None if record is None else _said(decode(encode(record), dict[str, object]))


def _said(fields: Mapping[str, object]) -> dict[str, object]:
    return {
        name: _said(cast(Mapping[str, object], value)) if isinstance(value, Mapping) else value
        for name, value in fields.items()
        if value is not None
    }


RESOURCE = Resource(
    title="Catalogue overrides",
    path="/catalog/overrides",
    service=Overrides,
    columns=("id", "provider", "model", "card", "price"),
    about="What you know better of a model: limits, traits, lifecycle, price. It stands above what the provider lists and what comes with "
    "this version, and below the configuration file. Every process on this database takes it up within seconds.",
    routes=(
        Route("GET", "", scope="admin", summary="List the overrides.", do=every, query=Paging, answer=Rows[OverrideShown]),
        Route(
            "POST",
            "",
            scope="admin",
            summary="Say something of a model.",
            do=create,
            body=NewOverride,
            answer=OverrideShown,
            errors=(Conflict,),
        ),
        Route("GET", "/{id}", scope="admin", summary="Read one override.", do=one, answer=OverrideShown, errors=(NotFound,)),
        Route(
            "PATCH",
            "/{id}",
            scope="admin",
            summary="Say something else.",
            do=change,
            body=OverrideChanges,
            answer=OverrideShown,
            errors=(NotFound, PreconditionFailed),
        ),
        Route("DELETE", "/{id}", scope="admin", summary="Take an override back.", do=delete, errors=(NotFound, PreconditionFailed)),
    ),
)
