"""The fake daemon, asked by the SDK's client."""

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from tests.fakes.authorization import AuthorizationServer
from tests.fakes.daemon import AUDIO, FakeDaemon
from tests.fakes.server import PATIENCE
from tests.fakes.threads import in_thread
from tests.fakes.upstream import Upstream
from trunkline_sdk.daemon.client import Client, Request
from trunkline_sdk.daemon.errors import CallFailed, RefreshRefused
from trunkline_sdk.daemon.messages import Authorization, Credential, Flow, OAuthStartRequest, Record

SAYS_HI = json.dumps({"model": "x", "messages": [{"role": "user", "content": "hi"}]}).encode()


@pytest.fixture
async def auth() -> AsyncIterator[AuthorizationServer]:
    async with AuthorizationServer(interval=60) as server:
        yield server
    assert server.violations == []


@pytest.fixture
async def daemon(upstream: Upstream, auth: AuthorizationServer) -> AsyncIterator[FakeDaemon]:
    async with FakeDaemon(upstream.base_url, auth, secret="s") as fake:
        yield fake


@pytest.fixture
async def client(daemon: FakeDaemon) -> AsyncIterator[Client]:
    async with Client(daemon.url, secret="s") as client:
        yield client


async def test_it_has_providers_of_every_kind(client: Client) -> None:
    info = await client.info()
    kinds = {each.id: each.credential_kind for each in info.providers}
    assert kinds == dict.fromkeys(["open", "chat", "responses", "messages", "embeddings", "speech"], "none") | {
        "pasted": "token",
        "signed": "oauth",
    }


async def test_what_is_asked_goes_to_the_upstream_and_back(client: Client, daemon: FakeDaemon, upstream: Upstream) -> None:
    upstream.says("hello there", times=None)
    reply = await client.invoke("chat", Request("chat_completions", "m", SAYS_HI))
    assert json.loads(reply.body)["choices"][0]["message"]["content"] == "hello there"
    assert upstream.calls[0].json()["model"] == "m"
    body = json.dumps({**json.loads(SAYS_HI), "stream": True}).encode()
    async with await client.stream("pasted", Request("chat_completions", "m", body), Credential(api_key="k")) as stream:
        assert [record async for record in stream][-1] == b"data: [DONE]\n\n"
    assert upstream.calls[1].header("authorization") == "Bearer k"
    assert daemon.counts == {"chat/invoke": 1, "pasted/stream": 1}


async def test_an_upstreams_refusal_keeps_its_status(client: Client, daemon: FakeDaemon, upstream: Upstream) -> None:
    upstream.answers(429, {"error": {"message": "slower"}}, retry_after=7)
    with pytest.raises(CallFailed) as raised:
        await client.invoke("chat", Request("chat_completions", "m", SAYS_HI))
    assert (raised.value.classification.status, raised.value.classification.retry_after, raised.value.reason) == (429, 7, "slower")


async def test_speech_is_bytes(client: Client) -> None:
    reply = await client.invoke("speech", Request("audio_speech", "m", b'{"input":"hi"}'))
    assert (reply.body, reply.content_type) == (AUDIO, "audio/mpeg")


async def begun(client: Client, method: str, redirect: str = "") -> tuple[Authorization, Flow]:
    authorization = await client.oauth_start("signed", OAuthStartRequest(method=method, redirect_uri=redirect))
    return authorization, Flow(method=method, secrets=authorization.secrets)


async def test_a_person_signs_in_with_a_device(client: Client, auth: AuthorizationServer) -> None:
    authorization, flow = await begun(client, "device")
    assert (await client.oauth_poll("signed", flow)).status == "pending"
    assert (await client.oauth_poll("signed", flow)).status == "slow_down"
    other, denied = await begun(client, "device")
    auth.deny(other.user_code)
    assert (await client.oauth_poll("signed", denied)).status == "denied"
    third, approved = await begun(client, "device")
    auth.approve(third.user_code)
    result = await client.oauth_poll("signed", approved)
    assert (result.status, result.record.account_id, result.record.token_type) == ("approved", "account-1", "Bearer")
    auth.expire(authorization.user_code)
    assert (await client.oauth_poll("signed", flow)).status == "expired"


@pytest.mark.parametrize(("method", "redirect"), [("browser", "http://127.0.0.1:40123/callback"), ("manual", "")])
async def test_a_person_signs_in_and_their_tokens_are_good_until_they_are_rotated(
    client: Client, daemon: FakeDaemon, auth: AuthorizationServer, upstream: Upstream, method: str, redirect: str
) -> None:
    authorization, flow = await begun(client, method, redirect)
    back = auth.allow(authorization.authorization_url)
    assert back.startswith(redirect or auth.code_url)
    code = re.search(r"code=([^&]+)", back)
    assert code is not None
    record = await client.oauth_exchange("signed", flow, code[1])
    upstream.says("hello", times=None)
    await client.invoke("signed", Request("chat_completions", "m", SAYS_HI), Credential.of(record))
    auth.expire_tokens()
    with pytest.raises(CallFailed) as raised:
        await client.invoke("signed", Request("chat_completions", "m", SAYS_HI), Credential.of(record))
    assert (raised.value.kind, raised.value.classification.status) == ("auth", 401)
    renewed = await client.refresh("signed", record)
    await client.invoke("signed", Request("chat_completions", "m", SAYS_HI), Credential.of(renewed))
    assert (auth.refreshes, daemon.counts["signed/refresh"]) == (1, 1)
    auth.revoke()
    with pytest.raises(RefreshRefused) as refused:
        await client.refresh("signed", renewed)
    assert refused.value.terminal


async def test_an_outage_of_the_oauth_server_is_no_end_of_a_sign_in(client: Client, auth: AuthorizationServer) -> None:
    auth.fails(503)
    with pytest.raises(RefreshRefused) as refused:
        await client.refresh("signed", Record(access_token="a", refresh_token="r"))
    assert not refused.value.terminal


def test_both_serve_from_threads_and_the_daemon_as_a_program() -> None:
    with (
        in_thread(AuthorizationServer) as auth,
        in_thread(Upstream) as upstream,
        in_thread(lambda: FakeDaemon(upstream.base_url, auth)) as threaded,
    ):
        upstream.says("hello", times=None)
        program = subprocess.Popen(
            [sys.executable, "-m", "tests.fakes.daemon"],
            env={**os.environ, "UPSTREAM": upstream.base_url, "AUTHORIZATION": auth.base_url, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
        )
        try:
            assert program.stdout is not None
            url = json.loads(program.stdout.readline())["listening"]
            for each in (threaded.url, url):
                asked = subprocess.run(
                    [sys.executable, "-c", ASKS, each, auth.base_url],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE,
                    check=False,
                )
                assert (asked.stdout.strip(), asked.stderr) == ("pending hello", "")
        finally:
            program.kill()
            program.communicate()
    assert [each.violations for each in (auth, upstream)] == [[], []]


ASKS = """
import asyncio, json, sys
from trunkline_sdk.daemon.client import Client, Request
from trunkline_sdk.daemon.messages import Flow, OAuthStartRequest

async def main():
    async with Client(sys.argv[1]) as client:
        begun = await client.oauth_start("signed", OAuthStartRequest(method="device"))
        status = (await client.oauth_poll("signed", Flow(method="device", secrets=begun.secrets))).status
        body = b'{"messages": [{"role": "user", "content": "hi"}]}'
        reply = await client.invoke("open", Request("chat_completions", "m", body))
        print(status, json.loads(reply.body)["choices"][0]["message"]["content"])

asyncio.run(main())
"""
