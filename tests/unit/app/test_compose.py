from typing import Any

import pytest

from trunkline.app.callables import Callables
from trunkline.app.compose import dialect_of, parts, surfaces
from trunkline.app.config import read
from trunkline.errors import ConfigInvalid

HERE = {"kind": "daemon", "base_url": "http://127.0.0.1:18888"}


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ({"server": {"trusted_proxies": ["proxy.test"]}}, "server.trusted_proxies"),
        ({"egress": {"allow": ["10.0.0.1/8"]}}, "egress.allow"),
        ({"server": {"host": "0.0.0.0"}}, "0.0.0.0"),
        ({"server": {"tls_cert": "/nowhere.pem", "tls_key": "/nowhere.key"}}, "server.tls_cert"),
        ({"routes": {"fast": {"targets": [{"model": "a/b"}]}}}, "routes.fast.targets"),
        (
            {"providers": {"home": {"kind": "compatible", "base_url": "http://h", "api_key": "env:TRUNKLINE_TEST_UNSET"}}},
            "providers.home.api_key",
        ),
        ({"providers": {"x": {"kind": "daemon"}}}, "providers.x.base_url"),
        ({"providers": {"x": {"kind": "daemon", "base_url": "http://10.0.0.7"}}}, "providers.x.base_url"),
        ({"providers": {"x": {"kind": "daemon", "base_url": "https://10.0.0.7"}}}, "providers.x.secret"),
        ({"providers": {"x": {**HERE, "secret": "env:TRUNKLINE_TEST_UNSET"}}}, "providers.x.secret"),
        ({"providers": {"x": {**HERE, "base_url": "http://127.0.0.1:99999"}}}, "providers.x.base_url"),
        ({"providers": {"x": {**HERE, "base_url": "https://127.0.0.1", "ca": "/nowhere.pem"}}}, "providers.x.ca"),
        ({"providers": {"x": {**HERE, "base_url": "https://127.0.0.1", "ca": __file__}}}, "providers.x.ca"),
        ({"providers": {"x": {**HERE, "pins": ["abc"]}}}, "providers.x.pins"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whatever_is_wrong_with_a_configuration_is_known_before_anything_runs(tree: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigInvalid, match=place.replace(".", r"\.")):
        parts(read(tree))


def test_the_parts_are_those_of_the_configuration() -> None:
    made = parts(read({"providers": {"echo": {"kind": "echo", "models": ["echo"]}}, "server": {"cors_origins": ["https://chat.example"]}}))
    assert [name.id for name in made.router.names()] == ["echo/echo"]
    assert made.cors.headers(b"https://chat.example")


@pytest.mark.parametrize(
    ("path", "headers", "name"),
    [
        ("/v1/messages", [], "anthropic"),
        ("/v1/messages/count_tokens", [], "anthropic"),
        ("/v1/models", [(b"anthropic-version", b"2023-06-01")], "anthropic"),
        ("/v1/models", [], "openai_chat"),
        ("/nothing", [], "openai_chat"),
    ],
)
def test_an_error_has_the_shape_that_its_callers_sdk_reads(path: str, headers: list[tuple[bytes, bytes]], name: str) -> None:
    assert dialect_of(path, headers).name == name


def test_no_two_surfaces_serve_the_same_path() -> None:
    paths = [endpoint.path for surface in surfaces().values() for endpoint in surface.endpoints]
    paths += [listing.path for surface in surfaces().values() for listing in surface.listings]
    assert sorted(paths) == sorted(set(paths))
    assert paths


def test_something_may_be_stored_for_what_a_daemon_may_serve_and_not_for_the_daemon_itself() -> None:
    names = Callables(read({"providers": {"x": HERE, "echo": {"kind": "echo"}}}))
    assert [name for name in ("echo", "x/codex", "x", "y/codex", "x/a/b", "x/", "x/info", "echo/a", 7) if name in names] == [
        "echo",
        "x/codex",
    ]
    assert (list(names), len(names)) == (["echo", "x/PROVIDER"], 2)
