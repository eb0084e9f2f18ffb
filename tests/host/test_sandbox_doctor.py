import json
import subprocess
import sys

import pytest

from trunkline.host.sandbox.inside.attempts import ATTEMPTS

pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("sandbox")]


def doctor(*more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trunkline", "ext", "doctor", *more], capture_output=True, text=True, timeout=50, check=False
    )


@pytest.mark.proves("sandbox.report")
def test_the_doctor_tells_every_attempt_to_programs() -> None:
    run = doctor("--json")
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["tier"] == "A"
    assert {attempt for finding in told["findings"] for attempt in finding["attempts"]} == ATTEMPTS.keys()
    assert {finding["control"]: finding["status"] for finding in told["findings"]}["network"] == "enforced"


@pytest.mark.proves("sandbox.report")
def test_the_doctor_tells_people_what_is_left_open() -> None:
    run = doctor()
    assert run.returncode == 0, run.stderr
    assert "tier A" in run.stdout
    assert "enforced by polling" in run.stdout or "memory       enforced" in run.stdout
