"""`/providers`: the configured upstreams, as they are now. What they are called with is not told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from trunkline.base.codec import Meta, Record, nearest
from trunkline.errors import NotFound
from trunkline.gateway.health import Health
from trunkline.providers import Provider
from trunkline.server.admin import Ask, Nothing, Paging, Resource, Route, Rows


@dataclass(frozen=True, slots=True)
class Upstreams:
    """What the providers' routes are given.

    Attributes:
        providers: those of the configuration.
        health: what calls to them showed.
        stored: whether there are stored credentials for one, by its name.
    """

    providers: Sequence[Provider]
    health: Health
    stored: Callable[[str], bool] = lambda _: False


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


class ProviderShown(Record, frozen=True):
    """A configured provider."""

    name: str
    kind: str
    title: Annotated[str, Meta(description="The kind's name, for people.")]
    base_url: Annotated[str | None, Meta(description="Where it is; null for what runs on this machine.")]
    formats: Annotated[list[str], Meta(description="What it speaks, the preferred one first.")]
    models: Annotated[list[str], Meta(description="Those that the configuration names.")]
    credential: Annotated[
        Literal["present", "missing", "not needed"], Meta(description="Whether there is what it is called with; never what that is.")
    ]
    state: Annotated[
        Literal["well", "resting", "no credential"], Meta(description="`resting`: every model that was asked lately is left alone.")
    ]
    resting: list[Resting]


def every(upstreams: Upstreams, ask: Ask[Paging, None]) -> Rows[ProviderShown]:
    """A page of providers, by name."""
    after, limit = ask.query.after or "", ask.query.limit
    found = sorted((each for each in upstreams.providers if each.name > after), key=lambda each: each.name)
    return Rows(data=[_shown(each, upstreams) for each in found[:limit]], next=found[limit - 1].name if len(found) > limit else None)


def one(upstreams: Upstreams, ask: Ask[Nothing, None]) -> ProviderShown:
    """One provider. Raises: `NotFound`."""
    by_name = {each.name: each for each in upstreams.providers}
    name = ask.path["name"]
    if name not in by_name:
        close = nearest(name, list(by_name))
        raise NotFound(
            f"there is no provider `{name}`", hint=f"Did you mean `{close}`?" if close else "`GET /api/v1/providers` lists them."
        )
    return _shown(by_name[name], upstreams)


def _shown(provider: Provider, upstreams: Upstreams) -> ProviderShown:
    stored = upstreams.stored(provider.name)
    key = "present" if stored or provider.api_key is not None else "missing" if provider.kind.key_required else "not needed"
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
    return ProviderShown(
        name=provider.name,
        kind=provider.settings.kind,
        title=provider.kind.title,
        base_url=provider.base_url,
        formats=[wire.dialect.name for wire in provider.speaks],
        models=models,
        credential=key,
        state="no credential" if key == "missing" else "resting" if all_rest else "well",
        resting=resting,
    )


RESOURCE = Resource(
    title="Providers",
    path="/providers",
    service=Upstreams,
    columns=("name", "kind", "state", "base_url", "models"),
    about="The upstreams of the configuration in use. They are read only: the configuration file is where they are changed.",
    routes=(
        Route("GET", "", scope="admin", summary="List the providers.", do=every, query=Paging, answer=Rows[ProviderShown], runs="loop"),
        Route("GET", "/{name}", scope="admin", summary="Read one provider.", do=one, answer=ProviderShown, errors=(NotFound,), runs="loop"),
    ),
)
