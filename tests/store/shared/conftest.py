import os
import uuid
from collections.abc import AsyncIterator, Callable

import pytest

from tests.services import REDIS
from tests.store.shared.places import Failures, Memory, Place, Server, memory_buses, redis_buses
from trunkline.store.shared.contract import Bus

BOTH = ["memory", pytest.param("redis", marks=pytest.mark.needs("redis"))]


def _memory() -> Place:
    return Memory()


def _server() -> Place:
    return Server(os.environ[REDIS], f"test:{uuid.uuid4().hex}")


@pytest.fixture(params=BOTH)
def new_place(request: pytest.FixtureRequest) -> Callable[[], Place]:
    """Makes a place where nothing is counted and nobody has a lease."""
    return _memory if request.param == "memory" else _server


@pytest.fixture
async def place(new_place: Callable[[], Place]) -> AsyncIterator[Place]:
    place = new_place()
    yield place
    await place.aclose()


@pytest.fixture
def failed() -> Failures:
    return Failures()


@pytest.fixture(params=BOTH)
async def buses(request: pytest.FixtureRequest, failed: Failures) -> AsyncIterator[tuple[Bus, Bus]]:
    """Two processes' ends of one bus."""
    if request.param == "memory":
        async with memory_buses(failed) as both:
            yield both
    else:
        async with redis_buses(os.environ[REDIS], f"test:{uuid.uuid4().hex}", failed) as both:
            yield both
