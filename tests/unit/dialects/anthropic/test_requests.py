import json
from typing import Any

import pytest

from tests.wire.streams import request
from trunkline.dialects import Written
from trunkline.dialects.anthropic import DIALECT, Anthropic
from trunkline.errors import BadRequest


def asked(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 5, "messages": [], **fields}).encode()


def test_a_request_is_read_as_far_as_it_matters_and_kept_to_the_byte() -> None:
    body = b' {"messages": [ ],"model":"a","stream":true, "max_tokens": 5,"x":1.0}\n'
    read_request = DIALECT.read_request(body, "chat")
    assert (read_request.model, read_request.stream, read_request.max_output, read_request.body) == ("a", True, 5, body)


def test_a_call_that_only_fills_the_cache_asks_for_no_tokens() -> None:
    assert DIALECT.read_request(asked(max_tokens=0), "chat").max_output == 0


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"model": 7}, "model"),
        ({"model": None}, "model"),
        ({"stream": 1}, "stream"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(BadRequest, match=f"`{name}`"):
        DIALECT.read_request(asked(**fields), "chat")


def test_the_limit_is_required_for_messages_and_not_for_counting() -> None:
    body = b'{"model":"m","messages":[],"stream":true}'
    with pytest.raises(BadRequest, match="`max_tokens` is missing") as refusal:
        DIALECT.read_request(body, "chat")
    assert refusal.value.hint
    counting = DIALECT.read_request(body, "count_tokens")
    assert (counting.operation, counting.stream, counting.max_output) == ("count_tokens", False, None)


def test_only_the_model_changes() -> None:
    body = b'{"x":{"model":"m"},  "model" : "m" ,"max_tokens":5,"stream":true}'
    asked_for = request(DIALECT, body)
    assert DIALECT.forward(asked_for, "n", ask_usage=True) == Written(body.replace(b'"model" : "m"', b'"model" : "n"'))
    assert DIALECT.forward(asked_for, "m", ask_usage=True).body is body


def test_dialects_are_equal_by_value() -> None:
    assert Anthropic() == DIALECT
    assert len({Anthropic(), DIALECT}) == 1
