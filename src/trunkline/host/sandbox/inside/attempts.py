"""What a worker should not be able to do, tried from within. A program for the sandbox: it says on descriptor 3 what became of each attempt.

One JSON object a line: `{"attempt": name, "outcome": "allowed" or the error's name}`. Each attempt aims at something that the host made for it,
and changes nothing there if it is allowed. Standard library only, and nothing of the server: the file is copied to where a worker can read it.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
CHANNEL = 3
PTRACE_SEIZE, CLONE_NEWUSER, IO_URING_SETUP, PR_GET_PDEATHSIG, SIGKILL = 0x4206, 0x10000000, 425, 2, 9
IN_CREATE = 0x100
MORE = 64 << 20  # bytes

Attempt = Callable[[Mapping[str, Any]], object]


def main(controls: Sequence[object], arguments: Mapping[str, Any]) -> None:  # noqa: ARG001 - what was applied is no news here
    """Try all. The last one, if it is allowed, ends this program without a word."""
    for name, attempt in ATTEMPTS.items():
        try:
            attempt(arguments)
        except (OSError, MemoryError) as error:
            _tell(name, errno.errorcode.get(error.errno or 0, "refused") if isinstance(error, OSError) else "MemoryError")
        else:
            _tell(name, "allowed")


def _tell(attempt: str, outcome: str) -> None:
    os.write(CHANNEL, json.dumps({"attempt": attempt, "outcome": outcome}).encode() + b"\n")  # noqa: TID251 - the server's codec is not here


def _libc(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "")


def _refuse(what: str) -> None:
    raise OSError(errno.EPERM, what)


def _write_own_folder(given: Mapping[str, Any]) -> None:
    with open(given["folder"] + "/written", "w", encoding="ascii"):
        pass


def _read_passwd(given: Mapping[str, Any]) -> None:  # noqa: ARG001 - one of many attempts
    os.close(os.open("/etc/passwd", os.O_RDONLY))


def _read_secret(given: Mapping[str, Any]) -> None:
    os.close(os.open(given["secret"], os.O_RDONLY))


def _read_by_link(given: Mapping[str, Any]) -> None:
    os.close(os.open(given["folder"] + "/link", os.O_RDONLY))


def _truncate_outside(given: Mapping[str, Any]) -> None:
    os.truncate(given["victim"], 0)  # it is empty


def _stat_outside(given: Mapping[str, Any]) -> None:
    os.stat(given["secret"])


def _chmod_outside(given: Mapping[str, Any]) -> None:
    os.chmod(given["victim"], 0o666)  # noqa: S103 - as it is already


def _utime_outside(given: Mapping[str, Any]) -> None:
    os.utime(given["victim"])


def _attributes_outside(given: Mapping[str, Any]) -> None:
    os.listxattr(given["secret"])


def _watch_outside(given: Mapping[str, Any]) -> None:
    watch = LIBC.inotify_init1(0)
    _libc(watch)
    try:
        _libc(LIBC.inotify_add_watch(watch, os.path.dirname(given["secret"]).encode(), IN_CREATE))
    finally:
        os.close(watch)


def _environ_of_host(given: Mapping[str, Any]) -> None:
    os.close(os.open(f"/proc/{given['host']}/environ", os.O_RDONLY))


def _trace_host(given: Mapping[str, Any]) -> None:
    _libc(LIBC.ptrace(PTRACE_SEIZE, given["host"], None, None))


def _signal_host(given: Mapping[str, Any]) -> None:
    os.kill(given["host"], 0)


def _limits_of_host(given: Mapping[str, Any]) -> None:
    resource.prlimit(given["host"], resource.RLIMIT_NOFILE)


def _signal_host_by_descriptor(given: Mapping[str, Any]) -> None:
    fcntl.fcntl(CHANNEL, fcntl.F_SETOWN, given["host"])


def _tcp_connect(given: Mapping[str, Any]) -> None:
    with socket.socket() as sock:
        sock.settimeout(1)
        sock.connect(("127.0.0.1", given["tcp"]))


def _tcp_bind(given: Mapping[str, Any]) -> None:  # noqa: ARG001 - as above
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()


def _udp_send(given: Mapping[str, Any]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", ("127.0.0.1", given["udp"]))


def _unix_path(given: Mapping[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(given["unix"])


def _unix_abstract(given: Mapping[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("\0" + given["abstract"])


def _datagram_pair(given: Mapping[str, Any]) -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.sendto(b"x", given["datagrams"])


def _vsock(given: Mapping[str, Any]) -> None:  # noqa: ARG001 - as above
    socket.socket(40, socket.SOCK_STREAM).close()  # AF_VSOCK


def _netlink(given: Mapping[str, Any]) -> None:  # noqa: ARG001 - as above
    socket.socket(16, socket.SOCK_RAW).close()  # AF_NETLINK


def _child_that_stays(given: Mapping[str, Any]) -> None:  # noqa: ARG001 - as above
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    if os.getpid() == 1:
        _refuse("when the first process of a PID namespace ends, the kernel ends the others")


def _allocate_beyond(given: Mapping[str, Any]) -> None:
    bytearray(given["memory"] + MORE)


def _memory_of_no_process(given: Mapping[str, Any]) -> None:  # noqa: ARG001 - as above
    os.close(os.memfd_create("x"))


def _memory_of_no_mapping(given: Mapping[str, Any]) -> None:  # noqa: ARG001 - as above
    with mmap.mmap(-1, mmap.PAGESIZE) as shared:
        shared[0] = 1
        shared.madvise(mmap.MADV_DONTNEED)
        if shared[0] != 1:
            _refuse("what is in no size is gone")


def _outlive_host(given: Mapping[str, Any]) -> None:  # noqa: ARG001 - as above
    signal = ctypes.c_int(0)
    _libc(LIBC.prctl(PR_GET_PDEATHSIG, ctypes.byref(signal)))
    if signal.value == SIGKILL:
        _libc(LIBC.prctl(1, 0))  # PR_SET_PDEATHSIG: take it back


def _environment(given: Mapping[str, Any]) -> None:  # noqa: ARG001 - as above
    if not os.environ.keys() - {"LC_CTYPE"}:  # PEP 538 may put that one there
        _refuse("it is empty")


def _descriptors(given: Mapping[str, Any]) -> None:  # noqa: ARG001 - as above
    for descriptor in range(CHANNEL + 1, 64):
        try:
            os.fstat(descriptor)
        except OSError:
            continue
        return
    _refuse("there are none but the four")


def _io_uring(given: Mapping[str, Any]) -> None:  # noqa: ARG001 - as above
    ring = LIBC.syscall(ctypes.c_long(IO_URING_SETUP), ctypes.c_long(1), ctypes.create_string_buffer(120))
    _libc(ring)
    os.close(ring)


def _user_namespace(given: Mapping[str, Any]) -> None:  # noqa: ARG001 - as above
    _libc(LIBC.unshare(CLONE_NEWUSER))


def _shell(given: Mapping[str, Any]) -> None:  # noqa: ARG001 - as above
    os.execv("/bin/sh", ["sh", "-c", "exit 0"])  # noqa: S606 - whether it can be run is the question


ATTEMPTS: dict[str, Attempt] = {
    "write_own_folder": _write_own_folder,
    "read_passwd": _read_passwd,
    "read_secret": _read_secret,
    "read_by_link": _read_by_link,
    "truncate_outside": _truncate_outside,
    "stat_outside": _stat_outside,
    "chmod_outside": _chmod_outside,
    "utime_outside": _utime_outside,
    "attributes_outside": _attributes_outside,
    "watch_outside": _watch_outside,
    "environ_of_host": _environ_of_host,
    "trace_host": _trace_host,
    "signal_host": _signal_host,
    "limits_of_host": _limits_of_host,
    "signal_host_by_descriptor": _signal_host_by_descriptor,
    "tcp_connect": _tcp_connect,
    "tcp_bind": _tcp_bind,
    "udp_send": _udp_send,
    "unix_path": _unix_path,
    "unix_abstract": _unix_abstract,
    "datagram_pair": _datagram_pair,
    "vsock": _vsock,
    "netlink": _netlink,
    "child_that_stays": _child_that_stays,
    "allocate_beyond": _allocate_beyond,
    "memory_of_no_process": _memory_of_no_process,
    "memory_of_no_mapping": _memory_of_no_mapping,
    "outlive_host": _outlive_host,
    "environment": _environment,
    "descriptors": _descriptors,
    "io_uring": _io_uring,
    "user_namespace": _user_namespace,
    "shell": _shell,
}
