"""The admin API's resources: what an administrator sees and changes over REST, each in one file.

A member exports one constant, `RESOURCE`. From that alone are made: routing under `/api/v1`, authorisation, the reading of queries
and bodies, the OpenAPI document and its page, the reference in `docs/`, and the commands of `trunkline`. A whole resource:

    class Note(Record, frozen=True):                     # an answer; a field without a default is always there
        id: str
        account: str
        text: str
        created_at: float
        updated_at: float
        revision: int                                    # makes the `ETag`

    class NewNote(Record, frozen=True):                  # a body; unknown fields are refused by name
        text: Annotated[str, Meta(min_length=1, max_length=1000, description="What it says.")]

    class NoteChanges(Record, frozen=True):              # a change: what is `UNSET` stays; `T | UnsetType | None` where null clears
        text: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET

    def every(notes: Notes, ask: Ask[Paging, None]) -> Rows[Note]:
        return ask.page(lambda after, limit: notes.list(account=ask.account, after=after, limit=limit), shown)

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

    RESOURCE = Resource(
        title="Notes", path="/notes", service=Notes, columns=("id", "text"),
        routes=(
            Route("GET", "", scope="account", summary="List notes.", do=every, query=Paging, answer=Rows[Note]),
            Route("POST", "", scope="account", summary="Make a note.", do=create, body=NewNote, answer=Note),
            Route("GET", "/{id}", scope="account", summary="Read a note.", do=one, answer=Note, errors=(NotFound,)),
            Route("PATCH", "/{id}", scope="account", summary="Change a note.", do=change, body=NoteChanges, answer=Note,
                  errors=(NotFound, PreconditionFailed)),
            Route("DELETE", "/{id}", scope="account", summary="Delete a note.", do=delete, errors=(NotFound, PreconditionFailed)),
        ),
    )

and the service joins the others in `app/compose.py`, `services()`. What a resource can rely on:

* **Who** may: `scope`, and `roles` where the scope is `account`. Callers with the scope `admin` (the installation's operator) may do
  everything, and see every account: for them `ask.account` is None. For the others it is their account's id: lists are narrowed to it, and
  `ask.found` makes another account's row the same 404, to the word, as one that is not there. A route that says `own=True` is also for who calls models
  with a key of a user, and then for what is that user's alone: `ask.user` is the user's id, `ask.owner` whose something new is. A last
  net stands behind that: an answer whose `account` or `user` is another one is never sent.
* **Bodies** are JSON, as `Content-Type` says, up to `MOST_BODY`. `Secret` is a type for fields: what it holds is told in no error.
* **Pages**: `?limit=&after=`, answered by `{data, next}`; `next` is the `after` of the following page, or null.
* **Revisions**: `If-Match` is honoured and optional; a route may require it (`if_match="required"`). `If-None-Match` is 304 where
  nothing has changed.
* **Errors** are raised as anywhere else, and have one shape: `{"error": {code, message, hint, fault, request_id}}`.
* `do` runs in a thread of a bounded pool and may block; with `runs="loop"` it runs in the event loop and may not, and may be a coroutine.

A member that begins with `_` is shared by others, and is none.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar, get_args, runtime_checkable

from trunkline.base.codec import UNSET, Annotated, Meta, Record
from trunkline.errors import ConfigInvalid, Denied, NotFound, TrunklineError
from trunkline.model.caller import Caller, Role, Scope
from trunkline.model.credential import Owner

ROOT = "/api/v1"
MOST_BODY = 1 << 20
"""Bytes of a body, decompressed."""

MOST_ROWS = 500
"""Rows of a page."""

ADMINISTRATORS: tuple[Role, ...] = ("owner", "admin")
EVERYBODY: tuple[Role, ...] = ("owner", "admin", "member", "service")

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

S = TypeVar("S")
Q = TypeVar("Q")
B = TypeVar("B")
T = TypeVar("T")


class Nothing(Record, frozen=True):
    """A query without parameters."""


class Paging(Record, frozen=True):
    """Which rows of a list. Filters are fields of a subclass."""

    limit: Annotated[int, Meta(ge=1, le=MOST_ROWS, description="The most rows of the page.")] = 50
    after: Annotated[str, Meta(min_length=1, max_length=200, description="`next` of the page before.")] | None = None


class Rows(Record, Generic[T], frozen=True):
    """A page of a list; `next` is the `after` of the following one, or null where this is the last."""

    data: list[T]
    next: str | None


@runtime_checkable
class Owned(Protocol):
    """A row that belongs to an account."""

    @property
    def account(self) -> str | None:
        """The account's id."""
        ...


