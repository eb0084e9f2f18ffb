"""The guide's commands run as they stand there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.server import environment

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "credentials.md").read_text(encoding="utf-8")
CANARY = "sk-canary-0123456789abcdef"


@pytest.mark.proves("vault.unread")
def test_the_guides_commands_run_and_none_prints_a_secret(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "trunkline").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m trunkline "$@"\n')
    (programs / "trunkline").chmod(0o755)
    (tmp_path / "trunkline.toml").write_text('[providers.openai]\nkind = "openai"\n')
    for name in ("spare", "research"):
        (tmp_path / f"{name}.key").write_text(f"{CANARY}-{name}\n")
    told = environment(tmp_path, SECRET=CANARY, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    told["PATH"] = f"{programs}{os.pathsep}{told.get('PATH', os.environ['PATH'])}"
    said = ""
    for block in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL):
        done = subprocess.run(["sh", "-ec", block], env=told, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        said += done.stdout
    assert said.count("added cred_") == 3
    assert "3 secrets were sealed with the key vk_" in said
    assert CANARY not in said
