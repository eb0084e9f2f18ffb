"""The names of what stands behind daemons."""

from typing import Any

import pytest

from trunkline.base.codec import parse
from trunkline.catalog.cards import Cards
from trunkline.catalog.discovery import Diagnosis, Evidence
from trunkline.catalog.known import Catalog, Listed
from trunkline.catalog.listing import Found
from trunkline.catalog.prices import Book, Prices
from trunkline.dialects import Dialect
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_embeddings import DIALECT as OPENAI_EMBEDDINGS
from trunkline.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from trunkline.dialects.openai_speech import DIALECT as OPENAI_SPEECH
from trunkline.errors import BadRequest, ConfigInvalid, NotFound
from trunkline.gateway.daemons import behind
from trunkline.gateway.live import Live
from trunkline.gateway.router import Router, RouteSettings
from trunkline.gateway.stored import tell
from trunkline.model.card import Card
from trunkline.model.request import Operation
from trunkline.providers import Kind, Provider, Served
from trunkline.providers.compatible import PROVIDER as COMPATIBLE
from trunkline.providers.daemon import PROVIDER as DAEMON

ALL = ("chat_completions", "responses", "messages", "embeddings", "audio_speech")


class Names:
    """A router over `home`, which is configured, and the daemons `x` and `y`."""

    def __init__(self, *, routes: dict[str, list[str]] | None = None, models: dict[str, list[str]] | None = None) -> None:
        self.catalog = Catalog(Prices(Book(made_from="", units={}, vendors={}, rows=[])), Cards([]))
        kinds: dict[str, Kind] = {"home": COMPATIBLE, "x": DAEMON, "y": DAEMON}
        self.configured = {name: self._provider(name, kind, (models or {}).get(name, [])) for name, kind in kinds.items()}
        self.live = Live(self.configured)
        settings = {
            name: parse({"targets": [{"model": each, "order": order} for order, each in enumerate(targets)]}, RouteSettings)
            for name, targets in (routes or {}).items()
        }
        self.router = Router(providers=self.live, routes=settings, discovered=self.catalog)

    def _provider(self, name: str, kind: Kind, models: list[str]) -> Provider:
        given: dict[str, Any] = {"kind": "x", "models": models}
        return Provider(name=name, kind=kind, settings=parse(given, kind.settings), base_url="http://127.0.0.1", api_key=None)

    def serves(self, *names: str, surfaces: tuple[str, ...] = ALL) -> None:
        """The daemons serve these, and nothing else."""
        served: dict[str, Provider] = {}
        for name in names:
            daemon, _, each = name.partition("/")
            bare = behind(self.configured[daemon], Served(daemon=daemon, id=each, surfaces=surfaces))
            served[name] = Provider(
                name=name,
                kind=bare.kind,
                settings=bare.settings,
                base_url=bare.base_url,
                api_key=None,
                known=self.catalog.of(bare.source),
                served=bare.served,
            )
        self.live.take(served)
        self.router.providers_changed()

    def lists(self, provider: str, *models: Found) -> None:
        evidence = Evidence(status="discovered", models=models, observed_at=1.0)
        self.catalog.take_listed(provider, Listed(evidence, Diagnosis(status="synced")))

    def tried(self, name: str, dialect: Dialect = OPENAI_CHAT, operation: Operation = "chat") -> list[str]:
        return [str(stop.target) for stop in self.router.stops(name, dialect, operation)]


@pytest.mark.proves("daemon.names")
def test_a_model_behind_a_daemon_is_named_in_full_or_short_or_bare() -> None:
    names = Names()
    names.serves("x/codex", "x/pi")
    names.lists("x/codex", Found("gpt-5"))
    for name in ("x/codex/gpt-5", "codex/gpt-5", "gpt-5"):
        assert names.tried(name) == ["x/codex/gpt-5"]
    assert names.tried("x/pi/never-heard-of") == ["x/pi/never-heard-of"]
    assert names.tried("pi/org/deep/model") == ["x/pi/org/deep/model"]
    [stop] = names.router.stops("codex/gpt-5", OPENAI_CHAT, "chat")
    assert (stop.provider, stop.wire.paths["chat"]) == (names.live["x/codex"], "chat_completions")


