"""People sign in to a provider behind an extension daemon, from a terminal and with a browser, and are answered with what came of it."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from urllib.error import URLError
from urllib.parse import unquote
from urllib.request import urlopen

import pytest

from tests.fakes.behind import TOKEN, Site, running
from tests.fakes.server import PATIENCE, environment

pytestmark = pytest.mark.timeout(180)  # a browser takes its time on a busy machine


@pytest.fixture
def site(tmp_path: Path) -> Generator[Site]:
    with running(tmp_path) as site:
        yield site


def good(ended: tuple[int, str]) -> str:
    """The id of the connection that was made."""
    status, out = ended
    found = re.fullmatch(r"connected ext/signed: (con_\w+), for everybody\n", out)
    assert status == 0, out
    assert found is not None, out
    return found[1]


@pytest.mark.proves("connect.device")
def test_a_device_sign_in_answers_calls_until_it_is_disconnected(site: Site) -> None:
    refused = site.chats()
    assert (refused.status, refused.json["error"]["code"]) == (403, "sign_in_needed")
    assert "/connect/ext/signed" in json.dumps(refused.json)

    program = site.connects("signed", "--method", "device")
    site.auth.approve(program.says(r"and type  (\S+)"))
    assert program.says(r"Go to     (\S+)") == f"{site.auth.base_url}/device"
    connection = good(program.ended())

    assert site.chats().json["choices"][0]["message"]["content"] == "hello there"
    token = (site.upstream.calls[-1].header("authorization") or "").removeprefix("Bearer ")
    assert site.auth.account_of(token) == "account-1"
    [row] = site.connections()
    assert (row["id"], row["provider"], row["state"], row["refreshable"]) == (connection, "ext/signed", "active", True)

    gone = site.runs("disconnect", "signed")
    assert (gone.returncode, gone.stdout) == (0, f"disconnected ext/signed: {connection}, for everybody\n")
    assert site.chats().json["error"]["code"] == "sign_in_needed"
    said = program.said + json.dumps(row) + gone.stdout + json.dumps(refused.json)
    assert [secret for secret in site.secrets() if secret in said] == []


@pytest.mark.proves("connect.device")
@pytest.mark.parametrize(("ends", "words"), [("deny", "was refused"), ("expire", "has expired")])
def test_a_device_code_that_is_refused_or_too_old_ends_the_wait(site: Site, ends: str, words: str) -> None:
    program = site.connects("ext/signed", "--method", "device")
    getattr(site.auth, ends)(program.says(r"and type  (\S+)"))
    assert program.ended() == (1, "")
    assert f"the sign-in to `ext/signed` {words}" in program.said
    assert site.connections() == []


@pytest.mark.proves("connect.manual")
@pytest.mark.parametrize("whole", [True, False])
def test_a_code_or_a_whole_address_is_pasted(site: Site, whole: bool) -> None:
    program = site.connects("signed", "--method", "manual", "--no-open")
    redirect = site.auth.allow(program.says(r"Sign in at  (\S+)"))
    found = re.search(r"code=([^&]+)&state=([^&]+)", redirect)
    assert found is not None
    program.types(f"{found[1]}#of-another-sign-in")
    program.says(r"(Try again)")
    program.types(redirect if whole else f"{found[1]}#{found[2]}")
    good(program.ended())
    assert site.chats().status == 200


@pytest.mark.proves("connect.manual")
def test_a_used_code_is_no_second_sign_in(site: Site) -> None:
    first = site.connects("signed", "--method", "manual", "--no-open")
    code = re.search(r"code=([^&]+)", site.auth.allow(first.says(r"Sign in at  (\S+)")))
    assert code is not None
    first.types(code[1])
    good(first.ended())
    second = site.connects("signed", "--method", "manual", "--no-open")
    second.says(r"Sign in at  (\S+)")
    second.types(code[1])
    assert second.ended() == (1, "")
    assert len(site.connections()) == 1


@pytest.mark.proves("connect.token")
def test_a_token_is_typed_without_being_shown(site: Site) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "trunkline", "connect", "pasted", "--data", str(site.server.data)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(site.home, TERM="dumb"),
        cwd=site.home,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    try:
        while b"(not shown)" not in shown:
            shown += os.read(ours, 1024)
        os.write(ours, f"{TOKEN}\n".encode())
        while b"connected" not in shown:
            shown += os.read(ours, 1024)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert TOKEN.encode() not in shown
    assert site.chats("ext/pasted/m").status == 200
    assert site.upstream.calls[-1].header("authorization") == f"Bearer {TOKEN}"


@pytest.mark.proves("connect.browser")
def test_a_browser_is_opened_where_the_person_has_one(site: Site) -> None:
    """`BROWSER` is a program here that goes where the provider sends it."""
    browser = site.home / "browser"
    browser.write_text(f'#!/bin/sh\nexec {sys.executable} {site.home}/visit.py "$@"\n')
    browser.chmod(0o755)
    (site.home / "visit.py").write_text(VISIT)
    program = site.connects("signed", "--method", "browser", BROWSER=str(browser))
    assert program.says(r"Your browser opens; .*  (\S+)").startswith(site.auth.authorize_url)
    good(program.ended())
    assert "You are signed in" in (site.home / "seen").read_text()


VISIT = """
import re, sys, urllib.parse, urllib.request

