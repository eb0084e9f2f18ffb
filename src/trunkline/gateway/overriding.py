"""What operators know better, as it changes."""

import asyncio
from collections.abc import Callable

from trunkline.base.clock import Clock
from trunkline.base.log import Logger
from trunkline.catalog.known import Catalog
from trunkline.catalog.overrides import Overrides, Reading

READ_SECONDS = 2.0
"""How often the table is looked at."""


class Overriding:
    """Keeps the catalogue at what the table of overrides says.

    Args:
        overrides: the table.
        catalog: is told.
        clock: the time.
        log: is told of an override that this version cannot read.
        failed: told of a table that cannot be read, once per outage; what was read last stays.
    """

    def __init__(
        self, *, overrides: Overrides, catalog: Catalog, clock: Clock, log: Logger, failed: Callable[[str, BaseException], None]
    ) -> None:
        self._overrides = overrides
        self._catalog = catalog
        self._clock = clock
        self._log = log
        self._failed = failed
        self._seen: Reading | None = None
        self._problem = False

    async def refresh(self) -> None:
        """Look at the table once. Raises: `StoreUnavailable`."""
        reading = await asyncio.to_thread(self._overrides.read, self._seen.mark if self._seen else None)
        if reading is None:
            return
        if reading.unread and (self._seen is None or reading.unread != self._seen.unread):
            self._log.warning("some overrides are not understood, and do nothing", overrides=list(reading.unread))
        self._seen = reading
        self._catalog.take_overrides(reading.overrides)

    async def run(self) -> None:
        """Look every two seconds, until this is cancelled."""
        while True:
            await self._clock.sleep(READ_SECONDS)
            try:
                await self.refresh()
            except Exception as error:  # noqa: BLE001 -- a background task's border: whatever it is, the next look may go well
                if not self._problem:
                    self._failed("overrides: read", error)
                self._problem = True
            else:
                self._problem = False
