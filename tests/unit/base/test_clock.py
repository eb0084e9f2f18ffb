import asyncio
import datetime as dt
import time

from trunkline.base.clock import Clock, SystemClock


async def test_the_system_clock_is_the_machines() -> None:
    clock: Clock = SystemClock()
    assert time.time() <= clock.now() <= time.time()
    assert time.monotonic() <= clock.monotonic() <= time.monotonic()
    assert dt.datetime.fromtimestamp(clock.now(), dt.UTC).year >= 2024


async def test_sleeping_takes_as_long_as_was_asked_and_can_be_cancelled() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0.01)
    assert clock.monotonic() - before >= 0.009
    task = asyncio.get_running_loop().create_task(clock.sleep(3600))
    await asyncio.sleep(0)
    task.cancel()
    assert (await asyncio.gather(task, return_exceptions=True))[0].__class__ is asyncio.CancelledError
