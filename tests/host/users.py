"""Running a host as another user, who may not reach the interpreter that runs the tests."""

import atexit
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

SOMEBODY = 64_321
"""A user who owns nothing."""
ASKED = Path(__file__).with_name("asked.py")
PACKAGES = ("trunkline", "trunkline_sdk", "msgspec")


def reachable(folder: Path) -> Path:
    """A test's folder, which every user can reach: who runs an extension is nobody where root runs the tests."""
    for above in (folder, *folder.parents[:2]):
        above.chmod(0o755)
    return folder


@dataclass(frozen=True)
class Run:
    """How to start `asked.py` as somebody."""

    argv: Sequence[str]
    env: dict[str, str]
    user: int | None

    def start(self, what: str, asked: object) -> "subprocess.Popen[str]":
        who = {} if self.user is None else {"user": self.user, "group": self.user, "extra_groups": []}
        return subprocess.Popen(
            [*self.argv, what, json.dumps(asked)],
            env=self.env,
            cwd="/",
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **who,  # pyright: ignore[reportArgumentType]
        )


def as_oneself() -> Run:
    return Run([sys.executable, str(ASKED)], {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, None)


def as_root_for_all() -> Run:
    """As root, with an interpreter and packages that a user of the pool can reach where they are."""
    return replace(_for_all(), user=None)


def as_somebody() -> Run:
    """As oneself, who is not root; or, where root runs the tests, as somebody, with copies of what he cannot reach."""
    return _for_all() if os.geteuid() == 0 else as_oneself()


@cache
def _for_all() -> Run:
    place = Path(mkdtemp(prefix="trunkline-somebody-"))
    atexit.register(shutil.rmtree, place)
    for name in PACKAGES:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        shutil.copytree(Path(spec.origin).parent, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ASKED, place)
    subprocess.run(["chmod", "-R", "a+rX", place], check=True)
    interpreter = interpreter_for_all()
    assert interpreter is not None
    return Run([interpreter, str(place / ASKED.name)], {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}, SOMEBODY)


@cache
def interpreter_for_all() -> str | None:
    """An interpreter of this version that every user may run: this one, or the system's."""
    version = f"python3.{sys.version_info.minor}"
    for candidate in (os.path.realpath(sys.executable), f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        if Path(candidate).exists() and all(folder.stat().st_mode & 0o001 for folder in Path(os.path.realpath(candidate)).parents):
            return candidate
    return None
