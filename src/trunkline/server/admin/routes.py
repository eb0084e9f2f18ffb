"""`/routes`: the names that the operator made for models, and where calls for any name go."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from trunkline.base.codec import Meta, Record, nearest
from trunkline.dialects import Dialect
from trunkline.errors import NotFound
from trunkline.gateway.health import Health
from trunkline.gateway.losses import LossRule
from trunkline.gateway.router import Router, RouteSettings, Stop
from trunkline.server.admin import Ask, Nothing, Paging, Resource, Route, Rows


@dataclass(frozen=True, slots=True)
class Routing:
    """What the routes' routes are given.

    Attributes:
        settings: the routes of the configuration.
        router: answers where a call goes.
        health: what calls to targets showed.
        dialects: by name, those that callers may speak.
    """

    settings: Mapping[str, RouteSettings]
    router: Router
    health: Health
    dialects: Mapping[str, Dialect]


class TargetShown(Record, frozen=True):
    """A target of a route."""

    model: Annotated[str, Meta(description="`provider/model`.")]
    weight: Annotated[int, Meta(description="Its share among targets of the same order.")]
    order: Annotated[int, Meta(description="A higher one is tried when the lower ones failed.")]


class RouteShown(Record, frozen=True):
    """A name for one or several models."""

    name: str
    targets: list[TargetShown]
    losses: Annotated[list[LossRule], Meta(description="Which losses of a translation may be; the first that fits decides.")]


class Call(Record, frozen=True):
    """A call that one asks about."""

    model: Annotated[str, Meta(min_length=1, max_length=500, description="The name that a client would ask for.")]
    format: Annotated[str, Meta(max_length=64, description="The format that the client speaks.")] = "openai_chat"


class StopShown(Record, frozen=True):
    """A target that a call would reach."""

    target: str
    kind: str
    format: Annotated[str, Meta(description="What is spoken with it.")]
    how: Literal["forwarded", "translated"]
    base_url: Annotated[str | None, Meta(description="Where it is; null for what runs on this machine.")]
    resting_seconds: Annotated[float, Meta(description="For how long it is left alone yet.")]


class Explained(Record, frozen=True):
    """Where a call would go."""

    model: str
    format: str
    stops: Annotated[list[StopShown], Meta(description="In the order of trying; by weight it may be another next time.")]


def every(routing: Routing, ask: Ask[Paging, None]) -> Rows[RouteShown]:
    """A page of routes, by name."""
    after, limit = ask.query.after or "", ask.query.limit
    found = sorted(name for name in routing.settings if name > after)
    data = [_shown(name, routing.settings[name]) for name in found[:limit]]
    return Rows(data=data, next=found[limit - 1] if len(found) > limit else None)


def one(routing: Routing, ask: Ask[Nothing, None]) -> RouteShown:
    """One route. Raises: `NotFound`."""
    name = ask.path["name"]
    if name not in routing.settings:
        close = nearest(name, list(routing.settings))
        raise NotFound(f"there is no route `{name}`", hint=f"Did you mean `{close}`?" if close else "`GET /api/v1/routes` lists them.")
    return _shown(name, routing.settings[name])


def explain(routing: Routing, ask: Ask[Call, None]) -> Explained:
    """Where a call would go. Raises: `NotFound`."""
    model, spoken = ask.query.model, ask.query.format
    dialect = routing.dialects.get(spoken)
    if dialect is None:
        close = nearest(spoken, list(routing.dialects))
        raise NotFound(
            f"there is no format `{spoken}`", hint=f"Did you mean `{close}`?" if close else f"Known: {', '.join(routing.dialects)}."
        )
    stops = routing.router.stops(model, dialect, "chat")
    return Explained(model=model, format=spoken, stops=[_stop(stop, dialect, routing.health) for stop in stops])


def _shown(name: str, settings: RouteSettings) -> RouteShown:
    targets = [TargetShown(model=each.model, weight=each.weight, order=each.order) for each in settings.targets]
    return RouteShown(name=name, targets=targets, losses=settings.losses)


def _stop(stop: Stop, dialect: Dialect, health: Health) -> StopShown:
    theirs = stop.wire.dialect
    return StopShown(
        target=str(stop.target),
        kind=stop.provider.settings.kind,
        format=theirs.name,
        how="forwarded" if theirs.name == dialect.name else "translated",
        base_url=stop.provider.base_url,
        resting_seconds=round(health.rest(stop.target), 1),
    )


RESOURCE = Resource(
    title="Routes",
    path="",
    service=Routing,
    columns=("name", "targets"),
    about="Names of the operator's own for one or several models. They are read only: the configuration file is where they are changed.",
    routes=(
        Route(
            "GET",
            "/routes",
            name="list",
            scope="admin",
            summary="List the routes.",
            do=every,
            query=Paging,
            answer=Rows[RouteShown],
            runs="loop",
        ),
        Route(
            "GET",
            "/routes/{name:path}",
            scope="admin",
            summary="Read one route.",
            do=one,
            answer=RouteShown,
            errors=(NotFound,),
            runs="loop",
        ),
        Route(
            "GET",
            "/explain",
            scope="admin",
            summary="Say where a call for a model would go, in which order, and whether it would be translated.",
            do=explain,
            query=Call,
            answer=Explained,
            errors=(NotFound,),
            runs="loop",
        ),
    ),
)
