"""Free-form tools as functions: a text in the arguments that hold it, and out of them, whole and in pieces."""

import itertools
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trunkline.dialects._free import Grammar, Unwrapping, parameters, unwrapped, wrapped

ODD = 'kış "🛰"\\ \u2028\x00\x1f\x7f\n\t/東'
places = st.lists(st.integers(0, 200), max_size=6)


def pieces(text: str, where: list[int]) -> list[str]:
    return [text[start:end] for start, end in itertools.pairwise([0, *sorted(where), len(text)])]


def fed(text: str, where: list[int]) -> str:
    found = Unwrapping()
    return "".join(map(found.feed, pieces(text, where)))


@given(text=st.text())
@example(text=ODD)
def test_a_text_is_held_and_taken_out_unchanged(text: str) -> None:
    assert json.loads(wrapped(text)) == {"input": text}
    assert unwrapped(wrapped(text)) == text


@given(text=st.text(), where=places, escapes=st.booleans(), space=st.sampled_from(["", " ", "\n\t "]))
@example(text=ODD, where=list(range(200)), escapes=True, space=" ")
@example(text=ODD, where=list(range(200)), escapes=False, space="")
def test_a_text_comes_out_piece_by_piece_however_a_model_writes_its_json(text: str, where: list[int], space: str, *, escapes: bool) -> None:
    arguments = f'{space}{{{space}"input"{space}:{space}{json.dumps(text, ensure_ascii=escapes)}{space}}}{space}'
    assert fed(arguments, where) == unwrapped(arguments) == text


@given(text=st.text(min_size=1), where=places, cut=st.integers(0, 30))
def test_what_came_of_a_text_is_its_beginning(text: str, where: list[int], cut: int) -> None:
    assert text.startswith(fed(json.dumps({"input": text})[:cut], where))


def test_each_piece_of_a_text_is_there_as_soon_as_it_came() -> None:
    found = Unwrapping()
    assert [found.feed(piece) for piece in ('{"inp', 'ut":"a', "b\\", "n\\ud83d", "\\udef0c", '"', "}")] == [
        "",
        "a",
        "b",
        "\n",
        "🛰c",
        "",
        "",
    ]


@pytest.mark.parametrize("arguments", ['{"input":"*** Beg', '{"input":"x"', "*** Begin", '"x"', "[]", "", '{"input":"\\ud83d"}'])
def test_what_is_no_whole_object_holds_no_text(arguments: str) -> None:
    assert unwrapped(arguments) is None


@pytest.mark.parametrize("arguments", ['{"patch":"x"}', '{"input":5}', '{"input":null}', '{"input":["x"]}'])
def test_what_a_model_wrote_against_the_schema_is_the_text_itself(arguments: str) -> None:
    assert unwrapped(arguments) == arguments
    assert fed(arguments, []) == ""


def test_no_arguments_are_an_empty_text() -> None:
    assert unwrapped("{}") == ""


def test_a_grammar_is_told_to_the_model() -> None:
    plain, bound = (json.loads(bytes(parameters(grammar))) for grammar in (None, Grammar("lark", "start: /a+/")))
    assert plain["required"] == ["input"]
    assert plain["properties"]["input"]["type"] == "string"
    assert "grammar" not in plain["properties"]["input"]["description"]
    assert bound["properties"]["input"]["description"].endswith("(lark):\nstart: /a+/")
