"""Run the migrations on the connection, and in the transaction, of whoever asks (`trunkline.store.schema`)."""

from alembic import context

from trunkline.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata())
context.run_migrations()
