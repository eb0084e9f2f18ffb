"""A translated stream: it begins once and ends once, comes while it is written, and tells what it lost where that is asked for."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest

from tests.fakes import replies
from tests.fakes.replies import Reply, Thought
from tests.fakes.upstream import NEVER, Upstream
from tests.wire.gateway import PROMPT, Gateway
from tests.wire.grammar.framing import events
from tests.wire.sides import CHAT, MESSAGES, RESPONSES, Side
from tests.wire.translation.callers import BY_DIALECT, CALLS, SPEAKERS, Speaker
from tests.wire.translation.sides import ALL, ask
from trunkline.gateway import relay

every_side = pytest.mark.parametrize("side", ALL, ids=[f"from {side}" for side in ALL])
ASKED: list[Any] = [{"role": "user", "content": PROMPT}]
BOUNDS = {
    "openai_chat": {"[DONE]": 1},
    "openai_responses": {"response.created": 1, "response.completed": 1},
    "anthropic": {"message_start": 1, "message_delta": 1, "message_stop": 1},
}


def foreign(side: Side) -> list[Speaker]:
    return [speaker for speaker in SPEAKERS if speaker.dialect != side.dialect]


every_pair = pytest.mark.parametrize(
    ("side", "speaker"),
    [pytest.param(side, speaker, id=f"from {side} {speaker}") for side in ALL for speaker in foreign(side)],
)


@every_pair
@pytest.mark.proves("stream.grammar", "G3")
async def test_a_translated_stream_has_one_start_and_one_end(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, speaker: Speaker
) -> None:
    thought = Thought("hm", signature="c2ln", encrypted="" if speaker.dialect == "anthropic" else "ZW5j")
    upstreams[speaker.fake].says("one two", tool_calls=CALLS, thoughts=[thought])
    got = await ask(gateway, side, model=speaker.model, stream=True)
    assert got.headers["content-type"].startswith("text/event-stream")
    counted = Counter(event.name or event.data for event in events(got.body))
    assert {name: counted[name] for name in BOUNDS[side.dialect]} == BOUNDS[side.dialect]
    assert side.said(got.body) == "one two"
    assert (await gateway.told())["outcome"] == "ok"


@every_pair
@pytest.mark.proves("translation.loop")
async def test_a_translated_stream_comes_while_it_is_written(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, speaker: Speaker
) -> None:
    gate = asyncio.Event()
    stream = [*replies.events(speaker.dialect, Reply("one two"))]
    first = next(number for number, event in enumerate(stream) if b'"one"' in event)
    upstreams[speaker.fake].streams([*stream[: first + 1], gate, *stream[first + 1 :]])
    response = await gateway.open("POST", side.path, body(side, model=speaker.model, stream=True))
    pieces = b""
    while b"one" not in pieces:  # nothing more is written before this has arrived
        pieces += await anext(response.body)
    gate.set()
    pieces += await response.read()
    assert side.said(pieces) == "one two"


def body(side: Side, **over: Any) -> bytes:
    asked: dict[str, Any] = (
        {"input": PROMPT} if side is RESPONSES else {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 64}
    )
    return json.dumps({"model": side.model, **asked, **over}).encode()


# -------------------------------------------------------------------------------------------------------- the end mark
@every_side
@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic"])
@pytest.mark.proves("stream.grammar", "stream.grace")
async def test_a_forgotten_end_mark_is_not_waited_for_longer_than_the_grace_time(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, dialect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finish reason and usage are there, `[DONE]` or `message_stop` is not, and the connection stays open."""
    monkeypatch.setattr(relay, "GRACE_SECONDS", 0.05)
    speaker = BY_DIALECT[dialect]
    whole = [*replies.events(dialect, Reply("one two"), include_usage=True)]
    upstreams[speaker.fake].streams([*whole[:-1], NEVER])
    async with asyncio.timeout(3):
        got = await ask(gateway, side, model=speaker.model, stream=True)
    assert side.said(got.body) == "one two"
    line = await gateway.told()
    assert (line["outcome"], line["tokens"]) == ("ok", {"input": 12, "output": 2})
    await upstreams[speaker.fake].disconnected()


