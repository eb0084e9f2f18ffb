"""Embeddings: they pass as they are, and nobody translates them."""

import pytest

from tests.fakes.upstream import Upstream
from tests.wire.gateway import PROMPT, Gateway

VECTORS = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": "AACAPwAAAEA="}],
    "model": "embed-1",
    "usage": {"prompt_tokens": 7, "total_tokens": 7},
}
pytestmark = pytest.mark.proves("embeddings")


@pytest.mark.parametrize(("model", "fake"), [("openai/embed-1", "openai"), ("home/embed-1", "home")])
async def test_vectors_come_as_the_provider_wrote_them_and_their_usage_is_known(
    gateway: Gateway, upstreams: dict[str, Upstream], model: str, fake: str
) -> None:
    upstreams[fake].answers(200, VECTORS)
    told = await gateway.openai().embeddings.create(model=model, input=[PROMPT, "x"], dimensions=2)
    assert told.data[0].embedding == [1.0, 2.0]
    assert told.usage.prompt_tokens == 7
    line = await gateway.told()
    assert (line["tokens"], line["path"], line["model"]) == ({"input": 7}, "/v1/embeddings", model)
    (call,) = upstreams[fake].calls
    assert call.path == "/v1/embeddings"
    assert call.json() == {"model": "embed-1", "input": [PROMPT, "x"], "dimensions": 2, "encoding_format": "base64"}


async def test_nothing_of_a_call_changes_but_the_models_name(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].answers(200, b' {"object":"list" , "data":[],"usage":{"prompt_tokens":1}} ')
    got = await gateway.post("/v1/embeddings", b'{ "input":"x","model" : "openai/embed-1", "user":null}')
    assert upstreams["openai"].calls[0].body == b'{ "input":"x","model" : "embed-1", "user":null}'
    assert got.body == b' {"object":"list" , "data":[],"usage":{"prompt_tokens":1}} '
    assert "x-losses" not in got.headers


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet", "pro/o9"])
async def test_a_provider_without_embeddings_is_a_bad_request_that_says_what_it_speaks(
    gateway: Gateway, upstreams: dict[str, Upstream], model: str
) -> None:
    got = await gateway.post("/v1/embeddings", {"model": model, "input": "x"})
    error = got.json()["error"]
    assert (got.status, error["code"]) == (400, "bad_request")
    assert "does not answer `embeddings`" in error["message"]
    assert all(upstream.calls == [] for upstream in upstreams.values())


@pytest.mark.config(routes={"vectors": {"targets": [{"model": "openai/embed-1"}, {"model": "home/embed-1", "order": 1}]}})
async def test_the_next_target_takes_over_and_an_error_is_told_in_the_sdks_shape(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].answers(500, {"error": {"message": "it broke"}})
    upstreams["home"].answers(200, VECTORS)
    got = await gateway.post("/v1/embeddings", {"model": "vectors", "input": "x"})
    assert (got.status, got.headers["x-trunkline-attempts"]) == (200, "openai/embed-1 upstream_down, home/embed-1 ok")
    upstreams["openai"].answers(200, {"object": "list", "usage": {}})
    got = await gateway.post("/v1/embeddings", {"model": "openai/embed-1", "input": "x"})
    assert (got.status, got.json()["error"]["code"]) == (502, "upstream_garbled")
