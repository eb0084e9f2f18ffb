"""Credentials that providers are called with. The secret is sealed by the vault (`trunkline.access.vault`)."""

from sqlalchemy import Boolean, Column, Double, Index, Integer, LargeBinary, String, Table, Text, UniqueConstraint

from trunkline.store.tables import METADATA

TABLE = Table(
    "credentials",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("provider", Text, nullable=False),  # its name in the configuration
    Column("account", String(64), nullable=False),  # whose it is: an account's, one of its users', or, with neither, the installation's;
    Column("user", String(64), nullable=False),  # empty rather than null, which no constraint takes for equal to another
    Column("name", Text, nullable=False),
    Column("weight", Integer, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("hint", String(4), nullable=False),  # the secret's last characters, where it is long
    Column("key_id", String(64), nullable=False),  # of the vault's key that sealed it
    Column("sealed", LargeBinary, nullable=False),
    Column("created_at", Double[float](), nullable=False),
    Column("updated_at", Double[float](), nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("provider", "account", "user", "name"),
    Index("ix_credentials_account_user_id", "account", "user", "id"),
    Index("ix_credentials_id_revision_created_at", "id", "revision", "created_at"),  # what tells a change, apart from what is sealed
    info={"place": ("account", "user", "provider", "name", "id")},  # what a sealed secret is bound to
)
