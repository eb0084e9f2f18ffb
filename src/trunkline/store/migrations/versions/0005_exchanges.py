"""Each call leaves a row."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "exchanges",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("at", sa.Double[float](), nullable=False),
        sa.Column("account", sa.String(64), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("user", sa.String(64), nullable=True),
        sa.Column("end_user", sa.Text(), nullable=True),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(64), nullable=False),
        sa.Column("stream", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.Text(), nullable=False),
        sa.Column("losses", sa.Text(), nullable=False),
        sa.Column("usage", sa.Text(), nullable=True),
        sa.Column("tool_calls", sa.Integer(), nullable=False),
        sa.Column("sent", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double[float](), nullable=False),
        sa.Column("first_byte", sa.Double[float](), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_exchanges"),
    )
    op.create_index("ix_exchanges_account_id", "exchanges", ["account", "id"])
    op.create_index("ix_exchanges_key_id", "exchanges", ["key", "id"])
    op.create_index("ix_exchanges_model_id", "exchanges", ["model", "id"])
    not_ok = sa.text("outcome <> 'ok'")
    op.create_index("ix_exchanges_not_ok", "exchanges", ["id"], sqlite_where=not_ok, postgresql_where=not_ok)
