"""The tables: declared here, one module each, and queried by their owners.

A member declares its table as the constant `TABLE`. Times are seconds since the Unix epoch.
"""

import sys
from typing import Any

from sqlalchemy import MetaData, Select, Table, func, select

from trunkline.base.members import load

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)
"""What the members declare their tables in; names of constraints are made by rule, so that migrations can name them too."""


GIVEN = "given"
"""In a table's `info`: the ids of the rows that migrations make."""


def metadata() -> MetaData:
    """All tables, whoever has been imported so far."""
    load(sys.modules[__name__], "TABLE", Table, third_party=False)
    return METADATA


def mark(table: Table) -> Select[int, Any, Any]:
    """Asks for what stays the same only while nothing happens in a table whose rows count their revisions.

    Each change is a revision more, each row that goes one less, and another in its place was made at another time: whatever the clocks of
    those who write say.
    """
    columns = table.c
    return select(func.count(), func.sum(columns.revision), func.sum(columns.created_at)).select_from(table)
