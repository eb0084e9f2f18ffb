import json
import sys
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from trunkline.base.codec import Raw
from trunkline.dialects._splice import places, read_object, splice
from trunkline.errors import BadRequest

Pairs = list[tuple[str, str]]
"""Members of an object, as they are spelled: key literal, value."""

whitespace = st.text(" \t\r\n", max_size=3)
numbers = st.sampled_from(["0", "-0", "1.0", "1e5", "1E+2", "-1.5e-7", "1e400", "1" * 40, "0.1000000000000000055511151231257827"])
letters = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\/{}[],: \n\u2028🛰model'), max_size=6)


@st.composite
def literals(draw: st.DrawFn, of: st.SearchStrategy[str] = letters) -> str:
    """A string as JSON, each character plain or escaped in one of the ways that there are."""
    out = []
    for letter in draw(of):
        escaped = json.dumps(letter)[1:-1]
        numbered = "".join(f"\\u{unit:04x}" for unit in memoryview(letter.encode("utf-16-le")).cast("H"))
        plain = letter if letter >= " " and letter not in '"\\' else escaped
        out.append(draw(st.sampled_from([plain, plain, escaped, numbered, numbered.upper().replace("\\U", "\\u")])))
    return f'"{"".join(out)}"'


def spelled(key: str) -> st.SearchStrategy[str]:
    return literals(st.just(key))


def array(items: list[str]) -> str:
    return f"[{','.join(items)}]"


def joined(pairs: Pairs) -> str:
    return f"{{{','.join(f'{key}:{value}' for key, value in pairs)}}}"


def loose(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(whitespace, values, whitespace).map("".join)


scalars = st.sampled_from(["null", "true", "false", '"model"', '{"model":"inner"}', '[{"model": "inner"}]']) | numbers | literals()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(loose(inner), max_size=3).map(array)
        | st.lists(st.tuples(loose(literals()), loose(inner)), max_size=3, unique_by=lambda pair: json.loads(pair[0])).map(joined)
    ),
    max_leaves=8,
)
members = st.lists(st.tuples(literals(), values), max_size=6, unique_by=lambda pair: json.loads(pair[0]))


def body_of(pairs: Pairs, draw: Any) -> bytes:
    inside = ",".join(f"{draw(whitespace)}{key}{draw(whitespace)}:{draw(whitespace)}{value}{draw(whitespace)}" for key, value in pairs)
    return f"{draw(whitespace)}{{{inside or draw(whitespace)}}}{draw(whitespace)}".encode()


def told(body: bytes) -> dict[str, Any]:
    """An independent reading, with numbers as they are spelled."""
    return json.loads(body, parse_int=str, parse_float=str)


@given(members, st.data())
def test_the_fields_are_those_of_the_object_each_as_it_was_spelled(pairs: Pairs, data: st.DataObject) -> None:
    body = body_of(pairs, data.draw)
    fields = read_object(body)
    assert [(key, bytes(value).decode()) for key, value in fields.items()] == [(json.loads(key), value) for key, value in pairs]
    assert [body[start:end].decode() for _, start, end in places(body, fields)] == [value for _, value in pairs]


@given(members, st.data())
def test_only_the_value_that_is_replaced_changes(pairs: Pairs, data: st.DataObject) -> None:
    pairs = [pair for pair in pairs if json.loads(pair[0]) != "model"]
    place = data.draw(st.integers(0, len(pairs)))
    pairs.insert(place, (data.draw(spelled("model")), data.draw(values)))
    body = body_of(pairs, data.draw)
    fields = read_object(body)
    start, end = next((start, end) for name, start, end in places(body, fields) if name == "model")
    new = data.draw(letters)
    result = splice(body, fields, {"model": new})
    assert result == body[:start] + json.dumps(new, ensure_ascii=False).encode() + body[end:]
    assert told(result) == {**told(body), "model": new}
    assert list(told(result)) == list(told(body))


