import json
from typing import Any

import pytest

from tests.wire.streams import request
from trunkline.dialects import Written
from trunkline.dialects.openai_chat import DIALECT, OpenAIChat
from trunkline.errors import BadRequest


def asked(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [], **fields}).encode()


def test_a_request_is_read_as_far_as_it_matters_and_kept_to_the_byte() -> None:
    body = b' {"messages": [ {"role":"user"} ],"model":"a\\u002fb","stream":true, "max_completion_tokens": 5,"max_tokens":6,"x":1.0}\n'
    read_request = DIALECT.read_request(body, "chat")
    assert (read_request.model, read_request.stream, read_request.max_output, read_request.body) == ("a/b", True, 5, body)
    assert {name: bytes(value) for name, value in read_request.fields.items()}["messages"] == b'[ {"role":"user"} ]'


@pytest.mark.parametrize(
    ("fields", "stream", "limit"),
    [
        ({}, False, None),
        ({"stream": None, "max_tokens": None}, False, None),
        ({"stream": False, "max_tokens": 5}, False, 5),
        ({"stream": True, "max_completion_tokens": None, "max_tokens": 5}, True, 5),
    ],
)
def test_what_is_left_out_or_null_has_its_default(fields: dict[str, Any], stream: bool, limit: int | None) -> None:
    read_request = DIALECT.read_request(asked(**fields), "chat")
    assert (read_request.stream, read_request.max_output) == (stream, limit)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"model": 7}, "model"),
        ({"model": None}, "model"),
        ({"stream": "true"}, "stream"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(BadRequest, match=f"`{name}`"):
        DIALECT.read_request(asked(**fields), "chat")


def written(body: bytes, model: str = "n", *, ask_usage: bool = True) -> Written:
    return DIALECT.forward(request(DIALECT, body), model, ask_usage=ask_usage)


def test_a_request_for_the_same_model_passes_as_it_came() -> None:
    body = asked()
    assert written(body, "m") == Written(body)
    assert written(body, "m").body is body


def test_only_the_model_changes_where_there_is_no_stream() -> None:
    body = b'{"x":{"model":"m"},  "model" : "m" ,"stream":false,"stream_options":{"include_usage":false}}'
    assert written(body) == Written(body.replace(b'"model" : "m"', b'"model" : "n"'))


@pytest.mark.parametrize(
    ("options", "result"),
    [
        (None, '"stream_options":{"include_usage":true}'),
        ("null", '"stream_options" : {"include_usage":true}'),
        ("{}", '"stream_options" : {"include_usage":true}'),
        ('{ "include_usage": false }', '"stream_options" : { "include_usage": true }'),
        ('{"include_usage":null}', '"stream_options" : {"include_usage":true}'),
        ('{"include_obfuscation":false}', '"stream_options" : {"include_obfuscation":false,"include_usage":true}'),
        ('{"include_usage":false, "x":[1.0]}', '"stream_options" : {"include_usage":true, "x":[1.0]}'),
    ],
)
def test_the_usage_of_a_stream_is_asked_for_and_nothing_else_of_its_options_changes(options: str | None, result: str) -> None:
    fields = "" if options is None else f',"stream_options" : {options}'
    before = f'{{"model":"m","stream":true{fields}}}'
    after = f'{{"model":"n","stream":true,{result}}}'
    assert written(before.encode()) == Written(after.encode(), usage_added=True)


@pytest.mark.parametrize("options", ['{"include_usage":true}', '{ "x": 1, "include_usage" : true }'])
def test_a_caller_that_asks_for_usage_itself_gets_it(options: str) -> None:
    body = f'{{"model":"m","stream":true,"stream_options":{options}}}'.encode()
    assert written(body, "m") == Written(body)


def test_a_provider_that_refuses_the_option_is_not_asked() -> None:
    body = b'{"model":"m","stream":true}'
    assert written(body, "m", ask_usage=False) == Written(body)


@pytest.mark.parametrize("options", ["7", '"x"', "[]", '{"include_usage":"yes"}', '{"include_usage":1}'])
def test_stream_options_that_are_none_are_the_callers_mistake(options: str) -> None:
    with pytest.raises(BadRequest, match=r"`stream_options(\.include_usage)?` is "):
        written(f'{{"model":"m","stream":true,"stream_options":{options}}}'.encode())


def test_stream_options_with_twins_are_the_callers_mistake() -> None:
    with pytest.raises(BadRequest, match="stands twice"):
        written(b'{"model":"m","stream":true,"stream_options":{"a":1,"a":2}}')


def test_dialects_are_equal_by_value() -> None:
    assert OpenAIChat() == DIALECT
    assert len({OpenAIChat(), DIALECT}) == 1
