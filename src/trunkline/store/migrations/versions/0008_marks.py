"""What has changed is found without a way through what is sealed."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make an index of all that tells a change, for the tables that are looked at every two seconds."""
    for table in ("connections", "credentials"):
        op.create_index(f"ix_{table}_id_revision_created_at", table, ["id", "revision", "created_at"])
