"""What a request of Messages is as one of Chat Completions, feature by feature, and what of it is lost."""

import json
from typing import Any

import pytest

from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_chat import OpenAIChat
from trunkline.errors import BadRequest
from trunkline.model.card import UNKNOWN, Card

Json = dict[str, Any]
USER: Json = {"role": "user", "content": "hi"}
TOOL: Json = {"name": "f", "description": "d", "input_schema": {"type": "object"}}
PICTURE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
SHOWN: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def written(card: Card = UNKNOWN, to: OpenAIChat = OPENAI_CHAT, **fields: Any) -> tuple[Json, list[tuple[str, str, str]]]:
    body = {"model": "m", "max_tokens": 99, "messages": [USER], **fields}
    request = ANTHROPIC.read_request(json.dumps(body).encode(), "chat")
    made = to.write_chat(ANTHROPIC.read_chat(request), request, "m", card, same=False, ask_usage=True)
    return json.loads(made.body), [(loss.path, loss.change, loss.severity) for loss in made.losses]


# -------------------------------------------------------------------------------------------------------------- messages
@pytest.mark.parametrize("system", ["a", [{"type": "text", "text": "a"}]])
def test_the_system_speaks_first(system: Any) -> None:
    body, losses = written(system=system)
    assert body["messages"] == [{"role": "system", "content": "a"}, {"role": "user", "content": "hi"}]
    assert losses == []


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "text", "text": "a"}, {"type": "text", "text": "a"}),
        (PICTURE, SHOWN),
        (
            {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        ),
        (
            {"type": "document", "title": "a.pdf", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
        ),
    ],
    ids=["text", "image", "image by URL", "PDF"],
)
def test_blocks_are_parts(block: Json, part: Json) -> None:
    body, losses = written(messages=[{"role": "user", "content": [{"type": "text", "text": "see"}, block]}])
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "see"}, part]}]
    assert losses == []


def test_a_text_document_is_text() -> None:
    document = {"type": "document", "title": "notes", "source": {"type": "text", "media_type": "text/plain", "data": "a"}}
    body, losses = written(messages=[{"role": "user", "content": [document]}])
    assert body["messages"][0]["content"] == "notes\n\na"
    assert losses == [("messages.0.content.0", "approximated", "advisory")]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "search_result", "source": "x", "title": "y", "content": []},
    ],
    ids=["PDF by URL", "stored file", "search result"],
)
def test_content_that_there_is_no_word_for_is_unsupported(block: Json) -> None:
    body, losses = written(messages=[{"role": "user", "content": [{"type": "text", "text": "a"}, block]}])
    assert body["messages"][0]["content"] == "a"
    assert losses == [("messages.0.content.1", "unsupported", "material")]


def test_a_tool_loop_is_calls_and_tool_messages_and_what_the_user_adds() -> None:
    body, losses = written(
        tools=[TOOL],
        messages=[
            USER,
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "let me see"},
                    {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1.0}},
                    {"type": "tool_use", "id": "t2", "name": "f", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "two"}, PICTURE], "is_error": True},
                    {"type": "text", "text": "so?"},
                ],
            },
        ],
    )
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": "let me see",
            "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1.0}'}},
                {"id": "t2", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "one"},
        {"role": "tool", "tool_call_id": "t2", "content": "two"},
        {"role": "user", "content": [SHOWN, {"type": "text", "text": "so?"}]},
    ]
    assert losses == [
        ("messages.2.content.1.content.1", "approximated", "advisory"),
        ("messages.2.content.1.is_error", "dropped", "material"),
    ]


def test_a_result_without_content_is_an_empty_text() -> None:
    body, _ = written(messages=[{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}])
    assert body["messages"] == [{"role": "tool", "tool_call_id": "t", "content": ""}]


def test_a_turn_of_calls_alone_has_null_content() -> None:
    body, _ = written(messages=[{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}])
    assert body["messages"][0]["content"] is None


@pytest.mark.proves("G11")
def test_thoughts_of_a_vendor_go_to_no_other_and_each_is_told() -> None:
    thoughts = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "e"}]
    body, losses = written(messages=[{"role": "assistant", "content": [*thoughts, {"type": "text", "text": "a"}]}])
    assert body["messages"] == [{"role": "assistant", "content": "a"}]
    assert losses == [(f"messages.0.content.{number}", "dropped", "material") for number in (0, 1)]


