"""The resource of the guide in `trunkline.server.admin`, with a service in memory, and a few routes more."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from trunkline.base.codec import UNSET, Meta, Record, UnsetType
from trunkline.base.secret import Secret
from trunkline.errors import NotFound, PreconditionFailed
from trunkline.server.admin import EVERYBODY, Ask, Nothing, Paging, Resource, Route, Rows


@dataclass(frozen=True)
class Row:
    id: str
    account: str
    text: str
    colour: str | None = None
    revision: int = 1


class Notes:
    """What the service of a real resource is: blocking methods over a database."""

    def __init__(self, *rows: Row) -> None:
        self.rows = {row.id: row for row in rows}
        self.secrets: list[Secret] = []
        self.broken: Exception | None = None

    def list(self, *, account: str | None, after: str | None, limit: int) -> Sequence[Row]:
        if self.broken is not None:
            raise self.broken
        found = [row for _, row in sorted(self.rows.items()) if account in {None, row.account} and row.id > (after or "")]
        return found[:limit]

    def get(self, note: str) -> Row:
        if note not in self.rows:
            raise NotFound(f"there is no note `{note}`")
        return self.rows[note]

    def create(self, *, account: str, text: str) -> Row:
        row = Row(id=f"nte_{len(self.rows):04}", account=account, text=text)
        self.rows[row.id] = row
        return row

    def change(self, note: str, *, revision: int | None, **fields: Any) -> Row:
        row = self._at(note, revision)
        self.rows[note] = replace(row, **fields, revision=row.revision + 1)
        return self.rows[note]

    def delete(self, note: str, *, revision: int | None = None) -> None:
        del self.rows[self._at(note, revision).id]

    def _at(self, note: str, revision: int | None) -> Row:
        row = self.get(note)
        if revision not in {None, row.revision}:
            raise PreconditionFailed(f"the note `{note}` is at revision {row.revision}, not at {revision}")
        return row


class Note(Record, frozen=True):
    """A note."""

    id: str
    account: str
    text: str
    colour: str | None
    revision: int


class NewNote(Record, frozen=True):
    """What a note begins with."""

    text: Annotated[str, Meta(min_length=1, max_length=1000, description="What it says.", examples=["Buy milk"])]


class NoteChanges(Record, frozen=True):
    """What is to be different."""

    text: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    colour: Literal["red", "green"] | UnsetType | None = UNSET


class NewSeal(Record, frozen=True):
    """A secret on the way in."""

    secret: Secret
    strength: Annotated[int, Meta(ge=1, le=9)] = 1


class Search(Paging, frozen=True):
    """Filters."""

    account: str | None = None
    colour: list[Literal["red", "green"]] = []
    since: Annotated[float, Meta(ge=0)] | None = None


def every(notes: Notes, ask: Ask[Search, None]) -> Rows[Note]:
    account = ask.within(ask.query.account)
    return ask.page(lambda after, limit: notes.list(account=account, after=after, limit=limit), shown)


def one(notes: Notes, ask: Ask[Nothing, None]) -> Note:
    return shown(ask.found(notes.get, "note"))


def create(notes: Notes, ask: Ask[Nothing, NewNote]) -> Note:
    return shown(notes.create(account=ask.own_account, text=ask.body.text))


def change(notes: Notes, ask: Ask[Nothing, NoteChanges]) -> Note:
    ask.found(notes.get, "note")
    return shown(notes.change(ask.path["id"], revision=ask.revision, **ask.changes))


def delete(notes: Notes, ask: Ask[Nothing, None]) -> None:
    ask.found(notes.get, "note")
    notes.delete(ask.path["id"], revision=ask.revision)


def seal(notes: Notes, ask: Ask[Nothing, NewSeal]) -> None:
    notes.secrets.append(ask.body.secret)


def careless(notes: Notes, ask: Ask[Nothing, None]) -> Note:
    return shown(notes.get(ask.path["id"]))  # whosesoever it is


def shown(row: Row) -> Note:
    return Note(id=row.id, account=row.account, text=row.text, colour=row.colour, revision=row.revision)


RESOURCE = Resource(
    title="Notes",
    path="/notes",
    service=Notes,
    columns=("id", "text"),
    routes=(
        Route("GET", "", scope="account", roles=EVERYBODY, summary="List notes.", do=every, query=Search, answer=Rows[Note]),
        Route("POST", "", scope="account", summary="Make a note.", do=create, body=NewNote, answer=Note),
        Route("GET", "/{id}", scope="account", summary="Read a note.", do=one, answer=Note, runs="loop"),
        Route("PATCH", "/{id}", scope="account", summary="Change a note.", do=change, body=NoteChanges, answer=Note),
        Route("DELETE", "/{id}", scope="account", summary="Delete a note.", do=delete, if_match="required"),
        Route("POST", "/{id}/seal", scope="admin", summary="Seal a note.", do=seal, body=NewSeal, status=204),
        Route("GET", "/{id}/careless", scope="account", summary="Forget whose it is.", do=careless, answer=Note),
    ),
)
