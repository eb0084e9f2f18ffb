"""What the guide to the admin API says to run is run, as it stands there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.server import PATIENCE, Server, environment

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "admin-api.md").read_text(encoding="utf-8")
CONFIG = """
[providers.echo]
kind = "echo"
models = ["echo"]

[routes.fast]
targets = [{ model = "echo/echo" }]
"""
CALL = {"model": "fast", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


@pytest.mark.proves("readme")
def test_the_guide_can_be_followed(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "trunkline").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m trunkline "$@"\n')
    (programs / "trunkline").chmod(0o755)
    with Server(tmp_path, config=CONFIG, data=False) as server:
        for _ in range(5):
            assert server.ask("POST", "/v1/messages", CALL).status == 200
        while len(server.ask("GET", "/api/v1/exchanges").json["data"]) < 5:
            pass
        variables = environment(tmp_path, ADDRESS=server.url) | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        local, remote = [run(["sh", "-eu", "-c", code], tmp_path, variables) for code in blocks("sh")]
        assert local.count("echo/echo") >= 6
        assert remote.count("well") == 2
        [program] = blocks("python")
        told = run([sys.executable, "-c", program], tmp_path, variables | {"TRUNKLINE_KEY": server.key})
        assert len(set(told.splitlines())) == 5
        assert all(line.endswith(" fast ok") for line in told.splitlines())


def run(command: list[str], folder: Path, variables: dict[str, str]) -> str:
    ended = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
