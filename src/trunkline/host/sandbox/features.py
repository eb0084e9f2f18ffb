"""What this machine offers to the host's user, found by trying once."""

import asyncio
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from trunkline.base.codec import decode
from trunkline.host.sandbox.policy import Policy

LAUNCHER = str(Path(__file__).parent / "inside" / "__main__.py")
SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Attributes:
    kernel: its release and architecture.
    user, group: the host's own.
    landlock: its ABI, 0 for none.
    seccomp: whether system calls can be filtered.
    namespaces: which a worker can be forked into.
    own_root: whether it can have a root folder of its own there.
    why_not: what the kernel said to more.
    cgroup: the folder in which cgroups with a limit of memory can be made.
    """

    kernel: str = ""
    user: int = 0
    group: int = 0
    landlock: int = 0
    seccomp: bool = False
    namespaces: tuple[str, ...] = ()
    own_root: bool = False
    why_not: str = ""
    cgroup: str | None = None

    @property
    def linux(self) -> bool:
        """Whether it is a Linux at all."""
        return self.kernel.startswith("Linux")


@dataclass(frozen=True, slots=True)
class _Told:
    landlock: int
    seccomp: bool
    namespaces: tuple[str, ...]
    root: bool
    why: str


async def detect() -> Features:
    """Try everything, in a process of its own."""
    trial = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", LAUNCHER, "detect"), env={}, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(SECONDS):
        said, _ = await trial.communicate()
    told = decode(said, _Told)
    machine = os.uname()
    return Features(
        kernel=f"{machine.sysname} {machine.release} {machine.machine}",
        user=os.geteuid(),
        group=os.getegid(),
        landlock=told.landlock,
        seccomp=told.seccomp,
        namespaces=told.namespaces,
        own_root=told.root,
        why_not=told.why,
        cgroup=delegated(),
    )


def delegated(own: Path = Path("/proc/self/cgroup"), mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """Where cgroups (version 2) can be made whose memory the kernel limits: beside the host's own (systemd's `DelegateSubgroup`)."""
    try:
        path = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
        where = next(line.split()[4] for line in mounts.read_text().splitlines() if " - cgroup2 " in line)
        parent = Path(where + path).parent
        controllers = (parent / "cgroup.subtree_control").read_text().split()
    except (OSError, StopIteration):
        return None
    return str(parent) if {"memory", "pids"} <= set(controllers) and os.access(parent, os.W_OK) else None


@dataclass(frozen=True, slots=True)
class Reach:
    """What a user of the pool can read, by modes alone.

    Attributes:
        shown: all of a policy's paths, once each is shown in another root.
        here: also where they are.
    """

    shown: bool
    here: bool


def reach(policy: Policy) -> Reach:
    """Look at the modes of a policy's paths, at those of the folders above them, and at what is directly in them."""
    shown = all(_open_to_others(path) for path in policy.readable)
    return Reach(shown, shown and all(_passable(path) for path in policy.readable))


def _open_to_others(path: str) -> bool:
    if not os.path.isdir(path):
        return _has(path, stat.S_IROTH)
    with os.scandir(path) as entries:
        return _has(path, stat.S_IROTH | stat.S_IXOTH) and all(
            entry.is_symlink() or _has(entry.path, stat.S_IROTH | (stat.S_IXOTH if entry.is_dir() else 0)) for entry in entries
        )


def _passable(path: str) -> bool:
    return all(_has(str(folder), stat.S_IXOTH) for folder in Path(path).parents)


def _has(path: str, bits: int) -> bool:
    return os.stat(path).st_mode & bits == bits
