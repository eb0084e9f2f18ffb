"""The servers that some tests need: a PostgreSQL and a Valkey or Redis, named by two variables.

`TRUNKLINE_TEST_POSTGRES=postgresql://user@127.0.0.1/postgres` is one where that user may make databases and roles, and
`TRUNKLINE_TEST_REDIS=redis://127.0.0.1:6379/0` one whose other keys nobody here touches. A test that asks for one is marked
`@pytest.mark.needs("postgres")` or `@pytest.mark.needs("redis")`. `.ci/run` starts both.
"""

import os
import uuid
from collections.abc import Generator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql

POSTGRES = "TRUNKLINE_TEST_POSTGRES"
REDIS = "TRUNKLINE_TEST_REDIS"


@contextmanager
def fresh_database(template: str | None = None) -> Generator[str]:
    """The URL of a new database, as empty or as full as the one at the template's URL; nobody may be connected to that one."""
    server = os.environ[POSTGRES]
    name = f"t_{uuid.uuid4().hex}"
    create = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
    if template is not None:
        create += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template.rpartition("/")[2]))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(create)
        try:
            yield f"{server.rpartition('/')[0]}/{name}"
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def postgres() -> Generator[str]:
    """The URL of an empty database of this module's own."""
    with fresh_database() as url:
        yield url


@pytest.fixture
def redis_url() -> str:
    """The URL of a server that other tests use too: everything of one test begins with its `redis_prefix`."""
    return os.environ[REDIS]


@pytest.fixture
def redis_prefix() -> str:
    """The beginning of this test's keys and channels, which nobody else has."""
    return f"test:{uuid.uuid4().hex}:"