@every_side
@pytest.mark.proves("stream.never-clean", "stream.grace")
@pytest.mark.config(providers={"pro": {"timeouts": {"silence": 0.2}}})
async def test_a_response_without_its_terminal_event_is_never_taken_for_complete(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    """The reason to end and the usage stand in it alone."""
    whole = [*replies.events("openai_responses", Reply("one two"))]
    upstreams["openai"].streams([*whole[:-1], NEVER])
    got = await ask(gateway, side, model="pro/o9", stream=True)
    assert side.said(got.body) == "one two"
    assert side.failure(got.body)[1] == "upstream_timeout"


# ---------------------------------------------------------------------------------------------------------- keep-alive
@every_side
@pytest.mark.proves("stream.keep-alive", "stream.grammar")
async def test_a_sign_of_life_goes_on_in_a_form_that_the_callers_sdk_accepts(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    speaker = foreign(side)[-1]
    sign = {
        "openai_chat": b": hb\n\n",
        "openai_responses": b": hb\n\n",
        "anthropic": b'event: ping\ndata: {"type": "ping"}\n\n',
    }
    stream = [*replies.events(speaker.dialect, Reply("one two"))]
    first = next(number for number, event in enumerate(stream) if b'"one"' in event)
    upstreams[speaker.fake].streams([*stream[: first + 1], sign[speaker.dialect], *stream[first + 1 :]])
    got = await ask(gateway, side, model=speaker.model, stream=True)
    if side is MESSAGES:
        assert got.body.count(b"event: ping") == 2, "one for `response.in_progress`"
        assert b"\n:" not in got.body
    else:
        assert b"\n: keep-alive\n\n" in got.body
        assert b"ping" not in got.body
    upstreams[speaker.fake].streams([*stream[: first + 1], sign[speaker.dialect], *stream[first + 1 :]])
    texts: list[str] = []
    await gather(texts, {CHAT: chat_texts, RESPONSES: response_texts, MESSAGES: message_texts}[side](gateway, speaker.model))
    assert "".join(texts) == side.said(got.body) == "one two"


# ----------------------------------------------------------------------------------------------------------- SDK errors
@pytest.mark.proves("stream.never-clean", "errors.native", "sdk.openai", "sdk.anthropic")
async def test_every_sdk_raises_what_breaks_a_translated_stream(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    for fake in ("anthropic", "home"):
        upstreams[fake].says("one two three four five six", cut="reset", times=None)
    texts: list[str] = []
    with pytest.raises(openai.APIError) as of_chat:
        await gather(texts, chat_texts(gateway, "anthropic/claude-sonnet"))
    with pytest.raises(openai.APIError) as of_responses:
        await gather(texts, response_texts(gateway, "home/m"))
    with pytest.raises(anthropic.APIStatusError) as of_messages:
        await gather(texts, message_texts(gateway, "home/m"))
    assert "".join(texts).count("one") == 3
    assert of_chat.value.code == of_responses.value.code == "upstream_down"
    raised: Any = of_messages.value.body
    assert raised["error"]["code"] == "upstream_down"


async def gather(texts: list[str], told: AsyncIterator[str]) -> None:
    async for text in told:
        texts.append(text)  # noqa: PERF401 - what came before an error counts


async def chat_texts(gateway: Gateway, model: str) -> AsyncIterator[str]:
    async for chunk in await gateway.openai().chat.completions.create(model=model, messages=ASKED, stream=True):
        for choice in chunk.choices:
            yield choice.delta.content or ""


async def response_texts(gateway: Gateway, model: str) -> AsyncIterator[str]:
    async for event in await gateway.openai().responses.create(model=model, input=PROMPT, stream=True):
        if event.type == "response.output_text.delta":
            yield event.delta


async def message_texts(gateway: Gateway, model: str) -> AsyncIterator[str]:
    async with gateway.anthropic().messages.stream(model=model, max_tokens=64, messages=ASKED) as stream:
        async for text in stream.text_stream:
            yield text


# -------------------------------------------------------------------------------------------------------- cancellation
@every_pair
@pytest.mark.proves("G18")
async def test_a_caller_that_leaves_a_translated_stream_ends_the_call_upstream(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, speaker: Speaker
) -> None:
    upstreams[speaker.fake].says("one two three four five six", gate=NEVER)
    response = await gateway.open("POST", side.path, body(side, model=speaker.model, stream=True))
    await anext(response.body)
    await response.aclose()
    await upstreams[speaker.fake].disconnected()
    assert (await gateway.told())["outcome"] == "interrupted"


@pytest.mark.proves("G18")
async def test_cancelling_a_translated_call_of_an_sdk_ends_it_upstream(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].hangs()
    async with asyncio.TaskGroup() as group:
        call = group.create_task(gateway.openai().responses.create(model="anthropic/claude-sonnet", input=PROMPT))
        await upstreams["anthropic"].called()
        call.cancel()
    await upstreams["anthropic"].disconnected()
    assert (await gateway.told())["outcome"] == "interrupted"
