"""From a name to where the call may go. Pure."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol

from trunkline.base.codec import Annotated, Meta, Record, Value, nearest
from trunkline.dialects import Dialect
from trunkline.errors import BadRequest, ConfigInvalid, NotFound
from trunkline.gateway.losses import DEFAULT, LossRule
from trunkline.gateway.stored import Stored, find
from trunkline.model.allowed import Models, allows
from trunkline.model.request import Operation
from trunkline.model.target import Target
from trunkline.providers import Provider, Wire

MOST_COMPARED = 500
"""Names that one that nobody knows is compared with: a provider may list thousands, and this is on a request's path."""


class TargetSettings(Record, frozen=True):
    """One of a route's targets."""

    model: Annotated[str, Meta(pattern="^[^/]+/.+", description="`provider/model`.")]
    weight: Annotated[int, Meta(ge=1, le=1000, description="Its share among targets of the same order.")] = 1
    order: Annotated[int, Meta(ge=0, description="A higher one is tried when the lower ones failed.")] = 0


class RouteSettings(Record, frozen=True):
    """A name of your own for one or several models."""

    targets: Annotated[list[TargetSettings], Meta(min_length=1)]
    losses: Annotated[
        list[LossRule],
        Meta(description="Which losses of a translation may be; by default all but those that leave out content or tools."),
    ] = []


class Stop(Value, frozen=True):
    """A target with all that is needed to call it."""

    target: Target
    provider: Provider
    wire: Wire
    losses: Sequence[LossRule] = DEFAULT


class Discovered(Protocol):
    """What providers list, beside what the configuration names."""

    def owners(self, model: str) -> Sequence[str]:
        """The providers that list a model."""
        ...

    def found(self, provider: str) -> Iterable[str]:
        """The models that a provider lists."""
        ...


@dataclass(frozen=True, slots=True)
class Name:
    """A name that a listing shows.

    Attributes:
        id: the name to ask for.
        target: where its calls go first.
        route: it is a route's.
        discovered: the provider lists it, and the configuration does not.
    """

    id: str
    target: Target
    route: bool = False
    discovered: bool = False


