"""Whether a daemon keeps the contract: ``python -m trunkline_sdk.daemon.check URL`` (daemon contract, I).

Any daemon can be asked about what it must refuse (groups 2, 3, and the refusals of 4, 5 and 14); nothing is sent that an upstream would
charge for. With ``--fixtures`` a daemon that serves the providers of section J is held to the daemon's parts of 3 to 6, 8, 10, 12, 14 and
19 to 21 as well. What the contract only advises is reported as advice and fails nothing.

The shared secret is read from the environment variable ``DAEMON_SECRET``, since other users of a machine can see a command line.
"""

from trunkline_sdk.daemon.check.probe import Daemon, Probe
from trunkline_sdk.daemon.check.report import Finding
from trunkline_sdk.daemon.check.running import run

__all__ = ["Daemon", "Finding", "Probe", "run"]
