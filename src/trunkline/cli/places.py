"""Where things are on this machine, unless a flag or a variable says otherwise (XDG Base Directory)."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trunkline.errors import NotFound

Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON.")]
ConfigFile = Annotated[
    Path | None,
    Parameter(
        name=("--config", "-c"),
        env_var="TRUNKLINE_CONFIG",
        help="The configuration; by default `trunkline.toml` here, then in the XDG configuration folder.",
    ),
]
DataFolder = Annotated[
    Path | None,
    Parameter(name="--data", env_var="TRUNKLINE_DATA", help="The data folder; by default in the XDG data folder."),
]


def config_file(given: Path | None) -> Path | None:
    """The configuration to read; none where there is none, and the defaults hold."""
    if given is not None:
        if not given.is_file():
            raise NotFound(f"there is no configuration `{given}`", hint="`trunkline config example` prints one to begin with.")
        return given
    home = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    return next((path for path in (Path("trunkline.toml"), home / "trunkline" / "trunkline.toml") if path.is_file()), None)


def data_folder(given: Path | None) -> Path:
    """The data folder, which may not be there yet."""
    if given is not None:
        return given.expanduser().absolute()
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "trunkline"
