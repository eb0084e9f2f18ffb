"""What a fork server imports: all that a worker needs, and nothing that starts or opens anything."""

import json
import subprocess
import sys

import pytest

from sdk.tests.worker.host import IMPORTS
from trunkline_sdk.worker import PRELOAD, PROGRAM

CODE = """
import json, os, sys
sys.path += json.loads(sys.argv[1])
before = set(os.listdir("/dev/fd"))
for name in json.loads(sys.argv[2]):
    __import__(name)
import threading
told = {"threads": threading.active_count(), "opened": len(set(os.listdir("/dev/fd")) - before)}
known = set(sys.modules)
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
spec = spec_from_loader("program", SourceFileLoader("program", sys.argv[3]))
spec.loader.exec_module(module_from_spec(spec))
print(json.dumps({**told, "more": sorted(set(sys.modules) - known)}))
"""


@pytest.mark.proves("worker.warm")
def test_what_is_imported_before_a_fork_starts_nothing_and_is_all_there_is_to_import() -> None:
    asked = [sys.executable, "-I", "-S", "-c", CODE, json.dumps(IMPORTS), json.dumps(PRELOAD), PROGRAM]
    told = json.loads(subprocess.run(asked, env={}, capture_output=True, text=True, check=True).stdout)
    assert told == {"threads": 1, "opened": 0, "more": []}
