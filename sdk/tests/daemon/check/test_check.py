"""The conformance kit: green against a good daemon, and each lie is found by the check that is for it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sdk.tests.daemon.client.answers import answer, keeps
from sdk.tests.daemon.conftest import Site, fixtures_program
from sdk.tests.daemon.fixtures_daemon import Chat, Fixtures, Speech
from sdk.tests.http1.asking import dead_port
from sdk.tests.http1.peer import Peer
from trunkline_sdk.daemon.check import Daemon, Finding, run
from trunkline_sdk.daemon.check.__main__ import main
from trunkline_sdk.daemon.check.report import passed, table
from trunkline_sdk.daemon.errors import AddressRefused
from trunkline_sdk.daemon.messages import Record
from trunkline_sdk.daemon.server import Failure, GrantRefused

SECRET = "secret-1"
KIT = [sys.executable, "-W", "error", "-m", "trunkline_sdk.daemon.check"]


def outcomes(findings: list[Finding]) -> dict[str, str]:
    return {finding.check: finding.outcome for finding in findings}


@pytest.mark.timeout(120)
async def test_a_good_daemon_is_green_as_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """I.2 to I.6, I.8, I.10, I.12, I.14, I.19 to I.21 from the daemon's end"""
    monkeypatch.setenv("DAEMON_SECRET", SECRET)
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    async with fixtures_program(DAEMON_SECRET=SECRET) as (_, url):
        async with asyncio.timeout(100):
            kit = await asyncio.create_subprocess_exec(*KIT, url, "--fixtures", "--json", stdout=subprocess.PIPE)
            said, _ = await kit.communicate()
    report = json.loads(said)
    assert [finding for finding in report["findings"] if finding["outcome"] != "ok"] == []
    assert report["passed"] is True
    assert kit.returncode == 0
    groups = {finding["group"] for finding in report["findings"]}
    assert groups >= {"I.2", "I.3", "I.4", "I.5", "I.6", "I.8", "I.10", "I.12", "I.14", "I.19", "I.20", "I.21"}


async def test_any_daemon_can_be_asked_what_it_refuses(site: Site) -> None:
    """I.3, I.4, I.5, I.14"""
    asking = await site.serve(Fixtures(SECRET))
    findings = await run(Daemon(base=asking.url, secret=SECRET))
    assert set(outcomes(findings).values()) == {"ok"}
    assert asking.daemon.chat.refreshes == 0
    keyless = await run(Daemon(base=(await site.serve(Fixtures())).url))
    said = outcomes(keyless)
    assert said["a wrong secret is refused before the body"] == said["its own 401 is marked"] == "skipped"
    assert said["the daemon has a secret"] == "advice"
    assert passed(keyless)


async def test_a_secret_that_was_not_given_is_told_as_that(site: Site) -> None:
    [finding] = await run(Daemon(base=(await site.serve(Fixtures(SECRET))).url), only=["I.2"])
    assert finding.outcome == "failed"
    assert "DAEMON_SECRET" in finding.detail


class Polite(Chat):
    async def _broken(self, first: bytes) -> AsyncIterator[bytes]:
        yield first


class Deaf(Chat):
    @asynccontextmanager
    async def _counting(self) -> AsyncIterator[None]:
        yield


class Rash(Chat):
    async def refresh(self, record: Record) -> Record:
        raise GrantRefused("invalid_grant")


class Forgiving(Chat):
    async def refresh(self, record: Record) -> Record:
        if record.refresh_token == "dead":
            raise Failure(503, "later")
        return await super().refresh(record)


class Careless(Chat):
    async def invoke(self, call: Any) -> Any:
        if call.model == "status-429":
            raise Failure(400, "asked for")
        return await super().invoke(call)


