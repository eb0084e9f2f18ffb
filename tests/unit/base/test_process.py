import asyncio
import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from trunkline.base.process import LONGEST_LINE, Command, Process

ENV = {"PATH": os.defpath}
SOON = 5.0


def python(code: str, **more: Any) -> Command:
    return Command(argv=(sys.executable, "-I", "-S", "-c", code), env=ENV, **more)


def ends_within(seconds: float, pid: int) -> bool:
    """The kernel (Linux) tells: nobody has to look twice. A zombie has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


async def test_a_program_is_heard_line_by_line_and_its_status_told() -> None:
    heard: list[str] = []
    command = python("import sys; print('one'); sys.stdout.flush(); print('two', file=sys.stderr, end=''); sys.exit(7)", hears=heard.append)
    process = await Process.start(command)
    assert await process.first_line() == "one"
    assert await process.wait() == 7
    assert not process.alive
    assert heard == process.last_words == ["one", "two"]


async def test_a_program_sees_only_the_environment_it_was_given() -> None:
    async with await Process.start(Command(argv=("env",), env={"PATH": os.defpath, "LC_ALL": "C", "A": "b"})) as process:
        await process.wait()
    assert sorted(process.last_words) == ["A=b", "LC_ALL=C", f"PATH={os.defpath}"]


@pytest.mark.needs("linux")
async def test_a_program_inherits_no_descriptor_but_its_streams() -> None:
    code = "import os; print([fd for fd in range(3, 64) if os.path.exists(f'/proc/self/fd/{fd}') and os.readlink(f'/proc/self/fd/{fd}')[0] != '/'])"
    async with await Process.start(python(code)) as process:
        assert await process.first_line() == "[]"


async def test_signals_reach_a_program_as_if_it_had_been_started_by_a_shell() -> None:
    code = "import signal as s; print([s.getsignal(n) == s.SIG_DFL for n in (s.SIGTERM, s.SIGHUP)], s.pthread_sigmask(s.SIG_BLOCK, []))"
    async with await Process.start(python(code)) as process:
        assert await process.first_line() == "[True, True] set()"


async def test_standard_input_is_given_and_stays_open_until_the_end() -> None:
    code = "import sys; print(sys.stdin.readline().strip(), flush=True); sys.stdin.read(); print('closed', flush=True)"
    process = await Process.start(python(code, stdin=b"settings\n"))
    assert await process.first_line() == "settings"
    assert process.alive
    assert await process.terminate() == 128 + signal.SIGTERM
    assert process.last_words == ["settings"]


async def test_without_standard_input_there_is_nothing_to_read() -> None:
    process = await Process.start(python("import sys; print(repr(sys.stdin.read()))"))
    assert await process.first_line() == "''"
    assert await process.wait() == 0


async def test_a_program_that_ends_without_reading_its_input_is_no_error() -> None:
    process = await Process.start(python("", stdin=b"x" * 1_000_000))
    assert await process.first_line() is None
    assert await process.wait() == 0


async def test_a_program_that_cannot_be_run_says_why() -> None:
    process = await Process.start(Command(argv=("no-such-program",), env=ENV))
    assert await process.wait() == 127
    assert process.last_words == ["no-such-program cannot be run: No such file or directory"]


async def test_only_the_last_lines_are_kept() -> None:
    process = await Process.start(python("for n in range(5000): print(n)", keep=3))
    assert await process.wait() == 0
    assert process.last_words == ["4997", "4998", "4999"]


async def test_a_line_without_end_is_cut() -> None:
    heard: list[str] = []
    code = "import sys; sys.stdout.write('x' * 3_000_000 + '\\nnext\\n' + 'y' * 100_000)"
    process = await Process.start(python(code, hears=heard.append))
    assert await process.wait() == 0
    assert heard == ["x" * LONGEST_LINE, "next", "y" * LONGEST_LINE]


async def test_bytes_that_are_no_text_are_heard_all_the_same() -> None:
    process = await Process.start(python("import os; os.write(1, b'\\xff\\xfe ok\\r\\n')"))
    await process.wait()
    assert process.last_words == ["\ufffd\ufffd ok"]


async def test_a_program_that_ignores_sigterm_is_killed_after_the_grace() -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    process = await Process.start(python(code))
    assert await process.first_line() == "deaf"
    assert await process.terminate(grace=0.1) == 128 + signal.SIGKILL


async def test_a_program_that_obeys_sigterm_may_finish_its_work() -> None:
    code = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); print('up', flush=True); signal.pause()"
    process = await Process.start(python(code))
    assert await process.first_line() == "up"
    assert await process.terminate(grace=SOON) == 3
    assert await process.terminate(grace=SOON) == 3


async def test_a_cancelled_termination_kills_at_once() -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    process = await Process.start(python(code))
    await process.first_line()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await process.terminate(grace=600)
    async with asyncio.timeout(SOON):
        assert await process.wait() == 128 + signal.SIGKILL


async def test_a_cancelled_wait_leaves_the_program_running() -> None:
    process = await Process.start(python("import time; print('up', flush=True); time.sleep(600)"))
    await process.first_line()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await process.wait()
    assert process.alive
    await process.terminate()


FAMILY = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    print(os.getpid(), child, os.getppid(), flush=True)
time.sleep(600)
"""


