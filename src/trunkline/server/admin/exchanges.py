"""`/exchanges`: the calls that have ended, a row each. No bodies."""

from typing import Annotated, Literal

from trunkline.base.codec import Meta, Record, Wire, decode, field
from trunkline.errors import NotFound
from trunkline.gateway.records import ExchangeRow, Records
from trunkline.model.loss import Change, Severity
from trunkline.server.admin import Ask, Nothing, Paging, Resource, Route, Rows

Instant = Annotated[float, Meta(ge=0, le=253_402_300_799)]


class Filters(Paging, frozen=True):
    """Which calls."""

    account: Annotated[str, Meta(max_length=64, description="Of this account.")] | None = None
    key: Annotated[str, Meta(max_length=64, description="By this key, by its id.")] | None = None
    model: Annotated[str, Meta(max_length=200, description="For this name, as the caller gave it.")] | None = None
    outcome: (
        Annotated[str, Meta(max_length=64, description="That ended so: `ok`, `interrupted`, an error's code, or `error` for any error.")]
        | None
    ) = None
    since: Annotated[Instant | None, Meta(description="That began then or later; seconds since the epoch.")] = None
    until: Annotated[Instant | None, Meta(description="That began before; seconds since the epoch.")] = None


class Tried(Wire, frozen=True):
    """An attempt at a target."""

    target: str
    outcome: Annotated[str, Meta(description="`ok`, `interrupted`, or the error's code.")]
    seconds: float
    credential: Annotated[str, Meta(description="The id of the stored credential that it was made with.")] = ""


class Lost(Wire, frozen=True):
    """What a translation could not carry."""

    path: str
    change: Change = field(name="class")
    severity: Severity
    detail: str


class Used(Wire, frozen=True):
    """Tokens, in buckets that do not overlap."""

    input: int
    cache_read: int
    cache_write: int
    output: int
    reasoning: int
    approximated: Annotated[bool, Meta(description="Whether they were counted here, and not by the provider.")]


class ExchangeShown(Record, frozen=True):
    """A call."""

    id: Annotated[str, Meta(description="The request id.")]
    at: Annotated[float, Meta(description="When it began, seconds since the epoch.")]
    account: str
    key: Annotated[str, Meta(description="The id of the key that it came with.")]
    user: str | None
    end_user: str | None
    path: str
    model: Annotated[str, Meta(description="As the caller named it.")]
    target: Annotated[str | None, Meta(description="The last that was tried, `provider/model`.")]
    status: int
    outcome: Literal["ok", "interrupted", "error"]
    error: Annotated[str | None, Meta(description="The error's code.")]
    stream: bool
    attempts: list[Tried]
    losses: list[Lost]
    usage: Used | None
    tool_calls: int
    sent: Annotated[int, Meta(description="Bytes of the reply.")]
    seconds: Annotated[float, Meta(description="From the call to the last byte of its reply.")]
    first_byte: Annotated[float | None, Meta(description="From the call to the first byte of its reply, seconds.")]


def every(records: Records, ask: Ask[Filters, None]) -> Rows[ExchangeShown]:
    """A page of calls, the latest first."""
    query = ask.query
    account = ask.within(query.account)

    def fetch(after: str | None, limit: int) -> list[ExchangeRow]:
        return [
            *records.list(
                account=account,
                key=query.key,
                model=query.model,
                outcome=query.outcome,
                since=query.since,
                until=query.until,
                after=after,
                limit=limit,
            )
        ]

    return ask.page(fetch, shown)


def one(records: Records, ask: Ask[Nothing, None]) -> ExchangeShown:
    """One call. Raises: `NotFound`."""
    return shown(ask.found(records.get, "exchange"))


def shown(row: ExchangeRow) -> ExchangeShown:
    """A row as callers see it."""
    outcome = "ok" if row.outcome == "ok" else "interrupted" if row.outcome == "interrupted" else "error"
    return ExchangeShown(
        id=row.id,
        at=row.at,
        account=row.account,
        key=row.key,
        user=row.user,
        end_user=row.end_user,
        path=row.path,
        model=row.model,
        target=row.target,
        status=row.status,
        outcome=outcome,
        error=row.outcome if outcome == "error" else None,
        stream=row.stream,
        attempts=decode(row.attempts.encode(), list[Tried]),
        losses=decode(row.losses.encode(), list[Lost]),
        usage=decode(row.usage.encode(), Used) if row.usage else None,
        tool_calls=row.tool_calls,
        sent=row.sent,
        seconds=row.seconds,
        first_byte=row.first_byte,
    )


RESOURCE = Resource(
    title="Exchanges",
    path="/exchanges",
    service=Records,
    columns=("id", "at", "key", "model", "target", "status", "outcome", "error", "seconds"),
    about="Calls that have ended, a row each, the latest first: who asked what of whom, and what became of it. Never what was said. "
    "They are kept for `exchanges.keep_days`.",
    routes=(
        Route("GET", "", scope="account", summary="List calls.", do=every, query=Filters, answer=Rows[ExchangeShown], errors=(NotFound,)),
        Route("GET", "/{id}", scope="account", summary="Read one call.", do=one, answer=ExchangeShown, errors=(NotFound,)),
    ),
)
