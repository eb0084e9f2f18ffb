"""`/providers`: the configured upstreams and what daemons serve, as they are now. What they are called with is not told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from trunkline.base.codec import Meta, Record, nearest
from trunkline.errors import NotFound
from trunkline.gateway.daemons import State
from trunkline.gateway.health import Health
from trunkline.providers import Provider, Served
from trunkline.server.admin import Ask, Nothing, Paging, Resource, Route, Rows


@dataclass(frozen=True, slots=True)
class Upstreams:
    """What the providers' routes are given.

    Attributes:
        providers: those of the configuration, and what daemons serve at this moment, by name.
        health: what calls to them showed.
        stored: whether there are stored credentials for one, by its name.
        daemons: how it stands with each daemon, by its name.
    """

    providers: Mapping[str, Provider]
    health: Health
    stored: Callable[[str], bool] = lambda _: False
    daemons: Callable[[], Mapping[str, State]] = dict[str, State]


class Resting(Record, frozen=True):
    """What is left alone for a while."""

    model: Annotated[str | None, Meta(description="Null where a credential is not used for any.")]
    credential: Annotated[
        str | None, Meta(description="The id of the credential that is not used, `file` for the configuration's; null where none is.")
    ]
    why: Annotated[
        Literal["busy", "failing", "denied"],
        Meta(description="Whether it said so itself, failed several times, or does not accept the credential."),
    ]
    seconds: Annotated[float, Meta(description="For how long yet.")]


class DaemonShown(Record, frozen=True):
    """How it stands with an extension daemon."""

    version: Annotated[str, Meta(description="What it says of itself.")]
    providers: Annotated[list[str], Meta(description="What it serves, by its ids; here they are `DAEMON/ID`.")]
    left_out: Annotated[int, Meta(description="Providers of it whose ids break the protocol's rules, or stand there twice.")]
    seen_at: Annotated[float | None, Meta(description="When it last answered, in seconds since the Unix epoch; null before that.")]
    failure_code: Annotated[str, Meta(description="Why it did not answer the last time it was asked; empty where it did.")]


class ServedShown(Record, frozen=True):
    """What an extension daemon says of a provider behind it."""

    daemon: str
    id: str
    surfaces: list[str]
    credential: Annotated[
        Literal["oauth", "token", "none", "unknown"],
        Meta(description="What its calls need: somebody who signs in, a token that is pasted, or nothing."),
    ]
    methods: Annotated[list[str], Meta(description="How people sign in.")]
    refreshable: Annotated[bool, Meta(description="Whether a sign-in can be renewed without them.")]


class ProviderShown(Record, frozen=True):
    """A provider: a configured one, or one that a daemon serves."""

    name: str
    kind: str
    title: Annotated[str, Meta(description="For people: the kind's name, or what a daemon says.")]
    base_url: Annotated[str | None, Meta(description="Where it is; null for what runs on this machine.")]
    formats: Annotated[list[str], Meta(description="What it speaks, the preferred one first.")]
    models: Annotated[list[str], Meta(description="Those that the configuration names.")]
    credential: Annotated[
        Literal["present", "missing", "not needed"], Meta(description="Whether there is what it is called with; never what that is.")
    ]
    state: Annotated[
        Literal["well", "resting", "no credential", "not reached", "failing"],
        Meta(
            description="`resting`: every model that was asked lately is left alone. Of a daemon, `not reached`: it has not answered yet; "
            "`failing`: it did not answer the last time."
        ),
    ]
    resting: list[Resting]
    daemon: Annotated[DaemonShown | None, Meta(description="Null for what is no daemon.")]
    served: Annotated[ServedShown | None, Meta(description="Null for what no daemon serves.")]


def every(upstreams: Upstreams, ask: Ask[Paging, None]) -> Rows[ProviderShown]:
    """A page of providers, by name."""
    after, limit = ask.query.after or "", ask.query.limit
    found = sorted((each for each in upstreams.providers.values() if each.name > after), key=lambda each: each.name)
    return Rows(data=[_shown(each, upstreams) for each in found[:limit]], next=found[limit - 1].name if len(found) > limit else None)


def one(upstreams: Upstreams, ask: Ask[Nothing, None]) -> ProviderShown:
    """One provider. Raises: `NotFound`."""
    name = ask.path["name"]
    if name not in upstreams.providers:
        close = nearest(name, list(upstreams.providers))
        raise NotFound(
            f"there is no provider `{name}`", hint=f"Did you mean `{close}`?" if close else "`GET /api/v1/providers` lists them."
        )
    return _shown(upstreams.providers[name], upstreams)


def _shown(provider: Provider, upstreams: Upstreams) -> ProviderShown:
    stored = upstreams.stored(provider.name)
    needs = provider.kind.key_required if provider.served is None else provider.served.credential in {"oauth", "token"}
    key = "present" if stored or provider.api_key is not None else "missing" if needs else "not needed"
    resting = [
        Resting(
            model=each.target.model if each.target else None,
            credential=each.credential or None,
            why=each.why,
            seconds=round(each.seconds, 1),
        )
        for each in upstreams.health.resting(provider.name)
    ]
    models = list(provider.settings.models)
    whole = {each.model for each in resting if each.credential is None or not stored}  # else another credential may serve
    all_rest = resting and (None in whole or whole >= set(models))
    state = "no credential" if key == "missing" else "resting" if all_rest else "well"
    daemon = upstreams.daemons().get(provider.name) if provider.served is None else None
    return ProviderShown(
        name=provider.name,
        kind=provider.settings.kind,
        title=provider.served.title if provider.served and provider.served.title else provider.kind.title,
        base_url=provider.base_url,
        formats=[wire.dialect.name for wire in provider.speaks] if daemon is None else [],
        models=models,
        credential=key,
        state=state if daemon is None else _state(daemon),
        resting=resting,
        daemon=None if daemon is None else _daemon(daemon),
        served=None if provider.served is None else _served(provider.served),
    )


def _state(daemon: State) -> Literal["well", "not reached", "failing"]:
    if daemon.seen_at is None:
        return "not reached"
    return "failing" if daemon.code else "well"


def _daemon(state: State) -> DaemonShown:
    return DaemonShown(
        version=state.version,
        providers=[each.id for each in state.served],
        left_out=state.left_out,
        seen_at=state.seen_at,
        failure_code=state.code,
    )


def _served(served: Served) -> ServedShown:
    return ServedShown(
        daemon=served.daemon,
        id=served.id,
        surfaces=list(served.surfaces),
        credential=served.credential or "unknown",
        methods=list(served.methods),
        refreshable=served.refreshable,
    )


RESOURCE = Resource(
    title="Providers",
    path="/providers",
    service=Upstreams,
    columns=("name", "kind", "state", "base_url", "models"),
    about="The upstreams of the configuration in use, and what its daemons serve. They are read only: the configuration file is where they "
    "are changed.",
    routes=(
        Route("GET", "", scope="admin", summary="List the providers.", do=every, query=Paging, answer=Rows[ProviderShown], runs="loop"),
        Route(
            "GET",
            "/{name:path}",
            scope="admin",
            summary="Read one provider.",
            do=one,
            answer=ProviderShown,
            errors=(NotFound,),
            runs="loop",
        ),
    ),
)
