"""What every part of the suite may ask for."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes.upstream import Upstream
from tests.services import postgres, redis_prefix, redis_url

__all__ = ["postgres", "redis_prefix", "redis_url"]  # fixtures

# A machine that does other work too is no failure of a law.
settings.register_profile("unhurried", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """A provider on loopback; at the end nothing that it was asked may have been wrong."""
    async with Upstream() as up:
        yield up
    assert up.violations == []
