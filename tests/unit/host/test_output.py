"""What workers print, in a file that stays small; and whether the host keeps time."""

import asyncio
import os
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fakes.clock import FakeClock
from trunkline.base.aio import cancelled
from trunkline.host import output
from trunkline.host.output import BURST, LEAST_COST, LONGEST_LINE, MOST_FILE, PER_SECOND, Output, Pipe
from trunkline.host.pulse import EVERY, LATE, Pulse


class Printed:
    def __init__(self, path: Path, threads: ThreadPoolExecutor) -> None:
        self.clock = FakeClock()
        self.path = path
        self.failures: list[OSError] = []
        self.output = Output(path, self.clock, threads, self.failures.append)

    async def lines(self) -> list[str]:
        await self.output.written()
        return self.path.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def printed(tmp_path: Path) -> Generator[Printed]:
    with ThreadPoolExecutor(1) as threads:
        yield Printed(tmp_path / "weather" / "log", threads)


@pytest.mark.proves("supervisor.output")
async def test_lines_come_whole_in_their_order_however_they_arrive(printed: Printed) -> None:
    pipe, transport, descriptor = await Pipe.open(printed.output)
    for part in (b"on", b"e\ntwo\nth", b"ree\n", "✗ hi\nlast".encode()):
        os.write(descriptor, part)
        await asyncio.sleep(0)
    os.close(descriptor)
    await pipe.drained(5)
    transport.close()
    assert await printed.lines() == ["one", "two", "three", "✗ hi", "last"]


@pytest.mark.proves("supervisor.output")
async def test_a_long_line_is_cut_and_says_so_even_where_it_never_ends(printed: Printed) -> None:
    printed.output.line(b"x" * 10_000)
    assert await printed.lines() == ["x" * LONGEST_LINE + "… (10000 bytes in all)"]
    pipe, transport, descriptor = await Pipe.open(printed.output)
    with os.fdopen(descriptor, "wb") as file:
        await asyncio.to_thread(file.write, b"y" * 100_000)
    await pipe.drained(5)
    transport.close()
    assert 1 < len(await printed.lines()) < 10


@pytest.mark.proves("supervisor.output")
async def test_a_flood_is_dropped_and_counted_and_time_makes_room_again(printed: Printed) -> None:
    line = b"z" * 1023
    for _ in range(2 * BURST // 1024):
        printed.output.line(line)
    printed.clock.advance(1)
    printed.output.line(b"later")
    lines = await printed.lines()
    assert lines[-2:] == [f"… {BURST // 1024} lines are left out: there were too many at once", "later"]
    assert len(lines) == BURST // 1024 + 2


@pytest.mark.proves("supervisor.output", "supervisor.apart")
async def test_a_flood_of_short_lines_costs_the_host_little_and_every_line_is_kept_or_counted(printed: Printed) -> None:
    pipe, sent = Pipe(printed.output), 0
    for _ in range(100):
        pipe.data_received(b"\n" * 65_536)
        sent += 65_536
        await printed.output.written()
        printed.clock.advance(0.01)
    printed.clock.advance(1)
    pipe.data_received(b"last\n")
    lines = await printed.lines()
    notes = [int(line.split()[1]) for line in lines if line.startswith("… ")]
    kept = len(lines) - len(notes)
    assert lines[-1] == "last"
    assert kept + sum(notes) == sent + 1
    assert kept <= (BURST + 2 * PER_SECOND) / LEAST_COST
    assert len(notes) <= 2 * PER_SECOND / LONGEST_LINE


@pytest.mark.proves("supervisor.output")
async def test_a_disk_that_hangs_fills_no_memory(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, append = threading.Event(), output._append

    def hang(path: Path, data: bytes) -> None:
        hanging.wait(30)
        append(path, data)

    monkeypatch.setattr(output, "_append", hang)
    for _ in range(100):
        for _ in range(PER_SECOND // 1024):
            printed.output.line(b"z" * 1023)
        printed.clock.advance(1)
    hanging.set()
    assert sum(map(len, await printed.lines())) <= BURST + 2 * LONGEST_LINE


@pytest.mark.proves("supervisor.output")
async def test_the_file_turns_over_and_two_are_kept(printed: Printed) -> None:
    line = b"z" * 1023
    for _ in range(3 * MOST_FILE // PER_SECOND):
        for _ in range(PER_SECOND // 1024):
            printed.output.line(line)
        await printed.output.written()
        printed.clock.advance(1)
    sizes = [path.stat().st_size for path in printed.path.parent.iterdir()]
    assert len(sizes) <= 2
    assert max(sizes) <= MOST_FILE + PER_SECOND + 1024
    assert printed.failures == []


@pytest.mark.proves("supervisor.output")
async def test_a_file_that_cannot_turn_over_does_not_grow(printed: Printed) -> None:
    (printed.path.parent / "log.1" / "in the way").mkdir(parents=True)
    for _ in range(3 * MOST_FILE // BURST):
        for _ in range(BURST // 1024):
            printed.output.line(b"z" * 1023)
        await printed.output.written()
        printed.clock.advance(BURST / PER_SECOND)
    assert printed.path.stat().st_size <= MOST_FILE + BURST
    assert len(printed.failures) == 1


@pytest.mark.proves("supervisor.output")
async def test_a_file_that_cannot_be_written_is_told_once_and_stops_nobody(printed: Printed) -> None:
    printed.path.parent.write_text("no folder")
    for _ in range(3):
        printed.output.line(b"hello")
        await printed.output.written()
    assert len(printed.failures) == 1
    printed.path.parent.unlink()
    printed.output.line(b"again")
    assert await printed.lines() == ["again"]


@pytest.mark.proves("supervisor.watch")
async def test_a_host_that_was_late_blames_nobody() -> None:
    clock = FakeClock()
    pulse = Pulse(clock)
    task = asyncio.get_running_loop().create_task(pulse.run())
    await clock.asleep()
    began = clock.monotonic()
    assert pulse.steady(began)
    clock.advance(EVERY + LATE + 0.1)
    assert not pulse.steady(began), "it is late now"
    await asyncio.sleep(0)
    await clock.asleep()
    assert not pulse.steady(began), "it was late meanwhile"
    clock.advance(0.1)
    assert pulse.steady(clock.monotonic())
    await cancelled(task)
