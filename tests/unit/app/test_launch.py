import asyncio
import sys
from collections.abc import AsyncIterator, Callable

import pytest

from trunkline.app.launch import Address, Launched
from trunkline.base.aio import Tasks
from trunkline.base.process import Command
from trunkline.base.secret import Secret
from trunkline.errors import LaunchFailed, ShuttingDown

LISTENS = "print('{\"port\": 4711}', flush=True); input()"


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    monotonic = now

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)


class Bench:
    """A launched program whose code the test writes, and the record of its starts."""

    def __init__(self, tasks: Tasks) -> None:
        self.clock = Clock()
        self.code = LISTENS
        self.keys: list[str] = []
        self.ready: Callable[[], bool] = lambda: True
        self.start_timeout = 30.0
        self.tasks = tasks

    def launched(self) -> Launched:
        return Launched(
            "tiny", command=self._command, ready=self._probe, tasks=self.tasks, clock=self.clock, start_timeout=self.start_timeout
        )

    def _command(self, api_key: Secret) -> Command:
        self.keys.append(api_key.reveal())
        return Command(argv=(sys.executable, "-I", "-S", "-c", self.code), env={}, stdin=b"")

    async def _probe(self, address: Address) -> bool:
        return self.ready()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    failures: list[BaseException] = []
    async with Tasks(lambda _, error: failures.append(error)) as tasks:
        yield Bench(tasks)
    assert failures == []


@pytest.fixture
async def launched(bench: Bench) -> AsyncIterator[Launched]:
    launched = bench.launched()
    yield launched
    await launched.aclose()


async def test_nothing_runs_before_the_first_use(bench: Bench, launched: Launched) -> None:
    assert bench.keys == []
    address = await launched.ready()
    assert address == Address(base_url="http://127.0.0.1:4711", api_key=Secret(bench.keys[0]))
    assert len(bench.keys[0]) >= 32


async def test_first_users_at_the_same_time_share_one_start(bench: Bench, launched: Launched) -> None:
    addresses = await asyncio.gather(*(launched.ready() for _ in range(5)))
    assert await launched.ready() in addresses
    assert len(set(map(id, addresses))) == len(bench.keys) == 1


async def test_a_caller_that_leaves_does_not_end_the_start_of_the_others(bench: Bench, launched: Launched) -> None:
    answers = asyncio.Event()
    bench.ready = answers.is_set
    async with asyncio.TaskGroup() as group:
        leaves = group.create_task(launched.ready())
        stays = group.create_task(launched.ready())
        await asyncio.sleep(0)
        leaves.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaves
        answers.set()
    assert stays.result().base_url == "http://127.0.0.1:4711"
    assert len(bench.keys) == 1


async def test_the_start_goes_on_when_its_only_caller_has_left(bench: Bench, launched: Launched) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await launched.ready()
    await launched.ready()
    assert len(bench.keys) == 1


async def test_a_server_that_died_is_started_anew_with_another_key_at_the_next_use(bench: Bench, launched: Launched) -> None:
    first = await launched.ready()
    old = launched._process
    await old.terminate()
    assert len(bench.keys) == 1
    second = await launched.ready()
    assert not old.alive
    assert first.api_key != second.api_key
    assert len(bench.keys) == 2


async def test_readiness_is_asked_until_the_server_answers(bench: Bench, launched: Launched) -> None:
    answers = iter([False, False, True])
    bench.ready = lambda: next(answers)
    await launched.ready()
    assert next(answers, None) is None


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.exit('the disk is full')", "`tiny` ended with status 1 (the disk is full)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "`tiny` ended with status 132"),
        (
            "import sys; print('no memory', file=sys.stderr); print('{\"failed\": \"out of luck\"}')",
            "`tiny` did not start: out of luck (no memory)",
        ),
        ("print('Hello!', flush=True); input()", "`tiny` said something else than its port (Hello!)"),
    ],
)
async def test_a_failed_start_tells_the_last_words(bench: Bench, launched: Launched, code: str, message: str) -> None:
    bench.code = code
    with pytest.raises(LaunchFailed) as failure:
        await launched.ready()
    assert failure.value.message == message
    assert not launched._process.alive