@given(members, st.data())
def test_values_are_replaced_where_they_stand_and_added_where_they_are_missing(pairs: Pairs, data: st.DataObject) -> None:
    known = [json.loads(key) for key, _ in pairs]
    changes = data.draw(st.dictionaries(letters | st.sampled_from(known) if known else letters, letters, max_size=3))
    body = body_of(pairs, data.draw)
    fields = read_object(body)
    result = splice(body, fields, changes)
    assert told(result) == {**told(body), **changes}
    assert list(told(result)) == [*told(body), *(key for key in changes if key not in fields)]
    for key, value in read_object(result).items():
        assert key in changes or bytes(value) == bytes(fields[key])


@given(members, st.data())
def test_nothing_to_change_is_the_body_itself(pairs: Pairs, data: st.DataObject) -> None:
    body = body_of(pairs, data.draw)
    assert splice(body, read_object(body), {}) == body


@given(members, st.data())
def test_a_key_that_stands_twice_is_refused(pairs: Pairs, data: st.DataObject) -> None:
    assume(pairs)
    key = json.loads(data.draw(st.sampled_from(pairs))[0])
    pairs.insert(data.draw(st.integers(0, len(pairs))), (data.draw(spelled(key)), data.draw(values)))
    with pytest.raises(BadRequest, match="a key stands twice"):
        read_object(body_of(pairs, data.draw))


CRAFTED = b'{"model":"a",",":1234567,":foo":2,"model":"b' + b"," * 60 + b'",":foo":3,":foo":4}'
"""Whoever believes the length of the last `model` alone lands in its commas, and takes the rest of the text for keys in their order."""


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","model":"b"}',
        b'{"model":"a","model":"a"}',
        b'{"model":"a","\\u006dodel":"b"}',
        b'{"a":1,"b":2,"a":33}',
        b'{"a":"          ","a":1}',
        b'{"":1,"":2}',
        CRAFTED,
    ],
)
def test_twins_are_refused_however_they_are_dressed(body: bytes) -> None:
    assert json.loads(body)
    with pytest.raises(BadRequest, match="a key stands twice") as refusal:
        read_object(body)
    assert refusal.value.hint == "Send each top-level key once."


def test_the_same_key_further_inside_is_another() -> None:
    body = b'{"messages":[{"model":"x","model":"y"}],"metadata":{"model":"z"},"model":"m"}'
    assert splice(body, read_object(body), {"model": "n"}) == body.replace(b'"model":"m"', b'"model":"n"')


def test_raw_json_is_spliced_in_as_it_is() -> None:
    body = b'{"a": 1}'
    assert splice(body, read_object(body), {"b": Raw(b'{"c":  2}')}) == b'{"a": 1,"b":{"c":  2}}'
    assert splice(b" { } ", read_object(b" { } "), {"b": 1}) == b' { "b":1} '


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b'{"a":1',
        b'{"a":1,}',
        b'{"a":1} x',
        b"{'a':1}",
        b'{"a":01}',
        b'{"a":NaN}',
        b'{"a":"\x01"}',
        b'{"a\xff":1}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":"\\ud800"}',
        b"--boundary\r\ncontent-disposition: form-data",
    ],
)
def test_what_is_no_object_is_refused_without_its_text(body: bytes) -> None:
    with pytest.raises(BadRequest, match="the body is not a JSON object") as refusal:
        read_object(body)
    assert "boundary" not in refusal.value.sentence
    assert refusal.value.hint


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_an_object_nested_without_end_is_refused_and_no_crash(opening: bytes) -> None:
    with pytest.raises(BadRequest, match="the body is not a JSON object"):
        read_object(b'{"a":' + opening * 1_000_000)
    depth = 200_000
    closing = b"]" if opening == b"[" else b"}"
    with pytest.raises(BadRequest, match="the body is not a JSON object"):
        read_object(b'{"a":' + opening * depth + b"1" + closing * depth + b"}")
    assert sys.getrecursionlimit() < depth


@given(st.binary(max_size=60))
@example(b'{"a\\":1}')
@example(b'{"a":1}}')
def test_any_bytes_are_an_object_or_a_bad_request(body: bytes) -> None:
    try:
        fields = read_object(body)
    except BadRequest:
        return
    assert set(fields) == set(json.loads(body.decode("utf-8", "replace"), strict=False))
