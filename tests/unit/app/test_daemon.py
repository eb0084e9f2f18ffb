import pytest

from trunkline.app.config import read
from trunkline.app.daemon import chosen
from trunkline.errors import ConfigInvalid, NotFound

CONFIG = read(
    {
        "providers": {
            "echo": {"kind": "echo"},
            "openai": {"kind": "openai", "api_key": "env:NOWHERE"},
            "info": {"kind": "echo"},
            "far": {"kind": "daemon", "base_url": "http://127.0.0.1:18888", "secret": "env:NOWHERE"},
        }
    }
)


def names(*wanted: str) -> dict[str, bool]:
    return {each.provider.name: each.needs_credential for each in chosen(CONFIG, wanted, {"OPENAI_API_KEY": "canary"})}


@pytest.mark.proves("export.credentials")
def test_no_provider_has_a_credential_of_ours() -> None:
    for each in chosen(CONFIG, (), {"OPENAI_API_KEY": "canary", "NOWHERE": "canary"}):
        assert (each.provider.api_key, each.provider.settings.api_key) == (None, None)


def test_all_are_served_that_can_be_or_those_that_are_named() -> None:
    assert names() == {"echo": False, "openai": True}
    assert names("openai") == {"openai": True}


def test_one_whose_key_is_configured_needs_a_credential() -> None:
    home = {"kind": "compatible", "base_url": "http://127.0.0.1:1/v1"}
    made = read({"providers": {"open": home, "closed": {**home, "api_key": "env:NOWHERE"}}})
    assert [each.needs_credential for each in chosen(made, (), {})] == [False, True]


@pytest.mark.parametrize(
    ("name", "error", "why"),
    [
        ("far", ConfigInvalid, "is a daemon itself"),
        ("info", ConfigInvalid, "cannot be a provider's id"),
        ("opanai", NotFound, "there is no provider"),
    ],
)
def test_what_cannot_be_served_is_said(name: str, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        names("echo", name)


def test_nothing_to_serve_is_an_error() -> None:
    with pytest.raises(ConfigInvalid, match="there is no provider that could be served"):
        chosen(read({"providers": {}}), (), {})
