"""Sign-ins that have begun. What is secret of one, and where its owner goes with it, is sealed by the vault (`trunkline.access.vault`)."""

from sqlalchemy import Column, Double, Index, LargeBinary, String, Table, Text

from trunkline.store.tables import METADATA

TABLE = Table(
    "sign_ins",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("account", String(64), nullable=False),  # whose calls it is for; empty where it is everybody's, as in `credentials`
    Column("user", String(64), nullable=False),
    Column("provider", Text, nullable=False),
    Column("method", String(16), nullable=False),
    Column("state", String(64), nullable=False),  # SHA-256 of the state, in hex; empty where none is waited for
    Column("created_at", Double[float](), nullable=False),
    Column("expires_at", Double[float](), nullable=False),
    Column("consumed_at", Double[float]()),
    Column("interval", Double[float](), nullable=False),  # seconds
    Column("next_poll_at", Double[float]()),
    Column("outcome", String(16), nullable=False),
    Column("connection", String(64), nullable=False),  # what came of it; empty before
    Column("revision", String(32), nullable=False),  # random, another one with each change
    Column("key_id", String(64), nullable=False),  # of the vault's key that sealed it
    Column("sealed", LargeBinary, nullable=False),
    Index("ix_sign_ins_state", "state"),
    Index("ix_sign_ins_expires_at", "expires_at"),
    Index("ix_sign_ins_account_user", "account", "user"),
    info={"place": ("account", "user", "provider", "method", "id")},  # what is sealed is bound to these
)
