"""The launcher: `python -I -S …/inside/__main__.py`, with the descriptors 3 and 4 that `worker` tells of, and an empty environment.

Without an argument it becomes one worker; with `serve` it forks many; with `detect` it prints what this kernel offers.
"""

import os
import sys

PACKAGES = os.path.abspath(__file__).rsplit(os.sep, 5)[0]
"""The folder that holds `trunkline`."""
FIRST_SPARE = 5


def main(what: list[str]) -> int:
    """Do what the argument says."""
    standard = list(sys.path)  # `-I` leaves this folder out
    sys.path.append(PACKAGES)
    from trunkline.host.sandbox.inside.privileges import close_from

    if what == ["detect"]:
        from trunkline.host.sandbox.inside.detection import tell as do
    elif what == ["serve"]:
        from trunkline.host.sandbox.inside.worker import serve as do
    else:
        from trunkline.host.sandbox.inside.worker import cold as do
    sys.path[:] = standard  # what is ours is imported; a worker finds none of it
    if what != ["detect"]:
        close_from(FIRST_SPARE)
        os.chdir("/")  # where the host runs is nobody's business
    do()
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
