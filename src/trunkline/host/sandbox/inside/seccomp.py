"""A filter for system calls, as raw BPF. Source: the kernel's `seccomp_filter.rst`, `filter.h`, and the manual pages of the calls.

The filter is a row of rules: `if the call is N: …`, and what stands in a rule always returns. So the accumulator still holds the number of
the call when the next rule looks at it, whatever arguments a rule has read.
"""

import ctypes
import errno

from trunkline.host.sandbox.inside.calls import DENIED, NAMED, NEWEST
from trunkline.host.sandbox.inside.kernel import COLUMN, call

Instruction = tuple[int, int, int, int]

LOAD, EQUAL, ABOVE, AT_LEAST, SET, AND, RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
ARCHITECTURES = (0xC000003E, 0xC00000B7)  # AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64
X32 = 0x40000000
AT_NUMBER, AT_ARCHITECTURE, AT_ARGUMENTS = 0, 4, 16
SECCOMP_SET_MODE_FILTER = 1

AF_UNIX, SOCK_STREAM, SOCK_KIND = 1, 1, 0xF
CLONE_THREAD, CLONE_PARENT = 0x00010000, 0x00008000
CLONE_NAMESPACES = 0x7E020000
MSG_OOB = 1  # of UNIX sockets: nobody's need, and more than once the kernel's undoing
MAP_KIND, MAP_SHARED, MAP_SHARED_VALIDATE = 0x2F, 0x21, 0x23  # each with MAP_ANONYMOUS
MADV_PAGEOUT = 21
FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032, 1034)
"""Copies of descriptors, their flags, locks, and what is asked alone. Not: whom it signals, leases, watches, the size of a pipe."""
IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX. File systems change files, and terminals what is typed, by others."""
PRCTL = (2, 3, 15, 16, 21, 23, 38, 39, 0x53564D41)
"""PR_SET_NAME, PR_SET_NO_NEW_PRIVS, PR_SET_VMA, and what is asked alone."""

YES: list[Instruction] = [(RETURN, 0, 0, ALLOW)]
NO: list[Instruction] = [(RETURN, 0, 0, ERRNO | errno.EPERM)]
NO_SUCH: list[Instruction] = [(RETURN, 0, 0, ERRNO | errno.ENOSYS)]
KILLED: list[Instruction] = [(RETURN, 0, 0, KILL)]


def program(*, machine: int, pid: int, children: bool) -> list[Instruction]:
    """The filter.

    Args:
        machine: 0 for x86-64, 1 for 64-bit ARM.
        pid: the worker's own, as it sees it.
        children: whether it may fork, and signal what it forked: only in a PID namespace of its own.
    """
    rules: list[Instruction] = [
        (LOAD, 0, 0, AT_ARCHITECTURE),
        (EQUAL, 1, 0, ARCHITECTURES[machine]),
        *KILLED,
        (LOAD, 0, 0, AT_NUMBER),
        *([] if machine else [(AT_LEAST, 0, 1, X32), *KILLED]),
        (ABOVE, 0, 1, NEWEST),
        *NO_SUCH,
    ]
    for numbers in DENIED.values():
        rules += _when(numbers[machine], NO)
    for name, body in _judged(pid, children=children).items():
        rules += _when(NAMED[name][machine], body)
    return rules + YES


def install(pid: int, *, children: bool) -> None:
    """Put the filter on this thread, for good. Raises: `OSError`."""
    assert COLUMN is not None, "the plan has no filter for such a machine"
    rules = program(machine=COLUMN, pid=pid, children=children)
    assembled = (_Instruction * len(rules))(*rules)
    call("seccomp", SECCOMP_SET_MODE_FILTER, 0, _Program(len(rules), ctypes.cast(assembled, ctypes.POINTER(_Instruction))))


def _judged(pid: int, *, children: bool) -> dict[str, list[Instruction]]:
    """The calls that depend on their arguments."""
    own, only_this_one = _equal(0, (pid,), YES, NO), _equal(0, (0, pid), YES, NO)
    to_nobody = _equal(4, (0,), _equal(4, (0,), YES, NO, high=True), NO)
    rules = {
        "clone": _has(0, CLONE_NAMESPACES | CLONE_PARENT, NO, YES)
        if children
        else _has(0, CLONE_NAMESPACES, NO, _has(0, CLONE_THREAD, YES, NO)),
        "clone3": NO_SUCH,  # its flags are behind a pointer, where no filter can see; the C library then takes `clone`
        "socketpair": _equal(0, (AF_UNIX,), _equal(1, (SOCK_STREAM,), YES, NO, mask=SOCK_KIND), NO),
        "sendto": _has(3, MSG_OOB, NO, to_nobody),
        "sendmsg": _has(2, MSG_OOB, NO, YES),
        "sendmmsg": _has(3, MSG_OOB, NO, YES),
        "recvfrom": _has(3, MSG_OOB, NO, YES),
        "recvmsg": _has(2, MSG_OOB, NO, YES),
        "recvmmsg": _has(3, MSG_OOB, NO, YES),
        # What such a mapping holds stays when it is mapped nowhere: no size of a process shows it, and none limits it.
        "mmap": _equal(3, (MAP_SHARED, MAP_SHARED_VALIDATE), NO, YES, mask=MAP_KIND),
        "madvise": _equal(2, (MADV_PAGEOUT,), NO, YES),  # nor what is swapped out
        "fcntl": _equal(1, FCNTL, YES, NO),
        "ioctl": _equal(1, IOCTL, YES, NO),
        "prctl": _equal(0, PRCTL, YES, NO),
        "prlimit64": only_this_one,
        "setpriority": _equal(0, (0,), _equal(1, (0, pid), YES, NO), NO),
        "ioprio_set": NO,
        "sched_setaffinity": only_this_one,
        "sched_setscheduler": only_this_one,
        "sched_setparam": only_this_one,
        "sched_setattr": only_this_one,
    }
    if not children:
        rules |= {"kill": own, "tgkill": own, "fork": NO, "vfork": NO}
    return rules


def _when(number: int | None, body: list[Instruction]) -> list[Instruction]:
    return [] if number is None else [(EQUAL, 0, len(body), number), *body]


def _equal(
    argument: int, values: tuple[int, ...], then: list[Instruction], otherwise: list[Instruction], *, mask: int = 0, high: bool = False
) -> list[Instruction]:
    """Where an argument (its lower half; `high`: its upper) is one of the values, the one; else the other. Both return."""
    load: list[Instruction] = [(LOAD, 0, 0, AT_ARGUMENTS + 8 * argument + 4 * high), *([(AND, 0, 0, mask)] if mask else [])]
    tests: list[Instruction] = [(EQUAL, len(values) - 1 - at + len(otherwise), 0, value) for at, value in enumerate(values)]
    return [*load, *tests, *otherwise, *then]


def _has(argument: int, bits: int, then: list[Instruction], otherwise: list[Instruction]) -> list[Instruction]:
    """Where an argument has any of the bits, the one; else the other. Both return."""
    return [(LOAD, 0, 0, AT_ARGUMENTS + 8 * argument), (SET, len(otherwise), 0, bits), *otherwise, *then]


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("rules", ctypes.POINTER(_Instruction))]
