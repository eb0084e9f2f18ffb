"""What operators know better of models: kept, and read again by every process that uses it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy import Connection, Engine, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from trunkline.base.clock import Clock
from trunkline.base.codec import UNSET, Record, UnsetType, decode, nearest, parse, text
from trunkline.base.ids import new_id
from trunkline.catalog.fields import CardFields, PriceFields
from trunkline.catalog.known import Override
from trunkline.errors import BadRequest, ConfigInvalid, Conflict, NotFound, PreconditionFailed
from trunkline.model.price import Price
from trunkline.store.engine import reading, writing
from trunkline.store.tables import mark
from trunkline.store.tables.overrides import TABLE

LONGEST_PROVIDER = 100
LONGEST_MODEL = 256
MOST = 1_000
"""Rows of one page."""

Fields = Mapping[str, object]
Mark = tuple[object, ...]
R = TypeVar("R", bound=Record)

_MARK = mark(TABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideRow:
    """An override as it is kept. Times are seconds since the Unix epoch.

    Attributes:
        id: `ovr_` and letters.
        provider: the name of one, which need not be there now.
        model: one of its models.
        card: what is said of it (`CardFields`).
        price: what it costs (`PriceFields`).
        revision: one more with every change.
    """

    id: str
    provider: str
    model: str
    card: Fields
    price: Fields | None
    created_at: float
    updated_at: float
    revision: int


class Overrides:
    """The overrides of an installation. Blocking; raises `StoreUnavailable` where the database does not answer."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def create(self, *, provider: str, model: str, card: Fields | None = None, price: Fields | None = None) -> OverrideRow:
        """Say something of a model.

        Raises:
            BadRequest: an unknown field, a value that it may not have, nothing said at all.
            Conflict: something is said of the model already.
        """
        _named(provider, "provider", LONGEST_PROVIDER)
        _named(model, "model", LONGEST_MODEL)
        now = self._clock.now()
        row = OverrideRow(
            id=new_id("ovr", self._clock),
            provider=provider,
            model=model,
            card=_said(card or {}),
            price=_said(price) if price is not None else None,
            created_at=now,
            updated_at=now,
            revision=1,
        )
        _override(row)
        with writing(self._engine) as connection:
            known = connection.execute(select(TABLE.c.id).where(TABLE.c.provider == provider, TABLE.c.model == model)).scalar()
            if known is not None:
                raise _taken(provider, model, known)
            try:
                connection.execute(insert(TABLE).values(_values(row)))
            except IntegrityError:
                raise _taken(provider, model, "another one") from None
        return row

    def get(self, id: str) -> OverrideRow:  # noqa: A002 - the field's name, in all such services
        """One of them. Raises: `NotFound`."""
        with reading(self._engine) as connection:
            return _get(connection, id)

    def list(self, *, account: str | None = None, after: str | None = None, limit: int = 100) -> Sequence[OverrideRow]:
        """A page of them, the oldest first, after the one of an id. They belong to the installation, so that no account has any."""
        if account is not None:
            return []
        wanted = select(TABLE).order_by(TABLE.c.id).limit(max(1, min(limit, MOST)))
        if after is not None:
            wanted = wanted.where(TABLE.c.id > after)
        with reading(self._engine) as connection:
            return [_row(row) for row in connection.execute(wanted)]

    def change(
        self,
        id: str,  # noqa: A002 - the field's name, in all such services
        *,
        revision: int | None = None,
        card: Fields | UnsetType = UNSET,
        price: Fields | UnsetType | None = UNSET,
    ) -> OverrideRow:
        """Say more, or something else.

        Args:
            id: of the override.
            revision: the one that the caller has seen; any, if it is `None`.
            card: fields to set; null takes one back, and what is not named stays.
            price: the whole price in place of the one before, or null for none.

        Raises:
            NotFound: there is none of this id.
            PreconditionFailed: it has been changed since.
            BadRequest: an unknown field, a value that it may not have, nothing left that is said.
        """
        with writing(self._engine) as connection:
            before = _get(connection, id)
            _current(before, revision)
            row = OverrideRow(
                id=before.id,
                provider=before.provider,
                model=before.model,
                card=before.card if isinstance(card, UnsetType) else _said({**before.card, **card}),
                price=before.price if isinstance(price, UnsetType) else (_said(price) if price is not None else None),
                created_at=before.created_at,
                updated_at=self._clock.now(),
                revision=before.revision + 1,
            )
            _override(row)
            connection.execute(update(TABLE).where(TABLE.c.id == id).values(_values(row)))
        return row

    def delete(self, id: str, *, revision: int | None = None) -> None:  # noqa: A002 - the field's name, in all such services
        """Take it all back. Raises: `NotFound`, `PreconditionFailed`."""
        with writing(self._engine) as connection:
            _current(_get(connection, id), revision)
            connection.execute(delete(TABLE).where(TABLE.c.id == id))

    def read(self, seen: Mark | None = None) -> "Reading | None":
        """All of them as they are used, unless nothing has changed since."""
        with reading(self._engine) as connection:
            now = tuple(connection.execute(_MARK).one())
            if now == seen:
                return None
            rows = [_row(row) for row in connection.execute(select(TABLE))]
        made: dict[tuple[str, str], Override] = {}
        unread: list[str] = []
        for row in rows:
            try:
                made[row.provider, row.model] = _override(row)
            except BadRequest:  # a later version may say what this one does not know
                unread.append(row.id)
        return Reading(now, made, tuple(unread))


