"""Workers that mean no good: greedy, or on their way out."""

import json
import platform
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.host.users import Run, as_oneself, as_somebody, reachable

pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("sandbox")]

MIB = 1 << 20
FD = Path("/proc/self/fd")
WHO = [
    pytest.param(as_oneself, id="root", marks=pytest.mark.needs("root")),
    pytest.param(as_somebody, id="an ordinary user", marks=pytest.mark.needs("interpreter_for_all")),
]
TIERS = ["A", "B", "C"]


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An extension's folder, which every user can reach."""
    return reachable(tmp_path_factory.mktemp("extension"))


def ran(run: Run, folder: Path, tier: str, body: str, **more: Any) -> dict[str, Any]:
    """What a worker said that ran this code, in one JSON object if any; how it ended; and how much it held, or how many threads, if that was too much."""
    code = "import ctypes, errno, json, mmap, os, threading, time\ndef main(controls, arguments):\n" + textwrap.indent(
        textwrap.dedent(body), "    "
    )
    (folder / "program.py").write_text(code)
    (folder / "program.py").chmod(0o644)
    process = run.start("hold", {"column": tier, "folder": str(folder)} | more)
    said, _ = process.communicate(timeout=30)
    try:
        return {key: value for line in said.splitlines() for key, value in json.loads(line).items()}
    except ValueError:
        raise AssertionError(said) from None


SAY = "def say(**words): os.write(1, json.dumps(words).encode() + b'\\n')\n"
TRY = """
def code(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    return 'done' if libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) >= 0 else errno.errorcode[ctypes.get_errno()]
"""


@pytest.mark.proves("sandbox.limits")
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("who", WHO)
def test_mappings_that_no_limit_of_the_process_counts_are_seen_by_the_host(who: Callable[[], Run], tier: str, folder: Path) -> None:
    body = """
    hoard = mmap.mmap(-1, 700 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100)  # MAP_GROWSDOWN: a stack, and no data
    for at in range(0, len(hoard), 4096): hoard[at] = 1
    time.sleep(60)
    """
    ended = ran(who(), folder, tier, body, limits={"memory": 96 * MIB})
    assert ended["status"] == 128 + 9
    assert 96 * MIB < ended["held"] < 700 * MIB


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs linux: the numbers are those of x86-64")
@pytest.mark.proves("sandbox.limits")
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("who", WHO)
def test_a_worker_whose_first_thread_has_ended_is_seen_all_the_same(who: Callable[[], Run], tier: str, folder: Path) -> None:
    body = (
        TRY
        + """
def take():
    hoard = mmap.mmap(-1, 700 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100)
    for at in range(0, len(hoard), 4096): hoard[at] = 1
    time.sleep(60)
threading.Thread(target=take).start()
code(60, 0)  # exit, of this thread
"""
    )
    ended = ran(who(), folder, tier, body, limits={"memory": 96 * MIB})
    assert ended["status"] == 128 + 9
    assert 96 * MIB < ended["held"] < 700 * MIB


@pytest.mark.proves("sandbox.limits")
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("who", WHO)
def test_threads_end_at_the_limit(who: Callable[[], Run], tier: str, folder: Path) -> None:
    body = (
        SAY
        + """
threading.stack_size(32768)
made = 0
try:
    while made < 2000:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        made += 1
except RuntimeError:
    say(refused=made)
    os._exit(0)
time.sleep(60)
"""
    )
    ended = ran(who(), folder, tier, body, limits={"processes": 20, "memory": 1 << 30})
    if "refused" in ended:  # by the kernel, where it counts
        assert 0 < ended["refused"] < 20
        assert ended["status"] == 0
    else:
        assert ended["status"] == 128 + 9
        assert ended["threads"] > 20


@pytest.mark.skipif(not (FD.exists() and FD.stat().st_size), reason="needs linux: from 6.2 on descriptors can be counted")
@pytest.mark.proves("sandbox.limits")
def test_buffers_of_sockets_count(folder: Path) -> None:
    body = (
        SAY
        + """
import socket
kept = []
def fill():
    for _ in range(100):
        pair = socket.socketpair()
        kept.append(pair)
        for end in pair:
            end.setblocking(False)
            try:
                while True: end.send(bytes(65536))
            except BlockingIOError: pass
try: socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
except PermissionError: say(size="refused")
for _ in range(8):
    if os.fork() == 0:
        fill()
        time.sleep(60)
time.sleep(60)
"""
    )
    ended = ran(as_oneself(), folder, "A", body, limits={"memory": 320 * MIB})
    assert (ended["size"], ended["status"]) == ("refused", 128 + 9)
    assert ended["held"] > 320 * MIB


