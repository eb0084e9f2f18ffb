"""`trunkline ext`."""

import asyncio
import sys

from cyclopts import App

from trunkline.cli.output import print_json, print_table
from trunkline.cli.places import Json

command = App(name="ext", help="Try the sandbox of extensions on this machine. `trunkline extensions` tells how each of them stands.")


@command.command
def doctor(*, json: Json = False) -> None:
    """Try what the sandbox of extensions enforces on this machine, as the user that you are. The exit status is 1 where it is too weak.

    A program is run in the sandbox that tries what an extension may not do. Run it as the user that `serve` runs as.
    """
    from trunkline.host.sandbox.probe import diagnose

    report, features = asyncio.run(diagnose())
    if json:
        print_json(report)
    else:
        print(f"{report.kernel}: tier {report.tier}{f', for the kernel says: {features.why_not}' if features.why_not else ''}")
        print_table(
            ("control", "status", "by", "what is left open"),
            [[finding.control, finding.status, finding.by, finding.detail] for finding in report.findings],
        )
    sys.exit(1 if report.tier == "D" else 0)
