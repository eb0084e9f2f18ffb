"""What holds for every kind of provider, and what a provider is made of."""

import dataclasses
import re

import jsonschema
import pytest

from trunkline import providers
from trunkline.base import members
from trunkline.base.codec import parse, schema
from trunkline.base.secret import Secret
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_chat import OpenAIChat
from trunkline.dialects.openai_embeddings import DIALECT as OPENAI_EMBEDDINGS
from trunkline.dialects.openai_speech import DIALECT as OPENAI_SPEECH
from trunkline.errors import ConfigInvalid
from trunkline.model.card import UNKNOWN, Card
from trunkline.providers import Kind, Provider, Settings, Timeouts, sign
from trunkline_sdk.daemon.protocol.surfaces import PATHS as SURFACE_PATHS

KINDS = members.load(providers, "PROVIDER", Kind, third_party=False)
CANARY = "sk-canary-0123456789"
every_kind = pytest.mark.parametrize("name", KINDS)


def provider(name: str, key: str | None = None) -> Provider:
    kind = KINDS[name]
    return Provider(
        name="mine", kind=kind, settings=kind.settings(kind=name), base_url=kind.base_url, api_key=Secret(key) if key is not None else None
    )


@every_kind
def test_every_kind_speaks_something_and_can_be_reached(name: str) -> None:
    kind = KINDS[name]
    assert kind.title
    assert kind.speaks
    assert "chat" in kind.speaks[0].paths
    assert all(wire.paths for wire in kind.speaks)
    assert len({wire.dialect.name for wire in kind.speaks}) == len(kind.speaks)
    inside = kind.answer is not None
    assert all((path == "") == inside and not path.endswith("/") for wire in kind.speaks for path in wire.paths.values())
    if kind.daemon:
        assert all(path in SURFACE_PATHS for wire in kind.speaks for path in wire.paths.values())
    else:
        assert all(path.startswith("/") for wire in kind.speaks for path in wire.paths.values() if not inside)
    assert kind.base_url is None or parse({"kind": name, "base_url": kind.base_url}, Settings).base_url == kind.base_url
    assert kind.api_key is None or parse({"kind": name, "api_key": kind.api_key}, Settings).api_key == kind.api_key


@every_kind
def test_every_kinds_settings_are_those_of_all_and_perhaps_more(name: str) -> None:
    settings = parse({"kind": name}, KINDS[name].settings)
    assert isinstance(settings, Settings)
    assert settings.timeouts == Timeouts(connect=10.0, first_byte=300.0, silence=120.0)
    assert settings.stream_usage
    with pytest.raises(ConfigInvalid, match=r"`x\.tempreature` is not a setting"):
        parse({"kind": name, "tempreature": 1}, KINDS[name].settings, at="x")


@pytest.mark.parametrize(
    ("name", "base_url", "paths"),
    [
        ("openai", "https://api.openai.com/v1", {"chat": "/chat/completions"}),
        ("anthropic", "https://api.anthropic.com", {"chat": "/v1/messages", "count_tokens": "/v1/messages/count_tokens"}),
        ("compatible", None, {"chat": "/chat/completions"}),
        ("local", None, {"chat": "/v1/chat/completions"}),
    ],
)
def test_a_call_goes_to_the_vendors_address(name: str, base_url: str | None, paths: dict[str, str]) -> None:
    kind = KINDS[name]
    assert kind.base_url == base_url
    assert kind.speaks[0].paths == paths


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("openai", (b"authorization", b"Bearer " + CANARY.encode())),
        ("compatible", (b"authorization", b"Bearer " + CANARY.encode())),
        ("local", (b"authorization", b"Bearer " + CANARY.encode())),
        ("anthropic", (b"x-api-key", CANARY.encode())),
    ],
)
def test_a_key_is_sent_where_the_vendor_looks_for_it(name: str, header: tuple[bytes, bytes]) -> None:
    assert sign(KINDS[name], CANARY) == header


def test_anthropic_gets_its_version_header() -> None:
    assert KINDS["anthropic"].headers == {b"anthropic-version": b"2023-06-01"}
    assert not KINDS["openai"].headers


def test_streams_are_mended_only_where_the_record_says_so() -> None:
    assert {name: set(kind.repairs) for name, kind in KINDS.items() if kind.repairs} == {"local": {"first_role"}}


def test_what_costs_nothing_says_so() -> None:
    assert {name for name, kind in KINDS.items() if kind.price == "free"} == {"echo", "local"}


def test_a_wire_is_found_by_the_dialects_value_and_the_operation() -> None:
    anthropic, openai, echo = provider("anthropic"), provider("openai"), provider("echo")
    assert anthropic.wire(ANTHROPIC, "count_tokens") == anthropic.kind.speaks[0]
    assert openai.wire(dataclasses.replace(OPENAI_CHAT), "chat") == openai.kind.speaks[0]
    assert echo.wire(ANTHROPIC, "count_tokens") == echo.kind.speaks[1]
    assert echo.wire(OPENAI_CHAT, "chat") == echo.kind.speaks[0]


def test_a_call_of_another_dialect_is_translated_into_the_preferred_one_and_only_a_chat_is() -> None:
    anthropic, openai = provider("anthropic"), provider("openai")
    assert openai.wire(ANTHROPIC, "chat") == openai.kind.speaks[0]
    assert anthropic.wire(OPENAI_CHAT, "chat") == anthropic.kind.speaks[0]
    assert anthropic.wire(OPENAI_EMBEDDINGS, "embeddings") is None
    assert anthropic.wire(OPENAI_SPEECH, "speech") is None


