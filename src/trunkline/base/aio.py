"""Tasks with a parent. Nothing else in the server starts one."""

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self


class Tasks:
    """The background tasks of one owner: when the owner's `async with` ends, they are cancelled and awaited.

    A task that fails is told to `failed`, so that no error is lost and none takes its siblings down.
    """

    def __init__(self, failed: Callable[[str, BaseException], None]) -> None:
        self._failed = failed
        self._running: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while running := [task for task in self._running if not task.done()]:
            await cancelled(*running)

    def start(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run a coroutine beside the caller, until it ends or the owner does."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(task.get_name(), error)


async def cancelled(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they are gone; their own failures are their owner's business, not ours.

    A caller that is cancelled meanwhile waits all the same, and is cancelled then.
    """
    for task in tasks:
        task.cancel()
    stopped: asyncio.CancelledError | None = None
    while left := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            stopped = error
    if stopped is not None:
        raise stopped
