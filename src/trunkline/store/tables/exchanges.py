"""Calls, one row each: who asked what of whom, and what became of it. No bodies, no secrets. An id sorts by its time."""

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, String, Table, Text, text

from trunkline.store.tables import METADATA

TABLE = Table(
    "exchanges",
    METADATA,
    Column("id", String(64), primary_key=True),  # the request id
    Column("at", Double[float](), nullable=False),  # when it began
    Column("account", String(64), nullable=False),
    Column("key", String(64), nullable=False),
    Column("user", String(64)),
    Column("end_user", Text),
    Column("path", Text, nullable=False),
    Column("model", Text, nullable=False),  # as the caller named it
    Column("target", Text),  # the last that was tried
    Column("status", Integer, nullable=False),
    Column("outcome", String(64), nullable=False),  # `ok`, `interrupted`, or an error's code
    Column("stream", Boolean, nullable=False),
    Column("attempts", Text, nullable=False),  # JSON
    Column("losses", Text, nullable=False),  # JSON
    Column("usage", Text),  # JSON
    Column("tool_calls", Integer, nullable=False),
    Column("sent", BigInteger, nullable=False),  # bytes of the reply
    Column("seconds", Double[float](), nullable=False),
    Column("first_byte", Double[float]()),
    Index("ix_exchanges_account_id", "account", "id"),
    Index("ix_exchanges_key_id", "key", "id"),
    Index("ix_exchanges_model_id", "model", "id"),
    Index("ix_exchanges_not_ok", "id", sqlite_where=text("outcome <> 'ok'"), postgresql_where=text("outcome <> 'ok'")),
)
