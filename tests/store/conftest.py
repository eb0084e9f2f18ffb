from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from tests.fakes.clock import FakeClock
from tests.services import fresh_database
from tests.store.databases import Databases, Postgres, Sqlite
from trunkline.access.accounts import Accounts
from trunkline.access.keys import Keys
from trunkline.access.users import Users
from trunkline.store.engine import open_engine


@pytest.fixture(scope="session", params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs("postgres"))])
def databases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """Whatever uses this is tested on both kinds of database."""
    if request.param == "sqlite":
        yield Sqlite(tmp_path_factory.mktemp("databases"))
    else:
        with fresh_database() as template:
            yield Postgres(template)


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    """A database with the newest schema and nothing in it."""
    with databases.fresh() as url:
        yield url


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = open_engine(url, busy_seconds=0.2)
    yield engine
    engine.dispose()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def keys(engine: Engine, clock: FakeClock) -> Keys:
    return Keys(engine, clock)


@pytest.fixture
def users(engine: Engine, clock: FakeClock) -> Users:
    return Users(engine, clock)


@pytest.fixture
def accounts(engine: Engine, clock: FakeClock) -> Accounts:
    return Accounts(engine, clock)
