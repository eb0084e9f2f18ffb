"""Leases among real processes: racing, killed, stopped, cut off."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.cut import Cut
from tests.services import REDIS
from tests.store.shared.places import Failures, link_to
from trunkline.base.clock import SystemClock
from trunkline.errors import StoreUnavailable
from trunkline.store.shared.contract import Leases
from trunkline.store.shared.file_lease import FileLeases
from trunkline.store.shared.leases import TtlLeases
from trunkline.store.shared.redis import RedisTable

SCRIPT = Path(__file__).with_name("contender.py")
ROUNDS = 500
TTL = 3.0
needs_redis = pytest.mark.needs("redis")
BOTH = pytest.mark.parametrize("kind", ["file", pytest.param("redis", marks=needs_redis)])


@pytest.fixture
def where(kind: str, tmp_path: Path, redis_prefix: str) -> str:
    return str(tmp_path / "leases") if kind == "file" else f"{os.environ[REDIS]}?prefix={redis_prefix.rstrip(':')}"


@contextmanager
def contender(kind: str, where: str, log: Path, *, rounds: int = 0, ttl: float = 45) -> Iterator[subprocess.Popen[str]]:
    """A process that stands ready."""
    argv = [sys.executable, str(SCRIPT), kind, where, str(log), str(rounds), str(ttl)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def tell(process: subprocess.Popen[str], line: str = "go") -> None:
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def judged(log: Path, dead: int | None = None) -> tuple[int, int]:
    """How many leases there were, and how often one followed another process's. Fails where two overlap."""
    last_token, last_process, inside, hand_overs, leases = 0, 0, None, 0, 0
    for line in log.read_text().splitlines():
        word, token, process = line.split()[0], int(line.split()[1]), int(line.split()[2])
        if word == "begin":
            assert inside is None or inside[1] == dead, f"{line!r} while {inside} has it"
            assert token > last_token, "a token was not higher than the one before"
            hand_overs += process not in {0, last_process}
            inside, last_token, last_process = (token, process), token, process
            leases += 1
        else:
            assert inside == (token, process), f"{line!r} while {inside} has it"
            inside = None
    assert inside is None or inside[1] == dead
    return leases, hand_overs


