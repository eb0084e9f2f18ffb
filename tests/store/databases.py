"""The two kinds of database, with new ones of each; and a user who may not do everything."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.services import fresh_database
from trunkline.store.engine import open_engine, sqlite_url
from trunkline.store.schema import migrate


@contextmanager
def as_nobody() -> Generator[None]:
    """Root may do everything, so it becomes somebody else."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def migrated(url: str) -> str:
    engine = open_engine(url)
    migrate(engine)
    engine.dispose()
    return url


class Sqlite:
    """Databases in files."""

    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._template = Path(migrated(str(sqlite_url(folder))).removeprefix("sqlite:///"))

    @contextmanager
    def fresh(self, *, empty: bool = False) -> Generator[str]:
        """The URL of a new database, at the newest schema unless it shall be empty."""
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir(mode=0o700)
        if not empty:
            shutil.copy(self._template, folder)
        yield str(sqlite_url(folder))
        shutil.rmtree(folder)


class Postgres:
    """Databases on the server that the tests may use."""

    name = "postgres"

    def __init__(self, template: str) -> None:
        self._template = migrated(template)

    @contextmanager
    def fresh(self, *, empty: bool = False) -> Generator[str]:
        """The URL of a new database, at the newest schema unless it shall be empty."""
        with fresh_database(None if empty else self._template) as url:
            yield url


Databases = Sqlite | Postgres
