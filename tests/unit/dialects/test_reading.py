"""Fields taken one by one: what is wrong is named with its place and value, and what nobody took is known."""

from collections.abc import Callable

import pytest

from trunkline.base.codec import Raw
from trunkline.dialects._reading import SHOWN, Data, Object, as_text, data_url, items
from trunkline.errors import BadRequest

BODY = b'{"a":"x","b":true,"c":5,"d":0.5,"e":{"f":1},"g":[1,"y"],"h":null}'


def whole() -> Object:
    return Object.of(BODY, "")


def test_a_field_is_given_once_and_what_is_left_is_what_nobody_took() -> None:
    body = whole()
    assert (body.text("a"), body.flag("b"), body.integer("c"), body.number("d")) == ("x", True, 5, 0.5)
    assert body.text("a") is None
    assert "e" in body
    assert {name: bytes(raw) for name, raw in body.rest().items()} == {"e": b'{"f":1}', "g": b'[1,"y"]'}
    assert body.rest() == {}


def test_null_is_absent() -> None:
    body = whole()
    assert "h" not in body
    assert (body.text("h"), body.raw("h"), body.object("h"), list(body.items("h"))) == (None, None, None, [])


def test_a_whole_number_is_a_number() -> None:
    assert whole().number("c") == 5


def test_what_stands_inside_knows_its_place() -> None:
    body = Object.of(BODY, "messages.3")
    inner = body.object("e")
    assert inner is not None
    assert (inner.at, inner.path("f"), inner.integer("f")) == ("messages.3.e", "messages.3.e.f", 1)
    assert [(bytes(raw), at) for raw, at in body.items("g")] == [(b"1", "messages.3.g.0"), (b'"y"', "messages.3.g.1")]


def test_what_is_left_of_an_inner_object_is_told_by_dotted_names() -> None:
    inner = whole().object("e")
    assert inner is not None
    assert {name: bytes(raw) for name, raw in inner.rest_in("e").items()} == {"e.f": b"1"}


WRONG: dict[str, tuple[Callable[[Object], object], str]] = {
    "text": (lambda body: body.text("c"), "`m.c` is `5`, and must be a string"),
    "flag": (lambda body: body.flag("c"), "`m.c` is `5`, and must be true or false"),
    "integer": (lambda body: body.integer("d"), "`m.d` is `0.5`, and must be a whole number"),
    "a flag is no integer": (lambda body: body.integer("b"), "`m.b` is `true`, and must be a whole number"),
    "number": (lambda body: body.number("a"), '`m.a` is `"x"`, and must be a number'),
    "object": (lambda body: body.object("g"), '`m.g` is `[1,"y"]`, and must be an object'),
    "items": (lambda body: list(body.items("e")), '`m.e` is `{"f":1}`, and must be a list'),
    "required": (lambda body: body.required("z"), "`m.z` is missing"),
    "required null": (lambda body: body.required("h"), "`m.h` is missing"),
}


@pytest.mark.parametrize(("take", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_field_is_named_with_its_value(take: Callable[[Object], object], message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        take(Object.of(BODY, "m"))
    assert caught.value.message == message


def test_a_required_text_must_not_be_empty() -> None:
    with pytest.raises(BadRequest, match="`a` is missing"):
        Object.of(b'{"a":""}', "").required("a")


@pytest.mark.parametrize("body", [b"", b"[]", b"7", b"{", b'"x"'])
def test_what_is_no_object_is_named(body: bytes) -> None:
    with pytest.raises(BadRequest, match="`the body` is "):
        Object.of(body, "")


def test_a_long_value_is_cut() -> None:
    with pytest.raises(BadRequest) as caught:
        as_text(Raw(b"[" + b"1," * 100 + b"1]"), "stop.0")
    assert caught.value.message == f"`stop.0` is `{('[' + '1,' * 100)[:SHOWN]}…`, and must be a string"


def test_an_item_that_is_wrong_is_found_by_its_number() -> None:
    found = list(items(Raw(b'["x",7]'), "stop"))
    with pytest.raises(BadRequest, match="`stop.1` is `7`"):
        [as_text(raw, at) for raw, at in found]


@pytest.mark.parametrize(
    ("url", "data"),
    [
        ("data:image/png;base64,AAAA", Data("image/png", "AAAA")),
        ("data:text/plain;charset=utf-8;base64,QQ==", Data("text/plain", "QQ==")),
        ("data:;base64,AAAA", Data("", "AAAA")),
        ("data:text/plain,hello", None),
        ("https://example.com/a.png?x=data:image/png;base64,AAAA", None),
        ("", None),
    ],
)
def test_a_data_url_is_its_type_and_its_base64(url: str, data: Data | None) -> None:
    assert data_url(url) == data
