"""The writer: one thread that writes what nobody waits for, many rows to a transaction.

What is given to it waits in a bounded queue and is written in the order in which it came. A transaction for each row would cost a
hundred times as much, so the thread lets a few gather first.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import islice
from threading import Condition, Thread

from sqlalchemy import Connection, Engine

from trunkline.errors import StoreUnavailable
from trunkline.store.engine import appending

BATCH = 500
"""The most jobs of one transaction."""

GATHER_SECONDS = 0.25
"""How long the first job waits for others to join it: a transaction alone takes 0.4 ms, and the rows in it 10 µs each."""

FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0
"""Seconds between two attempts while the database is away; doubled after each."""

CLOSE_SECONDS = 10.0
"""How long `close` waits for what is left."""

NAME = "store: write"

Job = Callable[[Connection], None]
"""Something to do in a transaction, together with others. It may be done again when it is not known whether it was, so doing it twice
has to be as doing it once."""


class Writer:
    """One thread that writes. It begins with the first job.

    A job that fails is reported, and neither holds up nor undoes the others. While the database is away (`StoreUnavailable`: lost,
    locked, full, read-only) the queue is kept, and the thread goes on by itself when it is back.

    Args:
        engine: the database.
        failed: told of each job that fails, once of each outage, and at the end of what could not be written; in any thread.
        most: so many jobs may wait.
    """

    def __init__(self, engine: Engine, *, failed: Callable[[str, BaseException], None], most: int = 10_000) -> None:
        self._engine = engine
        self._failed = failed
        self._most = most
        self._queue: deque[Job] = deque()  # the ones that are being written are its first
        self._changed = Condition()
        self._done = 0
        self._flushes: list[tuple[int, Future[None]]] = []
        self._closed = False
        self._thread: Thread | None = None

    @property
    def waiting(self) -> int:
        """So many jobs are not written yet."""
        return len(self._queue)

    def add(self, job: Job) -> bool:
        """Take a job, from any thread, without waiting. False: the queue is full, or closed, and nothing was taken."""
        with self._changed:
            if self._closed or len(self._queue) >= self._most:
                return False
            self._queue.append(job)
            if len(self._queue) in {1, BATCH}:  # it sleeps, or has gathered enough
                self._changed.notify()
            if self._thread is None:
                self._thread = Thread(target=self._run, name="store writer", daemon=True)
                self._thread.start()
            return True

    async def flushed(self) -> None:
        """Return when everything taken so far is written or reported; an outage is waited out.

        Raises:
            StoreUnavailable: the writer was closed before.
        """
        with self._changed:
            if not self._queue:
                return
            future: Future[None] = Future()
            self._flushes.append((self._done + len(self._queue), future))
            self._changed.notify()
        await asyncio.wrap_future(future)

    def close(self, *, seconds: float = CLOSE_SECONDS) -> None:
        """Take no more jobs, write what is left, and end the thread: all that within a time. Blocking.

        What is not written then, as far as one can know, is reported as lost, with the number; while the database is away, it is tried once more.
        """
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join(seconds)
        with self._changed:
            lost = len(self._queue)
            self._queue.clear()
            flushes, self._flushes = self._flushes, []
        if lost:
            self._failed(NAME, StoreUnavailable(f"{lost} rows could not be written before the end", lost=lost))
        for _, future in flushes:
            if future.set_running_or_notify_cancel():
                future.set_exception(StoreUnavailable("the writer was closed before everything was written"))

    # -------------------------------------------------------------------------------------------------- in the thread
    def _run(self) -> None:
        wait, away = FIRST_WAIT, False
        while batch := self._next():
            last = self._closed
            try:
                self._write(batch)
            except StoreUnavailable as error:
                if not away:
                    self._failed(NAME, error)
                if last:
                    return
                self._rest(wait)
                wait, away = min(2 * wait, LONGEST_WAIT), True
            else:
                wait, away = FIRST_WAIT, False

    def _next(self) -> list[Job]:
        """The jobs of the next transaction; none when it is closed and everything is written."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            self._changed.wait_for(lambda: len(self._queue) >= BATCH or self._flushes or self._closed, GATHER_SECONDS)
            return list(islice(self._queue, BATCH))

    def _rest(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)

    def _write(self, jobs: Sequence[Job]) -> None:
        """Do the first jobs of the queue in one transaction; where one of them fails, in two, until it is alone.

        Raises:
            StoreUnavailable: those that are still in the queue are not done, as far as one can know.
        """
        try:
            with appending(self._engine) as connection:
                for job in jobs:
                    job(connection)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 -- a job's border: whatever is wrong with one, the others are written
            if len(jobs) > 1:
                half = len(jobs) // 2
                self._write(jobs[:half])
                self._write(jobs[half:])
                return
            self._failed(NAME, error)
        self._end(len(jobs))

    def _end(self, jobs: int) -> None:
        """The first jobs of the queue are written or reported."""
        with self._changed:
            for _ in range(min(jobs, len(self._queue))):  # `close` may have given them up
                self._queue.popleft()
            self._done += jobs
            ended = [future for done, future in self._flushes if done <= self._done]
            self._flushes = [(done, future) for done, future in self._flushes if done > self._done]
        for future in ended:
            if future.set_running_or_notify_cancel():
                future.set_result(None)
