"""Keys that callers come in with. Only the hash of a key is kept."""

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Index, Integer, String, Table, Text, UniqueConstraint

from trunkline.store.tables import METADATA
from trunkline.store.tables.accounts import TABLE as ACCOUNTS
from trunkline.store.tables.users import TABLE as USERS

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
    Column("last_used_at", Double[float]()),  # which is no change of the row
    Column("account_id", String(64), ForeignKey(ACCOUNTS.c.id), nullable=False, server_default="acc_default"),
    Column("user_id", String(64), ForeignKey(USERS.c.id)),
    Column("models", Text),  # a JSON list; none for all models
    Column("end_users", String(16), nullable=False, server_default="key"),
    Column("replaced_by", String(64)),  # the key that took its place
    Column("updated_at", Double[float](), nullable=False, server_default="0"),
    Column("revision", Integer, nullable=False, server_default="1"),
    Column("version", BigInteger, nullable=False, server_default="0"),  # one more than any in the table, with every change
    UniqueConstraint("hash"),
    Index("ix_keys_version", "version"),
    Index("ix_keys_account_id_id", "account_id", "id"),
    Index("ix_keys_user_id", "user_id"),
)
