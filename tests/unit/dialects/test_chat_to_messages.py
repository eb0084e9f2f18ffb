"""What a request of Chat Completions is as one of Messages, feature by feature, and what of it is lost."""

import json
from typing import Any

import pytest

from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.anthropic.write import ANSWER_ROOM, LEAST_BUDGET, MAX_OUTPUT
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.errors import BadRequest
from trunkline.model.card import UNKNOWN, Card

Json = dict[str, Any]
USER: Json = {"role": "user", "content": "hi"}
TOOL: Json = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}}


def written(card: Card = UNKNOWN, **fields: Any) -> tuple[Json, list[tuple[str, str, str]]]:
    body = {"model": "m", "max_tokens": 20_000, "messages": [USER], **fields}
    request = OPENAI_CHAT.read_request(json.dumps(body).encode(), "chat")
    made = ANTHROPIC.write_chat(OPENAI_CHAT.read_chat(request), request, "m", card, same=False, ask_usage=False)
    return json.loads(made.body), [(loss.path, loss.change, loss.severity) for loss in made.losses]


def content(*parts: Json | str, role: str = "user", **more: Any) -> tuple[Any, list[tuple[str, str, str]]]:
    """What becomes of the content of one message."""
    body, losses = written(messages=[{"role": role, "content": list(parts), **more}])
    return [block for message in body["messages"] for block in message["content"]], losses


# -------------------------------------------------------------------------------------------------------------- messages
def test_what_the_system_and_the_developer_say_first_stands_apart() -> None:
    body, losses = written(messages=[{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, USER])
    assert body["system"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert losses == [("messages.1.role", "approximated", "advisory")]


def test_what_the_system_says_later_is_the_users_and_that_is_told() -> None:
    body, losses = written(messages=[USER, {"role": "system", "content": "b"}])
    assert [message["role"] for message in body["messages"]] == ["user", "user"]
    assert losses == [("messages.1.role", "approximated", "material")]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ("a", {"type": "text", "text": "a"}),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
            {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        ),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}, "title": "a.pdf"},
        ),
    ],
    ids=["text", "image", "image by URL", "PDF"],
)
def test_parts_are_blocks(part: Json | str, block: Json) -> None:
    assert content(part) == ([block], [])


def test_the_detail_of_a_picture_is_lost() -> None:
    blocks, losses = content({"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}})
    assert "detail" not in json.dumps(blocks)
    assert losses == [("messages.0.content.0", "dropped", "advisory")]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "hologram", "x": 1},
    ],
    ids=["audio", "stored file", "unknown"],
)
def test_content_that_there_is_no_word_for_is_unsupported(part: Json) -> None:
    blocks, losses = content("a", part)
    assert blocks == [{"type": "text", "text": "a"}]
    assert losses == [("messages.0.content.1", "unsupported", "material")]


def test_a_speakers_name_is_lost() -> None:
    assert content("a", name="ann")[1] == [("messages.0.name", "dropped", "material")]


@pytest.mark.proves("G10")
@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_a_text_of_nothing_is_dropped_since_the_vendor_refuses_it(text: str) -> None:
    blocks, losses = content("a", {"type": "text", "text": text})
    assert blocks == [{"type": "text", "text": "a"}]
    assert losses == [("messages.0.content.1", "dropped", "advisory")]


def test_what_several_tools_said_stands_in_one_turn_before_anything_else() -> None:
    calls = [{"id": each, "type": "function", "function": {"name": "f", "arguments": '{"a": 1.0}'}} for each in ("c1", "c2")]
    body, losses = written(
        tools=[TOOL],
        messages=[
            USER,
            {"role": "assistant", "content": "let me see", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "two"}]},
            USER,
        ],
    )
    assert losses == []
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "let me see"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1.0}},
                {"type": "tool_use", "id": "c2", "name": "f", "input": {"a": 1.0}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "one"}]},
                {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "two"}]},
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]


