"""A thought goes back to the vendor that signed or encrypted it, and to no other; who takes it there is told."""

import itertools
from typing import Any

import pytest

from tests.fakes import replies
from tests.fakes.replies import Dialect, Reply, Thought
from tests.fakes.upstream import Upstream
from tests.wire.gateway import PROMPT, Gateway
from tests.wire.sides import CHAT
from tests.wire.translation.asked import thoughts_in
from tests.wire.translation.callers import (
    BY_DIALECT,
    CALLS,
    SPEAKERS,
    Caller,
    MessagesCaller,
    ResponsesCaller,
    Speaker,
    every_caller,
    thoughts_of,
    told,
    whole_and_streamed,
)

every_other = pytest.mark.parametrize(("first", "second"), list(itertools.permutations(SPEAKERS, 2)), ids=lambda speaker: speaker.dialect)


@every_caller
@every_other
@pytest.mark.proves("G11", "losses.told")
async def test_another_vendor_does_not_get_the_thoughts_and_each_is_told_as_lost(
    gateway: Gateway, upstreams: dict[str, Upstream], caller_of: type[Caller], first: Speaker, second: Speaker
) -> None:
    upstreams[first.fake].says("let me look", tool_calls=CALLS, thoughts=thoughts_of(first.dialect))
    upstreams[second.fake].says("warm in both")
    caller = caller_of(gateway, first.model)
    caller.say(PROMPT)
    said = await caller.ask(tools=caller.tools(), **caller.thinks())
    caller.answer(said, ["20 °C", "30 °C"])
    again = await caller.ask(model=second.model, tools=caller.tools(), **caller.thinks())
    assert again.text == "warm in both"
    assert thoughts_in(second.dialect, upstreams[second.fake].calls[0].json()) == []
    lost = [loss for loss in again.losses if loss["detail"] == "another vendor's reasoning"]
    assert [(loss["class"], loss["severity"]) for loss in lost] == [("dropped", "material")] * 2
    places = {
        "openai_chat": ["messages.1.reasoning_details.0", "messages.1.reasoning_details.1"],
        "openai_responses": ["input.1", "input.2"],
        "anthropic": ["messages.1.content.0", "messages.1.content.1"],
    }
    assert [loss["path"] for loss in lost] == places[caller.dialect]
    await gateway.told()
    line = await gateway.told()
    assert all(f"{loss['path']} material dropped" in line["losses"] for loss in lost)


@every_caller
@pytest.mark.proves("G11", "losses.rules")
async def test_a_strict_caller_is_refused_before_a_thought_is_left_out(
    gateway: Gateway, upstreams: dict[str, Upstream], caller_of: type[Caller]
) -> None:
    first, _, second = SPEAKERS
    upstreams[first.fake].says("let me look", thoughts=thoughts_of(first.dialect))
    caller = caller_of(gateway, first.model)
    caller.say(PROMPT)
    caller.answer(await caller.ask(**caller.thinks()), [])
    caller.say("so?")
    with pytest.raises(Exception, match="another vendor's reasoning") as raised:
        await caller.ask(model=second.model, extra_headers={"x-trunkline-strict": "1"})
    error: Any = raised.value
    assert error.status_code == 422
    assert upstreams[second.fake].calls == []


@pytest.mark.proves("G11")
async def test_a_thought_that_nobody_signed_does_not_go_to_a_vendor_that_verifies(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].says("hi")
    messages = [
        {"role": "user", "content": PROMPT},
        {"role": "assistant", "content": "hello", "reasoning_content": "a thought"},
        {"role": "user", "content": "so?"},
    ]
    got = await gateway.ask(CHAT, model="anthropic/claude-sonnet", max_tokens=64, messages=messages)
    assert got.status == 200
    assert thoughts_in("anthropic", upstreams["anthropic"].calls[0].json()) == []
    assert [(loss["path"], loss["detail"]) for loss in told(got.headers)] == [
        ("messages.1.reasoning_content", "reasoning that nobody signed")
    ]