class Lying(Fixtures):
    """A good daemon behind something that bends what goes in and out."""

    def __init__(self, chat: Chat, bend: str = "") -> None:
        super().__init__(SECRET)
        self._backends |= {"conf_chat": chat, "conf_speech": Speech()}
        self._bend = bend

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        drop = {"secret": b"authorization", "timeout": b"x-timeout", "account": b"x-credential-account-id"}.get(self._bend)
        headers = [pair for pair in scope["headers"] if pair[0] != drop]
        if self._bend == "secret":
            headers.append((b"authorization", b"Bearer " + SECRET.encode()))
        if self._bend == "method":
            scope = scope | {"method": "GET" if scope["path"].endswith("info") else "POST"}
        held: list[Any] = []

        async def bent(message: Any) -> None:
            body = message.get("body", b"")
            if self._bend == "seconds":
                body = body.replace(b"5000000000", b"5e9")
            if self._bend == "json":
                body = b"<html>" + body
            if self._bend == "leak" and message["type"] == "http.response.start":
                message = message | {"headers": [*message["headers"], *[pair for pair in headers if pair[0] == b"x-credential-token"]]}
            if message["type"] == "http.response.body":
                message = message | {"body": body}
            if self._bend in {"seconds", "json"} and message["type"] == "http.response.start":
                message = message | {"headers": [pair for pair in message["headers"] if pair[0] != b"content-length"]}
            if self._bend == "buffer":
                held.append(message)
                if message.get("more_body") or message["type"] == "http.response.start":
                    return
                for one in held:
                    await send(one)
                return
            await send(message)

        await super().__call__(scope | {"headers": headers}, receive, bent)


LIES = {
    "its streams end politely": (Polite(), "", "I.10", "a failed stream breaks"),
    "it works on for nobody": (Deaf(), "", "I.20", "leaving ends the work"),
    "every refusal is terminal": (Rash(), "", "I.12", "refresh: trouble is not"),
    "nothing is terminal": (Forgiving(), "", "I.12", "refresh: a dead token is terminal"),
    "it changes a status": (Careless(), "", "I.8", "statuses, reasons, Retry-After"),
    "it lets everyone in": (Chat(), "secret", "I.3", "a wrong secret is refused before the body"),
    "it does not hear of timeouts": (Chat(), "timeout", "I.19", "a late beginning is 504"),
    "it waits for the whole": (Chat(), "buffer", "I.21", "each record is flushed"),
    "it loses a header": (Chat(), "account", "I.4", "invoke: every header arrives"),
    "it writes floats": (Chat(), "seconds", "I.14", "sign-in: device"),
    "it repeats tokens": (Chat(), "leak", "H3", "refusals repeat no credential"),
    "it takes any method": (Chat(), "method", "I.4", "unknown routes and methods"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_is_found(site: Site, lie: str) -> None:
    chat, bend, group, check = LIES[lie]
    asking = await site.serve(Lying(chat, bend))
    daemon = Daemon(base=asking.url, secret=SECRET, provider="conf_chat", seconds=0.8)
    findings = await run(daemon, fixtures=True, only=[group])
    assert outcomes(findings)[check] in {"failed", "advice"}, table(findings)
    assert SECRET not in table(findings)


async def test_what_cannot_say_what_it_serves_is_asked_nothing_else(site: Site) -> None:
    asking = await site.serve(Lying(Chat(), "json"))
    findings = await run(Daemon(base=asking.url, secret=SECRET), fixtures=True)
    assert findings[0].outcome == "failed"
    assert {finding.outcome for finding in findings[1:]} == {"skipped"}


@pytest.mark.parametrize("body", [b'{"providers":[{"id":"a/b"}]}', b'{"providers":[{"id":"a"},{"id":"a"}]}', b'{"providers":{}}'])
async def test_an_odd_info_is_found(body: bytes) -> None:
    async with Peer(None) as peer:
        keeps(peer, answer(body))
        findings = await run(Daemon(base=peer.url), only=["I.2"])
    assert [finding.outcome for finding in findings] == ["failed"]


def test_nobody_there_is_a_failure(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAEMON_SECRET", raising=False)
    assert main([f"http://127.0.0.1:{dead_port()}", "--only", "I.2"]) == 1
    said = capsys.readouterr().out
    assert "FAILED" in said
    assert "1 failed" in said


def test_a_bad_address_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["http://user:canary@127.0.0.1"]) == 2
    assert "canary" not in capsys.readouterr().err


async def test_a_bad_address_is_refused() -> None:
    with pytest.raises(AddressRefused):
        await run(Daemon(base="ftp://127.0.0.1"))
