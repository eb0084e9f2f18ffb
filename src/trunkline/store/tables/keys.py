"""Keys that callers come in with. Only the hash of a key is kept."""

from sqlalchemy import Column, Double, String, Table, Text, UniqueConstraint

from trunkline.store.tables import METADATA

TABLE = Table(
    "keys",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("prefix", String(8), nullable=False),  # the key's first characters, by which people know it again
    Column("hash", String(64), nullable=False),  # SHA-256 of the key, in hex
    Column("scopes", Text, nullable=False),  # a JSON list
    Column("created_at", Double[float](), nullable=False),
    Column("expires_at", Double[float]()),
    Column("revoked_at", Double[float]()),
    Column("last_used_at", Double[float]()),
    UniqueConstraint("hash"),
)
