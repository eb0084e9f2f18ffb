import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from jsonschema import Draft202012Validator

from trunkline.app.config import address, connect, json_schema, load, read, secret, shared_server
from trunkline.app.example import EXAMPLE
from trunkline.base.secret import Secret
from trunkline.errors import ConfigInvalid
from trunkline.providers.local import LocalSettings
from trunkline.store.settings import StoreSettings

CANARY = "sk-canary-0123456789"
HOME = {"kind": "compatible", "base_url": "http://127.0.0.1:8000/v1"}


def one(**settings: object) -> dict[str, Any]:
    """A configuration with one provider."""
    return {"providers": {"home": {**HOME, **settings}}}


def refusal(tree: dict[str, Any], environment: dict[str, str] | None = None) -> ConfigInvalid:
    with pytest.raises(ConfigInvalid) as caught:
        connect(read(tree), environment or {})
    return caught.value


# ---------------------------------------------------------------------------------------------------------- what it holds
def test_without_a_file_echo_is_the_only_provider_and_everything_else_has_its_default() -> None:
    config = load(None, {})
    assert list(config.providers) == ["echo"]
    assert (config.sections.server.host, config.sections.server.port) == ("127.0.0.1", 8484)
    assert config.sections.server.cors_origins == []
    assert config.sections.server.trusted_proxies == []


def test_the_settings_of_a_provider_are_those_of_its_kind() -> None:
    config = read({"providers": {"small": {"kind": "local", "threads": 2}}})
    assert isinstance(config.providers["small"], LocalSettings)
    assert config.providers["small"].threads == 2


def test_the_example_is_a_configuration() -> None:
    config = read(tomllib.loads(EXAMPLE))
    providers = connect(config, {"OPENAI_API_KEY": CANARY})
    assert providers["openai"].api_key == Secret(CANARY)
    assert [target.model for target in config.sections.routes["fast"].targets] == ["openai/gpt-6.1-sol", "home/qwen3"]


