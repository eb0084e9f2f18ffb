"""Each SDK in a tool loop of two turns with each provider: thoughts, parallel calls, pictures, usage."""

import json

import pytest

from tests.fakes.upstream import Upstream
from tests.wire.features import PIXEL
from tests.wire.gateway import PROMPT, Gateway
from tests.wire.translation.asked import calls_in, results_in, thoughts_in
from tests.wire.translation.callers import CALLS, Caller, Speaker, every_caller, every_speaker, thoughts_of, whole_and_streamed

FINISH = {
    "openai_chat": ("tool_calls", "stop"),
    "openai_responses": ("completed", "completed"),
    "anthropic": ("tool_use", "end_turn"),
}


@every_caller
@every_speaker
@whole_and_streamed
@pytest.mark.proves("translation.loop", "G11", "stream.grammar")
async def test_a_tool_loop_goes_round_and_every_thought_goes_back_to_its_vendor_as_it_came(
    gateway: Gateway, upstreams: dict[str, Upstream], caller_of: type[Caller], speaker: Speaker, stream: bool
) -> None:
    upstream = upstreams[speaker.fake]
    thoughts = thoughts_of(speaker.dialect)
    upstream.says("let me look", tool_calls=CALLS, thoughts=thoughts)
    upstream.says("warm in both")
    caller = caller_of(gateway, speaker.model)
    caller.say(PROMPT, picture=True)
    first = await caller.ask(stream=stream, tools=caller.tools(), **caller.thinks())
    assert first.text == "let me look"
    assert [(call.id, call.name, json.loads(call.arguments)) for call in first.calls] == [
        (call.id, call.name, json.loads(call.arguments)) for call in CALLS
    ]
    assert first.thought == "".join(thought.text for thought in thoughts)
    assert first.finish == FINISH[caller.dialect][0]
    assert first.tokens == (12, 0, 7)

    caller.answer(first, ["20 °C", "30 °C"])
    caller.say("so?")
    second = await caller.ask(stream=stream, tools=caller.tools(), **caller.thinks())
    assert (second.text, second.calls, second.thought) == ("warm in both", [], "")
    assert second.finish == FINISH[caller.dialect][1]

    asked = [call.json() for call in upstream.calls]
    assert [call.path for call in upstream.calls] == [speaker.path] * 2
    assert PIXEL in json.dumps(asked[0])
    assert thoughts_in(speaker.dialect, asked[1]) == [
        (thought.text, thought.signature, thought.encrypted, thought.id if speaker.dialect != "anthropic" else "") for thought in thoughts
    ]
    assert calls_in(speaker.dialect, asked[1]) == [(call.id, json.loads(call.arguments)) for call in CALLS]
    assert results_in(speaker.dialect, asked[1]) == [("call_a", "20 °C"), ("call_b", "30 °C")]
    for losses in (first.losses, second.losses):
        assert [loss for loss in losses if loss["severity"] == "material"] == []
        assert losses == [] or speaker.dialect != caller.dialect
    lines = [await gateway.told() for _ in range(2)]
    assert [line["outcome"] for line in lines] == ["ok", "ok"]
    assert [line.get("tool_calls", 0) for line in lines] == [2, 0]
    assert lines[0]["tokens"] == {"input": 12, "output": 7}
