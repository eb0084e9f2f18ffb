"""D1: a host that is killed, at whatever moment, leaves no worker, and no child of one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.host import killing

pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("sandbox")]

TIMES = 100 if os.environ.get("CI") == "true" else 20


@pytest.mark.proves("supervisor.orphans")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("tier", "share", "most"), [("A", 1.0, 4), ("B", 0.25, 2), ("C", 0.25, 2)])
def test_d1_a_host_that_is_killed_at_random_leaves_nothing(tmp_path: Path, tier: str, share: float, most: int) -> None:
    run = subprocess.run(
        [sys.executable, killing.__file__, str(tmp_path), str(int(TIMES * share)), tier],
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["slowest"] < 1
    assert max(told["processes"]) >= most, "the warm interpreter, a worker; in tier A one that forked, and its child"
