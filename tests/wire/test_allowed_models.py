"""A key calls and lists the models that it has."""

import pytest

from tests.fakes.upstream import Upstream
from tests.wire.gateway import Gateway
from tests.wire.sides import Side


@pytest.mark.proves("models.allowed")
async def test_another_model_is_refused_in_the_callers_dialect(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    _, gateway.key = gateway.makes("laptop", models=["spare/*"])
    for stream in (False, True):
        got = await gateway.ask(side, stream=stream)
        assert got.status == 403
        message = side.error(got.json())[2]
        assert f"`{side.model}`" in message
        assert "`laptop`" in message
    assert upstreams[side.first].calls == []


@pytest.mark.proves("models.allowed")
async def test_no_route_leads_a_key_to_a_model_that_it_has_not(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    _, gateway.key = gateway.makes(models=[side.model])
    upstreams[side.first].answers(529, times=3)
    assert (await gateway.ask(side, model=side.route)).status >= 429
    assert upstreams[side.first].calls
    assert upstreams[side.second].calls == []


@pytest.mark.proves("models.allowed")
async def test_a_key_that_has_a_route_has_all_of_it(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    _, gateway.key = gateway.makes(models=[side.route])
    upstreams[side.first].answers(529)
    upstreams[side.second].says("hello")
    assert (await gateway.ask(side, model=side.route)).status == 200
    assert (await gateway.ask(side)).status == 403


@pytest.mark.proves("models.allowed")
async def test_the_models_are_those_of_the_key(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    _, gateway.key = gateway.makes(models=["openai/*", "smart"])
    listed = (await gateway.get("/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == ["fast", "smart", "openai/gpt-mini"]
    assert [model["id"] for model in listed["models"]] == ["fast", "smart", "openai/gpt-mini"]
    assert (await gateway.get("/v1/models/openai/gpt-mini")).status == 200
    assert (await gateway.get("/v1/models/anthropic/claude-sonnet")).status == 404
    async with gateway.openai() as client:
        assert [model.id async for model in client.models.list()] == ["fast", "smart", "openai/gpt-mini"]
