import random
import re
from collections import Counter

import pytest

from trunkline.base.codec import parse
from trunkline.dialects import Dialect
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_embeddings import DIALECT as OPENAI_EMBEDDINGS
from trunkline.errors import BadRequest, ConfigInvalid, NotFound
from trunkline.gateway.losses import DEFAULT, LossRule
from trunkline.gateway.permitted import permitted
from trunkline.gateway.router import Router, RouteSettings
from trunkline.gateway.stored import Stored
from trunkline.model.caller import Caller
from trunkline.model.request import Operation
from trunkline.providers import Kind, Provider, Settings
from trunkline.providers.anthropic import PROVIDER as ANTHROPIC_KIND
from trunkline.providers.compatible import PROVIDER as COMPATIBLE_KIND
from trunkline.providers.echo import PROVIDER as ECHO_KIND


def provider(name: str, kind: Kind, *models: str) -> Provider:
    return Provider(name=name, kind=kind, settings=Settings(kind="x", models=list(models)), base_url="http://127.0.0.1", api_key=None)


PROVIDERS = {
    each.name: each
    for each in [
        provider("home", COMPATIBLE_KIND, "qwen3", "shared", "org/deep/model"),
        provider("lab", COMPATIBLE_KIND, "shared", "mistral"),
        provider("claude", ANTHROPIC_KIND, "sonnet"),
        provider("echo", ECHO_KIND, "echo"),
    ]
}


def router(seed: int = 1, **routes: list[dict[str, object]]) -> Router:
    return Router(
        providers=PROVIDERS,
        routes={name: parse({"targets": targets}, RouteSettings) for name, targets in routes.items()},
        draw=random.Random(seed).random,
    )


def tried(router: Router, name: str) -> list[str]:
    return [str(stop.target) for stop in router.stops(name, OPENAI_CHAT, "chat")]


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("home/qwen3", "home/qwen3"),
        ("home/never-heard-of", "home/never-heard-of"),
        ("home/org/deep/model", "home/org/deep/model"),
        ("qwen3", "home/qwen3"),
        ("org/deep/model", "home/org/deep/model"),
        ("echo", "echo/echo"),
    ],
)
def test_a_name_is_a_providers_model_or_one_that_exactly_one_provider_has(name: str, target: str) -> None:
    assert tried(router(), name) == [target]


def test_a_route_wins_over_a_provider_and_over_a_bare_name() -> None:
    routes = router(**{"qwen3": [{"model": "lab/mistral"}], "home/qwen3": [{"model": "lab/mistral"}]})
    assert tried(routes, "qwen3") == ["lab/mistral"]
    assert tried(routes, "home/qwen3") == ["lab/mistral"]


def test_a_bare_name_that_several_providers_have_is_refused_with_the_whole_names() -> None:
    with pytest.raises(NotFound, match="several providers have a model `shared`") as caught:
        tried(router(), "shared")
    assert "`home/shared`, `lab/shared`" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "near"),
    [("qwen", "qwen3"), ("fst", "fast"), ("home/qwen3 ", None), ("hom/qwen3", "home/qwen3"), ("mistrall", "mistral")],
)
def test_an_unknown_name_is_told_the_nearest_known_one(name: str, near: str | None) -> None:
    known = router(fast=[{"model": "home/qwen3"}])
    if near is None:
        assert tried(known, name) == [name]  # a provider's own matter
        return
    with pytest.raises(NotFound, match=f"there is no model `{name}`") as caught:
        tried(known, name)
    assert f"Did you mean `{near}`?" in caught.value.hint


def test_a_name_that_resembles_none_is_told_where_the_names_are() -> None:
    with pytest.raises(NotFound) as caught:
        tried(router(), "zzzzzzzz")
    assert caught.value.hint.startswith("`GET /v1/models`")


def test_weights_split_calls_as_declared() -> None:
    routes = router(mix=[{"model": "home/qwen3", "weight": 6}, {"model": "lab/mistral", "weight": 3}, {"model": "echo/echo"}])
    calls = 20_000
    first = Counter(tried(routes, "mix")[0] for _ in range(calls))
    for target, weight in [("home/qwen3", 6), ("lab/mistral", 3), ("echo/echo", 1)]:
        assert first[target] / calls == pytest.approx(weight / 10, abs=0.01), first


def test_weights_split_what_is_left_when_the_first_has_failed() -> None:
    routes = router(mix=[{"model": "home/qwen3", "weight": 6}, {"model": "lab/mistral", "weight": 3}, {"model": "echo/echo"}])
    second = Counter(order[1] for _ in range(20_000) if (order := tried(routes, "mix"))[0] == "home/qwen3")
    assert second["lab/mistral"] / second.total() == pytest.approx(3 / 4, abs=0.02), second


