"""What a worker may read and use. All it can reach beyond that is its channel to the host."""

import os
import sysconfig
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from typing import Literal

from trunkline.base.codec import encode

Tier = Literal["A", "B", "C", "D"]
"""From strong to none: A shows a root of its own; B has a network of its own; C is Landlock and seccomp; D enforces nothing of the two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Attributes:
    memory: bytes of the worker with all that it forked.
    cpu_seconds: of its whole life, and then it cannot fork; `None`: as many as it likes.
    open_files: descriptors.
    file_size: bytes of any file that it writes.
    processes: processes and threads.
    """

    memory: int = 256 << 20
    cpu_seconds: int | None = None
    open_files: int = 256
    file_size: int = 16 << 20
    processes: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The interpreter's files, which are the same for every worker.

    Attributes:
        readable: files and folders with all that is in them.
        packages: what can be imported beside the standard library, and where it is; what else is installed there cannot be seen.
    """

    readable: tuple[str, ...]
    packages: dict[str, str]

    @classmethod
    def running(cls, *packages: str) -> "Interpreter":
        """This one, with these packages."""
        found = {name: _package(name) for name in packages}
        system = [path for path in (*_libraries(), "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo") if os.path.exists(path)]
        standard = os.path.realpath(os.path.dirname(os.__file__))
        return cls(readable=(standard, *found.values(), *system), packages=found)


SDK = ("trunkline_sdk", "msgspec")
"""What the program of a worker imports."""
DEVICES = ("/dev/null", "/dev/urandom")
"""Not `/dev/zero`: mapped, it is memory that no size of a process shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One worker's sandbox.

    Attributes:
        folder: the extension's own, absolute and without links; read, never written.
        user: whom it runs as where the host is root; of the pool (`trunkline.host.sandbox.users`), nobody else's at the time.
        minimum: the weakest tier in which it may run.
        allow_unsandboxed: run it in whatever there is.
    """

    folder: str
    interpreter: Interpreter = field(default_factory=lambda: Interpreter.running(*SDK))
    limits: Limits = Limits()
    user: int | None = None
    minimum: Tier = "C"
    allow_unsandboxed: bool = False

    @property
    def readable(self) -> tuple[str, ...]:
        """All that can be read."""
        return (*self.interpreter.readable, self.folder)

    @property
    def digest(self) -> str:
        """The same for policies that a probe cannot tell apart: which folder and which user of the pool it is does not matter."""
        same = [self.interpreter, self.limits, self.user is None]
        return sha256(encode(same)).hexdigest()[:16]


def _package(name: str) -> str:
    spec = find_spec(name)
    assert spec is not None
    assert spec.submodule_search_locations is not None, f"{name} is a package"
    return os.path.realpath(next(iter(spec.submodule_search_locations)))


def _libraries() -> tuple[str, ...]:
    """Where shared libraries are: the folder of this architecture where there is one (Debian), else all."""
    triplet = sysconfig.get_config_var("MULTIARCH")
    if triplet and os.path.isdir(f"/usr/lib/{triplet}"):
        return (f"/usr/lib/{triplet}", f"/lib/{triplet}")
    return ("/usr/lib64", "/usr/lib", "/lib64", "/lib")
