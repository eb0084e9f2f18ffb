"""What a call used: the same buckets in whichever format it is told, and the caller's own words for them."""

import json
from typing import Any

import pytest

from tests.fakes.upstream import Upstream
from tests.wire.gateway import PROMPT, Gateway
from tests.wire.sides import CHAT, MESSAGES, RESPONSES, Side
from tests.wire.translation.callers import Caller, Speaker, every_caller, every_speaker, whole_and_streamed
from tests.wire.translation.sides import ask

BUCKETS = {"input": 2000, "cache_read": 80_000, "cache_write": 5000, "output": 600, "reasoning": 400}
"""The work: 87,000 tokens were read and 1000 written."""

USAGES: dict[str, dict[str, Any]] = {
    "anthropic": {
        "input_tokens": 2000,
        "cache_read_input_tokens": 80_000,
        "cache_creation_input_tokens": 5000,
        "output_tokens": 1000,
        "output_tokens_details": {"thinking_tokens": 400},
    },
    "openai_chat": {
        "prompt_tokens": 87_000,
        "completion_tokens": 1000,
        "total_tokens": 88_000,
        "prompt_tokens_details": {"cached_tokens": 80_000, "cache_write_tokens": 5000},
        "completion_tokens_details": {"reasoning_tokens": 400},
    },
    "openai_responses": {
        "input_tokens": 87_000,
        "output_tokens": 1000,
        "total_tokens": 88_000,
        "input_tokens_details": {"cached_tokens": 80_000, "cache_write_tokens": 5000},
        "output_tokens_details": {"reasoning_tokens": 400},
    },
}


@every_caller
@every_speaker
@whole_and_streamed
@pytest.mark.proves("G16", "translation.loop")
async def test_the_same_work_is_the_same_buckets_in_whichever_format_it_is_told(
    gateway: Gateway, upstreams: dict[str, Upstream], caller_of: type[Caller], speaker: Speaker, stream: bool
) -> None:
    upstreams[speaker.fake].says("hi", usage=USAGES[speaker.dialect])
    caller = caller_of(gateway, speaker.model)
    caller.say(PROMPT)
    said = await caller.ask(stream=stream)
    assert said.tokens == (87_000, 80_000, 1000)
    assert (await gateway.told())["tokens"] == BUCKETS


@pytest.mark.parametrize("side", [CHAT, RESPONSES, MESSAGES], ids=lambda side: f"from {side}")
@pytest.mark.proves("G16")
async def test_a_foreign_usage_is_told_with_all_its_buckets(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    speaker, fake = ("home/m", "home") if side is MESSAGES else ("anthropic/claude-sonnet", "anthropic")
    upstreams[fake].says("hi", usage=USAGES["openai_chat" if side is MESSAGES else "anthropic"])
    got = await ask(gateway, side, model=speaker)
    assert got.json()["usage"] == USAGES[side.dialect]


@pytest.mark.parametrize("asks", [True, False], ids=["asked", "not asked"])
@pytest.mark.parametrize("fake", ["anthropic", "pro"])
@pytest.mark.proves("translation.loop", "stream.grammar")
async def test_the_usage_of_a_translated_chat_stream_comes_where_it_is_asked_for(
    gateway: Gateway, upstreams: dict[str, Upstream], fake: str, asks: bool
) -> None:
    model, upstream = ("pro/o9", "openai") if fake == "pro" else ("anthropic/claude-sonnet", "anthropic")
    upstreams[upstream].says("hi")
    got = await ask(gateway, CHAT, model=model, stream=True, stream_options={"include_usage": asks})
    told = [chunk for chunk in CHAT.grammar(got.body) if chunk.get("usage")]
    assert len(told) == asks
    assert (await gateway.told())["tokens"] == {"input": 12, "output": 1}


# --------------------------------------------------------------------------------------------------------- counting tokens
@pytest.mark.parametrize("model", ["home/m", "openai/gpt-mini", "pro/o9"])
@pytest.mark.proves("translation.count")
async def test_tokens_are_counted_here_for_a_provider_that_cannot(gateway: Gateway, upstreams: dict[str, Upstream], model: str) -> None:
    client = gateway.anthropic()
    few = await client.messages.count_tokens(model=model, messages=[{"role": "user", "content": "hello"}])
    many = await client.messages.count_tokens(model=model, messages=[{"role": "user", "content": "hello " * 100}])
    assert 0 < few.input_tokens < 100 <= many.input_tokens < 400
    assert all(upstream.calls == [] for upstream in upstreams.values())
    line = await gateway.told()
    assert (line["outcome"], line["path"]) == ("ok", "/v1/messages/count_tokens")
    assert "tokens" not in line, "counting uses nothing"


@pytest.mark.proves("translation.count")
async def test_tokens_are_counted_by_the_provider_where_it_can(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].answers(200, {"input_tokens": 4711})
    counted = await gateway.anthropic().messages.count_tokens(model="claude-sonnet", messages=[{"role": "user", "content": PROMPT}])
    assert counted.input_tokens == 4711
    assert json.loads(upstreams["anthropic"].calls[0].body)["model"] == "claude-sonnet"
