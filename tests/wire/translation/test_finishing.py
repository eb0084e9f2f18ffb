"""Why a model stopped, in every format's words, and the provider that says things back in all of them."""

from typing import Any

import pytest

from tests.fakes import replies
from tests.fakes.replies import Reply
from tests.fakes.upstream import Upstream
from tests.wire.gateway import Gateway
from tests.wire.sides import CHAT, MESSAGES, RESPONSES, Side
from tests.wire.translation.callers import SPEAKERS, Caller, every_caller, whole_and_streamed
from tests.wire.translation.sides import ALL, ask

WORDS: dict[str, dict[str, Any]] = {
    "openai_chat": {"stop": "stop", "length": "length", "refused": "content_filter"},
    "anthropic": {"stop": "end_turn", "length": "max_tokens", "refused": "refusal"},
    "openai_responses": {"stop": None, "length": "max_output_tokens", "refused": "content_filter"},
}
"""How each format calls a reason."""


def ended(dialect: Any, reason: str) -> tuple[dict[str, Any], list[bytes]]:
    """A reply that ended for a reason, whole and streamed."""
    whole, events = replies.whole(dialect, Reply("hi")), [*replies.events(dialect, Reply("hi"), include_usage=True)]
    word = WORDS[dialect][reason]
    match dialect:
        case "openai_chat":
            whole["choices"][0]["finish_reason"] = word
            events = [event.replace(b'"finish_reason":"stop"', f'"finish_reason":"{word}"'.encode()) for event in events]
        case "anthropic":
            whole["stop_reason"] = word
            events = [event.replace(b'"end_turn"', f'"{word}"'.encode()) for event in events]
        case _ if word:
            whole |= {"status": "incomplete", "incomplete_details": {"reason": word}}
            events[-1] = replies.named({"type": "response.incomplete", "sequence_number": 99, "response": whole})
    return whole, events


def reason_of(side: Side, got: Any, *, stream: bool) -> Any:
    told = side.grammar(got.body) if stream else [got.json()]
    match side.dialect:
        case "openai_chat":
            return next(choice["finish_reason"] for each in told for choice in each["choices"] if choice["finish_reason"])
        case "anthropic":
            return told[-2]["delta"]["stop_reason"] if stream else told[0]["stop_reason"]
        case _:
            response = told[-1]["response"] if stream else told[0]
            assert response["status"] == ("incomplete" if response["incomplete_details"] else "completed")
            return response["incomplete_details"] and response["incomplete_details"]["reason"]


@pytest.mark.parametrize("reason", ["stop", "length", "refused"])
@whole_and_streamed
@pytest.mark.proves("translation.loop", "stream.grammar")
async def test_the_reason_to_stop_is_told_in_the_callers_words(
    gateway: Gateway, upstreams: dict[str, Upstream], reason: str, stream: bool
) -> None:
    for side in ALL:
        for speaker in SPEAKERS:
            whole, events = ended(speaker.dialect, reason)
            if stream:
                upstreams[speaker.fake].streams(events)
            else:
                upstreams[speaker.fake].answers(200, whole)
            got = await ask(gateway, side, model=speaker.model, stream=stream)
            assert reason_of(side, got, stream=stream) == WORDS[side.dialect][reason], f"from {side} {speaker}"


@whole_and_streamed
@pytest.mark.proves("translation.loop", "stream.grammar")
async def test_a_stop_sequence_that_was_met_is_told_where_there_is_a_word_for_it(
    gateway: Gateway, upstreams: dict[str, Upstream], stream: bool
) -> None:
    """Only Messages tells which; a chat client learns that the model stopped."""
    whole, events = replies.whole("anthropic", Reply("hi")), [*replies.events("anthropic", Reply("hi"))]
    whole |= {"stop_reason": "stop_sequence", "stop_sequence": "END"}
    closing = b'"stop_reason":"end_turn","stop_sequence":null'
    events = [event.replace(closing, b'"stop_reason":"stop_sequence","stop_sequence":"END"') for event in events]
    for side, expected in ((CHAT, "stop"), (RESPONSES, None), (MESSAGES, "stop_sequence")):
        upstreams["anthropic"].streams(events) if stream else upstreams["anthropic"].answers(200, whole)
        got = await ask(gateway, side, model="anthropic/claude-sonnet", stream=stream)
        assert reason_of(side, got, stream=stream) == expected


@whole_and_streamed
@pytest.mark.proves("translation.loop", "stream.grammar")
async def test_a_refusal_is_told_in_the_callers_words(gateway: Gateway, upstreams: dict[str, Upstream], stream: bool) -> None:
    """Chat and Responses tell it apart from text; Messages does not."""
    whole = replies.whole("openai_chat", Reply("hi"))
    whole["choices"][0]["message"] |= {"content": None, "refusal": "I will not"}
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None, "refusal": "I will"}, {"refusal": " not"}, {}]
    chunks = [chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}]} for delta in deltas]
    for side in (RESPONSES, MESSAGES):
        upstreams["home"].streams([*chunks, b"data: [DONE]\n\n"]) if stream else upstreams["home"].answers(200, whole)
        got = await ask(gateway, side, model="home/m", stream=stream)
        if side is MESSAGES:
            text = side.said(got.body) if stream else got.json()["content"][0]["text"]
            assert text == "I will not"
        else:
            response = side.grammar(got.body)[-1]["response"] if stream else got.json()
            assert response["output"][0]["content"] == [{"type": "refusal", "refusal": "I will not"}]


@every_caller
@whole_and_streamed
@pytest.mark.proves("translation.loop")
async def test_echo_says_the_last_words_back_in_every_format(gateway: Gateway, caller_of: type[Caller], stream: bool) -> None:
    caller = caller_of(gateway, "echo/echo")
    caller.say("one")
    caller.answer(await caller.ask(stream=stream), [])
    caller.say("say it back")
    said = await caller.ask(stream=stream)
    assert said.text == "say it back"
    assert said.tokens[0] > 0
