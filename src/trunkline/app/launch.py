"""A model server as a child process, started by its first use.

The program says one line of JSON on its stdout: `{"port": 12345}` when it listens on 127.0.0.1, or `{"failed": "…", "hint": "…"}`.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable

from trunkline.base.aio import Tasks, cancelled
from trunkline.base.clock import Clock
from trunkline.base.codec import Decoder, Malformed, Record
from trunkline.base.process import Command, Process
from trunkline.base.secret import Secret
from trunkline.errors import LaunchFailed, ShuttingDown
from trunkline.gateway.upstream import Address

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds between a failed start and the next; doubled after each."""
BETWEEN_PROBES = 0.05
"""Seconds."""
WORDS = 6
"""So many of the last lines stand in an error."""


class Hello(Record, frozen=True):
    """The first line of a launched program."""

    port: int = 0
    failed: str = ""
    hint: str = ""


_hello = Decoder(Hello)


class Launched:
    """One server: none until it is asked for, never two alive.

    Args:
        name: for messages.
        command: makes the program's command from the key that this start shall be used with; may raise `LaunchFailed`.
        ready: whether the server at this address answers yet.
        tasks: the owner of the start, which outlives the caller that caused it.
        clock: time for back-off and probes.
        start_timeout: seconds from the start of the process to readiness.
    """

    def __init__(
        self,
        name: str,
        *,
        command: Callable[[Secret], Command],
        ready: Callable[[Address], Awaitable[bool]],
        tasks: Tasks,
        clock: Clock,
        start_timeout: float = 60.0,
    ) -> None:
        self._name = name
        self._command = command
        self._is_ready = ready
        self._tasks = tasks
        self._clock = clock
        self._start_timeout = start_timeout
        self._process: Process | None = None
        self._address: Address | None = None
        self._starting: asyncio.Task[Address | LaunchFailed] | None = None
        self._failure: LaunchFailed | None = None
        self._wait = FIRST_WAIT
        self._not_before = 0.0
        self._closed = False

    @property
    def running(self) -> Address | None:
        """Where the server is, if it runs; this starts nothing."""
        return self._address if self._process is not None and self._process.alive and not self._closed else None

    async def ready(self) -> Address:
        """Where the server is, once it answers. Callers at the same time share one start; one that leaves does not end it.

        Raises:
            LaunchFailed: it does not start, or did not a moment ago; `retry_after` says when it is tried again.
            ShuttingDown: `aclose` was called.
        """
        if self._closed:
            raise ShuttingDown(f"`{self._name}` is being stopped")
        if self._address is not None and self._process is not None and self._process.alive:
            return self._address
        if self._starting is None:
            if self._failure is not None and self._clock.monotonic() < self._not_before:
                raise self._again(self._failure)
            self._starting = self._tasks.start(self._start(), name=f"launch {self._name}")
        outcome = await self._outcome(self._starting)
        if isinstance(outcome, LaunchFailed):
            raise self._again(outcome)
        return outcome

    async def aclose(self) -> None:
        """End the server, or its start."""
        self._closed = True
        if self._starting is not None:
            await cancelled(self._starting)
        if self._process is not None:
            await self._process.terminate()

    async def _outcome(self, starting: "asyncio.Task[Address | LaunchFailed]") -> Address | LaunchFailed:
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if starting.cancelled() and caller is not None and not caller.cancelling():
                raise ShuttingDown(f"`{self._name}` was stopped while it started") from None
            raise

    def _again(self, failure: LaunchFailed) -> LaunchFailed:
        """The failure as an error of its own for one caller."""
        wait = max(0.0, self._not_before - self._clock.monotonic())
        return LaunchFailed(failure.message, hint=failure.hint, retry_after=wait)

    async def _start(self) -> Address | LaunchFailed:
        """A failure is a value here: it is for those who wait, not for the owner of the task."""
        try:
            self._address = await self._launch()
        except LaunchFailed as failure:
            self._failure = failure
            self._not_before = self._clock.monotonic() + self._wait
            self._wait = min(2 * self._wait, LONGEST_WAIT)
            return failure
        else:
            self._wait = FIRST_WAIT
            return self._address
        finally:
            self._starting = None

    async def _launch(self) -> Address:
        if self._process is not None:
            await self._process.wait()  # it has ended; now it is reaped too
        api_key = Secret(secrets.token_urlsafe(32))
        self._process = process = await Process.start(self._command(api_key))
        try:
            async with asyncio.timeout(self._start_timeout):
                hello = await self._heard(process)
                address = Address(base_url=f"http://127.0.0.1:{hello.port}", api_key=api_key)
                while not await self._is_ready(address):
                    await self._still_alive(process)
                    await self._clock.sleep(BETWEEN_PROBES)
        except TimeoutError:
            await process.terminate()
            raise self._failed(f"was not ready within {self._start_timeout:g} seconds", process) from None
        except BaseException:
            await process.terminate()
            raise
        return address

    async def _heard(self, process: Process) -> Hello:
        line = await process.first_line()
        if line is None:
            raise self._failed(f"ended with status {await process.wait()}", process)
        try:
            hello = _hello.decode(line)
        except Malformed:
            raise self._failed("said something else than its port", process) from None
        if hello.failed:
            await process.wait()
            words = [word for word in process.last_words if word != line]
            raise self._failed(f"did not start: {hello.failed}", process, words=words, hint=hello.hint)
        return hello

    async def _still_alive(self, process: Process) -> None:
        if not process.alive:
            raise self._failed(f"ended with status {await process.wait()}", process)

    def _failed(self, what: str, process: Process, *, words: list[str] | None = None, hint: str = "") -> LaunchFailed:
        last = "; ".join((process.last_words if words is None else words)[-WORDS:])
        return LaunchFailed(f"`{self._name}` {what}" + (f" ({last})" if last else ""), hint=hint)