@pytest.mark.proves("G11")
async def test_a_caller_that_asks_in_the_vendors_own_format_is_forwarded_with_its_thoughts(
    gateway: Gateway, upstreams: dict[str, Upstream]
) -> None:
    """The other way round to carrying: what is native stays bytes."""
    upstreams["anthropic"].says("hi", thoughts=[Thought("so", signature="c2ln")], times=2)
    caller = MessagesCaller(gateway, "anthropic/claude-sonnet")
    caller.say(PROMPT)
    caller.answer(await caller.ask(**caller.thinks()), [])
    caller.say("so?")
    said = await caller.ask(**caller.thinks())
    assert said.losses == []
    assert thoughts_in("anthropic", upstreams["anthropic"].calls[1].json()) == [("so", "c2ln", "", "")]


@pytest.mark.parametrize(("caller_of", "native"), [(MessagesCaller, "anthropic"), (ResponsesCaller, "openai_responses")])
@whole_and_streamed
@pytest.mark.proves("G11", "losses.told")
async def test_a_thought_that_nobody_signed_does_not_go_to_a_vendor_that_verifies_in_its_own_format(
    gateway: Gateway, upstreams: dict[str, Upstream], caller_of: type[Caller], native: Dialect, stream: bool
) -> None:
    """It came from a model that signs nothing, which answered the first turn of the same conversation."""
    frame = replies.whole("openai_chat", Reply("hello"))
    frame["choices"][0]["message"]["reasoning_content"] = "hm"
    if stream:
        chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        deltas: list[dict[str, Any]] = [{"role": "assistant", "reasoning_content": "hm"}, {"content": "hello"}, {}]
        choices = [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"} for delta in deltas]
        usage = {"choices": [], "usage": frame["usage"]}
        upstreams["home"].streams([*(chunk | {"choices": [choice]} for choice in choices), chunk | usage, b"data: [DONE]\n\n"])
    else:
        upstreams["home"].answers(200, frame)
    caller = caller_of(gateway, "home/m")
    caller.say(PROMPT)
    said = await caller.ask(stream=stream)
    assert (said.thought, said.text) == ("hm", "hello")
    caller.answer(said, [])
    caller.say("so?")
    speaker = BY_DIALECT[native]
    upstreams[speaker.fake].says("hi")
    again = await caller.ask(model=speaker.model)
    assert thoughts_in(native, upstreams[speaker.fake].calls[0].json()) == []
    assert [(loss["class"], loss["severity"], loss["detail"]) for loss in again.losses] == [
        ("dropped", "advisory", "reasoning that nobody signed")
    ]


@every_caller
@pytest.mark.proves("G11")
async def test_of_a_history_of_two_vendors_each_gets_its_own_thoughts(
    gateway: Gateway, upstreams: dict[str, Upstream], caller_of: type[Caller]
) -> None:
    one, two = BY_DIALECT["anthropic"], BY_DIALECT["openai_responses"]
    caller = caller_of(gateway, one.model)
    for speaker in (one, two):
        upstreams[speaker.fake].says("and?", thoughts=thoughts_of(speaker.dialect))
        caller.say(PROMPT)
        caller.answer(await caller.ask(model=speaker.model, **caller.thinks()), [])
    caller.say("so?")
    for speaker in (one, two):
        upstreams[speaker.fake].says("done")
        said = await caller.ask(model=speaker.model, **caller.thinks())
        given = thoughts_in(speaker.dialect, upstreams[speaker.fake].calls[-1].json())
        assert [(text, signature, encrypted) for text, signature, encrypted, _ in given] == [
            (thought.text, thought.signature, thought.encrypted) for thought in thoughts_of(speaker.dialect)
        ]
        assert sum(loss["detail"] == "another vendor's reasoning" for loss in said.losses) == 2