@runtime_checkable
class Personal(Protocol):
    """A row that may belong to one user of an account."""

    @property
    def user(self) -> str | None:
        """The user's id; None where it is the whole account's."""
        ...


@runtime_checkable
class Revised(Protocol):
    """A row whose every change is counted."""

    @property
    def revision(self) -> int:
        """How often it was changed, and once more."""
        ...


@runtime_checkable
class Identified(Protocol):
    """A row with an id, which lists are ordered by."""

    @property
    def id(self) -> str:
        """The id."""
        ...


O = TypeVar("O", bound=Owned)  # noqa: E741 - a type variable like its neighbours
R = TypeVar("R", bound=Identified)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Generic[Q, B]):
    """One request, read and allowed.

    Attributes:
        caller: who asks.
        path: what stands in the braces of the route's path.
        query: the query, as the route's record of it.
        body: the body, as the route's record of it; None where the route has none.
        revision: the one that the row has to be at, where `If-Match` names one.
    """

    caller: Caller
    path: Mapping[str, str]
    query: Q
    body: B
    revision: int | None = None

    @property
    def account(self) -> str | None:
        """The account that the caller is confined to; None for the installation's operator."""
        return None if "admin" in self.caller.scopes else self.caller.account

    @property
    def own_account(self) -> str:
        """The caller's own account, the operator's too."""
        return self.caller.account

    @property
    def user(self) -> str | None:
        """The user that the caller is confined to, in its account; None for who looks after the account, and for the operator."""
        if "admin" in self.caller.scopes or ("account" in self.caller.scopes and self.caller.role in ADMINISTRATORS):
            return None
        return self.caller.user or ""  # nobody's is no row's

    def owner(self, account: str | None, user: str | None) -> Owner:
        """Whose something new is: what the caller names, where the caller may; else a person's own, the account's, or an operator's: everybody's.

        Raises:
            NotFound: the account is another one.
            Denied: the caller is confined to a user, and it is another's.
        """
        account = self.within(account)
        if self.user is None:
            return Owner((account or self.own_account) if user else (account or ""), user or "")
        if user not in {None, self.user}:
            raise Denied(f"the key `{self.caller.name}` may not act for the user `{user}`", hint="Leave `user` out: it is for yourself.")
        return Owner(self.own_account, self.user)

    def within(self, account: str | None) -> str | None:
        """The account to narrow a list to: the one that a filter names, where the caller may name it.

        Raises:
            NotFound: it is another one's.
        """
        if self.account is not None and account not in {None, self.account}:
            raise NotFound(f"there is no account `{account}`", hint="Leave the filter out: you see your own account.")
        return account or self.account

    def found(self, get: Callable[[str], O], what: str) -> O:
        """The row with the path's id, where the caller may know that it is there.

        Raises:
            NotFound: there is none; who is confined to an account hears no more of it than of another's.
        """
        try:
            row = get(self.path["id"])
        except NotFound:
            if self.account is None:
                raise
            raise self._unknown(what) from None
        return self.mine(row, what)

    def mine(self, row: O, what: str) -> O:
        """The row, where the caller may know that it is there.

        Raises:
            NotFound: it is another account's, or another user's where the caller is confined to one.
        """
        if not self.is_mine(row):
            raise self._unknown(what)
        return row

    def _unknown(self, what: str) -> NotFound:
        return NotFound(f"there is no {what} `{self.path['id']}`")

    def is_mine(self, row: Owned) -> bool:
        """Whether the caller may know that a row is there."""
        if self.account is not None and row.account != self.account:
            return False
        return self.user is None or not isinstance(row, Personal) or row.user == self.user

    @property
    def changes(self) -> dict[str, Any]:
        """The fields that a change names, by the names that the record's class has for them."""
        body = self.body
        assert isinstance(body, Record)
        return {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not UNSET}

    def page(self, fetch: Callable[[str | None, int], Sequence[R]], show: Callable[[R], T]) -> Rows[T]:
        """A page of rows.

        Args:
            fetch: gives rows after an id (from the beginning, where it is None), so many at most, in the order of the list.
            show: makes an answer of a row.
        """
        query = self.query
        assert isinstance(query, Paging)
        rows = fetch(query.after, query.limit + 1)
        shown = rows[: query.limit]
        return Rows(data=[show(row) for row in shown], next=shown[-1].id if len(rows) > query.limit else None)


