"""Backups of an installation's database."""

from importlib.metadata import version
from pathlib import Path

from trunkline.app.config import load
from trunkline.app.database import database_file, open_database
from trunkline.app.folder import sole_user
from trunkline.base.clock import SystemClock
from trunkline.base.secret import Secret
from trunkline.errors import NotFound
from trunkline.store.backup import Head, Progress, dump, restore
from trunkline.store.sealed import Seal, new_file, unsealed

NOT_IN_IT = ["the vault's key", "the configuration", "what Valkey or Redis holds"]
"""What an installation needs beside its database. The first is left out on purpose: with it, the file would open every credential."""


def back_up(path: Path, passphrase: Secret, *, config: Path | None, data: Path, progress: Progress) -> Head:
    """Write a backup of the database of an installation, which may run meanwhile.

    Raises:
        NotFound: there is no database.
        Conflict: there is a file at the path.
        MigrationNeeded, StoreUnavailable: the database cannot be read as it is.
    """
    settings = load(config).sections.store
    file = database_file(data, settings)
    if file is not None and not file.exists():
        raise NotFound(f"there is no database `{file}`", hint="Name the data folder with `--data`.")
    engine = open_database(data, settings)
    try:
        with new_file(path) as written:
            seal = Seal(written, passphrase)
            head = dump(engine, seal.write, made_at=SystemClock().now(), version=version("trunkline"), progress=progress)
            seal.finish()
    finally:
        engine.dispose()
    return head


def put_back(path: Path, passphrase: Secret, *, config: Path | None, data: Path, replace: bool, progress: Progress) -> Head:
    """Fill the database of an installation, which must not run meanwhile, from a backup.

    Raises:
        NotFound: there is no backup at the path.
        BackupUnusable: it does not open, or was changed.
        Conflict: a server uses the data folder, or the database has rows and they are not to be replaced.
        MigrationNeeded, StoreUnavailable: the database cannot be written, or is newer.
    """
    settings = load(config).sections.store
    try:
        file = path.open("rb")
    except OSError as error:
        raise NotFound(f"the backup `{path}` cannot be read: {error.strerror}") from None
    with file, sole_user(data):
        engine = open_database(data, settings)
        try:
            return restore(engine, unsealed(file, passphrase), replace=replace, progress=progress)
        finally:
            engine.dispose()
