import json
from typing import Any

import pytest

from trunkline.dialects.openai_chat import DIALECT
from trunkline.errors import BadRequest
from trunkline.gateway.end_user import claimed, named
from trunkline.model.request import Request

NONE: list[tuple[bytes, bytes]] = []
HEADER = [(b"x-trunkline-user", b"from-header")]


def request(**fields: Any) -> Request:
    return DIALECT.read_request(json.dumps({"model": "m", "messages": [], **fields}).encode(), "chat")


@pytest.mark.parametrize("find", [named, claimed])
def test_the_header_counts_before_the_user_and_that_before_the_metadata(find: Any) -> None:
    both = request(user="from-body", metadata={"user_id": "from-metadata", "more": [1]})
    assert find(HEADER, both) == "from-header"
    assert find(NONE, both) == "from-body"
    assert find(NONE, request(metadata={"user_id": "from-metadata"})) == "from-metadata"
    assert find(NONE, request(user=None, metadata={"user_id": "from-metadata"})) == "from-metadata"
    assert find(NONE, request()) == ""


@pytest.mark.parametrize("find", [named, claimed])
@pytest.mark.parametrize(
    "fields", [{"user": 7}, {"user": ""}, {"metadata": "x"}, {"metadata": {"user_id": 7}}, {"metadata": {"user_id": None}}]
)
def test_what_is_no_text_names_nobody(find: Any, fields: dict[str, Any]) -> None:
    assert find(NONE, request(**fields)) == ""


def test_a_follow_up_has_only_its_header() -> None:
    assert named(HEADER, None) == "from-header"
    assert named(NONE, None) == ""


def test_a_header_is_read_as_utf_8() -> None:
    assert named([(b"x-trunkline-user", "kåthe".encode())], None) == "kåthe"


@pytest.mark.parametrize(
    ("headers", "fields", "place"),
    [
        ([(b"x-trunkline-user", b"")], {}, "X-Trunkline-User"),
        ([(b"x-trunkline-user", b"x" * 201)], {}, "X-Trunkline-User"),
        ([(b"x-trunkline-user", b"k\xe5the")], {}, "X-Trunkline-User"),
        (NONE, {"user": "a\nb"}, "`user`"),
        (NONE, {"metadata": {"user_id": "x" * 201}}, "`metadata.user_id`"),
    ],
)
def test_what_can_be_no_id_is_refused_with_its_place(headers: Any, fields: dict[str, Any], place: str) -> None:
    with pytest.raises(BadRequest, match=place):
        named(headers, request(**fields))


def test_a_claim_is_cut_to_a_length() -> None:
    assert claimed(NONE, request(user="x" * 500)) == "x" * 200
    assert claimed([(b"x-trunkline-user", b"y" * 500)], request()) == "y" * 200
