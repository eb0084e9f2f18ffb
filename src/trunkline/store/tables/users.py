"""Users: the people and programs of an account, and the end users that its keys act for. A row stays for good, without a name once deleted."""

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Index, Integer, String, Table, Text, UniqueConstraint

from trunkline.store.tables import METADATA
from trunkline.store.tables.accounts import TABLE as ACCOUNTS

TABLE = Table(
    "users",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("account_id", String(64), ForeignKey(ACCOUNTS.c.id), nullable=False),
    Column("name", Text, nullable=False),
    Column("external_id", Text),  # what the account's own systems call them
    Column("role", String(16), nullable=False),
    Column("disabled_at", Double[float]()),
    Column("deleted_at", Double[float]()),
    Column("created_at", Double[float](), nullable=False),
    Column("updated_at", Double[float](), nullable=False),
    Column("revision", Integer, nullable=False, server_default="1"),
    Column("version", BigInteger, nullable=False, server_default="0"),  # one more than any in the table, with every change
    UniqueConstraint("account_id", "external_id"),
    Index("ix_users_version", "version"),
    Index("ix_users_account_id_id", "account_id", "id"),
)
