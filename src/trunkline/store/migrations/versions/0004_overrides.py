"""What operators know better of models is kept, and what providers list."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "overrides",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("provider", sa.String(100), nullable=False),
        sa.Column("model", sa.String(256), nullable=False),
        sa.Column("card", sa.Text(), nullable=False),
        sa.Column("price", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double[float](), nullable=False),
        sa.Column("updated_at", sa.Double[float](), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_overrides"),
        sa.UniqueConstraint("provider", "model", name="uq_overrides_provider_model"),
    )
    op.create_table(
        "discoveries",
        sa.Column("provider", sa.String(100), nullable=False),
        sa.Column("settings", sa.String(64), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("observed_at", sa.Double[float](), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("provider", "settings", name="pk_discoveries"),
    )
