"""The tables: declared here, one module each, and queried by their owners.

A member declares its table as the constant `TABLE`. Times are seconds since the Unix epoch.
"""

import sys

from sqlalchemy import MetaData, Table

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