@pytest.mark.proves("daemon.names")
def test_a_short_name_that_two_daemons_serve_has_to_be_said_in_full() -> None:
    names = Names()
    names.serves("x/codex", "y/codex")
    with pytest.raises(NotFound, match="several daemons serve `codex`") as caught:
        names.tried("codex/gpt-5")
    assert "`x/codex/gpt-5`, `y/codex/gpt-5`" in caught.value.hint
    assert names.tried("y/codex/gpt-5") == ["y/codex/gpt-5"]
    names.serves("y/codex")
    assert names.tried("codex/gpt-5") == ["y/codex/gpt-5"]


@pytest.mark.proves("daemon.names")
def test_a_short_name_never_takes_a_configured_one() -> None:
    names = Names(routes={"codex": ["home/a"], "pi/deep": ["home/b"]}, models={"home": ["tau/m"]})
    names.serves("x/home", "x/codex", "x/pi", "x/tau", "x/y")
    assert names.tried("home/m") == ["home/m"]
    assert names.tried("pi/deep") == ["home/b"]
    assert names.tried("pi/other") == ["x/pi/other"]
    assert names.tried("tau/m") == ["home/tau/m"]
    assert names.tried("codex") == ["home/a"]
    with pytest.raises(NotFound):
        names.tried("codex/gpt-5")


def test_a_bare_name_that_two_have_has_to_be_said_in_full() -> None:
    names = Names()
    names.serves("x/codex", "y/codex")
    for provider in ("x/codex", "y/codex"):
        names.lists(provider, Found("gpt-5"))
    with pytest.raises(NotFound, match="several providers have a model `gpt-5`"):
        names.tried("gpt-5")


def test_a_name_is_gone_when_its_daemon_serves_it_no_longer() -> None:
    names = Names(models={"x": ["codex/o9"]})
    names.serves("x/codex")
    assert names.tried("o9") == ["x/codex/o9"]
    names.serves("x/pi")
    with pytest.raises(NotFound, match="there is no model `o9`"):
        names.tried("o9")
    with pytest.raises(NotFound, match="the daemon `x` serves no provider `codex`") as caught:
        names.tried("x/codex/o9")
    assert caught.value.hint == "It serves `pi`."
    with pytest.raises(NotFound) as caught:
        names.tried("x/pii/o9")
    assert caught.value.hint == "Did you mean `x/pi/o9`?"


def test_a_daemon_itself_has_no_models() -> None:
    names = Names(models={"x": ["codex/o9"]})
    with pytest.raises(NotFound, match="there is no model `x/o9`") as caught:
        names.tried("x/o9")
    assert "`x/PROVIDER/MODEL`" in caught.value.hint
    assert [each.id for each in names.router.names()] == []


# --------------------------------------------------------------------------------------------------------------- routes
@pytest.mark.proves("daemon.names")
def test_a_route_may_name_what_no_daemon_has_told_of_yet() -> None:
    names = Names(routes={"fast": ["x/codex/gpt-5", "home/qwen"]})
    for spoken in (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC):
        first, second = names.router.stops("fast", spoken, "chat")
        assert (str(first.target), first.wire.dialect.name) == ("x/codex/gpt-5", spoken.name)
        assert first.provider.served == Served(daemon="x", id="codex", surfaces=ALL)
        assert str(second.target) == "home/qwen"
    [name] = [each for each in names.router.names() if each.route]
    assert names.router.provider(name.target.provider).name == "x/codex"
    names.serves("x/codex", surfaces=("messages",))
    assert names.router.stops("fast", OPENAI_CHAT, "chat")[0].provider is names.live["x/codex"]