class Router:
    """The names that one may ask for.

    Args:
        providers: by name.
        routes: by name.
        discovered: what providers list at this moment. It adds names, and never changes where a configured one leads.
        draw: gives numbers from 0 to 1.
    """

    def __init__(
        self,
        *,
        providers: Mapping[str, Provider],
        routes: Mapping[str, RouteSettings],
        discovered: Discovered | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._providers = providers
        self._discovered = discovered
        self._settings = routes
        self._routes = {name: [(_target(name, each, providers), each) for each in route.targets] for name, route in routes.items()}
        self._bare = _bare_names(providers)
        self._draw = draw

        @cache  # as many as there are providers, formats and operations
        def wire(provider: str, dialect: Dialect, operation: Operation) -> Wire | None:
            return providers[provider].wire(dialect, operation)

        self._wire = wire

    def stops(self, name: str, dialect: Dialect, operation: Operation) -> list[Stop]:
        """Where a call for a name may go, in the order of trying.

        Raises:
            NotFound: nobody knows the name; the hint has the nearest.
            BadRequest: its targets do not speak the dialect, or lack the operation.
        """
        targets = self._targets(name)
        route = self._settings.get(name)
        rules = (*route.losses, *DEFAULT) if route and route.losses else DEFAULT
        stops = [
            Stop(target, provider, wire, rules)
            for target in targets
            if (provider := self._providers[target.provider]) and (wire := self._wire(target.provider, dialect, operation))
        ]
        if not stops:
            spoken = sorted({wire.dialect.name for target in targets for wire in self._providers[target.provider].speaks})
            raise BadRequest(
                f"the model `{name}` does not answer `{operation}` in the format `{dialect.name}`",
                hint=f"It speaks {', '.join(f'`{each}`' for each in spoken)}.",
            )
        return stops

    def home(self, told: str, dialect: Dialect) -> tuple[Provider, Wire, Stored]:
        """Whose a kept object is.

        Raises:
            NotFound: the id is not one that we told, or its provider is gone.
        """
        found = find(told)
        provider = self._providers.get(found.provider) if found else None
        wire = provider.wire(dialect, "chat") if provider else None
        if found is None or provider is None or wire is None or wire.dialect.name != dialect.name:
            raise NotFound(
                f"there is nothing stored under `{told}`",
                hint="Ask with the id that the reply had here; only providers that speak this format themselves keep replies.",
            )
        return provider, wire, found

    def names(self, allowed: Models = None) -> list[Name]:
        """The names that a listing shows, of those that are allowed: routes, then each provider's models, the configured ones first."""
        routes = [
            Name(name, targets[0][0], route=True)
            for name, targets in self._routes.items()
            if allows(allowed, name, *(str(target) for target, _ in targets))
        ]
        models = [
            Name(name, target, discovered=target.model not in provider.settings.models)
            for provider in self._providers.values()
            for target in map(partial(Target, provider.name), [*provider.settings.models, *self._more(provider)])
            if (name := self._shown(target, allowed))
        ]
        return routes + models

    def _shown(self, target: Target, allowed: Models) -> str:
        """The name under which a listing shows a provider's model: with the provider's, or without, or not at all."""
        if allows(allowed, str(target)):
            return str(target)
        model = target.model
        return model if allows(allowed, model) and model not in self._routes and len(self._owners(model)) == 1 else ""

    def _more(self, provider: Provider) -> Iterable[str]:
        found = self._discovered.found(provider.name) if self._discovered else ()
        return (model for model in found if model not in provider.settings.models)

    def _owners(self, name: str) -> list[str]:
        """The providers that have a model of this name: those where it is configured, else those that list it."""
        if (owners := self._bare.get(name)) is not None or self._discovered is None:
            return owners or []
        return [owner for owner in self._discovered.owners(name) if owner in self._providers]

    def _targets(self, name: str) -> list[Target]:
        if name in self._routes:
            return self._in_order(self._routes[name])
        provider, _, model = name.partition("/")
        if model and provider in self._providers:
            return [Target(provider, model)]
        owners = self._owners(name)
        if len(owners) == 1:
            return [Target(owners[0], name)]
        if owners:
            raise NotFound(
                f"several providers have a model `{name}`", hint=f"Say which: {', '.join(f'`{owner}/{name}`' for owner in owners)}."
            )
        close = nearest(name, [*self._bare, *(known.id for known in self.names()[:MOST_COMPARED])])
        raise NotFound(
            f"there is no model `{name}`",
            hint=(f"Did you mean `{close}`? " if close else "") + "`GET /v1/models` lists the names; `provider/model` always works.",
        )

    def _in_order(self, targets: Sequence[tuple[Target, TargetSettings]]) -> list[Target]:
        """By order; within an order drawn by weight, without repetition (Efraimidis and Spirakis, 2006)."""
        if len(targets) == 1:
            return [targets[0][0]]
        ranked = sorted(targets, key=lambda each: (each[1].order, -(self._draw() ** (1 / each[1].weight))))
        return [target for target, _ in ranked]


def _target(route: str, settings: TargetSettings, providers: Mapping[str, Provider]) -> Target:
    provider, _, model = settings.model.partition("/")
    if provider not in providers:
        close = nearest(provider, list(providers))
        raise ConfigInvalid(
            f"`routes.{route}.targets` names the provider `{provider}`, and there is none of that name",
            hint=f"Did you mean `{close}/{model}`?" if close else "Add it under `[providers]`.",
        )
    return Target(provider, model)


def _bare_names(providers: Mapping[str, Provider]) -> dict[str, list[str]]:
    owners: dict[str, list[str]] = {}
    for provider in providers.values():
        for model in provider.settings.models:
            owners.setdefault(model, []).append(provider.name)
    return owners
