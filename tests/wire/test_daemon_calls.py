"""The vendors' SDKs through a Trunkline, and through an extension daemon behind it, to a provider."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from anthropic import RateLimitError as AnthropicBusy

from tests.fakes.daemon import AUDIO, FakeDaemon
from tests.fakes.upstream import NEVER, Upstream
from tests.wire.gateway import PROMPT, Gateway
from tests.wire.sides import CHAT, MESSAGES, RESPONSES, SIDES, Side
from trunkline_sdk.daemon.messages import Loss
from trunkline_sdk.daemon.server import DaemonLimits, Failure

SECRET = "daemon-canary/sec+ret=0006"
ASKED: list[Any] = [{"role": "user", "content": PROMPT}]
MODELS = {CHAT: "x/chat/m", MESSAGES: "x/messages/m", RESPONSES: "x/responses/m"}
"""The provider behind the daemon that speaks one dialect alone."""

LIMITS = DaemonLimits(keepalive_seconds=0.1)
MATERIAL = Loss(path="messages.0.name", change="dropped", severity="material", detail="no names here")


@pytest.fixture
async def daemon(upstreams: dict[str, Upstream]) -> AsyncIterator[FakeDaemon]:
    async with FakeDaemon(upstreams["openai"].base_url, secret=SECRET, limits=LIMITS) as daemon:
        yield daemon


@pytest.fixture
def config(config: dict[str, Any], daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("CANARY_DAEMON", SECRET)
    timeouts = {"connect": 2, "first_byte": 5, "silence": 5}
    said = {"kind": "daemon", "base_url": daemon.url, "secret": "env:CANARY_DAEMON", "timeouts": timeouts}
    config["providers"]["x"] = said | config["providers"].get("x", {})
    config["routes"] = {
        name: {"targets": [{"model": f"x/{name}/m"}, {"model": second, "order": 1}]}
        for name, second in (("chat", "home/m"), ("messages", "spare/m"), ("responses", "attic/m"))
    }
    return config


@pytest.fixture
def stored() -> dict[str, str]:
    return {"daemon": SECRET}


def route(side: Side) -> str:
    """Asks the daemon first, and then another provider."""
    return MODELS[side].split("/")[1]


# ---------------------------------------------------------------------------------------------------------------- the SDKs
@pytest.mark.proves("daemon.calls", "sdk.openai")
async def test_openais_sdk_gets_a_reply_and_a_stream(gateway: Gateway, upstreams: dict[str, Upstream], daemon: FakeDaemon) -> None:
    upstreams["openai"].says("hello kåş 🛰", times=2)
    whole = await gateway.openai().chat.completions.create(model="x/chat/m", messages=ASKED)
    assert whole.choices[0].message.content == "hello kåş 🛰"
    stream = await gateway.openai().chat.completions.create(
        model="x/chat/m", messages=ASKED, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == "hello kåş 🛰"
    assert chunks[-1].usage is not None
    assert [(name, call.surface, call.model, call.timeout, call.credential) for name, call in daemon.calls] == [
        ("chat", "chat_completions", "m", 5.0, None)
    ] * 2
    line = await gateway.told()
    assert line["attempts"][0].startswith("x/chat/m ok ")
    assert line["tokens"] == {"input": 12, "output": 3}
    metrics = await gateway.get("/metrics", [("authorization", f"Bearer {gateway.metrics_key}")])
    assert b'trunkline_attempts_total{outcome="ok",provider="x/chat"} ' in metrics.body


@pytest.mark.proves("daemon.calls", "sdk.anthropic")
async def test_anthropics_sdk_gets_a_reply_and_a_stream(gateway: Gateway, upstreams: dict[str, Upstream], daemon: FakeDaemon) -> None:
    upstreams["openai"].says("hello kåş 🛰", times=2)
    whole = await gateway.anthropic().messages.create(model="x/messages/m", messages=ASKED, max_tokens=64)
    assert whole.content[0].text == "hello kåş 🛰"  # type: ignore[union-attr]
    async with gateway.anthropic().messages.stream(model="x/messages/m", messages=ASKED, max_tokens=64) as stream:
        assert [text async for text in stream.text_stream] == ["hello", " kåş", " 🛰"]
        assert (await stream.get_final_message()).usage.output_tokens == 3
    assert [call.surface for _, call in daemon.calls] == ["messages"] * 2


@pytest.mark.proves("daemon.calls", "sdk.openai", "stored")
async def test_openais_sdk_gets_responses_and_goes_on_from_one(
    gateway: Gateway, upstreams: dict[str, Upstream], daemon: FakeDaemon
) -> None:
    upstreams["openai"].says("one two", times=3)
    first = await gateway.openai().responses.create(model="x/responses/m", input=PROMPT)
    assert first.output_text == "one two"
    assert first.id.startswith("resp_x/responses~")
    second = await gateway.openai().responses.create(model="x/responses/m", input=PROMPT, previous_response_id=first.id)
    assert second.output_text == "one two"
    assert json.loads(daemon.calls[1][1].body)["previous_response_id"] == first.id.removeprefix("resp_x/responses~")
    stream = await gateway.openai().responses.create(model="x/responses/m", input=PROMPT, stream=True)
    assert [event.type async for event in stream][-1] == "response.completed"
    with pytest.raises(openai.NotFoundError):
        await gateway.openai().responses.retrieve(first.id)


@pytest.mark.proves("daemon.calls", "translation.loop")
@pytest.mark.parametrize("stream", [False, True])
async def test_each_sdk_is_translated_for_a_provider_that_speaks_another_format(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, *, stream: bool
) -> None:
    for theirs, model in MODELS.items():
        upstreams["openai"].says("one two three")
        got = await gateway.ask(side, model=model, stream=stream)
        assert got.status == 200, got.body
        assert upstreams["openai"].calls[-1].path == theirs.path
        if stream:
            assert side.said(got.body) == "one two three"
        else:
            assert "one two three" in got.body.decode()


@pytest.mark.proves("daemon.calls", "embeddings")
async def test_openais_sdk_gets_vectors(gateway: Gateway, upstreams: dict[str, Upstream], daemon: FakeDaemon) -> None:
    vectors = {"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}]}
    upstreams["openai"].answers(200, vectors | {"usage": {"prompt_tokens": 3, "total_tokens": 3}})
    got = await gateway.openai().embeddings.create(model="x/embeddings/m", input=PROMPT, encoding_format="float")
    assert got.data[0].embedding == [0.5, -1.0]
    assert [call.surface for _, call in daemon.calls] == ["embeddings"]
    assert (await gateway.told())["tokens"] == {"input": 3}


@pytest.mark.proves("daemon.speech", "sdk.openai")
async def test_openais_sdk_hears_a_speech_provider(gateway: Gateway, daemon: FakeDaemon) -> None:
    got = await gateway.openai().audio.speech.create(model="x/speech/m", voice="alloy", input=PROMPT)
    assert (got.content, got.response.headers["content-type"]) == (AUDIO, "audio/mpeg")
    [(name, call)] = daemon.calls
    assert (name, call.surface, json.loads(call.body)["input"]) == ("speech", "audio_speech", PROMPT)


# ------------------------------------------------------------------------------------------------------------ to the byte
@pytest.mark.proves("daemon.calls", "bytes.stream")
@pytest.mark.parametrize("here", SIDES, ids=str)
async def test_a_stream_comes_record_by_record_while_it_is_written(gateway: Gateway, upstreams: dict[str, Upstream], here: Side) -> None:
    gate = asyncio.Event()
    events = here.stream()
    shown = b"".join(events[: here.shown])
    upstreams["openai"].streams([*events[: here.shown], gate, *events[here.shown :]])
    response = await gateway.begin(here, model=MODELS[here], **({"store": False} if here is RESPONSES else {}))
    seen = b""
    while len(seen) < len(shown):
        seen += await anext(response.body)
    assert seen == shown  # the rest is not written before this has arrived
    gate.set()
    assert seen + await response.read() == b"".join(events)


@pytest.mark.proves("daemon.headers")
@pytest.mark.parametrize("here", SIDES, ids=str)
async def test_a_callers_headers_are_not_the_protocols(
    gateway: Gateway, upstreams: dict[str, Upstream], daemon: FakeDaemon, here: Side
) -> None:
    upstreams["openai"].says("one")
    protocols = ["x-surface", "x-model", "x-timeout", "x-credential-token", "x-credential-token-type", "x-credential-account-id"]
    got = await gateway.ask(here, model=MODELS[here], headers=[(name, "theirs") for name in protocols])
    assert got.status == 200
    [(_, call)] = daemon.calls
    assert (call.model, call.timeout, call.credential) == ("m", 5.0, None)
    assert not set(protocols) & got.headers.keys()


# --------------------------------------------------------------------------------------------------------------- failures
@pytest.mark.proves("daemon.errors")
async def test_a_busy_provider_is_busy_with_its_wait_and_rests_with_all_its_models(
    gateway: Gateway, upstreams: dict[str, Upstream], daemon: FakeDaemon
) -> None:
    upstreams["openai"].answers(429, {"error": {"message": "slow down"}}, retry_after=7)
    with pytest.raises(openai.RateLimitError) as caught:
        await gateway.openai().chat.completions.create(model="x/chat/m", messages=ASKED)
    assert caught.value.response.headers["retry-after"] == "7"
    with pytest.raises(AnthropicBusy):
        await gateway.anthropic().messages.create(model="x/chat/other", messages=ASKED, max_tokens=9)
    assert len(daemon.calls) == 1


@pytest.mark.proves("daemon.errors", "failover")
@pytest.mark.parametrize("status", [401, 403, 429, 500, 503, 529])
@pytest.mark.parametrize("here", SIDES, ids=str)
async def test_a_provider_behind_a_daemon_that_fails_leaves_the_call_to_the_next_target(
    gateway: Gateway, upstreams: dict[str, Upstream], daemon: FakeDaemon, here: Side, status: int
) -> None:
    daemon.failing[route(here)] = Failure(status, "no")
    second = {CHAT: "home", MESSAGES: "spare", RESPONSES: "home"}[here]
    upstreams[second].says("hello")
    got = await gateway.ask(here, model=route(here))
    assert got.status == 200
    assert got.headers["x-trunkline-attempts"].startswith(f"{MODELS[here]} upstream_")
    assert len(daemon.calls) == 1


@pytest.mark.proves("daemon.errors")
@pytest.mark.parametrize("here", SIDES, ids=str)
async def test_a_refused_request_is_told_in_the_callers_format_with_the_providers_words(
    gateway: Gateway, upstreams: dict[str, Upstream], here: Side
) -> None:
    upstreams["openai"].answers(422, {"error": {"message": "too many cooks"}})
    got = await gateway.ask(here, model=route(here))
    assert got.status == 422
    assert "too many cooks" in here.error(got.json())[2]


@pytest.mark.proves("daemon.errors", "stream.never-clean")
@pytest.mark.parametrize("polite", [False, True])
@pytest.mark.parametrize("here", SIDES, ids=str)
async def test_a_stream_that_breaks_behind_a_daemon_ends_with_an_error_of_the_callers_format(
    gateway: Gateway, upstreams: dict[str, Upstream], here: Side, *, polite: bool
) -> None:
    if polite:  # it ends as if it were whole, which the daemon cannot know
        upstreams["openai"].streams(here.stream()[: here.shown])
    else:
        upstreams["openai"].says("one two three four", cut="reset")
    got = await gateway.ask(here, model=route(here), stream=True)
    assert here.failure(got.body)[1] in {"upstream_down", ""}
    assert (await gateway.told())["outcome"] == "upstream_down"


@pytest.mark.proves("daemon.errors", "deadlines")
@pytest.mark.config(providers={"x": {"timeouts": {"connect": 2, "first_byte": 0.3, "silence": 5}}})
@pytest.mark.parametrize("stream", [False, True])
async def test_a_daemon_is_told_the_deadline_and_says_itself_that_it_has_passed(
    gateway: Gateway, upstreams: dict[str, Upstream], *, stream: bool
) -> None:
    upstreams["openai"].hangs()
    got = await gateway.ask(CHAT, model="x/chat/m", stream=stream)
    assert (got.status, got.json()["error"]["code"]) == (504, "upstream_timeout")
    assert "HTTP 504" in got.json()["error"]["message"]


@pytest.mark.proves("daemon.errors", "deadlines")
@pytest.mark.config(providers={"x": {"timeouts": {"connect": 2, "first_byte": 30, "silence": 0.5}}})
async def test_a_daemon_that_only_keeps_alive_is_silent(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].streams([*CHAT.stream()[:2], NEVER])
    got = await gateway.ask(CHAT, model="x/chat/m", stream=True)
    assert CHAT.failure(got.body)[1] == "upstream_timeout"
    assert b": keep-alive" in got.body


@pytest.mark.proves("daemon.errors")
async def test_a_daemon_that_is_gone_or_has_another_secret_now_leaves_the_call_to_the_next_target(
    gateway: Gateway, upstreams: dict[str, Upstream], daemon: FakeDaemon
) -> None:
    upstreams["home"].says("hello", times=2)
    port = int(daemon.url.rpartition(":")[2])
    await daemon.__aexit__(None, None, None)
    got = await gateway.ask(CHAT, model="chat")
    assert got.headers["x-trunkline-attempts"] == "x/chat/m upstream_down, home/m ok"
    async with FakeDaemon(upstreams["openai"].base_url, secret="another", port=port) as other:
        got = await gateway.ask(CHAT, model="chat")
        assert got.headers["x-trunkline-attempts"] == "x/chat/m daemon_refused, home/m ok"
        refused = await gateway.ask(CHAT, model="x/chat/m")
        assert (refused.status, refused.json()["error"]["code"]) == (503, "daemon_refused")
        assert other.calls == []


@pytest.mark.proves("daemon.calls", "G18")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_caller_that_leaves_ends_the_call_behind_the_daemon(
    gateway: Gateway, upstreams: dict[str, Upstream], *, stream: bool
) -> None:
    if stream:
        upstreams["openai"].streams([CHAT.stream()[0], CHAT.stream()[1], NEVER])
        response = await gateway.begin(CHAT, model="x/chat/m")
        await anext(response.body)
        await response.aclose()
    else:
        upstreams["openai"].hangs()
        async with asyncio.TaskGroup() as group:
            call = group.create_task(gateway.ask(CHAT, model="x/chat/m"))
            await upstreams["openai"].called()
            call.cancel()
    await upstreams["openai"].disconnected(timeout=2)
    assert (await gateway.told())["outcome"] == "interrupted"


@pytest.mark.proves("daemon.missing")
async def test_who_has_to_sign_in_is_told_where(gateway: Gateway, daemon: FakeDaemon) -> None:
    for here in SIDES:
        got = await gateway.ask(here, model="x/pasted/m")
        assert got.status == 403
        said = here.error(got.json())[2]
        assert "`x/pasted`" in said
        assert "/connect/x/pasted" in said
    assert daemon.calls == []


# ----------------------------------------------------------------------------------------------------------------- losses
@pytest.mark.proves("daemon.losses", "losses.told")
@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_daemon_loses_reaches_the_caller_beside_our_own(
    gateway: Gateway, upstreams: dict[str, Upstream], daemon: FakeDaemon, *, stream: bool
) -> None:
    daemon.losses = [MATERIAL]
    upstreams["openai"].says("hello")
    got = await gateway.ask(MESSAGES, model="x/chat/m", stream=stream, top_k=3)
    told = [loss["path"] for loss in json.loads(base64.b64decode(got.headers["x-losses"]))]
    assert told == ["messages.0.name", "top_k"]
    assert [loss.split(" ")[0] for loss in (await gateway.told())["losses"]] == told


@pytest.mark.proves("daemon.losses", "failover")
@pytest.mark.config(providers={"x": {"loss_policy": "contract"}})
async def test_by_the_contract_a_material_loss_of_a_reply_goes_to_the_next_target_and_that_of_a_stream_is_reported(
    gateway: Gateway, upstreams: dict[str, Upstream], daemon: FakeDaemon
) -> None:
    daemon.losses = [MATERIAL]
    upstreams["openai"].says("hello", times=None)
    upstreams["home"].says("hello")
    assert (await gateway.ask(CHAT, model="chat")).headers["x-trunkline-attempts"] == "x/chat/m loss_refused, home/m ok"
    refused = await gateway.ask(CHAT, model="x/chat/m")
    assert (refused.status, refused.json()["error"]["code"]) == (422, "loss_refused")
    assert "`messages.0.name`" in refused.json()["error"]["message"]
    streamed = await gateway.ask(CHAT, model="chat", stream=True)
    assert (streamed.status, "x-losses" in streamed.headers) == (200, True)
    assert streamed.headers["x-trunkline-attempts"] == "x/chat/m ok"
    calls = len(daemon.calls)
    ours = await gateway.ask(MESSAGES, model="x/chat/m", top_k=3)
    assert (ours.status, len(daemon.calls)) == (422, calls), "what we lose ourselves is judged before the daemon is asked"
