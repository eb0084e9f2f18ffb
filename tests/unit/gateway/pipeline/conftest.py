import pytest

from tests.fakes.scripted import Gateway
from tests.unit.gateway.pipeline.formats import FORMATS, Words


@pytest.fixture(params=FORMATS)
def format_name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def words(format_name: str) -> Words:
    return FORMATS[format_name][2]


@pytest.fixture
def gateway(format_name: str) -> Gateway:
    kind, endpoint, _ = FORMATS[format_name]
    return Gateway(kind, endpoint)
