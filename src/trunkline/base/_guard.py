"""The guard between a parent and the program it runs: `python -I -S _guard.py LIFELINE PROGRAM ARGUMENT…`.

LIFELINE is the number of an inherited pipe whose other end only the parent holds. A byte on it means SIGTERM to the program's
process group; its end, by a close or by the parent's death, means SIGKILL to the group. When the program ends by itself, what is
left of its group is killed too. The guard's exit status is the program's, as a shell would tell it: 128 + n after signal n.

A file of its own that imports next to nothing: it starts in 10 ms, and being single-threaded it may fork.
"""

import ctypes
import os
import select
import signal
import sys
from contextlib import suppress
from types import FrameType

PR_SET_PDEATHSIG = 1  # prctl(2)
STAYS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # what a service manager or a terminal sends to everybody
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def main() -> int:
    """Run the program, obey the lifeline, return the program's exit status."""
    lifeline = int(sys.argv[1])
    os.set_inheritable(lifeline, False)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, _woken)
    guard = os.getpid()
    libc = ctypes.CDLL(None)
    program = os.fork()
    if program == 0:
        _become(sys.argv[2:], guard, libc)
    with suppress(OSError):  # the program does it too, so that it is done whoever comes first
        os.setpgid(program, program)
    for number in STAYS:
        signal.signal(number, signal.SIG_IGN)
    _let_go_of_the_pipes()
    while True:
        readable, _, _ = select.select([lifeline, wake], [], [])
        if wake in readable:
            os.read(wake, 64)
        ended, status = os.waitpid(program, os.WNOHANG)
        if not ended and lifeline in readable:
            word = os.read(lifeline, 1)
            _tell(program, signal.SIGTERM if word else signal.SIGKILL)
            if not word:
                ended, status = os.waitpid(program, 0)
        if ended:
            _tell(program, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _become(argv: list[str], guard: int, libc: ctypes.CDLL) -> None:
    """Turn this fork into the program; never returns."""
    try:
        os.setpgid(0, 0)
        for number in (*STAYS, *IGNORED_BY_PYTHON):
            signal.signal(number, signal.SIG_DFL)
        if sys.platform == "linux":
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # should the guard itself be killed
        if os.getppid() == guard:
            os.execvp(argv[0], argv)  # noqa: S606 - running a program without a shell is what this is for
    except OSError as error:
        os.write(2, f"{argv[0]} cannot be run: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _tell(group: int, number: signal.Signals) -> None:
    with suppress(OSError):  # there is nobody left in it; macOS says "not permitted" of a zombie
        os.killpg(group, number)


def _woken(number: int, frame: FrameType | None) -> None:
    """An ignored signal would not be written to the wake-up pipe."""


def _let_go_of_the_pipes() -> None:
    """The program alone holds its standard streams, so that their ends are seen."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


if __name__ == "__main__":
    os._exit(main())
