import logging
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.server import environment
from trunkline.cli import run

Refused = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Refused]:
    """Runs a command in this process, for what is refused before anything begins: to start another takes a second each."""
    handlers = logging.getLogger().handlers[:]

    def command(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as changed:
            for name in [*os.environ]:
                changed.delenv(name)
            for name, value in environment(tmp_path, **variables).items():
                changed.setenv(name, value)
            changed.chdir(tmp_path)
            status = run(arguments)
        return subprocess.CompletedProcess(arguments, status, *capsys.readouterr())

    yield command
    logging.getLogger().handlers[:] = handlers