# ------------------------------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("tree", "place", "near"),
    [
        ({"sever": {}}, "[sever]", "[server]"),
        ({"server": {"prot": 1}}, "server.prot", "port"),
        ({"log": {"levl": "info"}}, "log.levl", "level"),
        (one(base_ulr="x"), "providers.home.base_ulr", "base_url"),
        (one(timeouts={"conect": 1}), "providers.home.timeouts.conect", "connect"),
        ({"routes": {"fast": {"target": []}}}, "routes.fast.target", "targets"),
        ({"routes": {"fast": {"targets": [{"model": "a/b", "wieght": 2}]}}}, "routes.fast.targets[0].wieght", "weight"),
        ({"providers": {"home": {"kind": "compatibel"}}}, "providers.home.kind", "compatible"),
        (one(threads=2), "providers.home.threads", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unknown_key_is_an_error_with_its_place_and_the_nearest_name(tree: dict[str, Any], place: str, near: str | None) -> None:
    error = refusal(tree)
    assert place in error.message
    assert near is None or f"`{near}`" in error.hint


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ({"server": {"port": "8484"}}, "server.port"),
        ({"server": {"port": 65536}}, "server.port"),
        ({"server": {"port": True}}, "server.port"),
        ({"server": []}, "server"),
        ({"server": {"max_body_bytes": 1}}, "server.max_body_bytes"),
        ({"server": {"drain_seconds": float("inf")}}, "server.drain_seconds"),
        ({"server": {"header_seconds": float("nan")}}, "server.header_seconds"),
        ({"server": {"cors_origins": ["*"]}}, "server.cors_origins[0]"),
        ({"server": {"cors_origins": ["https://chat.example/"]}}, "server.cors_origins[0]"),
        ({"log": {"level": "loud"}}, "log.level"),
        ({"providers": []}, "providers"),
        ({"providers": {"home": 5}}, "providers.home"),
        ({"providers": {"home": {}}}, "providers.home.kind"),
        ({"providers": {"home": {"kind": 5}}}, "providers.home.kind"),
        ({"providers": {"Home": HOME}}, "providers.Home"),
        ({"providers": {"a/b": HOME}}, "providers.a/b"),
        ({"providers": {"home": {"kind": "compatible"}}}, "providers.home.base_url"),
        (one(base_url="ftp://host"), "providers.home.base_url"),
        (one(base_url="https://"), "providers.home.base_url"),
        (one(base_url="https://host/v1?key=x"), "providers.home.base_url"),
        (one(base_url=f"https://user:{CANARY}@host/v1"), "providers.home.base_url"),
        (one(timeouts={"connect": 0}), "providers.home.timeouts.connect"),
        (one(models=[""]), "providers.home.models[0]"),
        (one(api_key=CANARY), "providers.home.api_key"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_value_is_an_error_with_its_place_and_is_not_repeated_where_it_may_be_secret(tree: dict[str, Any], place: str) -> None:
    error = refusal(tree)
    assert f"`{place}`" in error.message
    assert CANARY not in error.sentence


def test_a_path_may_hold_an_at_sign_where_a_user_name_may_not() -> None:
    assert read(one(base_url="https://host/v1/@team")).providers["home"].base_url == "https://host/v1/@team"


def test_a_file_that_is_none_is_an_error_with_its_path(tmp_path: Path) -> None:
    missing, broken, binary = tmp_path / "missing.toml", tmp_path / "broken.toml", tmp_path / "binary.toml"
    broken.write_text("[server\nport = 1")
    binary.write_bytes(b"\xff\xfe")
    for path in (missing, broken, binary, tmp_path):
        with pytest.raises(ConfigInvalid, match=str(path)):
            load(path, {})


# ----------------------------------------------------------------------------------------------------------- environment
def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "trunkline.toml"
    path.write_text('[server]\nport = 1\nhost = "127.0.0.2"\n[providers.echo]\nkind = "echo"\n')
    config = load(
        path,
        {
            "TRUNKLINE_SERVER__PORT": "9000",
            "TRUNKLINE_SERVER__TRUSTED_PROXIES": '["10.0.0.0/8"]',
            "TRUNKLINE_LOG__LEVEL": "warning",
            "TRUNKLINE_PROVIDERS__HOME__KIND": "compatible",
            "TRUNKLINE_PROVIDERS__HOME__BASE_URL": "http://127.0.0.1:1/v1",
            "TRUNKLINE_PROVIDERS__HOME__STREAM_USAGE": "false",
            "TRUNKLINE_CONFIG": "of no concern here",
            "PORT": "1",
        },
    )
    server = config.sections.server
    assert (server.port, server.host, server.trusted_proxies) == (9000, "127.0.0.2", ["10.0.0.0/8"])
    assert config.sections.log.level == "warning"
    assert config.providers["home"].base_url == "http://127.0.0.1:1/v1"
    assert config.providers["home"].stream_usage is False
    assert config.providers["echo"].kind == "echo"


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("TRUNKLINE_SERVR__PORT", "1", "[servr]"),
        ("TRUNKLINE_SERVER__PROT", "1", "server.prot"),
        ("TRUNKLINE_SERVER__PORT", "many", "server.port"),
        ("TRUNKLINE_PROVIDERS__ECHO__API_KEY", CANARY, "providers.echo.api_key"),
    ],
)
def test_a_wrong_variable_is_an_error_and_its_value_is_not_repeated(name: str, value: str, place: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        load(None, {name: value})
    assert f"`{place}`" in caught.value.message
    assert CANARY not in caught.value.sentence


def test_a_variable_below_what_is_no_table_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "trunkline.toml"
    path.write_text("[server]\nport = 1\n")
    with pytest.raises(ConfigInvalid, match="`TRUNKLINE_SERVER__PORT__X` is set, but `port` is not a table"):
        load(path, {"TRUNKLINE_SERVER__PORT__X": "1"})


# --------------------------------------------------------------------------------------------------------------- secrets
def test_a_secret_is_read_from_a_variable_or_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{CANARY}\n")
    for source in ("env:KEY", f"file:{file}"):
        provider = connect(read(one(api_key=source)), {"KEY": CANARY})["home"]
        assert provider.api_key == Secret(CANARY)
        assert CANARY not in repr(provider)
        assert CANARY not in repr(read(one(api_key=source)))


@pytest.mark.parametrize(
    ("source", "content"),
    [
        ("env:KEY", None),
        ("env:KEY", ""),
        ("env:KEY", "  "),
        ("env:KEY", f"{CANARY}\n{CANARY}"),
        ("env:KEY", f"{CANARY}é"),
        ("file:{}/missing", None),
        ("file:{}", None),
        ("file:~nobody-of-that-name/key", None),
        ("file:{}/\0", None),
    ],
    ids=["unset", "empty", "blank", "two lines", "not ASCII", "no file", "a folder", "no home", "no path"],
)
def test_a_secret_that_is_not_there_or_cannot_be_sent_is_an_error_without_it(tmp_path: Path, source: str, content: str | None) -> None:
    error = refusal(one(api_key=source.format(tmp_path)), {} if content is None else {"KEY": content})
    assert "`providers.home.api_key`" in error.message
    assert CANARY not in error.sentence


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", f"{CANARY}\n{CANARY}".encode()], ids=["empty", "binary", "two lines"])
def test_a_file_that_holds_no_secret_is_an_error_without_it(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    error = refusal(one(api_key=f"file:{file}"))
    assert str(file) in error.message
    assert CANARY not in error.sentence


def test_the_usual_variable_of_a_vendor_may_be_unset_until_it_is_needed() -> None:
    assert connect(read({"providers": {"openai": {"kind": "openai"}}}), {})["openai"].api_key is None
    assert secret("env:KEY", "x", {}, required=False) is None


# ------------------------------------------------------------------------------------------------------- URLs of services
def test_the_store_is_a_file_in_the_data_folder_and_memory_unless_it_is_configured() -> None:
    store = load(None, {}).sections.store
    assert (store.url, store.shared) == (None, "memory")
    store = load(None, {"TRUNKLINE_STORE__URL": "env:DB", "TRUNKLINE_STORE__SHARED": "redis://cache/0"}).sections.store
    assert (store.url, store.shared) == ("env:DB", "redis://cache/0")


@pytest.mark.parametrize(
    "url", ["postgresql://user@db:5432/trunkline?sslmode=verify-full", "sqlite:////var/lib/x.sqlite", "redis://cache/0"]
)
def test_a_url_without_a_password_may_stand_in_the_file(url: str) -> None:
    assert address(url, "store.url", {}) == Secret(url)


def test_a_url_with_a_password_is_read_from_where_the_file_says(tmp_path: Path) -> None:
    url = f"postgresql://user:{CANARY}@db/trunkline"
    (tmp_path / "url").write_text(f"{url}\n")
    found = [address("env:DB", "store.url", {"DB": url}), address(f"file:{tmp_path}/url", "store.url", {})]
    assert found == [Secret(url)] * 2
    assert CANARY not in repr(found)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{CANARY}@db/x",
        f"redis://:{CANARY}@cache/0",
        f"postgresql://db/x?password={CANARY}",
        f"postgresql://db/x?sslpassword={CANARY}",
        f"postgresql://[{CANARY}/x",
    ],
)
def test_a_url_with_a_password_in_the_file_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        address(url, "store.url", {})
    assert "`store.url`" in caught.value.message
    assert CANARY not in caught.value.sentence


def test_a_url_that_is_not_where_the_file_says_is_an_error_with_its_place() -> None:
    with pytest.raises(ConfigInvalid, match="`store.url`: the environment variable `DB` is not set"):
        address("env:DB", "store.url", {})


def test_the_shared_store_is_memory_or_a_server_whose_password_is_elsewhere() -> None:
    assert shared_server(StoreSettings(), {}) is None
    where = shared_server(StoreSettings(shared="env:CACHE"), {"CACHE": f"redis://:{CANARY}@cache/3?prefix=acme"})
    assert where is not None
    assert (where.place, where.db, where.prefix, where.password) == ("cache:6379", 3, "acme", Secret(CANARY))
    assert CANARY not in repr(where)
    for wrong in ("memroy", f"redis://:{CANARY}@cache", "http://cache", "env:NONE"):
        with pytest.raises(ConfigInvalid, match="`store.shared`") as caught:
            shared_server(StoreSettings(shared=wrong), {})
        assert CANARY not in caught.value.sentence


# ---------------------------------------------------------------------------------------------------------------- schema
@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    Draft202012Validator.check_schema(json_schema())
    return Draft202012Validator(json_schema())


def test_the_schema_accepts_the_example_and_an_empty_file(validator: Draft202012Validator) -> None:
    validator.validate(tomllib.loads(EXAMPLE))
    validator.validate({})


@pytest.mark.parametrize(
    "tree",
    [
        {"sever": {}},
        {"server": {"prot": 1}},
        {"server": {"port": 65536}},
        {"log": {"level": "loud"}},
        one(base_ulr="x"),
        one(timeouts={"conect": 1}),
        one(threads=2),
        one(api_key=CANARY),
        {"providers": {"home": {"kind": "compatibel"}}},
        {"providers": {"home": {}}},
        {"routes": {"fast": {"targets": []}}},
        {"routes": {"fast": {"targets": [{"model": "a/b", "wieght": 2}]}}},
        {"routes": {"fast": {"targets": [{"model": "b"}]}}},
    ],
    ids=str,
)
def test_the_schema_refuses_what_reading_refuses(validator: Draft202012Validator, tree: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(tree)
    refusal(tree)


def test_the_schema_describes_its_settings(validator: Draft202012Validator) -> None:
    described = json_schema()["$defs"]["ServerSettings"]["properties"]
    assert all("description" in setting for setting in described.values())
