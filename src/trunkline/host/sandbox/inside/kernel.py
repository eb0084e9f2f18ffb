"""The kernel's calls that Python has no name for, by number (x86-64 and 64-bit ARM). Source: the kernel's `unistd.h` of both."""

import ctypes
import os

LIBC = ctypes.PyDLL(None, use_errno=True)
"""Calls keep the interpreter's lock: after a fork by number there is no other thread that could give it back."""
LIBC.syscall.restype = ctypes.c_long

NUMBERS = {  # name: (x86-64, 64-bit ARM)
    "clone": (56, 220),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "capset": (126, 91),
    "seccomp": (317, 277),
    "openat2": (437, 437),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
}
MACHINES = {"x86_64": 0, "aarch64": 1}
COLUMN = MACHINES.get(os.uname().machine)
"""Which of the two numbers is this machine's; `None`: neither, and nothing here can be asked for."""

PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_GET_TID_ADDRESS = 40


def call(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | ctypes.Structure | None) -> int:
    """Ask the kernel. Raises: `OSError`, where it refuses or the machine is of another kind."""
    if COLUMN is None:
        raise OSError(38, f"no number is known for `{name}` on {os.uname().machine}")
    given = [ctypes.c_long(value) if isinstance(value, int) else _pointer(value) for value in arguments]
    return _checked(LIBC.syscall(ctypes.c_long(NUMBERS[name][COLUMN]), *given), name)


def prctl(option: int, value: int = 0) -> None:
    """Have the kernel change something about this process, by the numbers of the manual page. Raises: `OSError`."""
    _checked(LIBC.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)), "prctl")


def tid_address() -> int:
    """Where the C library keeps this thread's id, as the kernel was told at its start; 0 where the kernel does not say."""
    address = ctypes.c_ulong(0)
    done = LIBC.prctl(PR_GET_TID_ADDRESS, ctypes.byref(address), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))
    return address.value if done == 0 else 0


def _pointer(value: bytes | ctypes.Array[ctypes.c_char] | ctypes.Structure | None) -> object:
    if value is None or isinstance(value, bytes):
        return ctypes.c_char_p(value)
    return ctypes.byref(value)


def _checked(result: int, name: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result
