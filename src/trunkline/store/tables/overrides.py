"""What operators know better of models than the files and the providers do."""

from sqlalchemy import Column, Double, Integer, String, Table, Text, UniqueConstraint

from trunkline.store.tables import METADATA

TABLE = Table(
    "overrides",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("provider", String(100), nullable=False),
    Column("model", String(256), nullable=False),
    Column("card", Text, nullable=False),  # JSON: the fields that are said
    Column("price", Text, nullable=False),  # JSON, or null
    Column("created_at", Double[float](), nullable=False),
    Column("updated_at", Double[float](), nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("provider", "model"),
)
