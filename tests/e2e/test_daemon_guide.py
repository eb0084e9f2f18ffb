"""What the guide "Use a daemon" says to write and to run is written and run, as it stands there, but for the addresses."""

import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fakes.server import PATIENCE, Server, environment
from trunkline.app.config import read

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "use-a-daemon.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


START, LOOK = blocks("sh")
CONFIG, ROUTED, _ = blocks("toml")


@contextmanager
def daemon(folder: Path, variables: dict[str, str]) -> Generator[str]:
    """Where the daemon listens that the guide starts."""
    process = subprocess.Popen(
        ["sh", "-eu", "-c", START],
        cwd=folder,
        env=variables | {"PORT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        found = next(filter(None, (re.search(r"http://127\.0\.0\.1:\d+", line) for line in process.stdout)))
        yield found[0]
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=PATIENCE)


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """A world in which the guide's commands find their programs."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, command in (("trunkline", f"{shlex.quote(sys.executable)} -m trunkline"), ("python", shlex.quote(sys.executable))):
        (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (programs / name).chmod(0o755)
    return environment(tmp_path) | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize("text", blocks("toml"))
def test_a_configuration_that_the_guide_shows_is_one(text: str) -> None:
    assert {each.kind for each in read(tomllib.loads(text)).providers.values()} <= {"daemon", "openai"}


@pytest.mark.proves("readme")
@pytest.mark.parametrize("config", [CONFIG, ROUTED], ids=["alone", "in a route"])
def test_the_guide_can_be_followed(tmp_path: Path, variables: dict[str, str], config: str) -> None:
    with daemon(tmp_path, variables) as url:
        assert config.count("http://127.0.0.1:18888") == 1
        with Server(tmp_path, config=config.replace("http://127.0.0.1:18888", url), data=False, OPENAI_API_KEY="k") as server:
            variables |= {"ADDRESS": server.url, "TRUNKLINE_KEY": server.key}
            looked = run(["sh", "-eu", "-c", LOOK], tmp_path, variables)
            assert "lab/echo" in looked
            [program] = blocks("python")
            models = ["lab/echo/parrot", "echo/parrot", "parrot", *(["fast"] if "[routes.fast]" in config else [])]
            programs = [program.replace("lab/echo/parrot", model) for model in models]
            assert run([sys.executable, "-c", "\n".join(programs)], tmp_path, variables) == "hello from afar\n" * len(models)
            secret = (tmp_path / "daemon.secret").read_text().strip()
            assert server.stop() == 0
    assert not [line for line in server.raw if secret in line]


def run(command: list[str], folder: Path, variables: dict[str, str]) -> str:
    ended = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
