"""`[store]`."""

from typing import Annotated

from trunkline.base.codec import Meta, Record


class StoreSettings(Record, frozen=True):
    """Where what outlives the process is kept, and what several processes share."""

    url: Annotated[
        str | None,
        Meta(
            description="The database: `sqlite:////path/to/file` or `postgresql://user@host/database`; by default a file in the data folder. "
            "A URL with a password never stands in this file: `env:NAME` or `file:PATH` says where it is."
        ),
    ] = None
    shared: Annotated[
        str,
        Meta(
            description="Where counters, messages and leases are: `memory` for one process, `redis://host:6379/0` (Valkey or Redis) "
            "for several; `env:NAME` or `file:PATH` where the URL has a password."
        ),
    ] = "memory"
