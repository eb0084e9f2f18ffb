"""What providers said that they have, kept over a restart."""

from sqlalchemy import Column, Double, Integer, String, Table, Text

from trunkline.store.tables import METADATA

TABLE = Table(
    "discoveries",
    METADATA,
    Column("provider", String(100), primary_key=True),
    Column("settings", String(64), primary_key=True),  # a digest of where it is and where its credential comes from
    Column("evidence", Text),  # JSON; null where it was deleted
    Column("observed_at", Double[float](), nullable=False),
    Column("revision", Integer, nullable=False),
)
