"""`trunkline backup`."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trunkline.app.backup import NOT_IN_IT, back_up
from trunkline.cli.output import print_json, progress_bar
from trunkline.cli.passphrase import PassphraseFile, passphrase
from trunkline.cli.places import ConfigFile, DataFolder, Json, config_file, data_folder


def command(
    path: Annotated[Path, Parameter(name="PATH")],
    *,
    passphrase_file: PassphraseFile = None,
    config: ConfigFile = None,
    data: DataFolder = None,
    json: Json = False,
) -> None:
    """Write all that the database holds into one encrypted file, while the server runs.

    Args:
        path: the file, which must not be there yet.
    """
    secret = passphrase(passphrase_file, twice=True)
    with progress_bar("backing up", hidden=json) as progress:
        head = back_up(path, secret, config=config_file(config), data=data_folder(data), progress=progress)
    rows = sum(head.rows.values())
    if json:
        print_json({"path": str(path), "schema": head.schema, "rows": head.rows, "bytes": path.stat().st_size, "not_included": NOT_IN_IT})
        return
    print(f"{path}: {rows} rows of {len(head.rows)} tables, schema {head.schema}")
    print(f"Not in it, so keep copies elsewhere: {', '.join(NOT_IN_IT)}.", file=sys.stderr)
