"""From a name to where the call may go. Pure."""

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from trunkline.base.codec import Annotated, Meta, Record, Value, nearest
from trunkline.dialects import Dialect
from trunkline.errors import BadRequest, ConfigInvalid, NotFound
from trunkline.gateway.losses import CONTRACT, DEFAULT, LossRule, by_contract
from trunkline.gateway.stored import Stored, find
from trunkline.model.allowed import Models, allows
from trunkline.model.request import Operation
from trunkline.model.target import Target
from trunkline.providers import Provider, Served, Wire

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
    """A target with all that is needed to call it; `losses` are what its route says of losses."""

    target: Target
    provider: Provider
    wire: Wire
    losses: Sequence[LossRule] = ()

    @property
    def rules(self) -> Sequence[LossRule]:
        """Which losses on the way there may be."""
        return (*self.losses, *(CONTRACT if by_contract(self.provider) else DEFAULT))

    @property
    def circuit(self) -> Target:
        """What rests when calls fail: the target; for a provider behind a daemon, which is another program, all of its models."""
        return self.target if self.provider.served is None else Target(self.provider.name, "")


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

    A provider behind a daemon is named in full, `DAEMON/PROVIDER/MODEL`, or `PROVIDER/MODEL` where only one daemon serves it and nothing
    that is configured has that name.

    Args:
        providers: by name; what daemons serve may change at any time, which `providers_changed` is told of.
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
        self._draw = draw
        self._bare: dict[str, list[str]] = {}
        self._short: dict[str, list[str]] = {}
        self._wires: dict[tuple[str, Dialect, Operation, frozenset[str] | None], Wire | None] = {}
        self.providers_changed()

    def providers_changed(self) -> None:
        """Take what daemons serve now."""
        self._bare = _bare_names(self._providers)
        self._short = _short_names(self._providers, self._settings)
        self._wires = {}  # as many as there are providers, formats, operations, and sets of surfaces that models have

    def stops(self, name: str, dialect: Dialect, operation: Operation) -> list[Stop]:
        """Where a call for a name may go, in the order of trying.

        Raises:
            NotFound: nobody knows the name; the hint has the nearest.
            BadRequest: its targets do not speak the dialect, or lack the operation.
        """
        targets = self._targets(name)
        route = self._settings.get(name)
        rules = route.losses if route else ()
        stops = [
            Stop(target, provider, wire, rules)
            for target in targets
            if (provider := self.provider(target.provider)) and (wire := self._wire(provider, target.model, dialect, operation))
        ]
        if not stops:
            spoken = sorted({wire.dialect.name for target in targets for wire in self.provider(target.provider).spoken(target.model)})
            raise BadRequest(
                f"the model `{name}` does not answer `{operation}` in the format `{dialect.name}`",
                hint=f"It speaks {', '.join(f'`{each}`' for each in spoken)}." if spoken else "It has no format that is served here.",
            )
        return stops

    def home(self, told: str, dialect: Dialect) -> tuple[Provider, Wire, Stored]:
        """Whose a kept object is.

        Raises:
            NotFound: the id is not one that we told, or its provider is gone.
        """
        found = find(told)
        provider = self._providers.get(found.provider) if found else None
        wire = provider.wire(dialect, "chat") if provider and provider.served is None else None  # daemons tell nothing of what is kept
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
            if not _is_daemon(provider)
            for target in map(partial(Target, provider.name), [*provider.settings.models, *self._more(provider)])
            if provider.spoken(target.model) and (name := self._shown(target, allowed))
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

    def provider(self, name: str) -> Provider:
        """A target's provider; where its daemon has not told of it, what it would be, which is found out when it is called."""
        return self._providers.get(name) or _absent(self._providers, name)

    def _wire(self, provider: Provider, model: str, dialect: Dialect, operation: Operation) -> Wire | None:
        surfaces = None if provider.served is None else provider.card(model).surfaces
        key = (provider.name, dialect, operation, surfaces)
        if key not in self._wires:
            self._wires[key] = provider.wire(dialect, operation, model)
        return self._wires[key]

    def _targets(self, name: str) -> list[Target]:
        if name in self._routes:
            return self._in_order(self._routes[name])
        provider, _, model = name.partition("/")
        if model and provider in self._providers:
            if _is_daemon(self._providers[provider]):
                return [_behind(self._providers, provider, model)]
            return [Target(provider, model)]
        if model and provider in self._short and name not in self._bare:
            return [self._short_target(name, provider, model)]
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

    def _short_target(self, name: str, served: str, model: str) -> Target:
        """What `PROVIDER/MODEL` means. Raises: `NotFound`: several daemons serve such a provider."""
        by = self._short[served]
        if len(by) > 1:
            raise NotFound(
                f"several daemons serve `{served}`", hint=f"Say which: {', '.join(f'`{each}/{model}`' for each in by)} for `{name}`."
            )
        return Target(by[0], model)

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
    if not _is_daemon(providers[provider]):
        return Target(provider, model)
    served, _, model = model.partition("/")
    if not model:
        raise ConfigInvalid(
            f"`routes.{route}.targets` names `{settings.model}`, and `{provider}` is a daemon",
            hint=f"A model behind it is `{provider}/PROVIDER/MODEL`.",
        )
    return Target(f"{provider}/{served}", model)


def _is_daemon(provider: Provider) -> bool:
    """Whether it is a daemon itself, and so none that can be called."""
    return provider.kind.daemon and provider.served is None


def _behind(providers: Mapping[str, Provider], daemon: str, rest: str) -> Target:
    """The target that `DAEMON/REST` means. Raises: `NotFound`: the daemon is known to serve no such provider."""
    served, _, model = rest.partition("/")
    names = [each.served.id for each in providers.values() if each.served is not None and each.served.daemon == daemon]
    if not model:
        raise NotFound(
            f"there is no model `{daemon}/{rest}`", hint=f"`{daemon}` is a daemon; a model behind it is `{daemon}/PROVIDER/MODEL`."
        )
    if names and served not in names:
        close = nearest(served, names)
        raise NotFound(
            f"the daemon `{daemon}` serves no provider `{served}`",
            hint=f"Did you mean `{daemon}/{close}/{model}`?" if close else f"It serves {', '.join(f'`{each}`' for each in names)}.",
        )
    return Target(f"{daemon}/{served}", model)


def _absent(providers: Mapping[str, Provider], name: str) -> Provider:
    daemon, _, served = name.partition("/")
    kind = providers[daemon].kind
    surfaces = tuple(surface for wire in kind.speaks for surface in wire.paths.values())
    return replace(providers[daemon], name=name, served=Served(daemon=daemon, id=served, surfaces=surfaces), secret=None)


def _bare_names(providers: Mapping[str, Provider]) -> dict[str, list[str]]:
    owners: dict[str, list[str]] = {}
    for provider in providers.values():
        for model in () if _is_daemon(provider) else provider.settings.models:
            owners.setdefault(model, []).append(provider.name)
    return owners


def _short_names(providers: Mapping[str, Provider], routes: Collection[str]) -> dict[str, list[str]]:
    """The full names of what daemons serve, by its id there, where nothing that is configured has that name."""
    found: dict[str, list[str]] = {}
    for provider in providers.values():
        if provider.served is not None and provider.served.id not in providers and provider.served.id not in routes:
            found.setdefault(provider.served.id, []).append(provider.name)
    return found