@pytest.mark.proves("G12")
def test_cache_marks_are_dropped_where_the_provider_caches_by_itself_and_each_is_told() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    body, losses = written(
        system=[{"type": "text", "text": "a", **mark}],
        tools=[{**TOOL, **mark}],
        messages=[{"role": "user", "content": [{"type": "text", "text": "b", **mark}]}],
    )
    assert "cache_control" not in json.dumps(body)
    assert losses == [(f"{place}.cache_control", "dropped", "advisory") for place in ("messages.0.content.0", "system.0", "tools.0")]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "tool", "content": "x"}, "`messages.0.role` is `tool`"),
        ({"role": "user", "content": 7}, "`messages.0.content` is `7`"),
        ({"role": "user", "content": [{"text": "x"}]}, "`messages.0.content.0.type` is missing"),
        ({"role": "user", "content": [{"type": "tool_result"}]}, "`messages.0.content.0.tool_use_id` is missing"),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "t"}]}, "`messages.0.content.0.name` is missing"),
    ],
)
def test_a_message_that_cannot_be_read_is_named(message: Json, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        written(messages=[message])
    assert words in caught.value.message


# ----------------------------------------------------------------------------------------------------------------- tools
def test_a_tool_has_its_schema_as_it_was_written() -> None:
    body, losses = written(tools=[TOOL, {"type": "custom", "name": "g", "input_schema": {"type": "object"}, "strict": True}])
    assert body["tools"] == [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}, "strict": True}},
    ]
    assert losses == []


def test_a_tool_that_the_vendor_runs_itself_is_unsupported() -> None:
    body, losses = written(tools=[{"type": "web_search_20250305", "name": "web_search"}, TOOL])
    assert [tool["function"]["name"] for tool in body["tools"]] == ["f"]
    assert losses == [("tools.0", "unsupported", "material")]


@pytest.mark.parametrize(
    ("choice", "right", "parallel"),
    [
        ({"type": "auto"}, "auto", None),
        ({"type": "none"}, "none", None),
        ({"type": "any"}, "required", None),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}, None),
        ({"type": "auto", "disable_parallel_tool_use": True}, "auto", False),
        ({"type": "any", "disable_parallel_tool_use": False}, "required", True),
    ],
)
def test_the_choice_of_tools_means_the_same(choice: Json, right: Any, parallel: bool | None) -> None:
    body, losses = written(tools=[TOOL], tool_choice=choice)
    assert (body["tool_choice"], body.get("parallel_tool_calls")) == (right, parallel)
    assert losses == []


# ------------------------------------------------------------------------------------------------------------ parameters
@pytest.mark.parametrize(
    ("fields", "right", "losses"),
    [
        ({"temperature": 0.2, "top_p": 0.9}, {"temperature": 0.2, "top_p": 0.9}, []),
        ({"top_k": 5}, {}, [("top_k", "dropped", "material")]),
        ({"stop_sequences": ["a", "b"]}, {"stop": ["a", "b"]}, []),
        ({"stop_sequences": list("abcde")}, {"stop": list("abcd")}, [("stop_sequences", "dropped", "material")]),
        ({"metadata": {"user_id": "u"}}, {"user": "u"}, []),
        ({"metadata": {"user_id": "u", "odd": 1}}, {"user": "u"}, [("metadata.odd", "dropped", "material")]),
        ({"service_tier": "auto"}, {}, [("service_tier", "dropped", "advisory")]),
        ({"container": "c"}, {}, [("container", "dropped", "material")]),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}, []),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": {"type": "object"}}}},
            [],
        ),
    ],
)
def test_a_parameter_is_carried_or_told_as_lost(fields: Json, right: Json, losses: list[tuple[str, str, str]]) -> None:
    body, told = written(**fields)
    assert {name: body[name] for name in body if name not in {"model", "max_tokens", "messages"}} == right
    assert told == losses


@pytest.mark.proves("G13")
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_the_output_limit_has_the_name_that_the_provider_knows(name: Any) -> None:
    body, _ = written(to=OpenAIChat(limit_field=name))
    assert {field: body[field] for field in body if "max" in field} == {name: 99}


# -------------------------------------------------------------------------------------------------------------- thinking
@pytest.mark.parametrize(
    ("fields", "effort", "losses"),
    [
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2000}},
            "low",
            [("thinking.budget_tokens", "approximated", "advisory")],
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 8000}},
            "medium",
            [("thinking.budget_tokens", "approximated", "advisory")],
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 9000}},
            "high",
            [("thinking.budget_tokens", "approximated", "advisory")],
        ),
        ({"output_config": {"effort": "high"}}, "high", []),
        ({"thinking": {"type": "disabled"}}, None, [("thinking", "dropped", "advisory")]),
        ({"thinking": {"type": "adaptive"}}, None, [("thinking", "dropped", "advisory")]),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, "low", []),
    ],
)
def test_how_much_to_think_is_an_effort(fields: Json, effort: str | None, losses: list[tuple[str, str, str]]) -> None:
    body, told = written(**fields)
    assert (body.get("reasoning_effort"), told) == (effort, losses)


def test_a_model_that_does_not_think_is_not_told_to() -> None:
    body, losses = written(Card(thinking="none"), thinking={"type": "enabled", "budget_tokens": 2000})
    assert "reasoning_effort" not in body
    assert losses == [("thinking", "dropped", "advisory")]
