"""The page on which people without a terminal sign in."""

import re
from base64 import b64encode
from hashlib import sha256

import pytest

from trunkline.errors import NotFound
from trunkline.server.connect import PATH, SCRIPT, STYLE, link, page, policy

NAMES = ["home/plan", "plan", "a.b-c_d/E.9", "x" * 128 + "/" + "y" * 128]


def digests(html: str) -> set[str]:
    found: list[tuple[str, str]] = re.findall(r"<(style|script)>(.*?)</\1>", html, re.DOTALL)
    return {f"{kind}-src 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for kind, text in found}


@pytest.mark.proves("sign-in.page")
def test_the_page_needs_no_key_and_allows_itself_nothing_but_itself() -> None:
    made = page()
    assert made.scope is None
    status, body = made.read("home/plan", None)
    assert (status, made.content_type) == (200, b"text/html; charset=utf-8")
    headers = dict(made.headers)
    assert headers[b"content-security-policy"].decode() == policy()
    allowed = {each.strip() for each in policy().split(";")}
    own = digests(body.decode())
    assert len(own) == 2
    assert allowed == own | {"default-src 'none'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"}
    assert (headers[b"referrer-policy"], headers[b"cache-control"]) == (b"no-referrer", b"no-store")
    assert (headers[b"x-content-type-options"], headers[b"cross-origin-opener-policy"]) == (b"nosniff", b"same-origin")


@pytest.mark.proves("sign-in.page")
def test_nothing_of_the_page_comes_from_elsewhere_and_nothing_of_it_is_kept() -> None:
    html = page().read("home/plan", None)[1].decode()
    assert not re.search(r"""(src|href|srcset|action|data)\s*=\s*["'][^"'#]""", html)
    assert not re.search(r"@import|url\(|https?://[a-z]", STYLE + SCRIPT)
    assert not re.search(r"localStorage|sessionStorage|indexedDB|document\.cookie|innerHTML|outerHTML|insertAdjacentHTML|\beval\b", SCRIPT)
    assert "<noscript>" in html
    assert "trunkline connect home/plan" in html


@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_same_for_every_name_but_for_the_name(name: str) -> None:
    assert page().read(name, None)[1].decode().replace(name, "NAME") == page().read("home/plan", None)[1].decode().replace(
        "home/plan", "NAME"
    )


@pytest.mark.parametrize("name", ["", "a/b/c", "<b>", "a b", "a/", "/a", "ä", 'a"onclick=', "x" * 129, "a\n"])
def test_what_is_no_name_has_no_page(name: str) -> None:
    with pytest.raises(NotFound, match="there is nothing at"):
        page().read(name, None)


@pytest.mark.proves("sign-in.link")
@pytest.mark.parametrize("name", NAMES)
def test_a_link_leads_to_it(name: str) -> None:
    assert link("https://gateway.test/", name) == f"https://gateway.test{PATH}{name}"
    assert link("https://gateway.test/below", "a b/c?") == "https://gateway.test/below/connect/a%20b/c%3F"
