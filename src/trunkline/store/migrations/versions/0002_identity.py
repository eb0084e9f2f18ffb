"""Accounts and people stand above keys. What was there before belongs to the account `default`."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables, and the account of the keys that are there."""
    op.create_table(
        "accounts",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("disabled_at", sa.Double[float](), nullable=True),
        sa.Column("deleted_at", sa.Double[float](), nullable=True),
        sa.Column("created_at", sa.Double[float](), nullable=False),
        sa.Column("updated_at", sa.Double[float](), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("version", sa.BigInteger(), nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
    )
    op.create_index("ix_accounts_version", "accounts", ["version"])
    op.create_table(
        "users",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("account_id", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("disabled_at", sa.Double[float](), nullable=True),
        sa.Column("deleted_at", sa.Double[float](), nullable=True),
        sa.Column("created_at", sa.Double[float](), nullable=False),
        sa.Column("updated_at", sa.Double[float](), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("version", sa.BigInteger(), nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_users_account_id_accounts"),
        sa.UniqueConstraint("account_id", "external_id", name="uq_users_account_id_external_id"),
    )
    op.create_index("ix_users_version", "users", ["version"])
    accounts = sa.table("accounts", *map(sa.column, ("id", "name", "created_at", "updated_at", "revision", "version")))
    keys = sa.table("keys", sa.column("created_at"), sa.column("updated_at"))
    # As old as its oldest key; no clock is asked, so that migrating twice gives the same.
    oldest = sa.select(sa.func.coalesce(sa.func.min(keys.c.created_at), 0.0)).scalar_subquery()
    op.execute(
        sa.insert(accounts).values(id="acc_default", name="default", created_at=oldest, updated_at=oldest, revision=1, version=1)
    )
    with op.batch_alter_table("keys") as batch:  # SQLite cannot add a reference to a table that is there, and has it made anew
        batch.add_column(sa.Column("account_id", sa.String(64), nullable=False, server_default="acc_default"))
        batch.add_column(sa.Column("user_id", sa.String(64), nullable=True))
        batch.add_column(sa.Column("models", sa.Text(), nullable=True))
        batch.add_column(sa.Column("end_users", sa.String(16), nullable=False, server_default="key"))
        batch.add_column(sa.Column("replaced_by", sa.String(64), nullable=True))
        batch.add_column(sa.Column("updated_at", sa.Double[float](), nullable=False, server_default="0"))
        batch.add_column(sa.Column("revision", sa.Integer(), nullable=False, server_default="1"))
        batch.add_column(sa.Column("version", sa.BigInteger(), nullable=False, server_default="0"))
        batch.create_foreign_key("fk_keys_account_id_accounts", "accounts", ["account_id"], ["id"])
        batch.create_foreign_key("fk_keys_user_id_users", "users", ["user_id"], ["id"])
    op.execute(sa.update(keys).values(updated_at=keys.c.created_at))
    op.create_index("ix_keys_version", "keys", ["version"])
    op.create_index("ix_keys_account_id", "keys", ["account_id"])
    op.create_index("ix_keys_user_id", "keys", ["user_id"])
