"""Accounts: whose keys, users and credentials are. A row stays for good, so that what names its id leads somewhere."""

from sqlalchemy import BigInteger, Column, Double, Index, Integer, String, Table, Text

from trunkline.store.tables import GIVEN, METADATA

TABLE = Table(
    "accounts",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("disabled_at", Double[float]()),
    Column("deleted_at", Double[float]()),
    Column("created_at", Double[float](), nullable=False),
    Column("updated_at", Double[float](), nullable=False),
    Column("revision", Integer, nullable=False, server_default="1"),
    Column("version", BigInteger, nullable=False, server_default="0"),  # one more than any in the table, with every change
    Index("ix_accounts_version", "version"),
    info={GIVEN: ("acc_default",)},
)
