"""The upstreams: each kind is a record that says where it is, how to sign, and what it speaks."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from trunkline.base.codec import Annotated, Meta, Record
from trunkline.base.secret import Secret
from trunkline.catalog.fields import CardFields
from trunkline.catalog.known import FREE, Known, Source
from trunkline.dialects import Dialect, Repair
from trunkline.model.card import UNKNOWN, Card
from trunkline.model.event import Reply
from trunkline.model.price import Price
from trunkline.model.request import Operation, Request

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
BaseUrl = Annotated[str, Meta(pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$")]
SecretSource = Annotated[str, Meta(pattern="^(env|file):.+")]
ModelName = Annotated[str, Meta(min_length=1)]


class Timeouts(Record, frozen=True):
    """How long to wait for a provider, in seconds. There is no total: an answer that keeps arriving is never cut."""

    connect: Annotated[Seconds, Meta(description="For the connection, TLS included.")] = 10.0
    first_byte: Annotated[Seconds, Meta(description="From the request to the first byte of the answer.")] = 300.0
    silence: Annotated[Seconds, Meta(description="Between two pieces of the answer.")] = 120.0


class ModelSettings(CardFields, frozen=True):
    """What the operator says about one model. Of what is not said, what the catalogue knows counts."""


class Settings(Record, frozen=True):
    """What the operator says about one provider."""

    kind: Annotated[str, Meta(description="What it is; `trunkline doctor` lists the kinds.")]
    base_url: Annotated[
        BaseUrl | None,
        Meta(description="Where it is, such as `http://127.0.0.1:8000/v1`: without the part of the path that the format itself adds."),
    ] = None
    api_key: Annotated[
        SecretSource | None,
        Meta(
            description="Where its credential is: `env:NAME` or `file:PATH`. The credential never stands in this file. Others are stored "
            "with `trunkline credentials add`."
        ),
    ] = None
    timeouts: Timeouts = Timeouts()
    price: Annotated[Literal["free"] | None, Meta(description="`free` says that calls cost nothing.")] = None
    models: Annotated[
        list[ModelName] | dict[ModelName, ModelSettings],
        Meta(
            description="Its models that `GET /v1/models` lists and that may be asked for by their bare name; "
            "as tables (`[providers.NAME.models.MODEL]`) where something is to be said of them."
        ),
    ] = []
    speaks: Annotated[
        list[str],
        Meta(description="The formats in which it is called, the preferred one first; by default all of its kind."),
    ] = []
    stream_usage: Annotated[
        bool, Meta(description="Whether it accepts `stream_options.include_usage`; set to false where it refuses that field.")
    ] = True


@dataclass(frozen=True, slots=True)
class Wire:
    """One dialect that a provider speaks, and its path for each operation."""

    dialect: Dialect
    paths: Mapping[Operation, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of provider.

    Attributes:
        title: its name for people.
        speaks: its dialects, the preferred one first.
        base_url: where it is, unless the settings say otherwise.
        sign: the header that carries the credential.
        api_key: where the credential is, unless the settings say otherwise.
        key_required: whether a call without a credential is useless.
        headers: sent where the caller did not send its own.
        vendor: whose models it has, as the catalogue names vendors, where another address does not say otherwise.
        lists: the path of its list of models, if it has one.
        price: what is known without asking.
        repairs: what its streams get wrong and we mend.
        settings: the record of its settings.
        launched: whether we run it ourselves, so that there is nothing to dial before its process is up.
        daemon: whether it is an extension daemon: what is called are the providers behind it, and the paths of `speaks` are ids of surfaces.
        answer: for a provider inside this process: the whole reply to a request.
    """

    title: str
    speaks: tuple[Wire, ...]
    base_url: str | None = None
    sign: Literal["bearer", "x-api-key"] = "bearer"
    api_key: str | None = None
    key_required: bool = True
    headers: Mapping[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    vendor: str | None = None
    lists: str | None = None
    price: Literal["free"] | None = None
    repairs: frozenset[Repair] = frozenset()
    settings: type[Settings] = Settings
    launched: bool = False
    daemon: bool = False
    answer: Callable[[Request], Reply] | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """What an extension daemon says of one of the providers behind it (daemon contract, A9: ProviderInfo).

    Attributes:
        daemon: the daemon's name in the configuration.
        id: the provider's id there.
        title: its name for people.
        surfaces: the ids of what it serves natively.
        credential: what its calls need; empty where an older daemon does not say.
        methods: how people sign in.
        refreshable: whether a sign-in can be renewed.
    """

    daemon: str
    id: str
    title: str = ""
    surfaces: tuple[str, ...] = ()
    credential: Literal["oauth", "token", "none", ""] = ""
    methods: tuple[str, ...] = ()
    refreshable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A kind of provider, configured: one upstream that calls can go to. `api_key` is the configuration's; others may be stored.

    Attributes:
        secret: what opens an extension daemon; the providers behind it do not have it.
        known: what the catalogue knows of its models; without one only what the settings say.
        served: where it stands behind an extension daemon; its name is then `DAEMON/ID`.
    """

    name: str
    kind: Kind
    settings: Settings
    base_url: str | None
    api_key: Secret | None
    known: Known | None = None
    served: Served | None = None
    secret: Secret | None = None

    @property
    def speaks(self) -> tuple[Wire, ...]:
        """Its dialects, the preferred one first."""
        names = self.settings.speaks
        wires = tuple(wire for name in names for wire in self.kind.speaks if wire.dialect.name == name) if names else self.kind.speaks
        return wires if self.served is None else _through(wires, self.served.surfaces)

    def spoken(self, model: str) -> tuple[Wire, ...]:
        """The dialects of one of its models: all of its own, unless a daemon says which surfaces the model has."""
        if self.served is None or (surfaces := self.card(model).surfaces) is None:
            return self.speaks
        return _through(self.speaks, surfaces)

    def wire(self, dialect: Dialect, operation: Operation, model: str = "") -> Wire | None:
        """How a call in a dialect reaches it, or one of its models: in the same, in a relative, else in its preferred one.

        What is only counted can be counted here; all else needs a dialect that has the operation.
        """
        spoken = self.spoken(model)
        speaks = [wire for wire in spoken if operation in wire.paths]
        if operation == "count_tokens":
            speaks += [wire for wire in spoken if "chat" in wire.paths]
        known = [wire for wire in speaks if wire.dialect == dialect] + [wire for wire in speaks if wire.dialect.name == dialect.name]
        translated = speaks if operation in {"chat", "count_tokens"} else []
        return next(iter(known or translated), None)

    def card(self, model: str) -> Card:
        """What is known of one of its models."""
        if self.known is not None:
            return self.known.card(model)
        models = self.settings.models
        return models[model].card if isinstance(models, dict) and model in models else UNKNOWN

    def price(self, model: str, at: float) -> Price | None:
        """What one of its models costs at an instant, in seconds since the Unix epoch; `None` where nobody knows."""
        if self.known is not None:
            return self.known.price(model, at)
        return FREE if self.free else None

    @property
    def free(self) -> bool:
        """Whether its calls cost nothing."""
        return (self.settings.price or self.kind.price) == "free"

    @property
    def source(self) -> Source:
        """The same as the catalogue sees it."""
        models = self.settings.models
        return Source(
            name=self.name,
            vendor=self.kind.vendor,
            base_url=self.base_url,
            free=self.free,
            own={name: each.card for name, each in models.items()} if isinstance(models, dict) else {},
        )


def _through(wires: tuple[Wire, ...], surfaces: Collection[str]) -> tuple[Wire, ...]:
    """Those that have one of these surfaces for a path."""
    return tuple(wire for wire in wires if any(path in surfaces for path in wire.paths.values()))


def sign(kind: Kind, key: str) -> tuple[bytes, bytes]:
    """The header that carries a key to a provider of this kind."""
    return (b"authorization", f"Bearer {key}".encode()) if kind.sign == "bearer" else (b"x-api-key", key.encode())
