"""The filter, run by an interpreter of BPF that is written from the kernel's documentation alone."""

import struct
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.host.sandbox.inside.calls import DENIED, NAMED, NEWEST
from trunkline.host.sandbox.inside.seccomp import Instruction, program

PID = 4321
ALLOWED, KILLED, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
MACHINES = [pytest.param(0, 0xC000003E, id="x86-64"), pytest.param(1, 0xC00000B7, id="64-bit ARM")]


def run(rules: Sequence[Instruction], number: int, *arguments: int, architecture: int) -> int:
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(*arguments, *[0] * (6 - len(arguments))))
    at = accumulator = 0
    while True:
        code, yes, no, k = rules[at]
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, k)
            case 0x54:
                accumulator &= k
            case 0x15:
                at += yes if accumulator == k else no
            case 0x25:
                at += yes if accumulator > k else no
            case 0x35:
                at += yes if accumulator >= k else no
            case 0x45:
                at += yes if accumulator & k else no
            case 0x06:
                return k
            case _:
                raise AssertionError(f"what is {code:#x}?")


def numbers(machine: int) -> Iterator[tuple[str, int]]:
    for name, both in (DENIED | NAMED).items():
        if (number := both[machine]) is not None:
            yield name, number


@pytest.mark.parametrize(("machine", "architecture"), MACHINES)
@pytest.mark.parametrize("children", [False, True])
def test_what_is_not_named_is_allowed_and_what_is_newer_is_unknown(machine: int, architecture: int, children: bool) -> None:
    rules = program(machine=machine, pid=PID, children=children)
    named = dict(map(reversed, numbers(machine)))
    for number in range(NEWEST + 200):
        if number > NEWEST:
            assert run(rules, number, architecture=architecture) == ENOSYS
        elif named.get(number) in DENIED:
            assert run(rules, number, architecture=architecture) == EPERM, named[number]
        elif number not in named:
            assert run(rules, number, architecture=architecture) == ALLOWED, number


@pytest.mark.parametrize(("machine", "architecture"), MACHINES)
def test_another_architecture_is_killed(machine: int, architecture: int) -> None:
    rules = program(machine=machine, pid=PID, children=True)
    for other in (0, 0x40000003, 0x40000028, 0xC000003E, 0xC00000B7):  # i386, 32-bit ARM, both of ours
        if other != architecture:
            assert run(rules, 39, architecture=other) == KILLED
    assert run(rules, 0x40000000 + 39, architecture=architecture) == (KILLED if machine == 0 else ENOSYS)


