"""What one vendor's clients say as usual and another vendor's API refuses: it goes in a form that is taken, and the change is told."""

import json
from hashlib import sha256
from typing import Any

import pytest

from trunkline.dialects import Dialect
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from trunkline.model.card import UNKNOWN, Card

Json = dict[str, Any]
USER: Json = {"role": "user", "content": "hi"}
CLAUDE_CODE = f"user_{'0a' * 32}_account_9b2d_session_1f3e{'-7c' * 20}"
CHAT_TOOL: Json = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
ALLOWED = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
ODD_IDS = ["functions.bash:0", "call_" + "x" * 60, "web search/\u0131|1", "y" * 300]

openai_formats = pytest.mark.parametrize("target", [OPENAI_CHAT, OPENAI_RESPONSES], ids=lambda target: target.name)
foreign_pairs = pytest.mark.parametrize(
    ("source", "target", "most"),
    [
        (OPENAI_CHAT, ANTHROPIC, 64),
        (OPENAI_RESPONSES, ANTHROPIC, 64),
        (OPENAI_CHAT, OPENAI_RESPONSES, 64),
        (ANTHROPIC, OPENAI_RESPONSES, 64),
        (ANTHROPIC, OPENAI_CHAT, 40),
        (OPENAI_RESPONSES, OPENAI_CHAT, 40),
    ],
    ids=lambda value: value.name if isinstance(value, Dialect) else str(value),
)


def written(source: Dialect, target: Dialect, *, card: Card = UNKNOWN, same: bool = False, **fields: Any) -> tuple[Json, dict[str, str]]:
    usual: Json = {"input": "hi"} if source is OPENAI_RESPONSES else {"messages": [USER]}
    limit = {"max_tokens": 20_000} if source is not OPENAI_RESPONSES else {}
    request = source.read_request(json.dumps({"model": "m", **limit, **usual, **fields}).encode(), "chat")
    made = target.write_chat(source.read_chat(request), request, "m", card, same=same, ask_usage=False)
    return json.loads(made.body), {loss.path: f"{loss.change}{' *' if loss.severity == 'material' else ''}" for loss in made.losses}


# ---------------------------------------------------------------------------------------------------------------- users
@openai_formats
@pytest.mark.proves("translation.limits")
def test_the_long_user_id_of_claude_code_is_a_digest_for_openai_and_the_same_in_every_call(target: Dialect) -> None:
    body, losses = written(ANTHROPIC, target, metadata={"user_id": CLAUDE_CODE})
    assert body["user"] == sha256(CLAUDE_CODE.encode()).hexdigest()
    assert losses == {"metadata.user_id": "renamed"}
    assert written(ANTHROPIC, target, metadata={"user_id": "u" * 64}) == (body | {"user": "u" * 64}, {})


def test_a_user_id_that_is_too_long_for_anthropic_is_a_digest() -> None:
    body, losses = written(OPENAI_CHAT, ANTHROPIC, user="u" * 257)
    assert len(body["metadata"]["user_id"]) == 64
    assert losses == {"user": "renamed"}
    assert written(OPENAI_CHAT, ANTHROPIC, user="u" * 256)[0]["metadata"] == {"user_id": "u" * 256}


@pytest.mark.parametrize("dialect", [OPENAI_CHAT, OPENAI_RESPONSES], ids=lambda dialect: dialect.name)
def test_to_the_same_format_ids_and_users_go_as_they_are(dialect: Dialect) -> None:
    field, turns = ("input", history(dialect, ODD_IDS[3])) if dialect is OPENAI_RESPONSES else ("messages", history(dialect, ODD_IDS[3]))
    body, losses = written(dialect, dialect, same=True, user="u" * 300, **{field: turns})
    assert ids(body) == [ODD_IDS[3]] * 2
    assert (body["user"], losses) == ("u" * 300, {})


