"""The same again with the Go of this machine: its encoding/json, its net/http, and where it can be had the original itself."""

import asyncio
import json
import os
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from sdk.tests.daemon.conftest import fixtures_program
from sdk.tests.daemon.wire.go import GOLDEN, ask, build, serving, with_lists
from sdk.tests.daemon.wire.golden_cases import CASES
from sdk.tests.daemon.wire.test_gojson import everything
from trunkline_sdk.daemon.client import Client, Provider, Request
from trunkline_sdk.daemon.errors import CallFailed, RefreshRefused, StepRefused
from trunkline_sdk.daemon.messages import (
    Credential,
    ErrorResponse,
    Flow,
    Loss,
    OAuthStartRequest,
    ProviderInfo,
    Record,
    Secrets,
    encode,
)
from trunkline_sdk.daemon.protocol import headers

SECRET = "s3cret"
slow = pytest.mark.timeout(600)  # a Go toolchain compiles its standard library once


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("standin")


@pytest.fixture(scope="session")
def gojson(standin: Path) -> Path:
    return build(standin, "./json", standin=True)


@slow
@pytest.mark.needs("go")
def test_the_golden_bytes_are_what_go_writes_today(gojson: Path) -> None:
    outcomes = [[kind, data, *outcome] for (kind, data), outcome in zip(CASES, ask(gojson, CASES), strict=True)]
    if os.environ.get("WRITE_GOLDEN"):
        GOLDEN.write_text("[\n" + ",\n".join(json.dumps(outcome) for outcome in outcomes) + "\n]\n")
    assert outcomes == json.loads(GOLDEN.read_text())


@slow
@pytest.mark.needs("go")
def test_what_we_write_go_reads_and_writes_alike(gojson: Path) -> None:
    found: list[Any] = []

    @settings(max_examples=300, database=None)
    @given(everything)
    def collect(record: Any) -> None:
        found.append(record)

    collect()
    written = [record for record in found if not isinstance(record, ErrorResponse)]  # ours has fields that Go passes over
    texts = [encode(record).decode() for record in written]
    outcomes = ask(gojson, zip([type(record).__name__ for record in written], texts, strict=True))
    assert [(with_lists(outcome.json), outcome.error) for outcome in outcomes] == [(text, False) for text in texts]


@pytest.fixture(
    scope="session", params=[pytest.param(True, marks=pytest.mark.needs("go")), pytest.param(False, marks=pytest.mark.needs("llmgw_core"))]
)
def interop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interop program: on the stand-ins, and on the original."""
    folder = request.getfixturevalue("standin") if request.param else tmp_path_factory.mktemp("original")
    return build(folder, ".", standin=request.param)


@pytest.fixture
def url(interop: Path) -> Iterator[str]:
    with serving(interop, SECRET) as url:
        yield url


@slow
@pytest.mark.needs("llmgw_core")
async def test_the_original_client_uses_our_daemon(tmp_path: Path) -> None:
    """Every line that the interop program prints says ok; the header of the timeout is the one that it names."""
    program = build(tmp_path / "original", ".", standin=False)
    async with fixtures_program(DAEMON_SECRET=SECRET) as (_, url):
        asked = {"DAEMON_URL": url, "DAEMON_SECRET": SECRET, "OAUTH_PROVIDER": "conf_chat", "SPEECH_PROVIDER": "conf_speech"}
        done = await asyncio.create_subprocess_exec(program, "check", stdout=PIPE, env=os.environ | asked)
        said, _ = await done.communicate()
    checks = [json.loads(line) for line in said.splitlines()]
    assert [check for check in checks if not check["ok"]] == []
    named = next(check["detail"] for check in checks if check["check"] == "header_timeout")
    assert named.lower().encode() == headers.TIMEOUT
    shown = next(check["detail"]["body"] for check in checks if check["check"] == "invoke_with_timeout")
    assert json.loads(shown)["x-timeout"] == "90.5"


@slow
async def test_our_client_uses_a_daemon_written_in_go(url: str) -> None:
    """I.2 to I.6, I.8, I.12, I.14 to I.19 from the client's end"""
    async with Client(url, secret=SECRET) as client:
        info = await client.info()
        assert info.version == "0.0.1-interop"
        chat, speech = info.providers
        assert chat == ProviderInfo(
            id="conf_chat",
            name="Chat",
            surfaces=("chat_completions", "responses"),
            has_oauth=True,
            has_refresh=True,
            credential="oauth",
            oauth_methods=("device", "manual"),
        )
        await _operations(client, chat, speech)
        await _credentials(client)
    async with Client(url, secret="wrong") as client:
        with pytest.raises(CallFailed, match="unauthorized") as refusal:
            await client.info()
        assert refusal.value.kind == "auth"


