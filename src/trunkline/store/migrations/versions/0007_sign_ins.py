"""People sign in to providers."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "sign_ins",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("account", sa.String(64), nullable=False),
        sa.Column("user", sa.String(64), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("method", sa.String(16), nullable=False),
        sa.Column("state", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Double[float](), nullable=False),
        sa.Column("expires_at", sa.Double[float](), nullable=False),
        sa.Column("consumed_at", sa.Double[float](), nullable=True),
        sa.Column("interval", sa.Double[float](), nullable=False),
        sa.Column("next_poll_at", sa.Double[float](), nullable=True),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("connection", sa.String(64), nullable=False),
        sa.Column("revision", sa.String(32), nullable=False),
        sa.Column("key_id", sa.String(64), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sign_ins"),
    )
    op.create_index("ix_sign_ins_state", "sign_ins", ["state"])
    op.create_index("ix_sign_ins_expires_at", "sign_ins", ["expires_at"])
    op.create_index("ix_sign_ins_account_user", "sign_ins", ["account", "user"])