page = urllib.request.urlopen(sys.argv[1]).read().decode()
asked = re.search(r'name="asked" value="([^"]+)"', page)[1]
form = urllib.parse.urlencode({"asked": asked, "answer": "allow"}).encode()
with open("seen", "wb") as seen:
    seen.write(urllib.request.urlopen(urllib.parse.urljoin(sys.argv[1], "/authorize"), form).read())
"""


@pytest.mark.needs("chromium", "playwright")
@pytest.mark.proves("connect.browser")
@pytest.mark.parametrize("answer", ["allow", "deny"])
def test_a_person_signs_in_with_a_real_browser(site: Site, answer: str) -> None:
    from tests.fakes.chromium import chromium

    program = site.connects("signed", "--method", "browser", "--no-open")
    url = program.says(r"Open in a browser on this machine  (\S+)")
    with chromium(site.home / "profile") as page:
        page.goto(url)
        page.click(f"#{answer}")
        page.wait_for_url("http://127.0.0.1:*/callback?*")
        title = page.inner_text("h1")
        redirect = page.url
    status, out = program.ended()
    if answer == "allow":
        assert (title, status) == ("You are signed in", 0)
        assert site.chats().status == 200
    else:
        assert (title, status, out) == ("You are not signed in", 1, "")
        assert "the sign-in to `ext/signed` was refused" in program.said
        assert site.connections() == []
    with pytest.raises(URLError, match="refused"):
        urlopen(redirect, timeout=PATIENCE)


@pytest.mark.needs("chromium", "playwright")
@pytest.mark.proves("connect.browser")
def test_a_redirect_of_another_sign_in_is_refused_and_the_right_one_still_counts(site: Site) -> None:
    from tests.fakes.chromium import chromium

    program, other = (site.connects("signed", "--method", "browser", "--no-open") for _ in range(2))
    url, others = (each.says(r"Open in a browser on this machine  (\S+)") for each in (program, other))
    foreign = site.auth.allow(others).partition("?")[2]
    with chromium(site.home / "profile") as page:
        page.goto(url)
        redirect = re.search(r"redirect_uri=([^&]+)", url)
        assert redirect is not None
        answer = page.request.get(f"{unquote(redirect[1])}?{foreign}")
        assert (answer.status, "That was another sign-in" in answer.text()) == (400, True)
        page.click("#allow")
        page.wait_for_url("http://127.0.0.1:*/callback?*")
        assert page.inner_text("h1") == "You are signed in"
    good(program.ended())
    other.leave()