@pytest.mark.needs("linux")
async def test_termination_takes_the_whole_group() -> None:
    process = await Process.start(python(FAMILY))
    pids = [int(word) for word in (await process.first_line()).split()]
    await process.terminate(grace=0)
    assert all(ends_within(1, pid) for pid in pids)


@pytest.mark.needs("linux")
async def test_what_a_program_leaves_behind_in_its_group_ends_with_it() -> None:
    process = await Process.start(python("import os, time; child = os.fork(); child or time.sleep(600); print(child)"))
    async with asyncio.timeout(SOON):
        child = int(await process.first_line())
        assert await process.wait() == 0
    assert ends_within(1, child)


LEAVER = """
import os, time
heard, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
    os.write(tell, b"!")
    time.sleep(600)
os.read(heard, 1)
"""


async def test_a_process_that_left_the_group_does_not_hold_up_the_end() -> None:
    process = await Process.start(python(LEAVER))
    async with asyncio.timeout(SOON):
        assert await process.wait() == 0
    os.kill(int(process.last_words[0]), signal.SIGKILL)


@pytest.mark.needs("linux")
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_no_zombie_and_no_descriptor_is_left_on_either_loop(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def story() -> None:
        async with await Process.start(python("")) as process:
            assert await process.wait() == 0
        before = sorted(Path("/proc/self/fd").iterdir())
        for _ in range(3):
            async with await Process.start(python("print(input(), flush=True); input()", stdin=b"hello\n")) as process:
                assert await process.first_line() == "hello"
            assert process.last_words == ["hello"]
            assert await process.wait() == 128 + signal.SIGTERM
        assert sorted(Path("/proc/self/fd").iterdir()) == before

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert not [pid for pid in children if ends_within(0, int(pid))]


PARENT = """
import asyncio, sys
from trunkline.base.process import Command, Process

async def main():
    command = Command(argv=(sys.executable, "-I", "-S", "-c", sys.argv[1]), env={}, hears=lambda line: print(line, flush=True))
    await (await Process.start(command)).wait()

asyncio.run(main())
"""


@pytest.mark.needs("linux")
async def test_a_killed_parent_takes_child_and_grandchild_with_it() -> None:
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, FAMILY, stdout=asyncio.subprocess.PIPE, env=environment)
    async with asyncio.timeout(SOON):
        pids = [int(word) for word in (await parent.stdout.readline()).split()]
    assert len(pids) == 3
    assert not any(ends_within(0, pid) for pid in pids)
    parent.kill()
    assert all(ends_within(1, pid) for pid in pids)
    await parent.wait()


@pytest.mark.needs("linux")
async def test_a_killed_guard_takes_the_program_with_it() -> None:
    process = await Process.start(python(FAMILY))
    program, child, guard = (int(word) for word in (await process.first_line()).split())
    os.kill(guard, signal.SIGKILL)
    assert ends_within(1, program)
    os.kill(child, signal.SIGKILL)
    await process.wait()
    assert not process.alive


def test_a_command_does_not_print_its_input_or_environment() -> None:
    command = Command(argv=("x",), env={"KEY": "canary"}, stdin=b"canary")
    assert "canary" not in repr(command)