@pytest.mark.parametrize("arguments", ["[1]", "nope", '{"a":', "7"])
def test_arguments_that_are_no_object_are_the_callers_mistake(arguments: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    with pytest.raises(BadRequest, match=r"messages\.0\.tool_calls\.0"):
        written(messages=[{"role": "assistant", "tool_calls": [call]}])


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "function", "content": "x"}, "`messages.0.role` is `function`"),
        ({"content": "x"}, "`messages.0.role` is `None`"),
        ({"role": "tool", "content": "x"}, "`messages.0.tool_call_id` is missing"),
        ({"role": "user", "content": 7}, "`messages.0.content` is `7`"),
        ({"role": "user", "content": [7]}, "`messages.0.content.0` is `7`"),
        ({"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}, "`messages.0.tool_calls.0.type` is `custom`"),
    ],
)
def test_a_message_that_cannot_be_read_is_named(message: Json, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        written(messages=[message])
    assert words in caught.value.message


# ----------------------------------------------------------------------------------------------------------------- tools
def test_a_tool_has_its_schema_as_it_was_written() -> None:
    body, losses = written(tools=[TOOL, {"type": "function", "function": {"name": "g"}}])
    assert body["tools"] == [
        {"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": True},
        {"name": "g", "input_schema": {"type": "object", "properties": {}}},
    ]
    assert losses == []


@pytest.mark.parametrize(
    ("choice", "parallel", "right"),
    [
        ("auto", None, {"type": "auto"}),
        ("none", None, {"type": "none"}),
        ("required", None, {"type": "any"}),
        ({"type": "function", "function": {"name": "f"}}, None, {"type": "tool", "name": "f"}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("auto", True, {"type": "auto", "disable_parallel_tool_use": False}),
        (None, None, None),
    ],
)
def test_the_choice_of_tools_means_the_same(choice: Any, parallel: bool | None, right: Json | None) -> None:
    body, losses = written(tools=[TOOL], tool_choice=choice, parallel_tool_calls=parallel)
    assert body.get("tool_choice") == right
    assert losses == []


def test_a_choice_without_tools_is_dropped_since_the_vendor_refuses_it() -> None:
    body, losses = written(tool_choice="auto")
    assert "tool_choice" not in body
    assert losses == [("tool_choice", "dropped", "advisory")]


# ------------------------------------------------------------------------------------------------------------ parameters
@pytest.mark.parametrize(
    ("fields", "right", "losses"),
    [
        ({"temperature": 0.2, "top_p": 0.9, "stop": "a"}, {"temperature": 0.2, "top_p": 0.9, "stop_sequences": ["a"]}, []),
        ({"stop": ["a", "b"]}, {"stop_sequences": ["a", "b"]}, []),
        ({"temperature": 1.4}, {"temperature": 1}, [("temperature", "approximated", "material")]),
        ({"seed": 7}, {}, [("seed", "dropped", "material")]),
        ({"frequency_penalty": 0.1}, {}, [("frequency_penalty", "dropped", "material")]),
        ({"presence_penalty": 0.1}, {}, [("presence_penalty", "dropped", "material")]),
        ({"n": 2}, {}, [("n", "dropped", "material")]),
        ({"user": "u"}, {"metadata": {"user_id": "u"}}, []),
        ({"metadata": {"a": "b"}}, {}, [("metadata", "dropped", "advisory")]),
        ({"service_tier": "flex"}, {}, [("service_tier", "dropped", "advisory")]),
        ({"prompt_cache_key": "k", "store": True}, {}, [("prompt_cache_key", "dropped", "advisory"), ("store", "dropped", "advisory")]),
        ({"stream_options": {"include_usage": True, "odd": 1}}, {}, [("stream_options.odd", "dropped", "advisory")]),
        ({"odd": {"a": 1}}, {}, [("odd", "dropped", "material")]),
        ({"odd": None, "more": [], "yet": {}}, {}, []),
    ],
)
def test_a_parameter_is_carried_or_told_as_lost(fields: Json, right: Json, losses: list[tuple[str, str, str]]) -> None:
    body, told = written(**fields)
    assert {name: body[name] for name in body if name not in {"model", "max_tokens", "messages"}} == right
    assert told == losses


@pytest.mark.proves("G13")
@pytest.mark.parametrize(
    ("fields", "card", "limit", "losses"),
    [
        ({"max_tokens": 5}, UNKNOWN, 5, []),
        ({"max_tokens": None, "max_completion_tokens": 6}, UNKNOWN, 6, []),
        ({"max_tokens": None}, UNKNOWN, MAX_OUTPUT, [("max_tokens", "approximated", "advisory")]),
        ({"max_tokens": None}, Card(max_output=777), 777, [("max_tokens", "approximated", "advisory")]),
    ],
)
def test_there_is_always_an_output_limit(fields: Json, card: Card, limit: int, losses: list[tuple[str, str, str]]) -> None:
    body, told = written(card, **fields)
    assert (body["max_tokens"], told) == (limit, losses)


@pytest.mark.parametrize(
    ("form", "right", "losses"),
    [
        ({"type": "text"}, None, []),
        ({"type": "json_object"}, None, [("response_format", "dropped", "material")]),
        (
            {"type": "json_schema", "json_schema": {"name": "place", "schema": {"type": "object"}, "strict": True}},
            {"type": "json_schema", "schema": {"type": "object"}},
            [("response_format.json_schema.name", "dropped", "advisory")],
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": {"type": "object"}, "strict": False}},
            {"type": "json_schema", "schema": {"type": "object"}},
            [("response_format.json_schema.strict", "approximated", "advisory")],
        ),
    ],
)
def test_json_is_asked_for_by_its_schema(form: Json, right: Json | None, losses: list[tuple[str, str, str]]) -> None:
    body, told = written(response_format=form)
    assert body.get("output_config", {}).get("format") == right
    assert told == losses


# -------------------------------------------------------------------------------------------------------------- thinking
@pytest.mark.parametrize(
    ("effort", "limit", "card", "thinking", "config", "losses"),
    [
        ("low", 20_000, UNKNOWN, {"type": "enabled", "budget_tokens": 2048}, None, [("reasoning_effort", "approximated", "advisory")]),
        ("high", 20_000, UNKNOWN, {"type": "enabled", "budget_tokens": 16_384}, None, [("reasoning_effort", "approximated", "advisory")]),
        (
            "high",
            5000,
            UNKNOWN,
            {"type": "enabled", "budget_tokens": 5000 - ANSWER_ROOM},
            None,
            [("reasoning_effort", "approximated", "advisory")],
        ),
        ("high", ANSWER_ROOM + LEAST_BUDGET - 1, UNKNOWN, None, None, [("reasoning_effort", "dropped", "material")]),
        ("none", 20_000, UNKNOWN, {"type": "disabled"}, None, []),
        ("high", 20_000, Card(thinking="adaptive"), {"type": "adaptive"}, {"effort": "high"}, []),
        (
            "minimal",
            20_000,
            Card(thinking="adaptive"),
            {"type": "adaptive"},
            {"effort": "low"},
            [("reasoning_effort", "approximated", "advisory")],
        ),
        ("high", 20_000, Card(thinking="none"), None, None, [("reasoning_effort", "dropped", "advisory")]),
    ],
)
def test_an_effort_is_what_the_model_knows(
    effort: str, limit: int, card: Card, thinking: Json | None, config: Json | None, losses: list[tuple[str, str, str]]
) -> None:
    body, told = written(card, reasoning_effort=effort, max_tokens=limit)
    assert (body.get("thinking"), body.get("output_config"), told) == (thinking, config, losses)


def test_what_cannot_be_set_while_the_model_thinks_is_dropped() -> None:
    body, losses = written(reasoning_effort="low", temperature=0.2, top_k=5, top_p=0.9)
    assert body["top_p"] == 0.9
    assert not {"temperature", "top_k"} & body.keys()
    assert {loss for loss in losses if loss[1] == "dropped"} == {("temperature", "dropped", "material"), ("top_k", "dropped", "material")}
    assert written(reasoning_effort="none", temperature=0.2)[0]["temperature"] == 0.2


def test_a_refusal_is_text_here() -> None:
    assert content("a", role="assistant", refusal="no")[0] == [{"type": "text", "text": "a"}, {"type": "text", "text": "no"}]
