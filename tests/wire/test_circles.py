"""A call leaves no circle behind, so that all of it is gone when it ends, and the garbage collector finds nothing."""

import gc
from collections.abc import Iterator

import pytest

from tests.fakes.upstream import Upstream
from tests.wire.gateway import Gateway
from tests.wire.sides import Side

OF_A_CALL = {"RequestResponseCycle", "Exchange", "Timeout", "Asked", "Request", "Opened", "Stream"}


@pytest.fixture
def garbage() -> Iterator[list[object]]:
    """What was found in circles when the test has the garbage collector look; nobody else has."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
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
