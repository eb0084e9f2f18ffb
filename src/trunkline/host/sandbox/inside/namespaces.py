"""Forks into namespaces, and a root folder that holds what is shown and nothing else. Sources: clone(2), user_namespaces(7), pivot_root(2)."""

import ctypes
import os
import signal
from collections.abc import Iterable

from trunkline.host.sandbox.inside.kernel import call, tid_address

FLAGS = {
    "mount": 0x00020000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
}
CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x00008000, 0x00200000, 0x01000000
READ_ONLY, NO_SETUID, NO_DEVICES, NO_EXEC, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
DETACH = 2
PLACES = ("/tmp", "/var", "/usr")  # noqa: S108 - a folder to mount on, in a namespace of our own


def fork(namespaces: Iterable[str] = ()) -> int:
    """Fork into new namespaces, as a child of this process's parent: so the host is the parent of every worker, whoever forked it.

    As `os.fork` otherwise: 0 in the child. This process has one thread. Raises: `OSError`.
    """
    place = tid_address()
    flags = CLONE_PARENT | signal.SIGCHLD | (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID if place else 0)
    for name in namespaces:
        flags |= FLAGS[name]
    ctypes.pythonapi.PyOS_BeforeFork()
    try:
        # The last two arguments are the child's thread id and its thread storage, in the one order or the other; storage is kept.
        order = (place, 0) if os.uname().machine == "x86_64" else (0, place)
        child = call("clone", flags, 0, 0, *order)
    except OSError:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
        raise
    if child:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    return child


def keep_ids(user: int, group: int) -> None:
    """In a new user namespace: be who one was outside. Raises: `OSError`."""
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    _write("/proc/self/uid_map", f"{user} {user} 1")


def new_root(*, readable: Iterable[str], writable: Iterable[str]) -> None:
    """In a new mount namespace: make a root of what may be seen, read-only. A path that is not there is passed over. Raises: `OSError`.

    A link at a path of `readable` is made anew; it leads to what is shown.
    """
    call("mount", None, b"/", None, RECURSIVE | PRIVATE, None)
    sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in _outermost(readable) if _is_there(path)}
    devices = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in writable if os.path.exists(path)}
    links = {path: os.readlink(path) for path in readable if os.path.islink(path)}
    root = next(place for place in PLACES if os.path.isdir(place))
    call("mount", b"tmpfs", root.encode(), b"tmpfs", NO_SETUID | NO_DEVICES, b"size=1m,mode=755")
    for path, target in links.items():
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        os.symlink(target, root + path)
    for path, source in sources.items():
        _show(source, root + path, READ_ONLY | NO_SETUID | NO_DEVICES)
    for path, source in devices.items():
        _show(source, root + path, 0)
    for source in (*sources.values(), *devices.values()):
        os.close(source)
    os.chdir(root)
    call("pivot_root", b".", b".")
    call("umount2", b".", DETACH)
    os.chdir("/")
    call("mount", None, b"/", None, REMOUNT | BIND | READ_ONLY | NO_SETUID | NO_DEVICES, None)


def _show(source: int, target: str, flags: int) -> None:
    if os.path.isdir(f"/proc/self/fd/{source}"):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))
    call("mount", f"/proc/self/fd/{source}".encode(), target.encode(), None, BIND | RECURSIVE, None)
    if flags:  # what the original forbids must be forbidden again: in a user namespace it is locked
        flags |= os.statvfs(target).f_flag & NO_EXEC
        call("mount", None, target.encode(), None, REMOUNT | BIND | flags, None)


def _outermost(paths: Iterable[str]) -> list[str]:
    """Without those that lie in another one."""
    chosen: list[str] = []
    for path in sorted(paths, key=len):
        if not any(path == other or path.startswith(other + "/") for other in chosen):
            chosen.append(path)
    return chosen


def _is_there(path: str) -> bool:
    return os.path.exists(path) and not os.path.islink(path)


def _write(path: str, line: str) -> None:
    place = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(place, line.encode())
    finally:
        os.close(place)
