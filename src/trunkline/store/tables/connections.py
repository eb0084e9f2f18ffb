"""Connections: people's sign-ins to providers, one of an owner for a provider. The tokens are sealed by the vault (`trunkline.access.vault`)."""

from sqlalchemy import Boolean, Column, Double, Index, Integer, LargeBinary, String, Table, Text, UniqueConstraint

from trunkline.store.tables import METADATA

TABLE = Table(
    "connections",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("provider", Text, nullable=False),  # `DAEMON/ID`
    Column("account", String(64), nullable=False),  # whose it is, as in `credentials`: empty rather than null
    Column("user", String(64), nullable=False),
    Column("token_type", Text, nullable=False),
    Column("label", Text, nullable=False),  # what the provider calls the owner; for people
    Column("expires_at", Double[float]()),  # of the access token; null where it does not expire
    Column("refreshable", Boolean, nullable=False),
    Column("revoked_at", Double[float]()),  # since when the provider refuses it for good
    Column("recoverable_until", Double[float]()),  # until then its tokens are kept all the same
    Column("key_id", String(64), nullable=False),  # of the vault's key that sealed it
    Column("sealed", LargeBinary, nullable=False),  # the whole record (daemon contract, A9), its revision aside
    Column("created_at", Double[float](), nullable=False),
    Column("updated_at", Double[float](), nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("provider", "account", "user"),
    Index("ix_connections_account_user_id", "account", "user", "id"),
    Index("ix_connections_id_revision_created_at", "id", "revision", "created_at"),  # what tells a change, apart from what is sealed
    info={"place": ("account", "user", "provider", "id")},  # what a sealed secret is bound to
)
