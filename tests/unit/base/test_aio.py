import asyncio

import pytest

from trunkline.base.aio import Tasks, cancelled


class Watched:
    """A coroutine that waits until it is cancelled, and whose end may take a while."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ending = asyncio.Event()
        self.may_end = asyncio.Event()
        self.ended = False

    async def run(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ending.set()
            await self.may_end.wait()
            self.ended = True


def no_failures(name: str, error: BaseException) -> None:
    raise AssertionError(f"{name}: {error}")


async def test_tasks_end_with_their_owner() -> None:
    async with Tasks(no_failures) as tasks:
        started = [tasks.start(asyncio.Event().wait(), name=name) for name in "ab"]
        await asyncio.sleep(0)
    assert [task.cancelled() for task in started] == [True, True]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_tasks_end_also_when_their_owner_fails() -> None:
    started: list[asyncio.Task[bool]] = []

    async def owner() -> None:
        async with Tasks(no_failures) as tasks:
            started.append(tasks.start(asyncio.Event().wait(), name="a"))
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await owner()
    assert started[0].cancelled()


async def test_a_failure_is_told_by_name_and_takes_no_sibling_down() -> None:
    told: asyncio.Future[tuple[str, BaseException]] = asyncio.get_running_loop().create_future()

    async def fail() -> None:
        raise ValueError("why")

    async with Tasks(lambda name, error: told.set_result((name, error))) as tasks:
        sibling = tasks.start(asyncio.Event().wait(), name="sibling")
        tasks.start(fail(), name="reader")
        name, error = await told
        assert (name, str(error)) == ("reader", "why")
        assert not sibling.done()


async def test_a_failure_while_ending_is_told_before_the_owner_goes_on() -> None:
    told: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while ending")

    async with Tasks(lambda name, error: told.append(f"{name}: {error}")) as tasks:
        tasks.start(stubborn(), name="writer")
        await asyncio.sleep(0)
    assert told == ["writer: while ending"]


async def test_all_tasks_are_told_to_end_before_any_is_waited_for() -> None:
    one, two = Watched(), Watched()

    async def owner() -> None:
        async with Tasks(no_failures) as tasks:
            for watched in (one, two):
                tasks.start(watched.run(), name="a")
                await watched.begun.wait()

    task = asyncio.get_running_loop().create_task(owner())
    await asyncio.gather(one.ending.wait(), two.ending.wait())
    one.may_end.set()
    two.may_end.set()
    await task
    assert one.ended
    assert two.ended


async def test_what_a_task_starts_while_it_ends_is_ended_too() -> None:
    late: list[asyncio.Task[object]] = []

    async def restarting(tasks: Tasks) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            late.append(tasks.start(asyncio.Event().wait(), name="late"))

    async with Tasks(no_failures) as tasks:
        tasks.start(restarting(tasks), name="early")
        await asyncio.sleep(0)
    assert late[0].cancelled()


async def test_cancelling_waits_until_the_task_is_gone_and_keeps_its_failure() -> None:
    watched = Watched()
    watched.may_end.set()

    async def failing() -> None:
        try:
            await watched.run()
        finally:
            raise ValueError("its owner's business")

    task = asyncio.get_running_loop().create_task(failing())
    await watched.begun.wait()
    await cancelled(task)
    assert watched.ended
    assert isinstance(task.exception(), ValueError)


async def test_cancelling_a_task_that_has_ended_does_nothing() -> None:
    task = asyncio.get_running_loop().create_task(asyncio.sleep(0))
    await task
    await cancelled(task)
    assert not task.cancelled()


async def test_a_caller_that_is_cancelled_while_it_waits_still_waits_and_is_cancelled_then() -> None:
    watched = Watched()
    loop = asyncio.get_running_loop()
    task = loop.create_task(watched.run())
    await watched.begun.wait()
    caller = loop.create_task(cancelled(task))
    await watched.ending.wait()
    caller.cancel()
    await asyncio.sleep(0)
    assert not caller.done()
    watched.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert watched.ended