HIGH = 1 << 32
CASES = [
    ("socketpair", (1, 1), ALLOWED),
    ("socketpair", (1, 1 | 0o2000000), ALLOWED),
    ("socketpair", (1, 2), EPERM),
    ("socketpair", (2, 1), EPERM),
    ("sendto", (3, 1, 1, 0, 0), ALLOWED),
    ("sendto", (3, 1, 1, 0, 4096), EPERM),
    ("sendto", (3, 1, 1, 0, HIGH), EPERM),
    ("sendto", (3, 1, 1, 1, 0), EPERM),
    ("sendmsg", (3, 1, 0x4000), ALLOWED),
    ("sendmsg", (3, 1, 1), EPERM),
    ("sendmmsg", (3, 1, 1, 1), EPERM),
    ("recvfrom", (3, 1, 1, 0x40), ALLOWED),
    ("recvfrom", (3, 1, 1, 1), EPERM),
    ("recvmsg", (3, 1, 0x41), EPERM),
    ("recvmmsg", (3, 1, 1, 1), EPERM),
    ("mmap", (0, 4096, 3, 0x22), ALLOWED),  # MAP_PRIVATE | MAP_ANONYMOUS
    ("mmap", (0, 4096, 1, 0x01), ALLOWED),  # MAP_SHARED, of a file
    ("mmap", (0, 4096, 3, 0x21), EPERM),
    ("mmap", (0, 4096, 3, 0x23), EPERM),  # MAP_SHARED_VALIDATE
    ("mmap", (0, 4096, 3, 0x8021 | HIGH), EPERM),  # MAP_POPULATE
    ("madvise", (0, 4096, 4), ALLOWED),
    ("madvise", (0, 4096, 21), EPERM),
    ("fcntl", (3, 1), ALLOWED),
    ("fcntl", (3, 6), ALLOWED),
    ("fcntl", (3, 1030), ALLOWED),
    ("fcntl", (3, 1024), EPERM),  # F_SETLEASE
    ("fcntl", (3, 1026), EPERM),  # F_NOTIFY
    ("fcntl", (3, 8), EPERM),
    ("fcntl", (3, 10), EPERM),
    ("fcntl", (3, 15), EPERM),
    ("fcntl", (3, 1031), EPERM),
    ("ioctl", (0, 0x5401), ALLOWED),
    ("ioctl", (3, 0x5421), ALLOWED),
    ("ioctl", (0, 0x5412), EPERM),
    ("ioctl", (3, 0x5000940E), EPERM),  # BTRFS_IOC_SUBVOL_CREATE, of a folder that is open to be read
    ("ioctl", (3, 0x40806685), EPERM),  # FS_IOC_ENABLE_VERITY
    ("prctl", (15,), ALLOWED),
    ("prctl", (1,), EPERM),
    ("prctl", (4,), EPERM),
    ("prctl", (62,), EPERM),  # PR_SCHED_CORE
    ("prctl", (0x59616D61,), EPERM),
    ("prlimit64", (0,), ALLOWED),
    ("prlimit64", (PID,), ALLOWED),
    ("prlimit64", (1,), EPERM),
    ("setpriority", (0, 0), ALLOWED),
    ("setpriority", (2, 0), EPERM),
    ("setpriority", (0, 1), EPERM),
    ("sched_setaffinity", (1,), EPERM),
    ("ioprio_set", (1, 0), EPERM),
    ("clone3", (0,), ENOSYS),
    ("clone", (0x10000 | 0xF00,), ALLOWED),
    ("clone", (0x10000 | 0x10000000,), EPERM),
]


@pytest.mark.parametrize(("machine", "architecture"), MACHINES)
@pytest.mark.parametrize("children", [False, True])
@pytest.mark.parametrize(("name", "arguments", "fate"), CASES)
def test_some_calls_are_judged_by_their_arguments(
    machine: int, architecture: int, children: bool, name: str, arguments: tuple[int, ...], fate: int
) -> None:
    number = NAMED[name][machine]
    assert number is not None
    assert run(program(machine=machine, pid=PID, children=children), number, *arguments, architecture=architecture) == fate


@pytest.mark.parametrize(("machine", "architecture"), MACHINES)
def test_forks_and_signals_are_for_those_who_have_a_namespace_of_processes(machine: int, architecture: int) -> None:
    alone, family = (program(machine=machine, pid=PID, children=children) for children in (False, True))
    calls = {"clone": (17,), "kill": (1, 9), "tgkill": (1, 1, 9), "fork": (), "vfork": ()}
    for name, arguments in calls.items():
        if (number := NAMED[name][machine]) is not None:
            assert run(alone, number, *arguments, architecture=architecture) == EPERM, name
            assert run(family, number, *arguments, architecture=architecture) == ALLOWED, name
    kill = NAMED["kill"][machine]
    assert kill is not None
    assert run(alone, kill, PID, 9, architecture=architecture) == ALLOWED
    assert run(alone, kill, 0, 9, architecture=architecture) == run(alone, kill, (1 << 64) - 1, 9, architecture=architecture) == EPERM


@given(number=st.integers(0, 0xFFFFFFFF), arguments=st.lists(st.integers(0, (1 << 64) - 1), max_size=6), children=st.booleans())
def test_every_call_comes_to_a_verdict(number: int, arguments: list[int], children: bool) -> None:
    rules = program(machine=0, pid=PID, children=children)
    assert run(rules, number, *arguments, architecture=0xC000003E) in {ALLOWED, KILLED, EPERM, ENOSYS}


def test_no_jump_is_longer_than_its_field() -> None:
    assert all(max(yes, no) < 256 for _, yes, no, _ in program(machine=0, pid=PID, children=False))
