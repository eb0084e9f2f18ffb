import json
from collections.abc import Mapping
from typing import Any

import pytest

from trunkline.base.codec import Raw
from trunkline.dialects import _fields as fields
from trunkline.errors import BadRequest


def top(**values: Any) -> Mapping[str, Raw]:
    return {name: Raw(json.dumps(value).encode()) for name, value in values.items()}


def refusal(of: Any, *arguments: Any) -> BadRequest:
    with pytest.raises(BadRequest) as error:
        of(*arguments)
    return error.value


def test_a_field_is_read_and_absent_or_null_is_the_default() -> None:
    assert fields.read(top(stream=True), "stream", bool, default=False) is True
    assert fields.read(top(stream=None), "stream", bool, default=False) is False
    assert fields.read(top(), "stream", bool, default=True) is True


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (bool, "yes", '`x` is `"yes"`, and must be true or false'),
        (bool, 1, "`x` is `1`, and must be true or false"),
        (int, "1", '`x` is `"1"`, and must be a whole number'),
        (int, True, "`x` is `true`, and must be a whole number"),
        (int, 1.5, "`x` is `1.5`, and must be a whole number"),
        (str, ["a"], '`x` is `["a"]`, and must be a string'),
    ],
)
def test_a_field_of_another_type_is_named_with_its_value(kind: type, value: object, message: str) -> None:
    assert refusal(fields.read, top(x=value), "x", kind, None).message == message


def test_a_long_wrong_value_is_cut() -> None:
    message = refusal(fields.read, top(x="a" * 10_000), "x", int, 0).message
    assert len(message) < 120
    assert "…`" in message


def test_a_wrong_value_that_is_no_text_is_shown_all_the_same() -> None:
    assert "\N{REPLACEMENT CHARACTER}" in refusal(fields.read, {"x": Raw(b'"\xff"')}, "x", str, "").message


def test_the_models_name_is_required() -> None:
    assert fields.model(top(model="a/b")) == "a/b"
    for missing in (top(), top(model=None), top(model="")):
        assert refusal(fields.model, missing).message == "`model` is missing"
    assert refusal(fields.model, top(model=7)).message == "`model` is `7`, and must be a string"


def test_a_name_longer_than_any_models_is_refused_without_it() -> None:
    assert fields.model(top(model="m" * 512))
    assert refusal(fields.model, top(model="m" * 513)).message == "`model` has 513 characters, and no model's name has more than 512"


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        ({}, None),
        ({"a": None}, None),
        ({"a": 1}, 1),
        ({"b": 2}, 2),
        ({"a": None, "b": 2}, 2),
        ({"a": 1, "b": 2}, 1),
        ({"a": 0}, 0),
        ({"a": 2**70}, 2**70),
    ],
)
def test_the_first_limit_that_is_given_counts(values: dict[str, int | None], limit: int | None) -> None:
    assert fields.limit(top(**values), "a", "b") == limit


def test_a_negative_limit_is_refused() -> None:
    assert refusal(fields.limit, top(b=-1), "a", "b").message == "`b` is -1, and must not be negative"
