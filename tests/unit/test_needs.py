"""The rules of `conftest.py`, tried by a run of pytest inside the test."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDS_GO = """
import pytest

@pytest.mark.needs("go")
def test_something(): pass
"""
SKIPS = """
import pytest

def test_something(): pytest.skip("no reason at all")
"""
SKIPS_AS_A_WHOLE = """
import pytest

pytest.importorskip("no_such_module")
"""
NEEDS_A_TYPO = NEEDS_GO.replace("go", "gopher")
FAILS_AS_EXPECTED = """
import pytest

@pytest.mark.xfail
def test_something(): raise AssertionError
"""


def outcome(folder: Path, test: str, *, full: bool, allowed: str = "") -> tuple[int, str]:
    shutil.copy(ROOT / "conftest.py", folder)
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / "allowed_skips.toml").write_text(f"skips = [{allowed}]")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = needs(thing)\n")
    (folder / "test_it.py").write_text(test)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env={"PATH": "/nowhere", "CI": "true" if full else "", "HOME": os.environ.get("HOME", "/"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return run.returncode, run.stdout


def test_a_test_is_skipped_with_the_reason_where_its_thing_is_missing(tmp_path: Path) -> None:
    status, output = outcome(tmp_path, NEEDS_GO, full=False)
    assert status == 0
    assert "needs go: not on this machine (apt install golang)" in output


def test_a_full_run_fails_at_a_skip_that_is_not_allowed(tmp_path: Path) -> None:
    status, output = outcome(tmp_path, NEEDS_GO, full=True)
    assert status == 1
    assert "tests/allowed_skips.toml does not allow it" in output
    assert "needs go: not on this machine" in output


def test_a_full_run_passes_a_skip_that_is_allowed(tmp_path: Path) -> None:
    status, output = outcome(tmp_path, NEEDS_GO, full=True, allowed='{thing = "go", why = "a test"}')
    assert status == 0
    assert "1 skipped" in output


@pytest.mark.parametrize("test", [SKIPS, SKIPS_AS_A_WHOLE], ids=["a test", "a module"])
def test_a_full_run_fails_at_a_skip_that_names_no_thing(tmp_path: Path, test: str) -> None:
    assert outcome(tmp_path, test, full=False)[0] in {0, 5}
    status, output = outcome(tmp_path, test, full=True)
    assert status not in {0, 5}
    assert "skipped in a full run" in output


def test_a_full_run_knows_an_expected_failure_from_a_skip(tmp_path: Path) -> None:
    assert outcome(tmp_path, FAILS_AS_EXPECTED, full=True)[0] == 0


def test_a_thing_that_nobody_can_look_for_is_an_error(tmp_path: Path) -> None:
    status, output = outcome(tmp_path, NEEDS_A_TYPO, full=False)
    assert status == 1
    assert "KeyError: 'gopher'" in output