@BOTH
@pytest.mark.proves("lease.one")
def test_two_processes_race_a_thousand_times_and_never_hold_it_both(kind: str, where: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with contender(kind, where, log, rounds=ROUNDS) as one, contender(kind, where, log, rounds=ROUNDS) as two:
        for process in (one, two):
            tell(process)
        for process in (one, two):
            assert process.wait(50) == 0, process.stderr.read()
            assert process.stderr.read() == ""
    leases, hand_overs = judged(log)
    assert leases == 2 * ROUNDS
    assert hand_overs > 50, "it was no race"


@BOTH
@pytest.mark.proves("lease.one")
def test_a_process_that_is_killed_in_the_race_leaves_it_to_the_other(kind: str, where: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with (
        contender(kind, where, log, rounds=100_000, ttl=TTL) as dies,
        contender(kind, where, log, rounds=200, ttl=TTL) as lives,
    ):
        for process in (dies, lives):
            tell(process)
        while not log.exists() or log.read_text().count(f" {dies.pid}\n") < 60:
            assert dies.poll() is None, dies.stderr.read()
        dies.send_signal(signal.SIGKILL)
        assert lives.wait(50) == 0, lives.stderr.read()
    assert judged(log, dead=dies.pid)[0] > 200


@contextmanager
def ours(kind: str, where: str) -> Iterator[Leases]:
    if kind == "file":
        yield FileLeases(Path(where), SystemClock())
    else:
        url, _, prefix = where.partition("?prefix=")
        yield TtlLeases(RedisTable(link_to(url, prefix)), SystemClock(), failed=Failures(), ttl=TTL)


async def held_once(leases: Leases, name: str = "race") -> int:
    async with leases.held(name) as lease:
        assert lease.held
        return lease.token


@BOTH
@pytest.mark.proves("lease.one")
async def test_a_killed_holder_s_lease_is_free_and_not_before(kind: str, where: str, tmp_path: Path) -> None:
    with contender(kind, where, tmp_path / "log", ttl=TTL) as process, ours(kind, where) as leases:
        tell(process)
        token = int((await asyncio.to_thread(process.stdout.readline)).split()[1])
        waiting = asyncio.get_running_loop().create_task(held_once(leases))
        tell(process)
        assert await asyncio.to_thread(process.stdout.readline) == "True False\n"
        assert not waiting.done()
        process.kill()
        async with asyncio.timeout(20):
            assert await waiting > token
        if isinstance(leases, TtlLeases):
            await leases._table._link.aclose()


@needs_redis
@pytest.mark.parametrize("kind", ["redis"])
@pytest.mark.proves("lease.one")
async def test_a_holder_that_was_stopped_knows_that_it_lost_the_lease_before_it_does_anything(
    kind: str, where: str, tmp_path: Path
) -> None:
    with contender(kind, where, tmp_path / "log", ttl=TTL) as process, ours(kind, where) as leases:
        tell(process)
        token = int((await asyncio.to_thread(process.stdout.readline)).split()[1])
        process.send_signal(signal.SIGSTOP)
        tell(process)
        async with asyncio.timeout(20):
            assert await held_once(leases) > token
        process.send_signal(signal.SIGCONT)
        assert (await asyncio.to_thread(process.stdout.readline)).startswith("False")
        await leases._table._link.aclose()


@needs_redis
@pytest.mark.proves("lease.one", "shared.outage")
async def test_a_holder_whose_connection_is_cut_gives_up_before_another_has_it(redis_url: str, redis_prefix: str, failed: Failures) -> None:
    with Cut(redis_url) as cut:
        far, near = link_to(cut.url, redis_prefix, deadline=0.3), link_to(redis_url, redis_prefix)
        clock = SystemClock()
        theirs, others = (TtlLeases(RedisTable(link), clock, failed=failed, ttl=TTL) for link in (far, near))
        for harm in (cut.cut, cut.stall):
            async with asyncio.timeout(20), theirs.held("n") as lease:
                waiting = asyncio.get_running_loop().create_task(seen(others, lease))
                await asyncio.to_thread(harm)
                await lease.lost.wait()
                assert not waiting.done()
                assert await waiting == (False, True)
                await asyncio.to_thread(cut.mend)
            while far._closed_until > clock.monotonic():
                await clock.sleep(0.01)
        await far.aclose()
        await near.aclose()


async def seen(leases: Leases, lease: Any) -> tuple[bool, bool]:
    """What the holder before thinks at the moment when somebody else gets the lease."""
    async with leases.held("n") as mine:
        assert mine.token > lease.token
        return lease.held, lease.lost.is_set()


# ------------------------------------------------------------------------------------------------------------- files
async def test_two_tasks_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    leases, inside, tokens = FileLeases(tmp_path / "leases", SystemClock()), 0, []

    async def once() -> None:
        nonlocal inside
        async with leases.held("n") as lease:
            inside += 1
            assert inside == 1
            tokens.append(lease.token)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(once() for _ in range(8)))
    assert tokens == sorted(set(tokens))


async def test_a_lease_s_file_is_for_its_owner_alone_and_a_program_that_is_started_does_not_keep_the_lock(tmp_path: Path) -> None:
    leases = FileLeases(tmp_path / "leases", SystemClock())
    async with leases.held("n"):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    async with asyncio.timeout(10):
        await held_once(leases, "n")
    child.communicate(b"\n")
    [file] = (tmp_path / "leases").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


async def test_a_file_that_was_removed_while_others_waited_is_not_locked_by_them(tmp_path: Path) -> None:
    leases = FileLeases(tmp_path, SystemClock())
    async with leases.held("n") as first:
        waiting = asyncio.get_running_loop().create_task(held_once(leases, "n"))
        await asyncio.sleep(0)
        (tmp_path / "n.lease").unlink()
    async with asyncio.timeout(10):
        assert await waiting > first.token, "by the time itself"
    assert (tmp_path / "n.lease").exists()


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff" * 99, b"12\n"], ids=["nothing", "words", "bytes", "a number"])
async def test_a_file_with_anything_in_it_gives_a_higher_token(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "n.lease").write_bytes(content)
    leases = FileLeases(tmp_path, SystemClock())
    first, second = await held_once(leases, "n"), await held_once(leases, "n")
    assert 12 < first < second


async def test_a_folder_that_cannot_be_used_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match=r"file/leases/n\.lease"):
        await held_once(FileLeases(tmp_path / "file" / "leases", SystemClock()), "n")
    (tmp_path / "n.lease").mkdir()
    with pytest.raises(StoreUnavailable, match=r"n\.lease"):
        await held_once(FileLeases(tmp_path, SystemClock()), "n")
