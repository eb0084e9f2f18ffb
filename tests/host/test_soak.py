"""Minutes of use and faults: the host holds no more at the end than after three tenths of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.host import soaking

pytestmark = [pytest.mark.needs("sandbox"), pytest.mark.needs("soak")]


@pytest.mark.proves("supervisor.soak")
@pytest.mark.timeout(1200)
def test_the_host_of_faulty_extensions_stays_as_it_is(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, soaking.__file__, str(tmp_path), os.environ["TRUNKLINE_TEST_SOAK"]],
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    held = [json.loads(line) for line in run.stdout.splitlines()]
    early, late = held[2], held[-1]
    assert late["pss"] <= early["pss"] * 1.05, held
    processes = len(soaking.NAMES) + 1  # the warm interpreter is one
    assert late["children"] <= processes, held
    assert late["descriptors"] <= early["descriptors"] + 4 * processes, held
    assert late["restarts"] > early["restarts"] > 0
