"""`trunkline reload`."""

import os
import signal

from trunkline.app.folder import user
from trunkline.cli.output import print_json
from trunkline.cli.places import DataFolder, Json, data_folder
from trunkline.errors import NotFound


def command(*, data: DataFolder = None, json: Json = False) -> None:
    """Have the running server read its configuration again. Requests in flight are not disturbed; its log says what it took."""
    folder = data_folder(data)
    process = user(folder)
    if process is None:
        raise NotFound(f"no Trunkline runs on the data folder `{folder}`", hint="`trunkline serve` starts one.")
    os.kill(process, signal.SIGHUP)
    if json:
        print_json({"process": process})
    else:
        print(f"told process {process}")
