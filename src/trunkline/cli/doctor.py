"""`trunkline doctor`."""

import sys
from dataclasses import asdict

from trunkline.app.diagnosis import diagnose, inventory
from trunkline.cli.output import print_json
from trunkline.cli.places import ConfigFile, DataFolder, Json, config_file, data_folder


def command(*, config: ConfigFile = None, data: DataFolder = None, json: Json = False) -> None:
    """Check this installation, and list what it is made of. The exit status is 1 where something is wrong."""
    findings = diagnose(config_file(config), data_folder(data))
    parts = inventory()
    sick = any(finding.problem for finding in findings)
    if json:
        print_json({"healthy": not sick, "findings": [asdict(finding) for finding in findings], **parts})
    else:
        for finding in findings:
            print(f"{'✗' if finding.problem else '✓'} {finding.subject}: {finding.problem or finding.detail}")
            if finding.hint:
                print(f"    {finding.hint}")
        for kind, names in parts.items():
            print(f"  {kind}: {', '.join(names)}")
    sys.exit(1 if sick else 0)
