"""Landlock: the kernel's rules for files, and by its version for TCP, signals and abstract sockets. Source: the kernel's `landlock.rst`."""

import ctypes
import os
import stat
from collections.abc import Iterable

from trunkline.host.sandbox.inside.kernel import call

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
HANDLED = (0, (1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1)
"""All rights to files that an ABI knows: those of ABI 1, then renaming across folders (2), truncating (3), ioctl on devices (5)."""
TCP = 0b11  # bind, connect
SCOPES = 0b11  # abstract UNIX sockets, signals
RULE_PATH_BENEATH = 1
VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION


def abi() -> int:
    """The kernel's version of it; 0 where there is none."""
    try:
        return call("landlock_create_ruleset", None, 0, VERSION)
    except OSError:
        return 0


def restrict(version: int, *, readable: Iterable[str], writable: Iterable[str]) -> None:
    """Allow this thread to read beneath some paths, to write to some files, and nothing else of what the ABI knows.

    Nothing may be executed. A path that is not there is passed over. Raises: `OSError`.
    """
    known = _Ruleset(HANDLED[min(version, len(HANDLED) - 1)], TCP if version >= 4 else 0, SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = call("landlock_create_ruleset", known, size, 0)
    try:
        for paths, rights in ((readable, READ_FILE | READ_DIR), (writable, READ_FILE | WRITE_FILE)):
            for path in paths:
                _allow(rules, path, rights)
        call("landlock_restrict_self", rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        folder = stat.S_ISDIR(os.fstat(place).st_mode)
        call("landlock_add_rule", rules, RULE_PATH_BENEATH, _Beneath(rights if folder else rights & ~READ_DIR, place), 0)
    finally:
        os.close(place)


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]
