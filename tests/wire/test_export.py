"""What products get of our providers through `trunkline daemon`."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.replies import ToolCall
from tests.fakes.upstream import NEVER, Call, Upstream, Wire
from tests.wire.exported import SECRET, Exported, body, exported
from trunkline_sdk import http1
from trunkline_sdk.daemon.client import Client, Provider, Request
from trunkline_sdk.daemon.errors import CallFailed
from trunkline_sdk.daemon.messages import Credential, Loss

TOKEN = "canary-the-products-token-0002"
OURS = "canary-our-own-key-0003"
PRODUCTS = Credential(token=TOKEN, account_id="acc-canary", token_type="Bearer", metadata={"label": "canary-label"})
MESSAGES = [{"role": "user", "content": "canary prompt"}]
HUGE = 12345678901234567890123

CALLS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "chat_completions": ("openai", "authorization", "/v1/chat/completions", {"messages": MESSAGES, "seed": HUGE}),
    "responses": ("openai", "authorization", "/v1/responses", {"input": "canary prompt", "store": False}),
    "messages": ("anthropic", "x-api-key", "/v1/messages", {"messages": MESSAGES, "max_tokens": 64}),
    "embeddings": ("openai", "authorization", "/v1/embeddings", {"input": "canary prompt"}),
    "audio_speech": ("openai", "authorization", "/v1/audio/speech", {"input": "canary prompt", "voice": "alloy"}),
}
"""Each surface: the provider, the header that signs, the vendor's path and a body."""

CHATS = ["chat_completions", "responses", "messages"]


