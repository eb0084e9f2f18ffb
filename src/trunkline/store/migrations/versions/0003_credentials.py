"""Providers' credentials are kept, encrypted."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "credentials",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("account", sa.String(64), nullable=False),
        sa.Column("user", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("hint", sa.String(4), nullable=False),
        sa.Column("key_id", sa.String(64), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Double[float](), nullable=False),
        sa.Column("updated_at", sa.Double[float](), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_credentials"),
        sa.UniqueConstraint("provider", "account", "user", "name", name="uq_credentials_provider_account_user_name"),
    )
    op.create_table(
        "vault_keys",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("seals", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_vault_keys"),
    )
