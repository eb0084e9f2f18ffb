"""Requests of Responses: read, written back for the same format, and written for callers of another."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming, ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from tests.wire.bodies import BODIES
from tests.wire.streams import CORPORA
from trunkline.dialects import Dialect
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_responses import DIALECT, OpenAIResponses
from trunkline.errors import BadRequest
from trunkline.model.card import UNKNOWN, Card
from trunkline.model.chat import Chat
from trunkline.model.loss import Loss

ASKED = TypeAdapter(ResponseCreateParamsNonStreaming)
ASKED_STREAM = TypeAdapter(ResponseCreateParamsStreaming)


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "input": "hi", **fields}).encode()


def chat(**fields: Any) -> Chat:
    return DIALECT.read_chat(DIALECT.read_request(body(**fields), "chat"))


def write(source: Dialect, target: Dialect, asked: dict[str, Any], *, card: Card = UNKNOWN) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    request = source.read_request(json.dumps({"model": "m", **asked}).encode(), "chat")
    written = target.write_chat(source.read_chat(request), request, "up", card, same=source is target, ask_usage=True)
    return json.loads(written.body), written.losses


def from_chat(*, card: Card = UNKNOWN, **fields: Any) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    return write(OPENAI_CHAT, DIALECT, {"messages": [{"role": "user", "content": "hi"}], **fields}, card=card)


def from_messages(*, card: Card = UNKNOWN, **fields: Any) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    return write(ANTHROPIC, DIALECT, {"max_tokens": 20_000, "messages": [{"role": "user", "content": "hi"}], **fields}, card=card)


def changes(losses: tuple[Loss, ...]) -> dict[str, str]:
    return {loss.path: f"{loss.change}{' *' if loss.severity == 'material' else ''}" for loss in losses}


# -------------------------------------------------------------------------------------------------- the gateway's part
def test_a_request_is_read_as_far_as_it_matters() -> None:
    request = DIALECT.read_request(body(stream=True, max_output_tokens=7), "chat")
    assert (request.model, request.stream, request.max_output) == ("m", True, 7)


def test_a_forwarded_request_keeps_its_bytes_but_for_the_model() -> None:
    raw = b' {"input": [ {"role":"user","content":"hi"} ] ,"model":"a", "stream": true}'
    request = DIALECT.read_request(raw, "chat")
    assert DIALECT.forward(request, "a", ask_usage=True).body == raw
    assert DIALECT.forward(request, "b/c", ask_usage=True).body == raw.replace(b'"a"', b'"b/c"')


def test_what_carries_a_thought_of_another_vendor_is_not_forwarded() -> None:
    plain = DIALECT.read_request(body(), "chat")
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "trunkline:anthropic::sig:"}
    carrying = DIALECT.read_request(body(input=[item]), "chat")
    assert DIALECT.same(OpenAIResponses(), plain)
    assert not DIALECT.same(OPENAI_CHAT, plain)
    assert not DIALECT.same(OpenAIResponses(), carrying)


@pytest.mark.parametrize(("fields", "kept"), [({}, True), ({"store": None}, True), ({"store": True}, True), ({"store": False}, False)])
def test_a_response_is_kept_unless_the_caller_says_otherwise(fields: dict[str, Any], kept: bool) -> None:
    assert DIALECT.keeps(DIALECT.read_request(body(**fields), "chat")) is kept


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"previous_response_id": "resp_1"}, "`previous_response_id`"),
        ({"conversation": {"id": "conv_1"}}, "`conversation`"),
        ({"prompt": {"id": "pmpt_1"}}, "`prompt`"),
        ({"background": True}, "`background`"),
        ({"input": [{"role": "user", "content": "x"}, {"type": "item_reference", "id": "msg_1"}]}, "`input.1`"),
        ({"input": [{"id": "msg_1"}]}, "`input.0`"),
        ({"input": [{"id": "msg_1", "type": None}]}, "`input.0`"),
    ],
)
def test_what_another_provider_keeps_cannot_be_translated(fields: dict[str, Any], named: str) -> None:
    request = DIALECT.read_request(body(**fields), "chat")
    with pytest.raises(BadRequest) as error:
        DIALECT.translatable(request)
    assert named in error.value.message
    DIALECT.read_chat(request)  # for a provider of this format it can be read all the same


@pytest.mark.parametrize(
    "fields", [{}, {"previous_response_id": None, "background": False}, {"input": [{"role": "user", "content": "x"}]}, {"input": None}]
)
def test_what_stands_for_itself_can_be_translated(fields: dict[str, Any]) -> None:
    DIALECT.translatable(DIALECT.read_request(body(**fields), "chat"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"input": 5}, "`input` is `5`, and must be a list"),
        ({"input": [5]}, "`input.0` is `5`, and must be an object"),
        ({"input": [{"role": "boss", "content": "x"}]}, "`input.0.role` is `boss`"),
        ({"input": [{"role": "user", "content": 5}]}, "`input.0.content` is `5`, and must be a list"),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, "`input.0.name` is missing"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "`input.0.call_id` is missing"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": ""}]}]}, "`input.0.content.0.image_url` is missing"),
        ({"tools": [{"type": "function"}]}, "`tools.0.name` is missing"),
        ({"tool_choice": "perhaps"}, "`tool_choice` is `perhaps`"),
        ({"text": {"format": {"type": "xml"}}}, "`text.format.type` is `xml`"),
        ({"max_output_tokens": "9"}, '`max_output_tokens` is `"9"`, and must be a whole number'),
        ({"metadata": {"a": 5}}, "`metadata.a` is `5`, and must be a string"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_value(fields: dict[str, Any], message: str) -> None:
    if "max_output_tokens" in fields:
        with pytest.raises(BadRequest, match="max_output_tokens"):
            DIALECT.read_request(body(**fields), "chat")
        return
    with pytest.raises(BadRequest) as error:
        chat(**fields)
    assert error.value.message == message


# ---------------------------------------------------------------------------------------------------- the same format
def normal(asked: dict[str, Any]) -> dict[str, Any]:
    """A request with all that means the same said in one way, and what means nothing left out."""

    def of(value: Any) -> Any:
        if isinstance(value, list):
            return [of(each) for each in value]
        if not isinstance(value, dict):
            return value
        value = {name: inner for name, raw in value.items() if (inner := of(raw)) not in (None, [], {}) or name == "summary"}
        if "role" in value:
            value.setdefault("type", "message")
        if value.get("type") == "function_call":
            value.setdefault("arguments", "{}")
        if value.get("type") == "json_schema":
            value.setdefault("schema", {})
        return value

    out = of(asked)
    form = out.get("text", {}).get("format", {}).get("type")
    if form == "text":
        out["text"].pop("format")
    return {name: value for name, value in out.items() if value != {}}


def drop_foreign(asked: dict[str, Any]) -> dict[str, Any]:
    """Without the thoughts of other vendors."""
    items = asked["input"]
    if isinstance(items, list):
        kept = [item for item in items if not str(item.get("encrypted_content", "")).startswith("trunkline:")]
        return {**asked, "input": kept}
    return asked


@given(asked=BODIES["openai_responses"])
def test_what_is_read_is_written_back_for_the_same_format(asked: dict[str, Any]) -> None:
    written, losses = write(DIALECT, DIALECT, asked)
    assert normal(written) == normal(drop_foreign(asked) | {"model": "up"})
    assert {loss.detail for loss in losses} <= {"another vendor's reasoning"}
    assert len(losses) == (len(asked["input"]) - len(drop_foreign(asked)["input"]) if isinstance(asked["input"], list) else 0)


@pytest.mark.parametrize("name", ["text", "tool_call"])
def test_what_a_real_agent_sends_is_written_back_and_loses_little_elsewhere(name: str) -> None:
    asked = json.loads((CORPORA / "openai_responses" / f"{name}.request.json").read_bytes())
    written, losses = write(DIALECT, DIALECT, asked)
    assert normal(written) == normal(asked | {"model": "up"})
    assert losses == ()
    for target in (OPENAI_CHAT, ANTHROPIC):
        assert [loss for loss in write(DIALECT, target, asked)[1] if loss.severity == "material"] == []


@pytest.mark.parametrize(
    "asked",
    [
        {"input": "hi"},
        {"input": [{"role": "user", "content": "hi"}]},
        {"input": [{"role": "system", "content": "be brief"}], "instructions": "and kind"},
        {"instructions": "", "input": "x"},
        {"prompt": {"id": "pmpt_1"}},
        {"input": [{"type": "item_reference", "id": "msg_1"}, {"id": "msg_2"}], "previous_response_id": "resp_1", "background": True},
        {"input": [{"type": "message", "role": "assistant", "content": []}]},
        {"input": [{"role": "assistant", "content": ""}]},
        {"input": "x", "tool_choice": {"type": "web_search_preview"}, "tools": [{"type": "mcp", "server_label": "s", "server_url": "u"}]},
        {"input": "x", "text": {"verbosity": "low"}, "reasoning": {"generate_summary": "auto"}},
        {"input": [{"type": "function_call_output", "name": "n", "output": "x"}]},
        {"input": [{"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"}]},
    ],
)
def test_shapes_that_are_easily_confused_stay_apart(asked: dict[str, Any]) -> None:
    written, losses = write(DIALECT, DIALECT, asked)
    assert normal(written) == normal(asked | {"model": "up"})
    assert losses == ()


def test_a_trait_takes_out_what_the_model_refuses_and_nothing_else() -> None:
    asked = {"input": "x", "temperature": 0.5, "top_p": 0.5, "reasoning": {"effort": "low"}, "store": True, "include": ["a"]}
    written, losses = write(DIALECT, DIALECT, asked, card=Card(forbidden=frozenset({"temperature"}), thinking="none"))
    assert written == {"model": "up", "input": "x", "top_p": 0.5, "store": True, "include": ["a"]}
    assert changes(losses) == {"temperature": "dropped *", "reasoning.effort": "dropped", "reasoning": "dropped"}


# ------------------------------------------------------------------------------------------------- from other formats
@pytest.mark.parametrize("source", [OPENAI_CHAT, ANTHROPIC], ids=lambda source: source.name)
@given(data=st.data())
def test_what_is_written_for_others_is_a_request_by_the_sdks_types(source: Dialect, data: st.DataObject) -> None:
    asked = data.draw(BODIES[source.name])
    written, _ = write(source, DIALECT, asked)
    written |= {"service_tier": "auto"} if "service_tier" in written else {}
    written.get("text", {}).pop("verbosity", None)  # a drawn body has words of its own for it
    (ASKED_STREAM if written.get("stream") else ASKED).validate_python(written)


def test_nothing_of_a_translated_response_is_kept() -> None:
    assert from_chat()[0]["store"] is False
    assert from_chat(store=True)[0]["store"] is False


def test_thoughts_come_back_signed_where_thinking_is_asked_for() -> None:
    assert "include" not in from_chat()[0]
    assert "include" not in from_chat(reasoning_effort="none")[0]
    assert "include" not in from_messages(thinking={"type": "disabled"})[0]
    assert from_chat(reasoning_effort="low")[0]["include"] == ["reasoning.encrypted_content"]
    assert from_messages(thinking={"type": "adaptive"})[0]["include"] == ["reasoning.encrypted_content"]


def test_the_systems_first_plain_text_becomes_the_instructions() -> None:
    turns = [{"role": "system", "content": "a"}, {"role": "system", "content": "b"}, {"role": "user", "content": "c"}]
    written, losses = from_chat(messages=turns)
    assert written["instructions"] == "a"
    assert [(item["role"], item["content"]) for item in written["input"]] == [("system", "b"), ("user", "c")]
    assert losses == ()
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    written, losses = from_messages(system=parts)
    assert written["input"][0] == {
        "type": "message",
        "role": "system",
        "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
    }
    assert losses == ()


def test_a_developers_text_stays_the_developers() -> None:
    written, losses = from_chat(messages=[{"role": "developer", "content": "a"}])
    assert written["input"] == [{"type": "message", "role": "developer", "content": "a"}]
    assert losses == ()


def test_a_tool_loop_becomes_items_in_their_order() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    turns = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "well", "tool_calls": [call, {**call, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "two"}, {"type": "text", "text": "three"}]},
    ]
    written, losses = from_chat(messages=turns)
    assert written["input"] == [
        {"type": "message", "role": "user", "content": "go"},
        {"type": "message", "role": "assistant", "content": "well"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call", "call_id": "c2", "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "two"}, {"type": "input_text", "text": "three"}],
        },
    ]
    assert losses == ()


def test_a_tool_without_strict_is_not_held_to_its_schema() -> None:
    written, _ = from_chat(tools=[{"type": "function", "function": {"name": "f"}}])
    assert written["tools"] == [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": False}]


@pytest.mark.parametrize("empty", ["", [], None, [{"type": "text", "text": ""}]])
@pytest.mark.proves("G10")
def test_an_empty_turn_is_dropped_and_told_and_one_with_calls_alone_stays(empty: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turns = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": empty},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": empty, "tool_calls": [call]},
    ]
    written, losses = from_chat(messages=turns)
    kinds = [item["type"] for item in written["input"]]
    assert kinds == ["message", "message", "function_call"]
    assert [item["content"] for item in written["input"][:2]] == ["a", "b"]
    assert any(loss.path.startswith("messages.1") for loss in losses)


def test_what_this_format_lacks_is_told() -> None:
    _, losses = from_chat(stop=["x"], seed=1, top_k=2, frequency_penalty=0.1, presence_penalty=0.1, n=2)
    assert changes(losses) == dict.fromkeys(["stop", "seed", "top_k", "frequency_penalty", "presence_penalty", "n"], "dropped *")
    _, losses = from_messages(stop_sequences=["x"])
    assert changes(losses) == {"stop_sequences": "dropped *"}


def test_a_result_that_is_an_error_loses_the_mark() -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": True}
    _, losses = from_messages(messages=[{"role": "user", "content": [result]}])
    assert changes(losses) == {"messages.0.content.0.is_error": "dropped *"}


def test_a_budget_becomes_an_effort() -> None:
    written, losses = from_messages(thinking={"type": "enabled", "budget_tokens": 4000})
    assert written["reasoning"] == {"effort": "medium"}
    assert changes(losses) == {"thinking.budget_tokens": "approximated"}


def test_what_openais_formats_share_keeps_its_meaning() -> None:
    written, losses = from_chat(prompt_cache_key="k", safety_identifier="s", verbosity="low", response_format={"type": "json_object"})
    assert (written["prompt_cache_key"], written["safety_identifier"]) == ("k", "s")
    assert written["text"] == {"format": {"type": "json_object"}, "verbosity": "low"}
    assert losses == ()


@pytest.mark.proves("G8")
def test_a_name_that_is_too_long_is_shortened_and_turned_back() -> None:
    name = "a/b.c" + "x" * 80
    request = OPENAI_CHAT.read_request(
        json.dumps({"model": "m", "messages": [], "tools": [{"type": "function", "function": {"name": name}}]}).encode(), "chat"
    )
    written = DIALECT.write_chat(OPENAI_CHAT.read_chat(request), request, "m", UNKNOWN, same=False, ask_usage=False)
    short = json.loads(written.body)["tools"][0]["name"]
    assert len(short) <= 64
    assert written.names.original(short) == name
    assert changes(written.losses) == {"tools.0": "renamed *"}


# --------------------------------------------------------------------------------------------------- to other formats
def to_chat(**fields: Any) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    return write(DIALECT, OPENAI_CHAT, {"input": "hi", **fields})


def to_messages(**fields: Any) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    return write(DIALECT, ANTHROPIC, {"input": "hi", "max_output_tokens": 20_000, **fields})


CALLS = [
    {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [{"type": "output_text", "text": "well", "annotations": []}]},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
    {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "f", "arguments": '{"a":2}'},
    {"type": "function_call_output", "call_id": "c1", "output": "one"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
]  # fmt: skip


def test_items_of_one_turn_become_one_turn() -> None:
    written, losses = to_chat(input=[{"role": "user", "content": "go"}, *CALLS])
    assert [turn["role"] for turn in written["messages"]] == ["user", "assistant", "tool", "tool"]
    assert written["messages"][1]["content"] == "well"
    assert [call["id"] for call in written["messages"][1]["tool_calls"]] == ["c1", "c2"]
    assert changes(losses) == {"input.*.id": "dropped", "input.*.status": "dropped"}
    written, losses = to_messages(input=[{"role": "user", "content": "go"}, *CALLS])
    assert [[block["type"] for block in turn["content"]] for turn in written["messages"]] == [
        ["text"],
        ["text", "tool_use", "tool_use"],
        ["tool_result", "tool_result"],
    ]
    assert changes(losses) == {"input.*.id": "dropped", "input.*.status": "dropped"}


def test_instructions_come_before_everything() -> None:
    assert to_chat(instructions="a")[0]["messages"][0] == {"role": "system", "content": "a"}
    assert to_messages(instructions="a")[0]["system"] == [{"type": "text", "text": "a"}]


def test_a_summary_alone_makes_nobody_think() -> None:
    written, losses = to_messages(reasoning={"summary": "auto"})
    assert "thinking" not in written
    assert changes(losses) == {"reasoning.summary": "dropped"}


def test_what_the_vendor_runs_itself_is_unsupported_elsewhere() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}}
    _, losses = to_chat(tools=[{"type": "web_search"}], input=[{"role": "user", "content": "x"}, search])
    assert {loss.path for loss in losses if loss.change == "unsupported"} == {"tools.0", "input.1"}


def test_a_choice_among_some_tools_is_told_where_it_is_lost() -> None:
    written, losses = to_chat(tool_choice={"type": "allowed_tools", "mode": "auto", "tools": []})
    assert "tool_choice" not in written
    assert changes(losses) == {"tool_choice": "dropped *"}
