"""The page `/connect/PROVIDER` in a real browser: a person without a terminal signs in."""

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.fakes.behind import TOKEN, Site, running

pytestmark = [pytest.mark.needs("chromium", "playwright"), pytest.mark.timeout(180)]  # a browser takes its time on a busy machine


@pytest.fixture
def site(tmp_path: Path) -> Generator[Site]:
    with running(tmp_path) as site:
        yield site


@pytest.mark.proves("connect.page")
def test_the_link_of_an_error_leads_to_a_sign_in_with_a_code(site: Site) -> None:
    from tests.fakes.chromium import chromium

    key = site.key_of("ann")
    link = re.search(r"http://\S+?/connect/ext/signed", site.chats(key=key).json["error"]["message"])
    assert link is not None
    with chromium(site.home / "profile") as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(link[0])
        page.fill("#key", "swb_" + "x" * 32)
        page.click("#ask-key button")
        page.wait_for_selector("#message.bad")
        page.fill("#key", key)
        page.click("#ask-key button")
        page.check("input[value=device]")
        page.click("#ask-method button")
        page.wait_for_selector("#device", state="visible")
        code = page.inner_text("#user-code")
        with page.context.expect_page() as opened:
            page.click("#device-link")
        assert opened.value.input_value("#user_code") == code
        opened.value.click("#allow")
        page.wait_for_selector("#message.good")
        assert page.inner_text("#whose") == "It is for your own calls alone."
        kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, document.documentElement.outerHTML])")
        assert key not in kept
        assert [url for url in asked if not url.startswith(site.server.url)] == []
    assert site.chats(key=key).status == 200
    assert site.chats().json["error"]["code"] == "sign_in_needed", "it is hers alone"
    [row] = site.connections()
    assert row["user"] is not None


@pytest.mark.proves("connect.page")
def test_a_code_is_pasted_and_a_slip_is_mended(site: Site) -> None:
    from tests.fakes.chromium import chromium

    with chromium(site.home / "profile") as page:
        page.goto(f"{site.server.url}/connect/signed")
        page.fill("#key", site.server.key)
        page.click("#ask-key button")
        page.check("input[value=manual]")
        page.click("#ask-method button")
        with page.context.expect_page() as opened:
            page.click("#manual-link")
        opened.value.click("#allow")
        pasted = opened.value.inner_text("#code")
        page.fill("#pasted", pasted.partition("#")[0] + "#of-another-sign-in")
        page.click("#manual button")
        page.wait_for_selector("#message.bad")
        page.fill("#pasted", pasted)
        page.click("#manual button")
        page.wait_for_selector("#message.good")
    assert site.chats().status == 200


@pytest.mark.proves("connect.page")
def test_a_refusal_is_told_and_one_may_start_again(site: Site) -> None:
    from tests.fakes.chromium import chromium

    with chromium(site.home / "profile") as page:
        page.goto(f"{site.server.url}/connect/ext/signed")
        page.fill("#key", site.server.key)
        page.click("#ask-key button")
        page.check("input[value=device]")
        page.click("#ask-method button")
        page.wait_for_selector("#device", state="visible")
        site.auth.deny(page.inner_text("#user-code"))
        page.wait_for_selector("#message.bad")
        assert page.inner_text("#message") == "The sign-in was refused."
        page.click("#again button")
        page.wait_for_selector("#ask-key", state="visible")
        assert page.input_value("#key") == ""
    assert site.connections() == []


@pytest.mark.proves("connect.page")
def test_a_token_is_handed_in_and_the_page_is_dark_where_people_want_that(site: Site) -> None:
    from tests.fakes.chromium import chromium

    with chromium(site.home / "profile") as page:
        page.goto(f"{site.server.url}/connect/ext/pasted")
        colours = []
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            colours.append(page.evaluate("getComputedStyle(document.querySelector('button')).backgroundColor"))
        assert colours[0] != colours[1]
        page.fill("#key", site.server.key)
        page.click("#ask-key button")
        page.fill("#secret", TOKEN)
        page.click("#token button")
        page.wait_for_selector("#message.good")
        assert TOKEN not in page.content() + page.input_value("#secret")
    assert site.chats("ext/pasted/m").status == 200
    assert site.upstream.calls[-1].header("authorization") == f"Bearer {TOKEN}"