def test_every_target_is_tried_once_and_a_higher_order_later() -> None:
    routes = router(
        fast=[
            {"model": "echo/echo", "order": 2, "weight": 1000},
            {"model": "home/qwen3", "order": 1},
            {"model": "lab/mistral", "order": 1},
            {"model": "lab/shared", "weight": 1},
        ]
    )
    seen = {tuple(tried(routes, "fast")) for _ in range(200)}
    assert seen == {
        ("lab/shared", "home/qwen3", "lab/mistral", "echo/echo"),
        ("lab/shared", "lab/mistral", "home/qwen3", "echo/echo"),
    }


def wires(router: Router, name: str, dialect: Dialect, operation: Operation = "chat") -> list[tuple[str, str]]:
    return [(str(stop.target), stop.wire.dialect.name) for stop in router.stops(name, dialect, operation)]


def test_targets_are_called_in_the_callers_format_where_they_speak_it_and_else_in_their_own() -> None:
    routes = router(mix=[{"model": "claude/sonnet"}, {"model": "home/qwen3", "order": 1}, {"model": "echo/echo", "order": 2}])
    assert wires(routes, "mix", OPENAI_CHAT) == [
        ("claude/sonnet", "anthropic"),
        ("home/qwen3", "openai_chat"),
        ("echo/echo", "openai_chat"),
    ]
    assert wires(routes, "mix", ANTHROPIC) == [("claude/sonnet", "anthropic"), ("home/qwen3", "openai_chat"), ("echo/echo", "anthropic")]


def test_targets_that_cannot_do_what_is_asked_are_left_out() -> None:
    routes = router(mix=[{"model": "claude/sonnet"}, {"model": "home/qwen3", "order": 1}])
    assert wires(routes, "mix", OPENAI_EMBEDDINGS, "embeddings") == [("home/qwen3", "openai_embeddings")]


def test_a_model_that_cannot_do_what_is_asked_says_what_it_speaks() -> None:
    with pytest.raises(
        BadRequest, match="the model `claude/sonnet` does not answer `embeddings` in the format `openai_embeddings`"
    ) as caught:
        router().stops("claude/sonnet", OPENAI_EMBEDDINGS, "embeddings")
    assert caught.value.hint == "It speaks `anthropic`."


def test_what_a_provider_cannot_count_is_asked_of_it_all_the_same_since_it_is_counted_here() -> None:
    assert wires(router(), "home/qwen3", ANTHROPIC, "count_tokens") == [("home/qwen3", "openai_chat")]


def test_a_routes_rules_for_losses_come_before_those_of_all() -> None:
    own = {"action": "allow", "path": "tools.**"}
    settings = {"targets": [{"model": "home/qwen3"}], "losses": [own]}
    plain = {"targets": settings["targets"]}
    routes = Router(providers=PROVIDERS, routes={"mild": parse(settings, RouteSettings), "plain": parse(plain, RouteSettings)})
    [mild] = routes.stops("mild", ANTHROPIC, "chat")
    assert list(mild.rules) == [LossRule(action="allow", path="tools.**"), *DEFAULT]
    for name in ("plain", "home/qwen3"):
        assert [list(stop.rules) for stop in routes.stops(name, ANTHROPIC, "chat")] == [list(DEFAULT)]


@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ({"action": "warn"}, "action"),
        ({}, "losses[0]"),
        ({"action": "allow", "class": "gone"}, "class"),
        ({"action": "allow", "severity": "x"}, "severity"),
        ({"action": "allow", "pth": "x"}, "losses[0].pth"),
        *(({"action": "allow", "path": path}, "losses[0].path") for path in (".", "a..b", ".a", "a.")),
    ],
)
def test_a_rule_that_means_nothing_is_refused_with_its_place(rule: dict[str, object], place: str) -> None:
    with pytest.raises(ConfigInvalid, match=re.escape(place)):
        parse({"targets": [{"model": "home/qwen3"}], "losses": [rule]}, RouteSettings, at="routes.fast")


# ------------------------------------------------------------------------------------------------------ what is kept
def test_a_kept_object_is_at_home_with_the_provider_that_its_id_names() -> None:
    provider, wire, kept = router().home("resp_home~resp_1~x", OPENAI_CHAT)
    assert provider is PROVIDERS["home"]
    assert wire.dialect == OPENAI_CHAT
    assert kept == Stored("home", "resp_1~x")


@pytest.mark.parametrize(
    "told",
    ["", "resp_1", "resp_home", "resp_home~", "resp_~1", "home~1", "resp_nobody~1", "resp_claude~1"],
    ids=lambda told: told or "empty",
)
def test_what_no_provider_of_the_format_keeps_is_not_found(told: str) -> None:
    with pytest.raises(NotFound, match=f"there is nothing stored under `{told}`") as caught:
        router().home(told, OPENAI_CHAT)
    assert caught.value.hint