@pytest.mark.proves("sandbox.limits")
@pytest.mark.parametrize("tier", TIERS)
def test_tables_of_pages_are_bounded_by_the_size_of_what_they_map(tier: str, folder: Path) -> None:
    body = (
        SAY
        + """
try:
    mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)  # MAP_NORESERVE: no data, and none in memory
except OSError as error:
    say(refused=errno.errorcode[error.errno])
"""
    )
    assert ran(as_oneself(), folder, tier, body) == {"refused": "ENOMEM", "status": 0, "held": 0}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs linux: the numbers are those of x86-64")
@pytest.mark.proves("sandbox.limits")
@pytest.mark.parametrize("tier", TIERS)
def test_memory_that_the_host_could_not_see_is_not_to_be_had(tier: str, folder: Path) -> None:
    body = (
        SAY
        + TRY
        + """
def outcome(take):
    try: take()
    except OSError as error: return errno.errorcode[error.errno]
    return "done"
def device(): mmap.mmap(os.open("/dev/zero", os.O_RDWR), 4096).close()
say(shared=outcome(lambda: mmap.mmap(-1, 4096)), device=outcome(device), pipes=code(278, 1, 0, 0, 0), swapped=code(28, 0, 0, 21),
    rulesets=code(444, 0, 0, 1), requests=code(206, 1, 0), queue=code(69, 0, 0, 0, 0))
"""
    )
    said = ran(as_oneself(), folder, tier, body)
    assert said.pop("device") == ("ENOENT" if tier == "A" else "EACCES")
    assert (said.pop("status"), said.pop("held")) == (0, 0)
    assert set(said.values()) == {"EPERM"}, said


@pytest.mark.proves("sandbox.limits")
@pytest.mark.parametrize("who", WHO)
def test_what_forks_hold_together_counts_and_all_of_them_end(who: Callable[[], Run], folder: Path) -> None:
    body = """
    for _ in range(4):
        if os.fork() == 0:
            hoard = b'x' * (60 << 20)
            time.sleep(60)
    time.sleep(60)
    """
    ended = ran(who(), folder, "A", body, limits={"memory": 128 * MIB})
    assert ended["status"] == 128 + 9
    assert ended["held"] > 128 * MIB


@pytest.mark.proves("sandbox.limits")
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("who", WHO)
def test_plain_memory_beyond_the_limit_is_a_memory_error_that_can_be_caught(who: Callable[[], Run], tier: str, folder: Path) -> None:
    body = (
        SAY
        + """
try:
    hoard = b'x' * (200 << 20)
except MemoryError:
    say(refused=True)
"""
    )
    assert ran(who(), folder, tier, body, limits={"memory": 128 * MIB}) == {"refused": True, "status": 0, "held": 0}


@pytest.mark.proves("sandbox.limits")
@pytest.mark.parametrize("tier", TIERS)
def test_a_worker_that_spins_ends_when_its_seconds_are_used(tier: str, folder: Path) -> None:
    ended = ran(as_oneself(), folder, tier, "while True: pass", limits={"cpu_seconds": 1})
    assert ended["status"] == 128 + (9 if tier == "A" else 24)  # SIGXCPU is one of those that the first process of a namespace is spared


@pytest.mark.proves("sandbox.limits")
def test_a_worker_whose_seconds_are_counted_does_not_fork_for_more_of_them(folder: Path) -> None:
    body = (
        SAY
        + """
try:
    os.fork()
except PermissionError:
    say(refused=True)
"""
    )
    assert ran(as_oneself(), folder, "A", body, limits={"cpu_seconds": 10}) == {"refused": True, "status": 0, "held": 0}


@pytest.mark.proves("sandbox.limits")
@pytest.mark.parametrize("who", WHO)
def test_a_fork_bomb_stops_at_the_limit_and_leaves_nothing(who: Callable[[], Run], folder: Path) -> None:
    body = (
        SAY
        + """
made = 0
try:
    while True:
        if os.fork() == 0: time.sleep(60)
        made += 1
except BlockingIOError:
    say(made=made)
"""
    )
    ended = ran(who(), folder, "A", body, limits={"processes": 20, "memory": 1 << 30})
    assert ended["status"] == 0
    assert 0 < ended["made"] < 20


