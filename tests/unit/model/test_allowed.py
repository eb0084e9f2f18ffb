import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.model.allowed import allows, within

WORDS = st.text("ab/*", max_size=8)
NAMES = st.text("ab/", max_size=8)
LISTS = st.lists(WORDS, min_size=1, max_size=3).map(tuple)


@pytest.mark.parametrize(
    ("models", "name", "may"),
    [
        (("fast",), "fast", True),
        (("fast",), "faster", False),
        (("openai/*",), "openai/gpt-5", True),
        (("openai/*",), "openai/org/gpt-5", True),
        (("openai/*",), "openai", False),
        (("*mini*",), "openai/gpt-mini-2", True),
        (("a*b", "c"), "ab", True),
        (("aba*ba",), "aba", False),
        ((), "fast", False),
        (("[a-z]", "?", "."), "a", False),
    ],
)
def test_a_list_allows_its_names(models: tuple[str, ...], name: str, may: bool) -> None:
    assert allows(models, name) is may


def test_without_a_list_all_are_allowed() -> None:
    assert allows(None, "anything")


def test_one_of_the_names_of_a_model_is_enough() -> None:
    assert allows(("a/m",), "fast", "a/m")
    assert not allows(("a/m",), "fast", "b/m")


@given(LISTS, NAMES)
def test_a_star_is_what_it_is_for_file_names(models: tuple[str, ...], name: str) -> None:
    assert allows(models, name) == any(fnmatch.fnmatchcase(name, each) for each in models)


def test_a_long_name_takes_no_long_time() -> None:
    assert not allows(("*a*a*a*a*b",), "a" * 1_000_000)


@given(st.none() | LISTS, st.none() | LISTS, NAMES)
def test_what_is_within_a_list_allows_nothing_more(inner: tuple[str, ...] | None, outer: tuple[str, ...] | None, name: str) -> None:
    if within(inner, outer) and allows(inner, name):
        assert allows(outer, name)


@given(st.none() | LISTS)
def test_a_list_is_within_itself_and_within_all(models: tuple[str, ...] | None) -> None:
    assert within(models, models)
    assert within(models, None)
    assert within(models, ("*",)) == (models is not None)
