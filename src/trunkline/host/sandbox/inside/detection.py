"""What this kernel offers to this user, by trying it. Printed as one JSON object; nothing stays of the attempts."""

import json
import os
import sys
from collections.abc import Sequence

from trunkline.host.sandbox.inside import kernel, landlock
from trunkline.host.sandbox.inside.namespaces import fork, keep_ids, new_root

ALL = ("mount", "pid", "net", "ipc", "uts")
SOME = ("net", "ipc", "uts")
SECCOMP_GET_ACTION_AVAIL = 2
KILL_PROCESS = 0x80000000


def tell() -> None:
    """Print it: `{"landlock": version, "seccomp": bool, "namespaces": [...], "root": bool, "why": text}`."""
    linux = sys.platform == "linux" and kernel.COLUMN is not None
    found: dict[str, object] = {"landlock": 0, "seccomp": False, "namespaces": [], "root": False, "why": ""}
    if linux:
        namespaces, root, why = _namespaces()
        found = {"landlock": landlock.abi(), "seccomp": _seccomp(), "namespaces": namespaces, "root": root, "why": why}
    os.write(1, json.dumps(found).encode() + b"\n")  # noqa: TID251 - the server's codec is not here


def _seccomp() -> bool:
    action = (kernel.ctypes.c_char * 4).from_buffer_copy(KILL_PROCESS.to_bytes(4, sys.byteorder))
    try:
        kernel.call("seccomp", SECCOMP_GET_ACTION_AVAIL, 0, action)
    except OSError:
        return False
    return True


def _namespaces() -> tuple[Sequence[str], bool, str]:
    """The namespaces to be had, whether they can have a root of their own, and what the kernel said to more."""
    first = ("user",) if os.geteuid() else ()
    why = _tried((*first, *ALL))
    if not why:
        return (*first, *ALL), True, ""
    if not _tried((*first, *SOME)):
        return (*first, *SOME), False, why
    return (), False, why


def _tried(namespaces: Sequence[str]) -> str:
    """What the kernel says to a process in such namespaces, and to a root of its own there; nothing if all is well.

    The attempt is made by a fork, for what it forks is a child of its parent: of this process.
    """
    heard, said = os.pipe()
    if os.fork() == 0:
        try:
            if fork(namespaces) == 0:
                _settle(namespaces)
                os.write(said, b"\n")
        except OSError as error:
            os.write(said, f"{error.strerror}\n".encode())
        finally:
            os._exit(0)
    os.close(said)
    answer = b""
    while part := os.read(heard, 1024):
        answer += part
    os.close(heard)
    for _ in range(2):
        try:
            os.wait()
        except ChildProcessError:
            break
    return answer.decode().strip() if answer else "the attempt ended without a word"


def _settle(namespaces: Sequence[str]) -> None:
    user, group = _ids
    if "user" in namespaces:
        keep_ids(user, group)
    if "mount" in namespaces:
        new_root(readable=[os.path.dirname(os.__file__)], writable=[os.devnull])


_ids = (os.geteuid(), os.getegid())  # within a new user namespace they are nobody's