def test_a_stop_knows_how_its_provider_is_called() -> None:
    [stop] = router().stops("claude/sonnet", ANTHROPIC, "count_tokens")
    assert stop.provider is PROVIDERS["claude"]
    assert stop.wire.paths["count_tokens"] == "/v1/messages/count_tokens"


def test_the_names_are_the_routes_first_and_then_the_models_of_each_provider() -> None:
    names = router(fast=[{"model": "claude/sonnet"}]).names()
    assert [(each.id, str(each.target), each.route) for each in names] == [
        ("fast", "claude/sonnet", True),
        ("home/qwen3", "home/qwen3", False),
        ("home/shared", "home/shared", False),
        ("home/org/deep/model", "home/org/deep/model", False),
        ("lab/shared", "lab/shared", False),
        ("lab/mistral", "lab/mistral", False),
        ("claude/sonnet", "claude/sonnet", False),
        ("echo/echo", "echo/echo", False),
    ]


class Lists:
    """What providers list, as a test says."""

    def __init__(self, **lists: list[str]) -> None:
        self.lists = lists

    def owners(self, model: str) -> list[str]:
        return [name for name, models in self.lists.items() if model in models]

    def found(self, provider: str) -> list[str]:
        return self.lists.get(provider, [])


def test_a_listed_model_is_called_by_its_bare_name_as_a_configured_one_is() -> None:
    found = Lists(lab=["mistral", "org/new"], gone=["lost"])
    routes = Router(providers=PROVIDERS, routes={}, discovered=found)
    assert tried(routes, "org/new") == ["lab/org/new"]
    assert [(each.id, each.discovered) for each in routes.names() if each.target.provider == "lab"] == [
        ("lab/shared", False),
        ("lab/mistral", False),
        ("lab/org/new", True),
    ]
    with pytest.raises(NotFound):
        tried(routes, "lost")
    found.lists = {}
    with pytest.raises(NotFound):
        tried(routes, "org/new")


def test_a_list_never_changes_where_a_configured_name_leads() -> None:
    found = Lists(lab=["qwen3", "new"], claude=["qwen3", "new"])
    routes = Router(providers=PROVIDERS, routes={}, discovered=found)
    assert tried(routes, "qwen3") == ["home/qwen3"]
    with pytest.raises(NotFound, match="several providers have a model `new`"):
        tried(routes, "new")


def test_a_route_to_a_provider_that_is_not_there_is_a_configuration_error_with_the_nearest() -> None:
    with pytest.raises(ConfigInvalid, match=r"`routes\.fast\.targets` names the provider `hme`") as caught:
        router(fast=[{"model": "hme/qwen3"}])
    assert caught.value.hint == "Did you mean `home/qwen3`?"


@pytest.mark.parametrize(
    "target",
    [{"model": "qwen3"}, {"model": "home/"}, {"model": "home/qwen3", "weight": 0}, {"model": "home/qwen3", "order": -1}, {}],
    ids=["no provider", "no model", "no weight", "negative order", "empty"],
)
def test_a_target_that_means_nothing_is_refused(target: dict[str, object]) -> None:
    with pytest.raises(ConfigInvalid):
        router(fast=[target])


# ------------------------------------------------------------------------------------------------------- what is allowed
def lists(models: tuple[str, ...] | None, **routes: list[dict[str, object]]) -> list[str]:
    return [name.id for name in router(**routes).names(models)]


ROUTES: dict[str, list[dict[str, object]]] = {
    "fast": [{"model": "home/qwen3"}, {"model": "lab/mistral", "order": 1}],
    "slow": [{"model": "claude/sonnet"}],
}


@pytest.mark.parametrize(
    ("models", "listed"),
    [
        (("fast",), ["fast"]),
        (("lab/*",), ["fast", "lab/shared", "lab/mistral"]),
        (("claude/sonnet", "home/q*"), ["fast", "slow", "home/qwen3", "claude/sonnet"]),
        (("sonnet",), ["sonnet"]),
        (("shared",), []),  # which two have, so that it names none
        (("nothing",), []),
        ((), []),
    ],
)
def test_a_key_is_shown_what_it_may_ask_for(models: tuple[str, ...], listed: list[str]) -> None:
    assert lists(models, **ROUTES) == listed


def test_a_key_without_a_list_is_shown_everything() -> None:
    assert lists(None, **ROUTES) == lists(("*",), **ROUTES) == [name.id for name in router(**ROUTES).names()]


def test_what_is_shown_can_be_asked_for() -> None:
    for models in (("fast",), ("lab/*",), ("sonnet", "*mini*"), ("claude/sonnet",)):
        caller = Caller(id="key_a", kind="service", name="ann", scopes=frozenset({"inference"}), models=models)
        for name in lists(models, **ROUTES):
            dialect = ANTHROPIC if "sonnet" in name else OPENAI_CHAT
            assert permitted(router(**ROUTES).stops(name, dialect, "chat"), name, caller)
