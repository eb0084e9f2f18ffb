from collections.abc import AsyncGenerator

import pytest

from tests.fakes.upstream import Upstream
from tests.fakes.worker import Ground, Meeting


@pytest.fixture
async def ground() -> AsyncGenerator[Ground]:
    made = Ground()
    yield made
    made.close()


@pytest.fixture
def internet(ground: Ground, upstream: Upstream) -> Upstream:
    """What stands at `api.example.com`."""
    ground.internet.put("api.example.com", "8.8.8.8", upstream.base_url)
    return upstream


@pytest.fixture
async def met(ground: Ground) -> AsyncGenerator[Meeting]:
    """A worker of the extension `weather`, which may ask `api.example.com`."""
    async with ground.meet("weather", ["network:api.example.com", "network:*.cdn.example.com"]) as made:
        yield made