async def test_a_failed_start_tells_the_programs_own_hint(bench: Bench, launched: Launched) -> None:
    bench.code = 'print(\'{"failed": "there is no engine", "hint": "Install one."}\')'
    with pytest.raises(LaunchFailed) as failure:
        await launched.ready()
    assert failure.value.hint == "Install one."


async def test_only_the_last_of_many_words_are_told(bench: Bench, launched: Launched) -> None:
    bench.code = "import sys\nfor n in range(1000): print('line', n, file=sys.stderr)"
    with pytest.raises(LaunchFailed) as failure:
        await launched.ready()
    assert failure.value.message == f"`tiny` ended with status 0 ({'; '.join(f'line {n}' for n in range(994, 1000))})"


async def test_a_server_that_ends_while_it_is_asked_for_readiness_has_failed(bench: Bench, launched: Launched) -> None:
    bench.code = "print('{\"port\": 4711}', flush=True)"
    bench.ready = lambda: False
    with pytest.raises(LaunchFailed, match="`tiny` ended with status 0"):
        await launched.ready()


async def test_a_server_that_is_not_ready_in_time_is_ended(bench: Bench) -> None:
    bench.start_timeout = 0.3
    bench.ready = lambda: False
    launched = bench.launched()
    with pytest.raises(LaunchFailed, match=r"`tiny` was not ready within 0\.3 seconds"):
        await launched.ready()
    assert not launched._process.alive


async def test_after_a_failure_callers_are_refused_until_the_wait_is_over(bench: Bench, launched: Launched) -> None:
    bench.code = "import sys; sys.exit('broken')"
    with pytest.raises(LaunchFailed) as first:
        await launched.ready()
    assert first.value.retry_after == 1.0

    bench.clock.time += 0.4
    with pytest.raises(LaunchFailed, match="broken") as second:
        await launched.ready()
    assert second.value.retry_after == pytest.approx(0.6)
    assert second.value is not first.value
    assert len(bench.keys) == 1

    bench.clock.time += 0.6
    bench.code = LISTENS
    await launched.ready()
    assert len(bench.keys) == 2


async def test_the_wait_doubles_to_a_minute_and_a_success_forgets_it(bench: Bench, launched: Launched) -> None:
    bench.code = ""
    waits = []
    for _ in range(8):
        with pytest.raises(LaunchFailed) as failure:
            await launched.ready()
        waits.append(failure.value.retry_after)
        bench.clock.time += failure.value.retry_after
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]

    bench.code = LISTENS
    await launched.ready()
    await launched._process.terminate()
    bench.code = ""
    with pytest.raises(LaunchFailed) as failure:
        await launched.ready()
    assert failure.value.retry_after == 1


async def test_a_command_that_cannot_be_made_is_a_failed_start(bench: Bench) -> None:
    def command(api_key: Secret) -> Command:
        raise LaunchFailed("the model is not here", hint="Fetch it.")

    launched = Launched("tiny", command=command, ready=bench._probe, tasks=bench.tasks, clock=bench.clock)
    with pytest.raises(LaunchFailed, match="the model is not here") as failure:
        await launched.ready()
    assert (failure.value.hint, failure.value.retry_after) == ("Fetch it.", 1.0)


async def test_closing_ends_the_server(bench: Bench, launched: Launched) -> None:
    await launched.ready()
    await launched.aclose()
    assert not launched._process.alive
    with pytest.raises(ShuttingDown):
        await launched.ready()
    assert len(bench.keys) == 1


async def test_closing_during_a_start_tells_those_who_wait(bench: Bench, launched: Launched) -> None:
    asked = asyncio.Event()
    bench.ready = lambda: bool(asked.set())
    waits = asyncio.create_task(launched.ready())
    await asked.wait()
    await launched.aclose()
    with pytest.raises(ShuttingDown):
        await waits
    assert not launched._process.alive
