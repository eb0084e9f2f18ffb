import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.fakes.clock import FakeClock
from trunkline.access.keys import Keys
from trunkline.store.engine import open_engine, sqlite_url
from trunkline.store.schema import migrate


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with the newest schema, to be copied."""
    folder = tmp_path_factory.mktemp("migrated")
    engine = open_engine(sqlite_url(folder))
    migrate(engine)
    engine.dispose()
    return folder / "trunkline.sqlite"


@pytest.fixture
def data(tmp_path: Path, migrated: Path) -> Path:
    """A data folder with an empty database."""
    shutil.copy(migrated, tmp_path)
    return tmp_path


@pytest.fixture
def engine(data: Path) -> Iterator[Engine]:
    engine = open_engine(sqlite_url(data), busy_seconds=0.2)
    yield engine
    engine.dispose()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def keys(engine: Engine, clock: FakeClock) -> Keys:
    return Keys(engine, clock)
