"""What providers listed, kept over a restart and shared by the processes on one database. A write says what it builds upon."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from trunkline.base.codec import Malformed, Wire, decode_raw, text
from trunkline.catalog.discovery import SCHEMA, Evidence, Key
from trunkline.catalog.listing import Found
from trunkline.errors import Conflict
from trunkline.model.card import UNKNOWN, Card, Lifecycle, Modality
from trunkline.store.engine import reading, writing
from trunkline.store.tables.discoveries import TABLE

NEVER = 0
"""The revision of what was never kept."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept under a key.

    Attributes:
        evidence: `None` where nothing is, or it was deleted.
        revision: to be given with the next write; a deletion has one too.
    """

    evidence: Evidence | None
    revision: int = NEVER


class EvidenceStore:
    """Keeps what was listed. Blocking; raises `StoreUnavailable` where the database does not answer."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def all(self) -> Mapping[Key, Kept]:
        """All that is kept."""
        with reading(self._engine) as connection:
            rows = connection.execute(select(TABLE)).all()
        return {Key(row.provider, row.settings): Kept(_read(row.evidence), row.revision) for row in rows}

    def load(self, key: Key) -> Kept:
        """What is kept under a key."""
        with reading(self._engine) as connection:
            return _load(connection, key)

    def save_if(self, key: Key, evidence: Evidence, expected: int) -> int:
        """Keep evidence in place of that of a revision (`NEVER` for none), and get the new revision. What the provider had under other
        settings is no longer kept.

        Raises:
            Conflict: somebody else wrote meanwhile.
        """
        return self._write(key, expected, evidence=_written(evidence), observed_at=evidence.observed_at)

    def delete(self, key: Key) -> int:
        """Forget what is kept under a key; the revision is a new one, so that whoever is about to write is refused."""
        with writing(self._engine) as connection:
            expected = _load(connection, key).revision
            return _put(connection, key, expected, evidence=None, observed_at=0.0)

    def _write(self, key: Key, expected: int, *, evidence: str | None, observed_at: float) -> int:
        with writing(self._engine) as connection:
            if _load(connection, key).revision != expected:
                raise Conflict(f"the list of `{key.provider}` has been written by somebody else", hint="Load it again.")
            try:
                revision = _put(connection, key, expected, evidence=evidence, observed_at=observed_at)
            except IntegrityError:
                raise Conflict(f"the list of `{key.provider}` has been written by somebody else", hint="Load it again.") from None
            connection.execute(delete(TABLE).where(TABLE.c.provider == key.provider, TABLE.c.settings != key.settings))
            return revision


def _load(connection: Connection, key: Key) -> Kept:
    row = connection.execute(select(TABLE).where(TABLE.c.provider == key.provider, TABLE.c.settings == key.settings)).first()
    return Kept(_read(row.evidence), row.revision) if row is not None else Kept(None)


def _put(connection: Connection, key: Key, expected: int, *, evidence: str | None, observed_at: float) -> int:
    values = {"evidence": evidence, "observed_at": observed_at, "revision": expected + 1}
    if expected == NEVER:
        connection.execute(insert(TABLE).values(provider=key.provider, settings=key.settings, **values))
    else:
        connection.execute(update(TABLE).where(TABLE.c.provider == key.provider, TABLE.c.settings == key.settings).values(values))
    return expected + 1


class _Model(Wire, frozen=True):
    id: str
    context_window: int | None = None
    max_output: int | None = None
    inputs: list[Modality] | None = None
    tools: bool | None = None
    surfaces: list[str] | None = None
    retires_at: str | None = None


class _Evidence(Wire, frozen=True):
    models: list[_Model]
    observed_at: float
    schema: int
    left_out: int = 0


def _written(evidence: Evidence) -> str:
    models = [
        _Model(
            id=found.id,
            context_window=found.card.context_window,
            max_output=found.card.max_output,
            inputs=None if found.card.inputs is None else sorted(found.card.inputs),
            tools=found.card.tools,
            surfaces=None if found.card.surfaces is None else sorted(found.card.surfaces),
            retires_at=found.card.lifecycle.retires_at if found.card.lifecycle else None,
        )
        for found in evidence.models
    ]
    return text(_Evidence(models=models, left_out=evidence.left_out, observed_at=evidence.observed_at, schema=evidence.schema))


def _read(kept: str | None) -> Evidence | None:
    """What was written, if this version can read it: if not, it is looked for again."""
    if kept is None:
        return None
    try:
        read = decode_raw(kept.encode(), _Evidence)
    except Malformed:
        return None
    if read.schema != SCHEMA:
        return None
    models = tuple(Found(model.id, _card(model)) for model in read.models)
    return Evidence(
        status="discovered" if models else "empty",
        models=models,
        left_out=read.left_out,
        observed_at=read.observed_at,
        schema=read.schema,
    )


def _card(model: _Model) -> Card:
    card = Card(
        context_window=model.context_window,
        max_output=model.max_output,
        inputs=None if model.inputs is None else frozenset(model.inputs),
        tools=model.tools,
        surfaces=None if model.surfaces is None else frozenset(model.surfaces),
        lifecycle=Lifecycle(state="deprecated", retires_at=model.retires_at) if model.retires_at else None,
    )
    return UNKNOWN if card == UNKNOWN else card  # itself, which is the quickest to lay over another
