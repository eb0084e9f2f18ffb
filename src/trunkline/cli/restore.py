"""`trunkline restore`."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trunkline.app.backup import NOT_IN_IT, put_back
from trunkline.cli.output import print_json, progress_bar, time
from trunkline.cli.passphrase import PassphraseFile, passphrase
from trunkline.cli.places import ConfigFile, DataFolder, Json, config_file, data_folder


def command(
    path: Annotated[Path, Parameter(name="PATH")],
    *,
    passphrase_file: PassphraseFile = None,
    replace: Annotated[bool, Parameter(negative=())] = False,
    config: ConfigFile = None,
    data: DataFolder = None,
    json: Json = False,
) -> None:
    """Put a backup into the database, SQLite or PostgreSQL, whichever it came from. No server may run on it meanwhile.

    Args:
        path: the backup.
        replace: delete what the database holds; without it, only an empty one is filled.
    """
    secret = passphrase(passphrase_file, twice=False)
    with progress_bar("restoring", hidden=json) as progress:
        head = put_back(path, secret, config=config_file(config), data=data_folder(data), replace=replace, progress=progress)
    made_at = time(head.made_at)
    if json:
        print_json({"path": str(path), "made_at": made_at, "schema": head.schema, "rows": head.rows, "not_included": NOT_IN_IT})
        return
    print(f"{path}: {sum(head.rows.values())} rows of {len(head.rows)} tables, as they were at {made_at}")
    print(f"Not in it, so see that they are those of that time: {', '.join(NOT_IN_IT)}.", file=sys.stderr)
