"""A page of what an account has is found without a way through all that it or others have."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make indexes in the order of pages."""
    for table in ("users", "keys"):
        op.create_index(f"ix_{table}_account_id_id", table, ["account_id", "id"])
    op.drop_index("ix_keys_account_id", "keys")  # the new one begins with it
    for table in ("connections", "credentials"):
        op.create_index(f"ix_{table}_account_user_id", table, ["account", "user", "id"])
