"""The database of an installation: where it is, and opening it."""

import os
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Engine

from trunkline.app.config import address
from trunkline.store.engine import file_of, open_engine, sqlite_url
from trunkline.store.schema import migrate
from trunkline.store.settings import StoreSettings

DEFAULT_STORE = StoreSettings()
"""A database in the data folder."""


def open_store(data: Path, settings: StoreSettings = DEFAULT_STORE, environment: Mapping[str, str] = os.environ) -> Engine:
    """The database at this version's schema: the configured one, else the data folder's.

    Raises: `ConfigInvalid`, `StoreUnavailable`, `MigrationNeeded`.
    """
    engine = open_database(data, settings, environment)
    try:
        migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def open_database(data: Path, settings: StoreSettings, environment: Mapping[str, str] = os.environ) -> Engine:
    """The database as it is. Raises: `ConfigInvalid`, `StoreUnavailable`."""
    return open_engine(sqlite_url(data) if settings.url is None else address(settings.url, "store.url", environment).reveal())


def database_file(data: Path, settings: StoreSettings, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The file that the database is in, where it is in one. Raises: `ConfigInvalid`."""
    return file_of(sqlite_url(data) if settings.url is None else address(settings.url, "store.url", environment).reveal())
