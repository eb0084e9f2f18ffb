"""A sign-in over its whole life, through the server itself: refused by its provider, renewed once, revoked, signed in to again."""

import json
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fakes.behind import Site, running

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def site(tmp_path: Path) -> Generator[Site]:
    with running(tmp_path) as site:
        program = site.connects("signed", "--method", "device")
        site.auth.approve(program.says(r"and type  (\S+)"))
        assert program.ended()[0] == 0
        yield site


@pytest.mark.proves("daemon.renewal", "connections.once")
def test_a_token_that_the_provider_refuses_is_renewed_once_for_all_calls_and_each_is_repeated(site: Site) -> None:
    for round_ in (1, 2):  # the refresh tokens are good for one use, so the second round needs the first one's
        site.auth.expire_tokens()
        with ThreadPoolExecutor(8) as many:
            answers = list(many.map(lambda _: site.chats(), range(8)))
        assert [answer.status for answer in answers] == [200] * 8
        assert site.auth.refreshes == round_


@pytest.mark.proves("connections.revoked", "daemon.missing")
def test_a_sign_in_that_the_provider_has_revoked_asks_for_a_person_and_ends_with_a_new_one(site: Site) -> None:
    site.auth.revoke()
    refused = site.chats()
    assert (refused.status, refused.json["error"]["code"]) == (403, "sign_in_needed")
    assert "/connect/ext/signed" in json.dumps(refused.json)
    site.server.said("revoked", provider="ext/signed")
    [row] = site.connections()
    assert row["state"] == "revoked"

    program = site.connects("signed", "--method", "device")
    site.auth.approve(program.says(r"and type  (\S+)"))
    assert program.ended()[0] == 0
    assert site.chats().status == 200


@pytest.mark.proves("connections.unread")
def test_no_token_is_in_a_metric_a_row_or_a_listing(site: Site) -> None:
    site.auth.expire_tokens()
    assert site.chats().status == 200
    paths = ["/metrics", "/v1/models", *(f"/api/v1/{name}" for name in ("connections", "exchanges", "providers", "sign-ins/providers"))]
    told = b"".join(site.server.ask("GET", path).body for path in paths)
    assert b"ext/signed" in told
    kept = b"".join(path.read_bytes() for path in site.server.data.rglob("*") if path.is_file() and path.name != "admin.key")
    assert [secret for secret in site.secrets() if secret.encode() in told + kept] == []