def test_a_route_to_a_daemon_itself_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="names `x/gpt-5`, and `x` is a daemon") as caught:
        Names(routes={"fast": ["x/gpt-5"]})
    assert caught.value.hint == "A model behind it is `x/PROVIDER/MODEL`."


# ------------------------------------------------------------------------------------------------------------- surfaces
@pytest.mark.proves("daemon.surfaces")
@pytest.mark.parametrize(
    ("dialect", "operation", "surface"),
    [
        (OPENAI_CHAT, "chat", "chat_completions"),
        (OPENAI_RESPONSES, "chat", "responses"),
        (ANTHROPIC, "chat", "messages"),
        (OPENAI_EMBEDDINGS, "embeddings", "embeddings"),
        (OPENAI_SPEECH, "speech", "audio_speech"),
    ],
)
def test_every_surface_reaches_its_own(dialect: Dialect, operation: Operation, surface: str) -> None:
    names = Names()
    names.serves("x/codex")
    [stop] = names.router.stops("codex/m", dialect, operation)
    assert (stop.wire.dialect.name, stop.wire.paths[operation]) == (dialect.name, surface)


@pytest.mark.proves("daemon.surfaces")
def test_a_model_is_asked_through_its_own_surfaces_and_another_through_its_providers() -> None:
    names = Names()
    names.serves("x/codex", surfaces=("chat_completions", "messages", "embeddings"))
    only = {"chatty": {"messages"}, "embedder": {"embeddings", "audio_speech"}, "mute": set[str]()}
    names.lists("x/codex", *(Found(name, Card(surfaces=frozenset(own))) for name, own in only.items()), Found("any"))
    assert [stop.wire.dialect.name for stop in names.router.stops("codex/chatty", OPENAI_CHAT, "chat")] == ["anthropic"]
    assert [stop.wire.dialect.name for stop in names.router.stops("codex/any", OPENAI_CHAT, "chat")] == ["openai_chat"]
    assert names.tried("codex/embedder", OPENAI_EMBEDDINGS, "embeddings") == ["x/codex/embedder"]
    refused: list[tuple[str, Dialect, Operation]] = [
        ("embedder", OPENAI_CHAT, "chat"),
        ("embedder", OPENAI_SPEECH, "speech"),
        ("chatty", OPENAI_EMBEDDINGS, "embeddings"),
        ("mute", OPENAI_CHAT, "chat"),
    ]
    for model, dialect, operation in refused:
        with pytest.raises(BadRequest, match=f"`codex/{model}` does not answer"):
            names.tried(f"codex/{model}", dialect, operation)
    assert [each.id for each in names.router.names()] == ["x/codex/chatty", "x/codex/embedder", "x/codex/any"]


def test_a_provider_with_surfaces_that_are_not_served_here_is_not_listed() -> None:
    names = Names()
    names.serves("x/paint", surfaces=("images",))
    names.lists("x/paint", Found("brush"))
    assert [each.id for each in names.router.names()] == []
    with pytest.raises(BadRequest) as caught:
        names.tried("paint/brush")
    assert caught.value.hint == "It has no format that is served here."


def test_other_surfaces_of_a_provider_are_heeded_from_the_next_call() -> None:
    names = Names()
    names.serves("x/codex", surfaces=("messages",))
    assert [stop.wire.dialect.name for stop in names.router.stops("codex/m", OPENAI_CHAT, "chat")] == ["anthropic"]
    names.serves("x/codex", surfaces=("responses",))
    assert [stop.wire.dialect.name for stop in names.router.stops("codex/m", OPENAI_CHAT, "chat")] == ["openai_responses"]


def test_what_a_daemon_keeps_cannot_be_asked_for() -> None:
    names = Names()
    names.serves("x/codex")
    with pytest.raises(NotFound, match="there is nothing stored"):
        names.router.home(tell("x/codex", "", "resp_1"), OPENAI_RESPONSES)