# ------------------------------------------------------------------------------------------------------------ calls' ids
def history(source: Dialect, call_id: str) -> list[Json]:
    """One call and its result."""
    if source is ANTHROPIC:
        use = {"type": "tool_use", "id": call_id, "name": "f", "input": {}}
        result = {"type": "tool_result", "tool_use_id": call_id, "content": "done"}
        return [USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    if source is OPENAI_CHAT:
        call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        return [
            USER,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": "x"},
        ]
    called = {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}
    return [USER, called, {"type": "function_call_output", "call_id": call_id, "output": "x"}]


def ids(body: Any) -> list[str]:
    """Every id of a call in a body, in order."""
    if isinstance(body, list):
        return [each for item in body for each in ids(item)]
    if not isinstance(body, dict):
        return []
    own = [body[name] for name in ("call_id", "tool_call_id", "tool_use_id") if name in body]
    own += [body["id"]] if body.get("type") in {"tool_use", "function"} and "id" in body else []
    return own + [each for value in body.values() for each in ids(value)]


@foreign_pairs
@pytest.mark.parametrize("call_id", ODD_IDS, ids=lambda call_id: call_id[:12])
@pytest.mark.proves("translation.limits")
def test_an_id_that_the_vendor_refuses_is_another_one_in_the_call_and_in_its_result(
    source: Dialect, target: Dialect, most: int, call_id: str
) -> None:
    field = "input" if source is OPENAI_RESPONSES else "messages"
    body, losses = written(source, target, **{field: history(source, call_id)})
    call, result = ids(body)
    assert call == result
    assert len(call) <= most
    assert target is not ANTHROPIC or set(call) <= ALLOWED
    fine = len(call_id) <= most and (target is not ANTHROPIC or set(call_id) <= ALLOWED)
    assert (call == call_id) == fine
    assert bool([change for change in losses.values() if change == "renamed"]) != fine


def test_ids_that_begin_alike_stay_apart() -> None:
    first, second = (ids(written(ANTHROPIC, OPENAI_CHAT, messages=history(ANTHROPIC, "z" * 60 + end))[0])[0] for end in "ab")
    assert first != second


# ------------------------------------------------------------------------------------------------------- what goes around
@pytest.mark.proves("translation.limits")
def test_a_developers_words_are_the_systems_for_servers_that_know_no_developer() -> None:
    turns = [{"role": "developer", "content": "a"}, USER, {"role": "developer", "content": "b"}]
    body, losses = written(OPENAI_RESPONSES, OPENAI_CHAT, input=turns)
    assert [(turn["role"], turn["content"]) for turn in body["messages"]] == [("system", "a"), ("user", "hi"), ("system", "b")]
    assert losses == {"input.0.role": "approximated", "input.2.role": "approximated"}
    kept, losses = written(OPENAI_CHAT, OPENAI_CHAT, same=True, messages=turns)
    assert (kept["messages"], losses) == (turns, {})


@openai_formats
@pytest.mark.proves("translation.limits")
def test_no_choice_is_sent_where_nothing_is_left_to_choose_from(target: Dialect) -> None:
    body, losses = written(ANTHROPIC, target, tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert {"tools", "tool_choice", "parallel_tool_calls"}.isdisjoint(body)
    assert losses == {"tool_choice": "dropped", "tool_choice.disable_parallel_tool_use": "dropped"}
    search = {"type": "web_search_20250305", "name": "web_search"}
    body, losses = written(ANTHROPIC, target, tools=[search], tool_choice={"type": "auto"})
    assert "tool_choice" not in body
    assert losses == {"tool_choice": "dropped", "tools.0": "unsupported *"}


def test_anthropic_gets_no_choice_either_where_its_tools_were_left_out() -> None:
    body, losses = written(OPENAI_RESPONSES, ANTHROPIC, tools=[{"type": "web_search"}], tool_choice="auto", parallel_tool_calls=True)
    assert {"tools", "tool_choice"}.isdisjoint(body)
    assert losses["tool_choice"] == losses["parallel_tool_calls"] == "dropped"


@pytest.mark.parametrize("card", [UNKNOWN, Card(thinking="adaptive")], ids=["budget", "adaptive"])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "f"}}], ids=["any", "named"])
@pytest.mark.proves("translation.limits")
def test_who_must_call_a_tool_does_not_think_at_anthropic(choice: Any, card: Card) -> None:
    body, losses = written(OPENAI_CHAT, ANTHROPIC, card=card, tools=[CHAT_TOOL], tool_choice=choice, reasoning_effort="high")
    assert "thinking" not in body
    assert body["tool_choice"]["type"] in {"any", "tool"}
    assert losses["reasoning_effort"] == "dropped"
    for more in ({"tool_choice": "auto"}, {}):
        assert "thinking" in written(OPENAI_CHAT, ANTHROPIC, card=card, tools=[CHAT_TOOL], reasoning_effort="high", **more)[0]
    off, losses = written(OPENAI_CHAT, ANTHROPIC, card=card, tools=[CHAT_TOOL], tool_choice=choice, reasoning_effort="none")
    assert (off["thinking"], losses) == ({"type": "disabled"}, {})


def test_a_picture_that_says_jpg_is_a_jpeg_at_anthropic() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/jpg;base64,AAAA"}}
    body, losses = written(OPENAI_CHAT, ANTHROPIC, messages=[{"role": "user", "content": [picture]}])
    assert body["messages"][0]["content"][0]["source"] == {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"}
    assert losses == {"messages.0.content.0": "renamed"}
