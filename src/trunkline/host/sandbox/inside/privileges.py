"""What the process that becomes a worker gives up, and how it is bound to its parent. Sources: prctl(2), capabilities(7), getrlimit(2)."""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress

from trunkline.host.sandbox.inside.kernel import PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, call, prctl

CAPABILITY_VERSION = 0x20080522
MOST_CAPABILITIES = 64
DESCRIPTORS = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


def become(user: int) -> None:
    """Be another user, who is in the group of the same number and in no other. Raises: `OSError`."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def close_from(first: int) -> None:
    """Close every descriptor from one on, by the kernel's list of them.

    `os.closerange` tries each number there can be where the C library that Python was built with has no close_range(2): two thousand million.
    """
    for name in os.listdir(DESCRIPTORS):
        if int(name) >= first:
            with suppress(OSError):  # the one that the list was read with
                os.close(int(name))


def bound_capabilities() -> None:
    """Nothing that is ever executed can have a capability; before the user changes. Without the right to say so it is passed over."""
    for number in range(MOST_CAPABILITIES):
        try:
            prctl(PR_CAPBSET_DROP, number)
        except OSError:
            return


def drop_capabilities() -> None:
    """Have none. Raises: `OSError`."""
    call("capset", _Header(CAPABILITY_VERSION, 0), _Sets())


def limit(limits: Mapping[str, int]) -> None:
    """Set limits, for good: `{"NOFILE": 256}`. A lower one that is there already stays. Raises: `OSError`.

    At its seconds of CPU a process is told (SIGXCPU ends it), and killed a second later if it went on.
    """
    for name, most in limits.items():
        which = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(which)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (least, least + 1 if name == "CPU" and least != hard else least))


def die_with_parent(parent: int) -> None:
    """Be killed when the thread ends that started this process; after the last change of user, which would undo it.

    Raises:
        OSError: it has ended meanwhile. A process that cannot see its parent (0: it is in another namespace) has to be told otherwise.
    """
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() not in {parent, 0}:
        raise ProcessLookupError("the host is gone")


def no_new_privileges() -> None:
    """Nothing that is ever executed has more rights than this process. Raises: `OSError`."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Sets(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint32 * 6)]
