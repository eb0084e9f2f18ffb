"""Where a passphrase comes from: a file, the environment, or the person at the terminal. Never an argument, which everybody can read."""

import os
import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trunkline.base.secret import Secret
from trunkline.errors import BadRequest, NotFound

VARIABLE = "TRUNKLINE_BACKUP_PASSPHRASE"
SHORTEST = 12

PassphraseFile = Annotated[
    Path | None,
    Parameter(name="--passphrase-file", help=f"A file with the passphrase; else `{VARIABLE}`, else the terminal is asked."),
]


def passphrase(file: Path | None, *, twice: bool) -> Secret:
    """The passphrase.

    Args:
        file: where it is, if there.
        twice: it is a new one: a person types it again, and it must not be short.

    Raises:
        BadRequest: there is none, or a new one is too short or was mistyped.
        NotFound: the file cannot be read.
    """
    text = _from_file(file) if file is not None else os.environ.get(VARIABLE) or _from_terminal(twice=twice)
    if not text:
        raise BadRequest("the passphrase is empty")
    if twice and len(text) < SHORTEST:
        raise BadRequest(
            f"the passphrase has {len(text)} characters", hint=f"A new one has at least {SHORTEST}: it is all that protects the file."
        )
    return Secret(text)


def _from_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise NotFound(f"the passphrase's file `{path}` cannot be read: {reason}") from None


def _from_terminal(*, twice: bool) -> str:
    if not sys.stdin.isatty():
        raise BadRequest("there is no passphrase", hint=f"Give `--passphrase-file`, or set `{VARIABLE}`.")
    text = getpass("Passphrase: ", sys.stderr)
    if twice and getpass("The same again: ", sys.stderr) != text:
        raise BadRequest("these were two passphrases", hint="Try again.")
    return text
