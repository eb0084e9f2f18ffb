"""A call leaves no circle behind, so that all of it is gone when it ends, and the garbage collector finds nothing."""

import gc
from collections.abc import Iterator

import pytest

from tests.fakes.upstream import NEVER, Upstream
from tests.wire.gateway import Gateway
from tests.wire.sides import Side

OF_A_CALL = {"RequestResponseCycle", "Exchange", "Timeout", "Asked", "Request", "Opened", "Stream"}
OF_A_CONNECTION = {"Connection", "Deadline", "Gathered", "FlowControl", "Pool"}


@pytest.fixture
def garbage() -> Iterator[list[object]]:
    """What was found in circles when the test has the garbage collector look; nobody else has."""
    gc.collect()
    gc.freeze()  # so that it has less to look at
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()


@pytest.mark.parametrize("model", ["openai/gpt-mini", "anthropic/claude-sonnet", "nobody/none"], ids=["openai", "anthropic", "nobody"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_call_leaves_no_circle(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, model: str, stream: bool, garbage: list[object]
) -> None:
    name = model.partition("/")[0]
    if name in upstreams:
        upstreams[name].says("one two", times=None)
    for _ in range(3):
        got = await gateway.ask(side, model=model, stream=stream)
        assert got.status == (200 if name in upstreams else 404)
        await gateway.told()
    gc.collect()
    assert [each for each in garbage if type(each).__name__ in OF_A_CALL] == []


@pytest.mark.parametrize("model", ["openai/gpt-mini", "anthropic/claude-sonnet"], ids=["openai", "anthropic"])
async def test_whoever_leaves_in_the_middle_of_a_stream_leaves_no_circle(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, model: str, garbage: list[object]
) -> None:
    upstream = upstreams[model.partition("/")[0]]
    upstream.says("one two three four", gate=NEVER, times=None)
    for _ in range(3):
        response = await gateway.begin(side, model=model)
        assert await anext(response.body)
        await response.aclose()
        await upstream.idle(timeout=1)
        await gateway.told()
    gc.collect()
    assert [each for each in garbage if type(each).__name__ in OF_A_CALL | OF_A_CONNECTION] == []