def test_what_a_provider_cannot_count_is_counted_here_so_that_a_wire_for_chat_is_enough() -> None:
    openai, anthropic = provider("openai"), provider("anthropic")
    assert openai.wire(ANTHROPIC, "count_tokens") == openai.kind.speaks[0]
    assert anthropic.wire(ANTHROPIC, "count_tokens") == anthropic.kind.speaks[0]


@pytest.mark.proves("G13")
def test_the_output_limit_has_the_name_that_each_kind_knows() -> None:
    expected = {"openai": "max_completion_tokens", **dict.fromkeys(("compatible", "daemon", "echo", "local"), "max_tokens")}
    names = {name: wire.dialect.limit_field for name in KINDS for wire in KINDS[name].speaks if isinstance(wire.dialect, OpenAIChat)}
    assert names == expected


def test_what_is_said_of_a_model_is_its_card_and_of_others_nothing_is_known() -> None:
    told = {"max_output": 99, "forbidden": ["temperature"], "tool_name_limit": 32, "thinking": "none"}
    settings = parse({"kind": "compatible", "models": {"org/m": told, "plain": {}}}, Settings)
    mine = Provider(name="mine", kind=KINDS["compatible"], settings=settings, base_url="http://h", api_key=None)
    assert mine.card("org/m") == Card(max_output=99, forbidden=frozenset({"temperature"}), tool_name_limit=32, thinking="none")
    assert mine.card("plain") == mine.card("never heard of") == UNKNOWN
    assert provider("compatible").card("m") == UNKNOWN


@pytest.mark.proves("G19")
def test_a_provider_does_not_print_its_key() -> None:
    assert CANARY not in repr(provider("openai", CANARY))


GOOD_URLS = [
    "https://api.example.com",
    "http://127.0.0.1:8000/v1",
    "http://[::1]:8000/v1/",
    "https://example.com/a/b@c",
    "http://2852039166",
]
BAD_URLS = [
    "",
    "example.com",
    "ftp://example.com",
    "https://",
    "https:///v1",
    f"https://user:{CANARY}@example.com/v1",
    f"https://{CANARY}@example.com",
    f"https://example.com/v1?key={CANARY}",
    f"https://example.com?key={CANARY}",
    "https://example.com/v1#x",
    "https://example.com /v1",
    "https://example.com/v 1",
]


@pytest.mark.parametrize("url", GOOD_URLS)
def test_a_base_url_is_scheme_host_port_and_path(url: str) -> None:
    assert parse({"kind": "compatible", "base_url": url}, Settings).base_url == url
    jsonschema.validate({"kind": "compatible", "base_url": url}, schema(Settings))


@pytest.mark.proves("G19")
@pytest.mark.parametrize("url", BAD_URLS)
def test_a_base_url_with_a_credential_or_a_query_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"`providers\.x\.base_url`") as refusal:
        parse({"kind": "compatible", "base_url": url}, Settings, at="providers.x")
    assert CANARY not in refusal.value.sentence
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"kind": "compatible", "base_url": url}, schema(Settings))


@pytest.mark.proves("G19")
@pytest.mark.parametrize("source", [CANARY, "env:", "file:", "ENV:NAME", f" env:{CANARY}", f"key:{CANARY}"])
def test_a_key_in_the_place_of_its_source_is_refused_and_not_repeated(source: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"`providers\.x\.api_key`") as refusal:
        parse({"kind": "compatible", "api_key": source}, Settings, at="providers.x")
    assert CANARY not in refusal.value.sentence


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"timeouts": {"connect": 0}}, "timeouts.connect"),
        ({"timeouts": {"silence": 86_401}}, "timeouts.silence"),
        ({"timeouts": {"total": 5}}, "timeouts.total"),
        ({"models": [""]}, "models[0]"),
        ({"models": "gpt"}, "models"),
        ({"models": {"m": {"max_output": 0}}}, "models.m.max_output"),
        ({"models": {"m": {"forbidden": ["max_tokens"]}}}, "models.m.forbidden[0]"),
        ({"models": {"m": {"tool_name_limit": 15}}}, "models.m.tool_name_limit"),
        ({"models": {"m": {"thinking": "hard"}}}, "models.m.thinking"),
        ({"models": {"m": {"max_outptu": 5}}}, "models.m.max_outptu"),
        ({"price": "cheap"}, "price"),
        ({"stream_usage": "no"}, "stream_usage"),
    ],
)
def test_a_wrong_setting_is_named_with_its_place(settings: dict[str, object], place: str) -> None:
    with pytest.raises(ConfigInvalid, match=rf"`providers\.x\.{re.escape(place)}`"):
        parse({"kind": "compatible", **settings}, Settings, at="providers.x")


@pytest.mark.parametrize("settings", [{"threads": 0}, {"threads": 257}, {"context": 255}, {"parallel": 0}, {"parallel": 65}])
def test_the_local_models_numbers_have_bounds(settings: dict[str, int]) -> None:
    (place,) = settings
    with pytest.raises(ConfigInvalid, match=rf"`providers\.x\.{place}`"):
        parse({"kind": "local", **settings}, KINDS["local"].settings, at="providers.x")
