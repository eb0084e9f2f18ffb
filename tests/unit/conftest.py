import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from trunkline.store.engine import open_engine, sqlite_url
from trunkline.store.schema import migrate


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the newest schema and nothing in it; making one takes 40 ms, and a copy none."""
    folder = tmp_path_factory.mktemp("migrated")
    engine = open_engine(sqlite_url(folder))
    migrate(engine)
    engine.dispose()
    return folder / "trunkline.sqlite"


@pytest.fixture
def database(migrated: Path, tmp_path: Path) -> Iterator[Engine]:
    """This test's own database, with the newest schema and nothing in it; `tmp_path` is its data folder."""
    shutil.copy(migrated, tmp_path)
    engine = open_engine(sqlite_url(tmp_path))
    yield engine
    engine.dispose()
