"""People's sign-ins to providers are kept, encrypted."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "connections",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("account", sa.String(64), nullable=False),
        sa.Column("user", sa.String(64), nullable=False),
        sa.Column("token_type", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Double[float](), nullable=True),
        sa.Column("refreshable", sa.Boolean(), nullable=False),
        sa.Column("revoked_at", sa.Double[float](), nullable=True),
        sa.Column("recoverable_until", sa.Double[float](), nullable=True),
        sa.Column("key_id", sa.String(64), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Double[float](), nullable=False),
        sa.Column("updated_at", sa.Double[float](), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_connections"),
        sa.UniqueConstraint("provider", "account", "user", name="uq_connections_provider_account_user"),
    )
