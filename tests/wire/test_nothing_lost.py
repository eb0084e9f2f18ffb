"""Between every two formats: nothing that is asked disappears without a word. First, that the judge of it sees what does."""

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.bodies import BODIES
from tests.wire.nothing_lost import vanished
from trunkline.dialects import Dialect
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from trunkline.model.card import UNKNOWN, Card
from trunkline.model.loss import dropped

DIALECTS: tuple[Dialect, ...] = (ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES)
PAIRS = list(permutations(DIALECTS, 2))
CARDS = (UNKNOWN, Card(thinking="adaptive"), Card(thinking="none", forbidden=frozenset({"temperature", "top_p"})))

every_pair = pytest.mark.parametrize(("source", "target"), PAIRS, ids=[f"{source.name}-{target.name}" for source, target in PAIRS])


@pytest.mark.parametrize(
    ("body", "written", "lost", "gone"),
    [
        ({"a": "x"}, {"b": "x"}, [], []),
        ({"a": "x"}, {"b": "y"}, [], ["a"]),
        ({"a": {"b": ["x", "y"]}}, {"b": "y"}, ["a.b.0"], []),
        ({"a": {"b": ["x", "y"]}}, {"b": "y"}, ["a"], []),
        ({"a": {"b": ["x", "y"]}}, {"b": "y"}, ["a.b.1"], ["a.b.0"]),
        ({"a": [{"id": "x"}, {"id": "y"}]}, {}, ["a.*.id"], []),
        ({"a": [{"id": "x", "b": "y"}]}, {}, ["a.*.id"], ["a.0.b"]),
        ({"ab": "x"}, {}, ["a"], ["ab"]),
        ({"n": 5}, {"m": "5"}, [], ["n"]),
        ({"n": 5}, {"m": 5.0}, [], []),
        ({"a": True, "b": None, "c": "", "d": []}, {}, [], []),
        ({"a": "x"}, {"b": "title\n\nx"}, [], []),
        ({"a": '{"k":"v","n":7}'}, {"b": {"k": "v", "n": 7}}, [], []),
        ({"a": '{"k":"v","n":7}'}, {"b": {"k": "v", "n": 8}}, [], ["a"]),
        ({"a": {"k": "v"}}, {"b": '{"k":"v"}'}, [], []),
        ({"a": "data:image/png;base64,AAAA"}, {"t": "image/png", "d": "AAAA"}, [], []),
        ({"a": "data:image/png;base64,AAAA"}, {"t": "image/gif", "d": "AAAA"}, [], ["a"]),
        ({"type": "x", "model": "m", "tool_choice": "required"}, {"tool_choice": {"type": "any"}}, [], []),
        ({"tool_choice": "required"}, {"tool_choice": {"type": "auto"}}, [], ["tool_choice"]),
    ],
)
def test_what_disappears_is_seen(body: Any, written: Any, lost: list[str], gone: list[str]) -> None:
    assert vanished(body, written, map(dropped, lost)) == gone


@pytest.mark.proves("losses.all")
@every_pair
@given(data=st.data())
def test_nothing_that_is_asked_is_in_neither_the_request_nor_the_losses(source: Dialect, target: Dialect, data: st.DataObject) -> None:
    body = data.draw(BODIES[source.name])
    card = data.draw(st.sampled_from(CARDS))
    request = source.read_request(json.dumps(body).encode(), "chat")
    written = target.write_chat(source.read_chat(request), request, "m", card, same=False, ask_usage=True)
    assert vanished(body, json.loads(written.body), written.losses) == []


def test_a_turn_of_which_nothing_is_left_is_told_item_by_item() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "action": {"query": "word"}}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "trunkline:openai_chat:id:signature:encrypted"}
    body = {"model": "m", "input": [{"role": "user", "content": "hello"}, search, thought]}
    request = OPENAI_RESPONSES.read_request(json.dumps(body).encode(), "chat")
    written = OPENAI_CHAT.write_chat(OPENAI_RESPONSES.read_chat(request), request, "m", UNKNOWN, same=False, ask_usage=True)
    assert vanished(body, json.loads(written.body), written.losses) == []


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@given(data=st.data())
def test_a_request_that_is_rewritten_for_a_relative_loses_only_thoughts_of_others(dialect: Dialect, data: st.DataObject) -> None:
    body = data.draw(BODIES[dialect.name])
    request = dialect.read_request(json.dumps(body).encode(), "chat")
    written = dialect.write_chat(dialect.read_chat(request), request, "m", UNKNOWN, same=True, ask_usage=False)
    assert vanished(body, json.loads(written.body), written.losses) == []
    assert {loss.detail for loss in written.losses if loss.severity == "material"} <= {"another vendor's reasoning"}