@pytest.fixture
async def daemon(upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet_root: None) -> AsyncIterator[Exported]:
    """One of each kind; the vendors' keys that the configuration names are not there, and those of the environment are canaries."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, OURS)
    gone = f"file:{tmp_path}/gone.key"
    providers = {
        "openai": {"kind": "openai", "base_url": f"{upstream.base_url}/v1", "api_key": gone, "models": ["gpt-mini"]},
        "anthropic": {"kind": "anthropic", "base_url": upstream.base_url, "models": {"claude": {"forbidden": ["temperature"]}}},
        "home": {
            "kind": "compatible",
            "base_url": f"{upstream.base_url}/v1",
            "timeouts": {"first_byte": 2, "silence": 2},
            "models": {"small": {"tool_name_limit": 16}},
        },
        "spare": {"kind": "compatible", "base_url": f"{upstream.base_url}/v1"},
        "down": {"kind": "compatible", "base_url": "http://127.0.0.1:9/v1"},
        "echo": {"kind": "echo", "models": ["parrot"]},
    }
    async with exported(providers) as daemon:
        yield daemon
    said = daemon.lines.getvalue()
    for canary in (TOKEN, OURS, SECRET, "acc-canary", "canary-label", "canary prompt"):
        assert canary not in said
    for call in upstream.calls:
        assert OURS not in str(call)
        assert SECRET not in str(call)


def request(surface: str, model: str = "the-model", **options: Any) -> Request:
    return Request(surface, model, body(**CALLS[surface][3]), **options)


async def refusal(daemon: Exported, asked: Request, provider: str = "home", credential: Credential | None = PRODUCTS) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        await daemon.client.invoke(provider, asked, credential)
    return caught.value


# ------------------------------------------------------------------------------------------------------- what goes there
@pytest.mark.proves("export.bytes", "export.credentials")
@pytest.mark.parametrize("surface", CALLS)
async def test_a_call_goes_out_as_it_came_with_the_products_credential(daemon: Exported, upstream: Upstream, surface: str) -> None:
    provider, signed, path, fields = CALLS[surface]
    answer = b'{"odd": 1.50, "answer": "whole"}'
    upstream.answers(200, answer, headers=[("content-type", "application/json; charset=utf-8"), ("x-credential-token", "theirs")])
    reply = await daemon.client.invoke(provider, request(surface), PRODUCTS)
    assert (reply.body, reply.content_type, reply.losses) == (answer, "application/json; charset=utf-8", ())
    [call] = upstream.calls
    assert (call.method, call.path) == ("POST", path)
    assert call.json() == {"model": "the-model", **fields}
    assert call.body.startswith(b'{"model":"the-model",')
    assert str(HUGE).encode() in call.body or surface != "chat_completions"
    assert call.header(signed) == (f"Bearer {TOKEN}" if signed == "authorization" else TOKEN)
    assert [name for name, _ in call.headers if name.lower().startswith(b"x-") and name.lower() != signed.encode()] == []


@pytest.mark.proves("export.bytes")
@pytest.mark.parametrize("surface", CHATS)
async def test_a_stream_passes_record_by_record_as_it_comes(daemon: Exported, upstream: Upstream, surface: str) -> None:
    gate = asyncio.Event()
    upstream.says("one two three four", gate=gate)
    async with asyncio.timeout(10), await daemon.client.stream(CALLS[surface][0], request(surface), PRODUCTS) as stream:
        records = [await anext(stream)]
        gate.set()
        records += [record async for record in stream]
    assert b"".join(records).decode().count("data: ") == len(records)
    [call] = upstream.calls
    assert call.json() == {"model": "the-model", **CALLS[surface][3], "stream": True}
    assert json.loads(records[-1].split(b"data: ")[1]) if surface != "chat_completions" else records[-1] == b"data: [DONE]\n\n"


@pytest.mark.proves("export.bytes")
async def test_sound_passes_as_it_is_made_and_bare_text_is_said_aloud(daemon: Exported, upstream: Upstream) -> None:
    gate = asyncio.Event()
    upstream.streams([b"\xff\xfb", gate, b"\x00\n\r"], headers=[("content-type", "audio/mpeg")])
    asking = asyncio.get_running_loop().create_task(
        daemon.client.invoke("home", Request("audio_speech", "voice-1", b"say this", "text/plain"))
    )
    call = await upstream.called()
    gate.set()
    reply = await asking
    assert (reply.body, reply.content_type) == (b"\xff\xfb\x00\n\r", "audio/mpeg")
    assert call.json() == {"model": "voice-1", "input": "say this"}


@pytest.mark.proves("export.credentials")
async def test_a_provider_that_needs_a_credential_is_not_asked_without_one(daemon: Exported, upstream: Upstream) -> None:
    for provider, surface in (("openai", "chat_completions"), ("anthropic", "messages")):
        refused = await refusal(daemon, request(surface), provider, None)
        assert (refused.kind, refused.reason) == ("auth", "this provider needs a credential, and the request has none")
    assert upstream.calls == []
    info = await daemon.client.info()
    kinds = {each.id: each.credential for each in info.providers}
    assert kinds == {"openai": "token", "anthropic": "token", "home": "none", "spare": "none", "down": "none", "echo": "none"}


async def test_a_credential_may_be_shown_where_none_is_needed(daemon: Exported, upstream: Upstream) -> None:
    upstream.says("hello", times=2)
    await daemon.client.invoke("home", request("chat_completions"))
    await daemon.client.invoke("home", request("chat_completions"), Credential(api_key=TOKEN))
    assert [call.header("authorization") for call in upstream.calls] == [None, f"Bearer {TOKEN}"]
    assert upstream.violations.pop().endswith("there is no bearer token")  # as a vendor would say, who needs one


async def test_what_a_model_refuses_is_left_out_and_told(daemon: Exported, upstream: Upstream) -> None:
    upstream.says("hello")
    asked = Request("messages", "claude", body(messages=MESSAGES, max_tokens=64, temperature=0.5))
    reply = await daemon.client.invoke("anthropic", asked, PRODUCTS)
    assert "temperature" not in upstream.calls[0].json()
    [loss] = reply.losses
    assert isinstance(loss, Loss)
    assert (loss.path, loss.change) == ("temperature", "dropped")


@pytest.mark.proves("export.bytes")
@pytest.mark.parametrize("route", ["invoke", "stream"])
async def test_a_tool_has_the_name_that_the_product_gave_it(daemon: Exported, upstream: Upstream, route: str) -> None:
    name = "look_up_the_weather_of_tomorrow"
    tool = {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    asked = Request("chat_completions", "small", body(messages=MESSAGES, tools=[tool]))

    async def script(call: Call, answer: Wire) -> None:
        short = call.json()["tools"][0]["function"]["name"]
        assert len(short) <= 16
        upstream.says(tool_calls=[ToolCall(short)])
        await upstream._turns.pop().script(call, answer)

    upstream.does(script)
    if route == "invoke":
        reply = await daemon.client.invoke("home", asked, PRODUCTS)
        said, losses = reply.body, reply.losses
    else:
        async with await daemon.client.stream("home", asked, PRODUCTS) as stream:
            said, losses = b"".join([record async for record in stream]), stream.losses
    assert f'"name":"{name}"'.encode() in said.replace(b'": "', b'":"')
    assert [loss.change for loss in losses] == ["renamed"]


async def test_what_runs_inside_this_process_answers(daemon: Exported) -> None:
    reply = await daemon.client.invoke("echo", request("chat_completions"))
    assert json.loads(reply.body)["choices"][0]["message"]["content"] == "canary prompt"
    async with await daemon.client.stream("echo", request("messages")) as stream:
        records = [record async for record in stream]
    assert records[-1].startswith(b"event: message_stop\n")


# -------------------------------------------------------------------------------------------------------- what goes wrong
@pytest.mark.proves("export.failures")
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529])
async def test_a_providers_own_status_passes_with_a_cleaned_reason(daemon: Exported, upstream: Upstream, status: int) -> None:
    upstream.answers(status, {"error": {"message": f"asked for\nby {TOKEN}", "type": "odd"}}, retry_after=7)
    refused = await refusal(daemon, request("chat_completions"), "openai")
    assert refused.classification.status == status
    assert f"HTTP {status}" in refused.reason
    assert ("asked for by ***" in refused.reason) == (status not in {401, 402, 403})
    assert refused.classification.retry_after == (7 if status in {429, 503, 529} else 0)


@pytest.mark.proves("export.failures")
async def test_what_is_no_answer_is_a_failure_of_the_provider(daemon: Exported, upstream: Upstream) -> None:
    assert (await refusal(daemon, request("chat_completions"), "down")).classification.status == 502
    upstream.drops()
    assert (await refusal(daemon, request("chat_completions"))).classification.status == 502
    upstream.answers(204)
    assert (await refusal(daemon, request("chat_completions"))).classification.status == 502
    upstream.answers(301, headers=[("location", "http://127.0.0.1/elsewhere")])
    refused = await refusal(daemon, request("chat_completions"))
    assert (refused.classification.status, refused.reason) == (503, "the daemon's operator has to look at this provider (egress_denied)")


@pytest.mark.proves("export.failures")
async def test_a_stream_that_is_none_is_refused_before_it_began(daemon: Exported, upstream: Upstream) -> None:
    upstream.says("hello", stream=False)
    with pytest.raises(CallFailed) as caught:
        await daemon.client.stream("home", request("chat_completions"), PRODUCTS)
    assert caught.value.classification.status == 502
    for surface in ("embeddings", "audio_speech"):
        with pytest.raises(CallFailed, match="is not streamed"):
            await daemon.client.stream("home", request(surface))


@pytest.mark.proves("export.failures")
@pytest.mark.parametrize("surface", CHATS)
@pytest.mark.parametrize("cut", ["politely", "close", "reset"])
async def test_a_stream_that_is_cut_never_ends_cleanly(daemon: Exported, upstream: Upstream, surface: str, cut: Any) -> None:
    steps = {"chat_completions": b'data: {"choices":[{"delta":{"content":"he"},"finish_reason":null}]}\n\n'}
    step = steps.get(surface, b'event: ping\ndata: {"type":"ping"}\n\n')
    upstream.streams([step], cut=None if cut == "politely" else cut)
    async with await daemon.client.stream(CALLS[surface][0], request(surface), PRODUCTS) as stream:
        assert await anext(stream) == step
        with pytest.raises(CallFailed) as caught:
            await anext(stream)
    assert (caught.value.kind, caught.value.classification.disposition) == ("transport", "failover")


@pytest.mark.proves("export.failures")
async def test_a_whole_answer_that_is_cut_is_none(daemon: Exported, upstream: Upstream) -> None:
    upstream.streams([b'{"half":'], headers=[("content-type", "application/json")], cut="close")
    assert (await refusal(daemon, request("chat_completions"))).kind == "transport"


async def test_a_body_that_makes_no_sense_is_the_products_fault(daemon: Exported, upstream: Upstream) -> None:
    for text, why in ((b"[]", "not a JSON object"), (b'{"stream":"yes"}', "stream")):
        refused = await refusal(daemon, Request("chat_completions", "m", text))
        assert refused.classification.status == 400
        assert why in refused.reason
    assert upstream.calls == []


# ------------------------------------------------------------------------------------------------------------------- time
@pytest.mark.proves("export.time")
@pytest.mark.parametrize("how", ["invoke", "stream"])
async def test_a_product_says_how_long_it_waits(daemon: Exported, upstream: Upstream, how: str) -> None:
    upstream.hangs()
    with pytest.raises(CallFailed) as caught:
        await getattr(daemon.client, how)("home", request("chat_completions", timeout=0.1), PRODUCTS)
    assert caught.value.classification.status == 504
    await upstream.disconnected()


@pytest.mark.proves("export.time")
async def test_the_same_wait_holds_for_each_pause_and_never_for_the_whole(daemon: Exported, upstream: Upstream) -> None:
    upstream.says("a slow answer of many words", pause=0.15)
    async with await daemon.client.stream("home", request("chat_completions", timeout=0.6), PRODUCTS) as stream:
        assert len([record async for record in stream]) > 6, "it took longer than the wait"
    upstream.streams([b'data: {"choices":[]}\n\n', NEVER])
    async with await daemon.client.stream("home", request("chat_completions", timeout=0.2), PRODUCTS) as stream:
        await anext(stream)
        with pytest.raises(CallFailed):
            await anext(stream)
    await upstream.disconnected()


@pytest.mark.proves("export.time")
async def test_a_product_that_leaves_takes_the_provider_along(daemon: Exported, upstream: Upstream) -> None:
    upstream.streams([b'data: {"choices":[]}\n\n', NEVER])
    stream = await daemon.client.stream("home", request("chat_completions"), PRODUCTS)
    await anext(stream)
    await stream.aclose()
    await upstream.disconnected()
    upstream.hangs()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await daemon.client.invoke("home", request("chat_completions"), PRODUCTS)
    await upstream.disconnected(count=2)


# ----------------------------------------------------------------------------------------------------------------- models
@pytest.mark.proves("export.models")
async def test_every_row_names_the_surfaces_that_its_model_serves(daemon: Exported, upstream: Upstream) -> None:
    listed = ["gpt-mini", "text-embedding-3-small", "gpt-4o-mini-tts", "whisper-1", "o9"]
    upstream.answers(200, {"object": "list", "data": [{"id": each} for each in listed]})
    info = await daemon.client.info()
    served = next(each for each in info.providers if each.id == "openai")
    rows = (await Provider(daemon.client, served).models(PRODUCTS)).models
    chats = ("/v1/chat/completions", "/v1/responses")
    assert {row.id: row.supported_apis for row in rows} == {
        "gpt-mini": chats,
        "text-embedding-3-small": ("/v1/embeddings",),
        "gpt-4o-mini-tts": ("/v1/audio/speech",),
        "o9": chats,
    }
    assert upstream.calls[0].header("authorization") == f"Bearer {TOKEN}"
    assert (upstream.calls[0].method, upstream.calls[0].path) == ("GET", "/v1/models")


@pytest.mark.proves("export.models")
async def test_what_the_configuration_names_is_listed_where_the_provider_cannot_be_asked(daemon: Exported, upstream: Upstream) -> None:
    assert [row.id for row in (await daemon.client.models("openai")).models] == ["gpt-mini"]
    assert upstream.calls == []
    upstream.answers(500, b"trouble")
    [row] = (await daemon.client.models("anthropic", PRODUCTS)).models
    assert (row.id, row.owned_by, row.supported_apis) == ("claude", "anthropic", ("/v1/messages",))
    assert row.capabilities is not None
    assert row.capabilities.operations.chat == "supported"
    upstream.answers(401, {"error": {"message": "no"}})
    with pytest.raises(CallFailed) as caught:
        await daemon.client.models("anthropic", PRODUCTS)
    assert caught.value.kind == "auth"
    upstream.answers(500, b"trouble")
    with pytest.raises(CallFailed) as caught:
        await daemon.client.models("spare")
    assert caught.value.classification.status == 500


# ------------------------------------------------------------------------------------------------------------- strangers
@pytest.mark.proves("export.closed")
async def test_nobody_comes_in_without_the_secret(daemon: Exported, upstream: Upstream) -> None:
    async with Client(daemon.url, secret="guess") as stranger:
        for ask in (stranger.info(), stranger.models("home"), stranger.invoke("home", request("chat_completions"))):
            with pytest.raises(CallFailed) as caught:
                await ask
            assert caught.value.kind == "configuration"
    async with http1.Client() as client:
        for path in ("/healthz", "/v1/models", "/metrics", "/extension/v1/info"):
            async with await client.request("GET", daemon.url + path, []) as response:
                assert response.status == 401
    assert upstream.calls == []