@pytest.mark.proves("sandbox.lifetime")
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "forked"])
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("who", WHO)
def test_a_worker_cannot_leave_the_group_of_its_number(who: Callable[[], Run], tier: str, warm: bool, folder: Path) -> None:
    # Out of it, no signal to the group reached it; and a first process in the group of a child that has ended is never reaped.
    body = (
        SAY
        + """
try:
    os.setpgid(0, 0)
except PermissionError:
    say(refused=True, leads=os.getsid(0) == os.getpgid(0) == os.getpid())
"""
    )
    assert ran(who(), folder, tier, body, warm=warm) == {"refused": True, "leads": True, "status": 0, "held": 0}


@pytest.mark.proves("sandbox.limits")
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("who", WHO)
def test_there_is_no_place_to_write_to(who: Callable[[], Run], tier: str, folder: Path) -> None:
    body = (
        SAY
        + """
written = []
for place in ("/tmp", "/var/tmp", "/dev/shm", "/", "/run", os.getcwd(), os.path.dirname(__file__), "/usr/lib", "/dev"):
    for flags in (os.O_CREAT, os.O_TMPFILE):
        try:
            os.close(os.open(place + ("/x" if flags == os.O_CREAT else ""), os.O_WRONLY | flags, 0o600))
            written.append(place)
        except OSError: pass
    for make in (os.mkdir, lambda path: os.symlink("x", path), lambda path: os.mkfifo(path)):
        try:
            make(place + "/y")
            written.append(place)
        except OSError: pass
say(written=written)
"""
    )
    assert ran(who(), folder, tier, body)["written"] == []


@pytest.mark.proves("sandbox.probes")
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("who", WHO)
def test_threads_event_loops_and_the_standard_library_work(who: Callable[[], Run], tier: str, folder: Path) -> None:
    body = (
        SAY
        + """
import asyncio, hashlib, sqlite3, ssl, tempfile, zoneinfo
import msgspec, trunkline_sdk.channel
async def turn(): return await asyncio.to_thread(lambda: 7)
try:
    import cyclopts
except ImportError: foreign = False
else: foreign = True
say(thread=asyncio.run(turn()), zone=str(zoneinfo.ZoneInfo("Europe/Stockholm")), table=sqlite3.connect(":memory:").execute("select 1").fetchone(),
    random=len(os.urandom(8)), foreign=foreign, tls=bool(ssl.OPENSSL_VERSION))
"""
    )
    said = ran(who(), folder, tier, body)
    assert said == {
        "thread": 7,
        "zone": "Europe/Stockholm",
        "table": [1],
        "random": 8,
        "foreign": False,
        "tls": True,
        "status": 0,
        "held": 0,
    }


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs linux: the numbers are those of x86-64")
@pytest.mark.proves("sandbox.probes")
@pytest.mark.parametrize("tier", TIERS)
def test_calls_by_number_are_judged_too(tier: str, folder: Path) -> None:
    body = (
        SAY
        + TRY
        + """
say(clone3=code(435, 0, 0), namespaces=code(56, 0x10000000, 0), newer=code(467), vfork=code(58) if arguments["host"] and os.getpid() != 1 else "EPERM",
    pipe=code(72, 3, 1031, 1 << 20), owner=code(72, 3, 8, arguments["host"]), paste=code(16, 0, 0x5412), everyone=code(62, -1, 0))
"""
    )
    said = ran(as_oneself(), folder, tier, body)
    everyone = "ESRCH" if tier == "A" else "EPERM"  # in a namespace of its own there is nobody else
    assert said == {
        "clone3": "ENOSYS",
        "namespaces": "EPERM",
        "newer": "ENOSYS",
        "vfork": "EPERM",
        "pipe": "EPERM",
        "owner": "EPERM",
        "paste": "EPERM",
        "everyone": everyone,
        "status": 0,
        "held": 0,
    }


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs linux: the machine code is that of x86-64")
@pytest.mark.proves("sandbox.probes")
@pytest.mark.parametrize("call", ["x32", "32 bits"])
def test_calls_of_another_architecture_end_the_worker(call: str, folder: Path) -> None:
    x32 = TRY + "code(0x40000000 + 39)"
    old = """
    room = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    room.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # mov eax, 20; int 0x80; ret
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(room)))()
    """
    assert ran(as_oneself(), folder, "C", x32 if call == "x32" else old)["status"] == 128 + 31  # SIGSYS