@dataclass(frozen=True, slots=True)
class Route(Generic[S]):
    """What one method does at one path.

    Attributes:
        method: of HTTP. `HEAD` comes with `GET`.
        path: below the resource's; `{id}` is one step of it, `{name:path}` all of the rest.
        scope: what a caller needs.
        summary: a sentence.
        do: does it, given the resource's service; gives the answer.
        roles: who of an account may, where the scope is `account`.
        own: whether, where the scope is `account`, any user's key with the scope `inference` may too, for what is that user's alone.
        query: the record of its query.
        body: the record of its body, where it takes one.
        answer: the type of its answer; None for 204.
        errors: what it may answer beside what any route may.
        status: of a good answer; by default 201 for a `POST`, 204 without an answer, else 200.
        if_match: whether a revision may, must or cannot be named; by default it may where there is one to be at: by `PATCH`, `PUT` and
            `DELETE`, and by `GET` where the answer has a `revision`.
        runs: in a thread, where it may block, or in the event loop, where it may wait.
        name: the command's; by default from method and path.
        details: more for the reference.
    """

    method: Method
    path: str
    _: KW_ONLY
    scope: Scope
    summary: str
    do: Callable[[S, Any], Any]
    roles: tuple[Role, ...] = ADMINISTRATORS
    own: bool = False
    query: type[Record] = Nothing
    body: type[Record] | None = None
    answer: Any = None
    errors: tuple[type[TrunklineError], ...] = ()
    status: int = 0
    if_match: Literal["optional", "required", "refused"] | None = None
    runs: Literal["thread", "loop"] = "thread"
    name: str = ""
    details: str = ""

    @property
    def good_status(self) -> int:
        """The status of a good answer."""
        return self.status or (201 if self.method == "POST" else 204 if self.answer is None else 200)

    @property
    def matches(self) -> Literal["optional", "required", "refused"]:
        """Whether a revision may be named."""
        if self.method == "GET":
            return "optional" if "revision" in getattr(self.answer, "__struct_fields__", ()) else "refused"
        return self.if_match or ("refused" if self.method == "POST" else "optional")

    @property
    def verb(self) -> str:
        """The name of its command, and the end of its `operationId`."""
        last = self.path.rpartition("/")[2]
        if self.name or (last and "{" not in last):
            return self.name or last
        return {"GET": "get" if last else "list", "POST": "create", "PUT": "put", "PATCH": "change", "DELETE": "delete"}[self.method]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[S]):
    """A kind of object, and what can be done with it.

    Attributes:
        title: for people, in the plural.
        path: below `/api/v1`.
        service: the class whose object the routes are given; or a protocol's, where `services()` has it under that.
        routes: what can be done.
        columns: the fields of a row that the command line's table shows.
        about: more for the reference.
    """

    title: str
    path: str
    service: type[S]
    routes: tuple[Route[S], ...]
    columns: tuple[str, ...] = ()
    about: str = ""


@dataclass(frozen=True, slots=True)
class Declared:
    """A route with the resource that it is one of, by the name of the member."""

    name: str
    resource: Resource[Any]
    route: Route[Any]

    @property
    def path(self) -> str:
        """The whole path."""
        return f"{ROOT}{self.resource.path}{self.route.path}"

    def __str__(self) -> str:
        return f"{self.route.method} {self.path}"


def declared(resources: Mapping[str, Resource[Any]]) -> list[Declared]:
    """All routes of some resources, fixed paths before those with braces.

    Raises:
        ConfigInvalid: one does not say who may, or two are the same.
    """
    every = [Declared(name, resource, route) for name, resource in resources.items() for route in resource.routes]
    seen: set[str] = set()
    for each in every:
        route = each.route
        if route.scope not in get_args(Scope):  # a member of another distribution may not have been checked by anything
            raise ConfigInvalid(f"`{each}` declares the scope `{route.scope}`, which is none", hint=f"One of {', '.join(get_args(Scope))}.")
        if route.scope == "account" and not route.roles:
            raise ConfigInvalid(f"`{each}` is for accounts, and names no role that may")
        if inspect.iscoroutinefunction(route.do) and route.runs != "loop":
            raise ConfigInvalid(f"`{each}` is a coroutine, and runs in a thread", hint='Say `runs="loop"`.')
        if route.body is not None and route.method in {"GET", "DELETE"}:
            raise ConfigInvalid(f"`{each}` declares a body, which `{route.method}` has not")
        if str(each) in seen:
            raise ConfigInvalid(f"`{each}` is declared twice")
        seen.add(str(each))
    return sorted(every, key=lambda each: ([("{" in step, step) for step in each.path.split("/")], each.route.method))
