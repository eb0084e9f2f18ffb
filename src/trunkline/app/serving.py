"""Serving in the foreground: an event loop, and the signals that steer it."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import uvloop

from trunkline.app.config import Config
from trunkline.app.lifecycle import Installation, installed
from trunkline.base.garbage import spare_what_stays
from trunkline.base.log import Logger
from trunkline.errors import TrunklineError
from trunkline_sdk.dumps import no_core_dumps

LAST_WORDS = 1.0  # seconds that ended calls have to tell their callers


def serve(config: Config, load: Callable[[], Config], data: Path, log: Logger, *, terminal: TextIO | None) -> None:
    """Serve until SIGINT or SIGTERM; at a second one calls in flight are ended at once. SIGHUP takes a new configuration.

    Args:
        config: what to begin with.
        load: reads the configuration again.
        data: the data folder.
        log: the log.
        terminal: where a first admin key may be shown.

    Raises:
        TrunklineError: it cannot begin.
    """
    no_core_dumps()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, load, data, log, terminal))


async def _serve(config: Config, load: Callable[[], Config], data: Path, log: Logger, terminal: TextIO | None) -> None:
    loop = asyncio.get_running_loop()
    stop, stop_now, changed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def end() -> None:
        (stop_now if stop.is_set() else stop).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    loop.add_signal_handler(signal.SIGHUP, changed.set)
    async with installed(config, data, log, terminal=terminal) as installation:
        spare_what_stays()
        log.info("listening", urls=installation.urls, data=str(data))
        async with asyncio.TaskGroup() as group:
            reloading = group.create_task(_reload_when(changed, installation, load, log))
            await stop.wait()
            reloading.cancel()
            draining = group.create_task(installation.drain())
            hurry = group.create_task(stop_now.wait())
            await asyncio.wait({draining, hurry}, return_when=asyncio.FIRST_COMPLETED)
            if not draining.done():
                installation.end_calls()
                await asyncio.wait({draining}, timeout=LAST_WORDS)
            draining.cancel()
            hurry.cancel()
    log.info("stopped")


async def _reload_when(changed: asyncio.Event, installation: Installation, load: Callable[[], Config], log: Logger) -> None:
    while True:
        await changed.wait()
        changed.clear()
        try:
            await installation.reload(load)
        except TrunklineError as error:
            log.warning("the configuration stays as it was", reason=error.message, hint=error.hint)
        except Exception:  # the border of a background task: whatever it is, it must not end the server
            log.exception("the configuration stays as it was")
