import subprocess
import sys

CLOSES = """
import os
from trunkline.host.sandbox.inside.privileges import close_from
del os.closerange  # which may try each of the numbers there can be
for number in (5, 6, 900):
    os.dup2(0, number)
close_from(6)
def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
print([number for number in range(1000) if is_open(number)][-1])
"""


def test_descriptors_are_closed_by_the_list_of_them() -> None:
    run = subprocess.run([sys.executable, "-c", CLOSES], capture_output=True, text=True, timeout=30, check=False)
    assert run.stdout == "5\n", run.stderr
