"""How often each of the vault's keys has sealed. The keys themselves are never in the database."""

from sqlalchemy import BigInteger, Column, String, Table

from trunkline.store.tables import METADATA

TABLE = Table(
    "vault_keys",
    METADATA,
    Column("id", String(64), primary_key=True),  # derived from the key
    Column("seals", BigInteger, nullable=False),
)