async def _operations(client: Client, chat: ProviderInfo, speech: ProviderInfo) -> None:
    rows = {row.id: row for row in (await Provider(client, chat).models()).models}
    assert rows["silent"].supported_apis == ("/v1/chat/completions", "/v1/responses")
    assert rows["apis"].supported_apis == ("/v1/responses",)
    assert rows["typed"].capabilities is not None
    assert rows["typed"].capabilities.operations.chat == "supported"
    assert rows["typed"].capabilities.limits.context_tokens == 8192
    assert rows["legacy"].supported_apis == ()

    credential = Credential(token="t", account_id="konto-ü", token_type="Bearer", metadata={"label": "a<b>&c ü\u2028"})
    request = Request("chat_completions", "modél", b'{"a":"\xff"}', "application/json", timeout=90.5)
    reply = await client.invoke("conf_chat", request, credential)
    seen = json.loads(reply.body)
    assert seen == {
        "surface": "chat_completions",
        "model": "modél",
        "timeout": "90.5",
        "content_type": "application/json",
        "body": '{"a":"\ufffd"}',
        "token": "t",
        "api_key": "",
        "account": "konto-ü",
        "token_type": "Bearer",
        "metadata": {"label": "a<b>&c ü\u2028"},
    }
    assert reply.losses == (Loss(path="messages.0.name", change="dropped", severity="advisory", detail="not carried"),)
    seen = json.loads((await client.invoke("conf_chat", request._replace(timeout=None), Credential(api_key="k"))).body)
    assert (seen["timeout"], seen["api_key"], seen["token"], seen["token_type"]) == ("", "k", "", "api_key")
    assert "token" not in json.loads((await client.invoke("conf_chat", request)).body)

    async with await client.stream("conf_chat", request) as stream:
        records = [record async for record in stream]
    assert records == [
        b'data: {"n":1}\n\n',
        b'event: part\r\ndata: {"n":2}\r\n\r\n',
        b": in\ndata:one\ndata: two\n\n",
        b"data: [DONE]\n\n",
        b"data: rest\n\n",
    ]
    sound = await Provider(client, speech).invoke(Request("audio_speech", "voice-1", b"hello", ""))
    assert (sound.body, sound.content_type) == (b"\xff\xfb\x00\x0a\x0d", "audio/mpeg")
    for status, kind in ((400, "upstream"), (401, "auth"), (403, "forbidden"), (429, "rate_limited"), (503, "upstream")):
        with pytest.raises(CallFailed, match="asked for") as failure:
            await client.invoke("conf_chat", request._replace(model=f"status-{status}"))
        assert failure.value.kind == kind
        assert failure.value.classification.retry_after == (7.0 if status in {429, 503} else 0.0)


async def _credentials(client: Client) -> None:
    current = Record(access_token="a", refresh_token="refresh-1", account_id="acc", metadata={"project": "p-1"})
    fresh = await client.refresh("conf_chat", current)
    assert (fresh.access_token, fresh.refresh_token, fresh.account_id, fresh.metadata) == (
        "access-2",
        "refresh-2",
        "acc",
        {"project": "p-1"},
    )
    assert fresh.expiry is not None
    for token, terminal in (("dead", True), ("busy", False)):
        with pytest.raises(RefreshRefused) as refusal:
            await client.refresh("conf_chat", Record(refresh_token=token))
        assert refusal.value.terminal is terminal
    driver = client.driver("conf_chat")
    begun = await driver.start(OAuthStartRequest(method="device"))
    assert (begun.interval.total_seconds(), begun.expires_in.total_seconds()) == (5.0, 600.0)
    polled = await driver.poll(Flow(secrets=begun.secrets))
    assert (polled.status, polled.record.access_token) == ("approved", "access-for-device-1")
    manual = await driver.start(OAuthStartRequest(method="manual"))
    assert (await driver.exchange(Flow(secrets=manual.secrets), "code-1")).access_token == "access-1"
    for step in (driver.start(OAuthStartRequest(method="browser")), driver.exchange(Flow(secrets=Secrets()), "code-1")):
        with pytest.raises(StepRefused, match="not supported|was refused"):
            await step
