"""Base URLs, provider ids, paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline_sdk.daemon.errors import AddressRefused
from trunkline_sdk.daemon.protocol.routes import INFO, INVOKE, OAUTH_START, ROUTES, base_url, is_provider_id, match

REFUSED = [
    "", " ", "127.0.0.1:18888", "ftp://127.0.0.1", "http://", "http:///x", "http://user:pw@127.0.0.1", "http://user@127.0.0.1",
    "http://127.0.0.1?x=1", "http://127.0.0.1?", "http://127.0.0.1#fragment", "http://127.0.0.1#", "http://127.0.0.1:port",
    "http://127.0.0.1:99999", "http://[::1", "http://[canary]/", "http://h\\x", "http://h x", "http://\u00e4.test", "http://h\r\nx: 1", "//h",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_a_bad_base_url_is_refused_by_its_rule_and_not_repeated(text: str) -> None:
    """I.1"""
    with pytest.raises(AddressRefused) as refusal:
        base_url(text)
    assert "the daemon's base URL" in str(refusal.value)
    for part in ("127.0.0.1", "pw", "#", "canary", "x=1", "99999", "port:"):
        assert part not in str(refusal.value)
    assert refusal.value.classification.disposition == "terminal"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:18888", "http://127.0.0.1:18888/extension/v1/info"),
        ("https://daemon.internal/proxy/", "https://daemon.internal/proxy/extension/v1/info"),
        (" https://h/proxy/// \n", "https://h/proxy/extension/v1/info"),
        ("HTTP://[::1]:80/", "HTTP://[::1]:80/extension/v1/info"),
    ],
)
def test_a_base_url_keeps_its_path_and_loses_its_slashes(text: str, url: str) -> None:
    """I.1, I.2"""
    assert INFO.url(base_url(text)) == url


@pytest.mark.parametrize("text", ["", "a/b", ".", "..", "info", "a b", "p?x=1", "\u00e4", "a" * 129, "a\n", "\u0661", "%2e"])
def test_a_bad_provider_id(text: str) -> None:
    """I.16"""
    assert not is_provider_id(text)


@pytest.mark.parametrize("text", ["a", "a" * 128, "...", "Info", "a-b_c.d", "models", "0"])
def test_a_good_provider_id(text: str) -> None:
    """I.16"""
    assert is_provider_id(text)


def test_every_path_leads_back_to_its_route() -> None:
    assert match(INFO.path()) == (INFO, "")
    for route in ROUTES[1:]:
        assert match(route.path("models")) == (route, "models")


@pytest.mark.parametrize(
    "path",
    ["/", "/extension/v1", "/extension/v1/", "/extension/v1/info/", "/extension/v1/info/models", "/extension/v1/p", "/extension/v1/p/",
     "/extension/v1/p/invoke/", "/extension/v1/a/b/invoke", "/extension/v1/p/oauth", "/extension/v2/info", "/extension/v1/p/Invoke"],
)  # fmt: skip
def test_there_is_nothing_else(path: str) -> None:
    assert match(path) is None


@given(st.text())
def test_only_what_is_a_segment_is_an_id(text: str) -> None:
    found = match(INVOKE.path(text)) if text else None
    assert (found == (INVOKE, text)) == is_provider_id(text)
    assert match(OAUTH_START.path("p")) == (OAUTH_START, "p")
