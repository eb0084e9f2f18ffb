"""The schema's state, and the way to the newest one. Alembic is imported by the first question, not before."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine

from trunkline.errors import MigrationNeeded
from trunkline.store.engine import reading, unhurried, writing

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaState:
    """Which migration a database has reached, and which one this version works with.

    Attributes:
        current: the database's, or `None` before the first migration.
        head: this version's.
        known: this version has the migration that the database has reached; if not, the database is newer.
    """

    current: str | None
    head: str
    known: bool

    @property
    def ready(self) -> bool:
        """This version can work with the database as it is."""
        return self.current == self.head


def schema_state(engine: Engine) -> SchemaState:
    """What the database has reached. Raises: `StoreUnavailable`."""
    with reading(engine) as connection:
        return state_of(connection)


def migrate(engine: Engine) -> SchemaState:
    """Bring the schema to this version's: all of it or nothing, under the write lock, so that any number of processes may do it at once.

    Raises:
        MigrationNeeded: the database is newer than this version.
        StoreUnavailable: it cannot be read or written, or another process keeps the lock.
    """
    state = schema_state(engine)
    if state.ready:
        return state
    with writing(engine) as connection:
        state = state_of(connection)  # again: another process may have been here, of a newer version too
        if not state.known:
            raise MigrationNeeded(
                f"the database's schema is `{state.current}`, and this version knows it only up to `{state.head}`",
                hint="A newer Trunkline has worked on it. Install that version again, or put back the backup from before.",
            )
        upgrade(connection)
        return state_of(connection)


def revisions() -> list[str]:
    """The migrations that this version knows, the newest first."""
    return [revision.revision for revision in _script().walk_revisions()]


def state_of(connection: Connection) -> SchemaState:
    """What the database has reached, in the transaction of a connection."""
    from alembic.migration import MigrationContext

    known = revisions()
    current = MigrationContext.configure(connection).get_current_revision()
    return SchemaState(current=current, head=known[0], known=current is None or current in known)


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the migrations up to a revision in the connection's transaction, for as long as they take."""
    from alembic import command

    config = _config()
    config.attributes["connection"] = connection
    with unhurried(connection):
        command.upgrade(config, revision)


def _config() -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "trunkline.store:migrations")
    return config


@cache
def _script() -> "ScriptDirectory":
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(_config())
