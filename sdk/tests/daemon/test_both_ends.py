"""Our client, our coordinator and our sign-ins against our daemon: one protocol from both ends."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sdk.tests.daemon.conftest import Site, fixtures_program, until
from sdk.tests.daemon.fixtures_daemon import AUDIO, FRAMES, LOSS, Fixtures
from trunkline_sdk.daemon import check
from trunkline_sdk.daemon.client import Client, Provider, Request
from trunkline_sdk.daemon.errors import CallFailed, RefreshRefused
from trunkline_sdk.daemon.messages import Caller, Credential, Flow, Record
from trunkline_sdk.daemon.oauthflow import MemoryFlows, SignIns
from trunkline_sdk.daemon.tokenstore import Coordinator, IdentityChanged, MemoryStore, NotFound, Revoked

NOW = datetime.now(UTC)
EXPIRED = Record(access_token="access-1", refresh_token="refresh-1", account_id="account-1", expiry=NOW - timedelta(minutes=1))


@pytest.fixture
async def daemon() -> Fixtures:
    return Fixtures("secret-1")


@pytest.fixture
async def client(site: Site, daemon: Fixtures) -> AsyncIterator[Client]:
    asking = await site.serve(daemon)
    async with Client(asking.url, secret="secret-1") as client:
        yield client


def chat(model: str, **options: Any) -> Request:
    return Request("chat_completions", model, b'{"messages":[]}', **options)


async def test_what_is_served_is_read(client: Client) -> None:  # I.2
    info = await client.info()
    assert [(provider.id, provider.credential_kind) for provider in info.providers] == [("conf_chat", "oauth"), ("conf_speech", "none")]
    assert (info.protocol, info.limits["control_bytes"]) == (1, 1024 * 1024)
    rows = (await Provider(client, info.providers[0]).models(Credential(api_key="key-1"))).models
    assert [row.id for row in rows] == ["silent", "apis", "typed", "legacy"]


async def test_a_wrong_secret_is_a_matter_of_configuration(client: Client, site: Site) -> None:  # K1
    asking = await site.serve(Fixtures("another"))
    async with Client(asking.url, secret="secret-1") as stranger:
        for ask in (stranger.info(), stranger.invoke("conf_chat", chat("echo")), stranger.refresh("conf_chat", EXPIRED)):
            with pytest.raises(CallFailed) as caught:
                await ask
            assert caught.value.kind == "configuration"
    with pytest.raises(CallFailed) as caught:
        await client.invoke("conf_chat", chat("status-401"))
    assert caught.value.kind == "auth"


async def test_an_operation_goes_there_and_back(client: Client) -> None:  # I.4, I.6
    reply = await client.invoke("conf_chat", chat("echo"), Credential(token="t"))
    assert (reply.body, reply.content_type, reply.losses) == (b'{"messages":[]}', "application/json", (LOSS,))
    async with await client.stream("conf_chat", chat("echo")) as stream:
        assert [record async for record in stream] == FRAMES
        assert stream.losses == (LOSS,)
    speech = await client.invoke("conf_speech", Request("audio_speech", "voice-1", b"hello", ""))
    assert (speech.body, speech.content_type) == (AUDIO, "audio/mpeg")


@pytest.mark.parametrize(("status", "disposition"), [(400, "terminal"), (429, "retryable"), (503, "retryable"), (504, "retryable")])
async def test_a_status_arrives_with_its_meaning(client: Client, status: int, disposition: str) -> None:  # I.8
    with pytest.raises(CallFailed) as caught:
        await client.invoke("conf_chat", chat(f"status-{status}"))
    classification = caught.value.classification
    assert (caught.value.reason, classification.status, classification.disposition) == ("asked for", status, disposition)
    assert classification.retry_after == (7 if status in {429, 503} else 0)


async def test_a_broken_answer_is_seen(client: Client) -> None:  # I.10
    stream = await client.stream("conf_chat", chat("break-stream"))
    assert await anext(stream) == b'data: {"n":1}\n\n'
    with pytest.raises(CallFailed) as caught:
        await anext(stream)
    assert (caught.value.kind, caught.value.classification.disposition) == ("transport", "failover")
    with pytest.raises(CallFailed) as caught:
        await client.invoke("conf_chat", chat("break-stream"))
    assert (caught.value.kind, caught.value.classification.disposition) == ("transport", "retryable")


@pytest.mark.parametrize("how", ["invoke", "stream"])
async def test_a_daemons_own_deadline_comes_first(client: Client, how: str) -> None:  # I.19
    with pytest.raises(CallFailed) as caught:
        await getattr(client, how)("conf_chat", chat("slow-start", timeout=0.05))
    assert caught.value.classification.status == 504


async def test_a_pause_that_is_too_long_breaks_the_stream(client: Client) -> None:  # I.19
    async with await client.stream("conf_chat", chat("slow-stream", timeout=0.05)) as stream:
        assert await anext(stream) == b'data: {"n":1}\n\n'
        with pytest.raises(CallFailed):
            await anext(stream)


async def test_leaving_is_counted(client: Client, daemon: Fixtures) -> None:  # I.20
    stream = await client.stream("conf_chat", chat("slow-stream"))
    await anext(stream)
    await stream.aclose()
    await until(lambda: daemon.chat.cancelled == 1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.invoke("conf_chat", chat("slow-start")), 0.05)
    await until(lambda: daemon.chat.cancelled == 2)
    assert (await client.invoke("conf_chat", chat("cancelled"))).body == b'{"cancelled": 2}'


async def test_a_daemon_that_is_killed_within_a_stream_is_seen() -> None:  # I.10
    async with fixtures_program() as (process, url), Client(url) as client:
        stream = await client.stream("conf_chat", chat("slow-stream"))
        assert await anext(stream) == b'data: {"n":1}\n\n'
        process.kill()
        with pytest.raises(CallFailed) as caught:
            await anext(stream)
        assert (caught.value.kind, caught.value.classification.disposition) == ("transport", "failover")
        with pytest.raises(CallFailed) as caught:
            await client.invoke("conf_chat", chat("echo"))
        assert caught.value.classification.disposition == "retryable"


async def test_the_conformance_kit_finds_nothing(client: Client, site: Site) -> None:  # groups 2 to 21, where they concern a daemon
    asking = await site.serve(Fixtures("secret-1"))
    findings = await check.run(check.Daemon(base=asking.url, secret="secret-1", provider="conf_chat", speech="conf_speech"), fixtures=True)
    assert [finding for finding in findings if finding.outcome != "ok"] == []


# ------------------------------------------------------------------------------------------------- coordinator: I.13
@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def test_an_expired_credential_is_refreshed_once(client: Client, daemon: Fixtures, store: MemoryStore) -> None:  # I.13
    await store.save("k", EXPIRED)
    tokens = Coordinator(store, client.refresher("conf_chat"))
    records = await asyncio.gather(*(tokens.token("k") for _ in range(16)))
    assert {(record.access_token, record.refresh_token) for record in records} == {("access-2", "refresh-2")}
    assert len({record.revision for record in records}) == daemon.chat.refreshes == 1


async def test_a_void_token_revokes_and_trouble_does_not(client: Client, store: MemoryStore) -> None:  # I.12, I.13
    tokens = Coordinator(store, client.refresher("conf_chat"))
    for refresh, status in {"busy": 503, "odd": 400}.items():
        kept = await store.save("k", Record(refresh_token=refresh))
        with pytest.raises(RefreshRefused) as caught:
            await tokens.token("k")
        assert (caught.value.status, caught.value.terminal) == (status, False)
        assert await store.load("k") == kept
    await store.save("k", Record(refresh_token="dead"))
    with pytest.raises(Revoked):
        await tokens.token("k")
    with pytest.raises(NotFound):
        await store.load("k")


async def test_another_account_is_dropped(client: Client, store: MemoryStore) -> None:  # I.13
    await store.save("k", EXPIRED)

    async def other(record: Record) -> Record:
        return await client.refresh("conf_chat", Record(refresh_token="refresh-1", account_id="account-2"))

    with pytest.raises(IdentityChanged):
        await Coordinator(store, other).token("k")


# ---------------------------------------------------------------------------------------------------- sign-in: I.14
async def test_signing_in_by_device_and_by_hand(client: Client, store: MemoryStore) -> None:  # I.14
    now = NOW

    async def save(flow: Flow, record: Record) -> str:
        await store.save(f"extension-signin:{flow.instance}", record)
        return f"extension-signin:{flow.instance}"

    product = SignIns(MemoryFlows(now=lambda: now), driver=client.driver, save=save, now=lambda: now)
    anna = Caller(id="anna", kind="human")
    view = await product.start(anna, "conf_chat", "device")
    assert (view.user_code, view.interval) == ("ABCD-1234", 5)
    now += timedelta(seconds=5)
    done = await product.poll(anna, view.id)
    assert (done.status, (await store.load(done.credential_key)).access_token) == ("complete", "access-for-device-1")
    view = await product.start(anna, "conf_chat", "manual")
    done = await product.complete(anna, view.id, "http://localhost:1455/cb?code=code-1&state=state-1")
    assert (await store.load(done.credential_key)).access_token == "access-1"