@dataclass(frozen=True, slots=True)
class Reading:
    """What `Overrides.read` found.

    Attributes:
        mark: to be given to the next reading.
        overrides: by provider and model.
        unread: the ids of those that this version cannot read.
    """

    mark: Mark
    overrides: Mapping[tuple[str, str], Override]
    unread: tuple[str, ...]


def _override(row: OverrideRow) -> Override:
    """What a row means. Raises: `BadRequest`."""
    if not row.card and row.price is None:
        raise BadRequest("the override says nothing", hint="Give fields of `card`, or a `price`.")
    card = _parsed(row.card, CardFields, "card").card
    if row.price is None:
        return Override(card=card)
    day = datetime.fromtimestamp(row.updated_at, UTC).date().isoformat()
    return Override(card=card, prices=(_price(row.price, day),))


def _price(fields: Fields, day: str) -> Price:
    return _parsed(fields, PriceFields, "price").price(at="price", source="the operator", date=day)


def _parsed(fields: Fields, kind: type[R], at: str) -> R:
    try:
        return parse(dict(fields), kind, at=at)
    except ConfigInvalid as error:
        raise BadRequest(error.message, hint=error.hint) from None


def _said(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if value is not None}


def _named(value: str, at: str, longest: int) -> None:
    if not 0 < len(value) <= longest or not value.isprintable() or value != value.strip():
        raise BadRequest(f"`{at}` is not a name", hint=f"Give 1 to {longest} characters without spaces around them.")


def _current(row: OverrideRow, revision: int | None) -> None:
    if revision is not None and revision != row.revision:
        raise PreconditionFailed(
            f"the override `{row.id}` is at revision {row.revision}, not {revision}", hint="Read it again, and decide anew."
        )


def _taken(provider: str, model: str, by: str) -> Conflict:
    return Conflict(f"`{provider}/{model}` has an override already: {by}", hint="Change that one, or delete it first.")


def _get(connection: Connection, wanted: str) -> OverrideRow:
    found = connection.execute(select(TABLE).where(TABLE.c.id == wanted)).first()
    if found is None:
        close = nearest(wanted, list(connection.execute(select(TABLE.c.id).limit(MOST)).scalars()))
        raise NotFound(f"there is no override `{wanted}`", hint=f"Did you mean `{close}`?" if close else "There is none that resembles it.")
    return _row(found)


def _row(row: Row[tuple[object, ...]]) -> OverrideRow:
    return OverrideRow(
        id=row.id,
        provider=row.provider,
        model=row.model,
        card=decode(row.card.encode(), dict[str, object]),
        price=decode(row.price.encode(), dict[str, object]) if row.price != "null" else None,
        created_at=row.created_at,
        updated_at=row.updated_at,
        revision=row.revision,
    )


def _values(row: OverrideRow) -> dict[str, object]:
    return {
        "id": row.id,
        "provider": row.provider,
        "model": row.model,
        "card": text(row.card),
        "price": text(row.price),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "revision": row.revision,
    }
