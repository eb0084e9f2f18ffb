import json
from typing import Any

import pytest
from openai.types import CreateEmbeddingResponse

from tests.wire.streams import request
from trunkline.dialects import Written
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_embeddings import DIALECT
from trunkline.errors import BadRequest, UpstreamBusy, UpstreamGarbled, UpstreamRefused
from trunkline.model.card import UNKNOWN
from trunkline.model.event import Reply
from trunkline.model.usage import Usage

BODY = b'{"input": ["a", "b"], "model":"small" , "encoding_format": "base64","stream":true}'
REPLY = {"object": "list", "model": "small", "data": [{"object": "embedding", "index": 0, "embedding": "AAAA"}]}


def read(**fields: Any) -> Reply:
    return DIALECT.read_reply(json.dumps({**REPLY, **fields}).encode(), "embeddings")


def test_a_request_passes_but_for_the_models_name_and_never_streams() -> None:
    asked = DIALECT.read_request(BODY, "embeddings")
    assert (asked.operation, asked.model, asked.stream, asked.max_output) == ("embeddings", "small", False, None)
    assert DIALECT.forward(asked, "small", ask_usage=True).body == BODY
    assert DIALECT.forward(asked, "a/b", ask_usage=True).body == BODY.replace(b'"small"', b'"a/b"')


def test_a_request_without_a_model_is_refused() -> None:
    with pytest.raises(BadRequest, match="`model` is missing"):
        DIALECT.read_request(b'{"input":"a"}', "embeddings")


def test_what_was_read_is_what_was_used() -> None:
    assert read(usage={"prompt_tokens": 7, "total_tokens": 7}).usage == Usage(input=7)
    assert read(usage={"prompt_tokens": None}).usage == Usage()
    assert read().usage is None


@pytest.mark.parametrize("body", [b"{}", b"[]", b"<html>", b'{"data":null}', b'{"data":[],"usage":5}'])
def test_what_is_no_list_of_vectors_is_garbled(body: bytes) -> None:
    with pytest.raises(UpstreamGarbled):
        DIALECT.read_reply(body, "embeddings")


def test_an_error_in_a_good_answer_is_the_error_that_it_tells() -> None:
    with pytest.raises(UpstreamBusy):
        read(error={"code": "rate_limit_exceeded", "message": "slow"})


def test_a_reply_is_written_as_the_sdk_reads_it() -> None:
    body, losses = DIALECT.write_reply(Reply(id="", model="m", usage=Usage(input=3)), "embeddings")
    told = CreateEmbeddingResponse.model_validate_json(body)
    assert (told.model, told.usage.prompt_tokens, told.usage.total_tokens, losses) == ("m", 3, 3, ())


def test_there_are_no_streams_and_no_translations() -> None:
    asked = DIALECT.read_request(BODY, "embeddings")
    with pytest.raises(BadRequest, match="stream"):
        DIALECT.read_events(request=asked, written=Written(b""), repairs=frozenset())
    with pytest.raises(BadRequest, match="stream"):
        DIALECT.write_events(asked)
    with pytest.raises(BadRequest, match="openai_embeddings"):
        DIALECT.read_chat(asked)
    asked = request(OPENAI_CHAT)
    chat = OPENAI_CHAT.read_chat(asked)
    with pytest.raises(BadRequest, match="openai_embeddings"):
        DIALECT.write_chat(chat, asked, "m", UNKNOWN, same=False, ask_usage=False)


def test_errors_have_openais_shape() -> None:
    assert isinstance(DIALECT.read_error(400, b'{"error":{"message":"no"}}', None), UpstreamRefused)
    told = json.loads(DIALECT.write_error(BadRequest("no"), "rqe_a"))
    assert (told["error"]["message"], told["error"]["type"], told["request_id"]) == ("no", "invalid_request_error", "rqe_a")
    assert DIALECT.write_error_event(BadRequest("no"), "rqe_a") == b"data: " + DIALECT.write_error(BadRequest("no"), "rqe_a") + b"\n\n"
